# SPDX-License-Identifier: Apache-2.0
"""Kernels that compute products, held against PyTorch's library on this machine: the only place that has both."""

import dataclasses
import json
import logging
import math
import statistics
import time
import typing

import torch

from ingot import _native, errors
from ingot.site import background
from ingot.trace import keys

if typing.TYPE_CHECKING:
    from ingot.site.engine import Engine

log = logging.getLogger("ingot")
_ROUNDS_MIN, _ROUNDS_MAX = 5, 25
_SECONDS = 0.3
"""Of the rounds that choose, and again of those that confirm; fewer than _ROUNDS_MIN are never made."""
_CLEAR, _NEVER_WORSE = 0.96, 1.01
"""The share of the kernel's time that the library may take to be chosen, over all sizes and at any of them."""
_DTYPES = {name: dtype for dtype, name in keys.DTYPE_NAMES.items()}


@dataclasses.dataclass(frozen=True)
class Contest:
    """A kernel and what PyTorch would do in its place, at the sizes that are used: seconds of one run at all of them together, each operand in
    no cache. Zeros: it could not be measured."""

    kernel: str
    """Digest, as `choices` of ``ingot inspect`` have it."""
    name: str
    kernel_s: float
    library_s: float
    chosen: bool
    """The library: by a clear margin, twice. Every compile on this machine calls it from now on."""


def tune(function: typing.Any, *args: typing.Any, **kwargs: typing.Any) -> "list[Contest]":
    """Measures what nobody could wait for in a call, and has ``function``, which ``ingot.compile`` gave, take what is faster.

    First as ``ingot tune``: smaller arenas, faster schedules. Then each product, convolution or attention among its kernels, with what is fused to it,
    against PyTorch's library on this process's threads, once on a machine, at the sizes that were recorded or declared as gears. Gives what was measured
    now; with example inputs the function is prepared for them before.

    Takes about a second a kernel, and all of torch's threads meanwhile: not beside calls that are served. What is found is kept in the store for every
    process; answers stay as they are but for the last bits of what the library adds up in another order.

    Raises Invalid for other functions, and the daemon's errors where it cannot be asked.
    """
    engine: "Engine | None" = _native.engine_of(function)
    if engine is None:
        raise errors.Invalid(f"ingot.tune takes what ingot.compile gives, found {type(function).__name__}")
    if args or kwargs:
        engine.prepare(*args, **kwargs)
    engine.wait()
    return [contest for part in engine.with_parts() for contest in _tune(part)]


def _tune(engine: "Engine") -> "list[Contest]":
    connection = engine._link.get(engine.config.connect_ms_max)
    found: "list[Contest]" = []
    with background.waiting():
        entries = [connection.lookup(entry.key.components, -1)["entry"] for entry in list(engine._entries.values()) if entry.variants]
        for key in entries:
            query = json.dumps({"key": key})
            connection.query("tune", query)
            while contests := json.loads(connection.query("contests", query))["contests"]:
                found += [_hold(connection, contest) for contest in contests]
        if any(contest.chosen for contest in found):
            for key in entries:
                connection.query("tune", json.dumps({"key": key}))
    engine.look_up_again()
    return found


def _hold(connection: "_native.Connection", contest: "dict[str, typing.Any]") -> Contest:
    """Measures one contest, and tells the daemon what came of it."""
    kernel_ns = library_ns = 0
    is_faster = False
    try:
        rivals = [_native.Program.bind(connection.fetch(contest[side]), []) for side in ("ours", "library")]
        kernel_ns, library_ns, is_faster = _compare(rivals, [_operands(size) for size in contest["sizes"]])
    except (errors.Error, RuntimeError, KeyError) as e:  # no memory, or an operator that refuses such operands
        log.debug("%s is not held against the library: %r", contest["name"], e)
    said = {"kernel": contest["kernel"], "kernel_ns": kernel_ns, "library_ns": library_ns, "library": is_faster}
    chosen = json.loads(connection.query("rival", json.dumps(said)))["chosen"]
    return Contest(contest["kernel"], contest["name"], kernel_ns / 1e9, library_ns / 1e9, chosen)


def _operands(size: "list[list[typing.Any]]") -> "list[torch.Tensor]":
    """Reals between -1 and 1, integers that are good indices, each laid out as the graph has it."""
    tensors = []
    for dtype, sizes, strides in size:
        made = torch.empty_strided(sizes, strides, dtype=_DTYPES[dtype])
        tensors.append(made.uniform_(-1, 1) if made.is_floating_point() else made.random_(0, 2))
    return tensors


def _compare(rivals: "list[_native.Program]", sizes: "list[list[torch.Tensor]]") -> "tuple[int, int, bool]":
    """Nanoseconds of both by the rounds that decided, and whether the second is clearly faster."""
    with torch.no_grad():
        for inputs in sizes:
            for program in rivals:
                program.run(inputs)  # Arenas, and what libraries prepare for a size.
        for _ in range(2):
            times = _rounds(rivals, sizes)
            medians = [sum(round(statistics.median(rounds)) for rounds in of_sizes) for of_sizes in times]
            shares = [statistics.median(other / first for first, other in zip(*pair)) for pair in zip(*times)]
            mean = math.exp(sum(map(math.log, shares)) / len(shares))
            if mean > _CLEAR or max(shares) > _NEVER_WORSE or medians[1] > _CLEAR * medians[0]:
                return medians[0], medians[1], False
    return medians[0], medians[1], True


def _rounds(rivals: "list[_native.Program]", sizes: "list[list[torch.Tensor]]") -> "list[list[list[int]]]":
    """Of each rival, of each size: nanoseconds of each round. In turn, since what disturbs the machine disturbs neighbours alike."""
    times: "list[list[list[int]]]" = [[[] for _ in sizes] for _ in rivals]
    ends = time.monotonic() + _SECONDS
    for number in range(_ROUNDS_MAX):
        if number >= _ROUNDS_MIN and time.monotonic() > ends:
            break
        for i, inputs in enumerate(sizes):
            for program, of_sizes in zip(rivals, times):
                of_sizes[i].append(max(1, program.time(inputs)))
    return times
