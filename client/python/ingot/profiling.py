# SPDX-License-Identifier: Apache-2.0
"""Where the time of native calls goes, step by step, held against what the machine can do."""

import contextlib
import dataclasses
import json
import os
import statistics
import threading
import time
import typing

import torch

from ingot import _native, errors
from ingot.trace import paths
from ingot.machine import Roofs, roofs

if typing.TYPE_CHECKING:
    from ingot.site.engine import Engine

_CALLS_MAX = 1000
"""Calls kept of one program; further ones are counted."""
_ROWS_MAX = 40
"""Lines of a table for people."""
_WARM_CALLS, _CALLS, _CALLS_MIN, _SECONDS = 4, 20, 3, 1.0
"""Of a report with arguments: calls before those that are measured, how many those are, and the time after which fewer do."""


@dataclasses.dataclass(frozen=True)
class Step:
    """One step of a plan at one size. Bytes and operations are the least that it has to do; None: not known."""

    number: int
    kind: str
    """``kernel``, ``aten``, ``copy`` or ``guard``."""
    name: str
    symbol: str
    """Of a kernel: its name in the code, as profilers and debuggers show it."""
    calls: int
    median_s: float
    total_s: float
    share: float
    """Of the time of the calls, 0..1."""
    read_bytes: "int | None"
    written_bytes: "int | None"
    flops: "int | None"
    dtype: str
    """In which they are done: ``f32``, ``f64`` or ``bf16``."""
    memory_s: "float | None"
    """The time in which memory could have moved the bytes."""
    compute_s: "float | None"
    """The time in which the processors could have done the operations."""

    @property
    def bytes(self) -> "int | None":
        """Each operand read once, each result written once."""
        return None if self.read_bytes is None or self.written_bytes is None else self.read_bytes + self.written_bytes

    @property
    def bytes_per_s(self) -> "float | None":
        return _rate(self.bytes, self.median_s)

    @property
    def flops_per_s(self) -> "float | None":
        return _rate(self.flops, self.median_s)

    @property
    def of_roof(self) -> "float | None":
        """How much of the time the roof that limits it would take, 0..1; more where data came from caches."""
        bounds = [bound for bound in (self.memory_s, self.compute_s) if bound is not None]
        return max(bounds) / self.median_s if bounds and max(bounds) > 0 and self.median_s > 0 else None

    @property
    def limit(self) -> str:
        """The roof that is nearer: ``memory``, ``compute``; ``cache`` where it moved bytes faster than memory could; or empty."""
        of_roof = self.of_roof
        if of_roof is None:
            return ""
        if (self.compute_s or 0.0) > (self.memory_s or 0.0):
            return "compute"
        return "cache" if of_roof > 1 else "memory"

    def to_dict(self) -> "dict[str, typing.Any]":
        return {**dataclasses.asdict(self), "bytes": self.bytes, "bytes_per_s": self.bytes_per_s, "flops_per_s": self.flops_per_s,
                "of_roof": self.of_roof, "limit": self.limit}


@dataclasses.dataclass(frozen=True)
class Calls:
    """The measured calls of one variant at one size."""

    function: str
    artifact: str
    sizes: "tuple[int, ...]"
    """Values of the template's symbols; empty for an exact variant."""
    calls: int
    left_out: int
    """Calls of the variant, at any size, beyond those that are kept."""
    threads: int
    """That called."""
    median_s: float
    total_s: float
    outside_s: float
    """Of ``total_s``: what steps do not account for, as memory for results."""
    steps: "tuple[Step, ...]"

    def to_dict(self) -> "dict[str, typing.Any]":
        return {**dataclasses.asdict(self), "steps": [step.to_dict() for step in self.steps]}

    def table(self) -> str:
        """For people: steps that do the same in one line each, the longest first."""
        at = f" at sizes {self.sizes}" if self.sizes else ""
        threads = f" on {self.threads} threads" if self.threads > 1 else ""
        more = f" (and {self.left_out} more)" if self.left_out else ""
        head = f"{self.function}: {self.calls} calls{more}{threads} of {self.artifact[:12]}{at}, {_seconds(self.median_s)} each"
        rows: "list[tuple[str, ...]]" = [("step", "times", "time", "share", "bytes", "flop", "GB/s", "GFLOP/s", "of roof")]
        groups = _alike(self.steps)
        for group in groups[:_ROWS_MAX]:
            rows.append(_row(group))
        left = groups[_ROWS_MAX:]
        if left:
            rest = [step for group in left for step in group]
            rows.append((f"{len(left)} others", str(len(rest)), _seconds(sum(s.median_s for s in rest)), f"{sum(s.share for s in rest):.1%}", *[""] * 5))
        if self.total_s > 0:
            rows.append(("outside of steps", "", _seconds(self.outside_s / self.calls), f"{self.outside_s / self.total_s:.1%}", *[""] * 5))
        return head + "\n" + _aligned(rows)


class Profile:
    """Native calls while it is entered: ``with ingot.profile(f) as profile: f(x)``. Prints as tables. Calls of every thread count;
    results are what they are without it. Nothing is measured, and nothing paid, outside of it."""

    def __init__(self, *functions: typing.Any, calls_max: int = _CALLS_MAX) -> None:
        if isinstance(calls_max, bool) or not isinstance(calls_max, int) or calls_max < 1:
            raise errors.Invalid(f"calls_max={calls_max!r}: expected a number from 1 on")
        self._sees_all = not functions
        self._sources = [_source(function) for function in functions]
        self._calls_max = calls_max
        self._measurement: "_native.Measurement | None" = None
        self._seen: "dict[int, dict[str, typing.Any]] | None" = None
        self._names: "dict[int, str]" = {}
        self._roofs: "Roofs | None" = None
        self.eager: "list[str]" = []
        """Of the functions named: structures of arguments that run eagerly, and why; what is known when it ends."""

    def __enter__(self) -> "Profile":
        if self._measurement is not None:
            raise errors.Invalid("this profile has been entered before; ingot.profile() makes another")
        self._measurement = _native.Measurement.begin(self._calls_max)
        return self

    def __exit__(self, *_: typing.Any) -> None:
        assert self._measurement is not None
        self._measurement.end()
        self._seen = self._measurement.seen()
        for source in self._sources:
            self._names.update(source.programs())
        self.eager = [f"{name}: {why}" for source in self._sources for name, why in source.reasons(self._seen)]
        for source in self._sources:
            source.keep(self)
        self._sources.clear()  # A profile keeps no model alive.

    @property
    def roofs(self) -> Roofs:
        """What times are held against; measured now, where they are not known yet."""
        if self._roofs is None:
            self._roofs = roofs()
        return self._roofs

    @property
    def calls(self) -> "list[Calls]":
        """Of each variant and size, those that took longest together first."""
        found = [self._of(program, sizes) for program in self._programs() for sizes in program["steps"]]
        return sorted(found, key=lambda calls: -calls.total_s)

    @property
    def steps(self) -> "list[Step]":
        """The steps of all ``calls``."""
        return [step for calls in self.calls for step in calls.steps]

    def to_dict(self) -> "dict[str, typing.Any]":
        """Everything, as JSON takes it."""
        return {"roofs": dataclasses.asdict(self.roofs), "calls": [calls.to_dict() for calls in self.calls], "eager": self.eager}

    def __str__(self) -> str:
        calls = self.calls
        lines = [f"on {self.roofs}"] if calls else ["no call was served by native code"]
        return "\n".join(lines + [calls.table() for calls in calls] + [f"eager: {why}" for why in self.eager])

    def save_timeline(self, path: "str | os.PathLike[str]") -> None:
        """Writes the calls, step by step on the thread that called, for https://ui.perfetto.dev or chrome://tracing."""
        text = json.dumps({"displayTimeUnit": "ns", "traceEvents": self._events()})
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def _programs(self) -> "list[dict[str, typing.Any]]":
        """With the names that users know them by."""
        if self._seen is None:
            raise errors.Invalid("a profile says something when its with statement has ended")
        return [{**program, "name": self._names.get(number, program["name"])} for number, program in self._seen.items()
                if self._sees_all or number in self._names]

    def _of(self, program: "dict[str, typing.Any]", sizes: "tuple[int, ...]") -> Calls:
        calls = [call for call in program["calls"] if call[3] == sizes]
        total_ns = sum(end - begin for _, begin, end, _, _ in calls)
        in_steps_ns = sum(marks[-1] - marks[0] for *_, marks in calls)
        steps = []
        for number, facts in enumerate(program["steps"][sizes]):
            times = [marks[number + 1] - marks[number] for *_, marks in calls]
            moved = None if facts["read_bytes"] is None or facts["written_bytes"] is None else facts["read_bytes"] + facts["written_bytes"]
            peak = self.roofs.flops(facts["dtype"])
            steps.append(Step(number=number, calls=len(calls), median_s=statistics.median(times) / 1e9, total_s=sum(times) / 1e9,
                              share=sum(times) / total_ns if total_ns else 0.0, memory_s=_rate(moved, self.roofs.memory_bytes),
                              compute_s=_rate(facts["flops"], peak), **facts))
        return Calls(program["name"], program["artifact"], sizes, len(calls), program["left_out"], len({call[0] for call in calls}),
                     statistics.median(end - begin for _, begin, end, _, _ in calls) / 1e9, total_ns / 1e9, (total_ns - in_steps_ns) / 1e9, tuple(steps))

    def _events(self) -> "list[dict[str, typing.Any]]":
        pid = os.getpid()
        events: "list[dict[str, typing.Any]]" = [{"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": f"ingot {pid}"}}]
        names = {thread.native_id: thread.name for thread in threading.enumerate()}

        def add(name: str, category: str, thread: int, begin_ns: int, end_ns: int, args: "dict[str, typing.Any]") -> None:
            events.append({"ph": "X", "name": name, "cat": category, "pid": pid, "tid": thread, "ts": begin_ns / 1e3, "dur": (end_ns - begin_ns) / 1e3,
                           "args": args})

        threads = set()
        for program in self._programs():
            for thread, begin, end, sizes, marks in program["calls"]:
                threads.add(thread)
                add(program["name"], "call", thread, begin, end, {"artifact": program["artifact"], "sizes": list(sizes)})
                for facts, from_ns, to_ns in zip(program["steps"][sizes], marks, marks[1:]):
                    add(facts["name"], facts["kind"], thread, from_ns, to_ns, {name: value for name, value in facts.items() if value not in (None, "")})
        for thread in sorted(threads):
            events.append({"ph": "M", "name": "thread_name", "pid": pid, "tid": thread, "args": {"name": names.get(thread, f"thread {thread}")}})
        return events


class _Function:
    """What a compiled callable adds to a profile: itself, its parts and pieces."""

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine

    def programs(self) -> "dict[int, str]":
        return {number: engine.name for engine in self._engine.with_parts() for number in engine.program_numbers()}

    def reasons(self, seen: "dict[int, dict[str, typing.Any]]") -> "list[tuple[str, str]]":
        found = []
        for engine in self._engine.with_parts():
            reasons = engine.eager_reasons()
            if not reasons and engine is self._engine and not any(number in seen for number in self.programs()):
                reasons = [f"no native call was seen; last miss: {engine.why_miss()}"]
            found += [(engine.name, why) for why in reasons]
        return found

    def keep(self, profile: Profile) -> None:
        self._engine.profile = profile


class _File:
    """An exported function."""

    def __init__(self, loaded: typing.Any) -> None:
        self._loaded = loaded

    def programs(self) -> "dict[int, str]":
        return dict.fromkeys(self._loaded._function.programs, self._loaded.name)

    def reasons(self, seen: "dict[int, dict[str, typing.Any]]") -> "list[tuple[str, str]]":
        return []

    def keep(self, profile: Profile) -> None:
        pass


def _source(function: typing.Any) -> "_Function | _File":
    from ingot import exported

    engine = _native.engine_of(function)
    if engine is not None:
        return _Function(engine)
    if isinstance(function, exported.Loaded):
        return _File(function)
    raise errors.Invalid(f"ingot.profile takes what ingot.compile and ingot.load give, found {type(function).__name__}; without arguments it "
                         "sees every native call of the process")


def profile(*functions: typing.Any, calls_max: int = _CALLS_MAX) -> Profile:
    """Measures native calls step by step: ``with ingot.profile(f) as profile: f(x)``, then ``print(profile)``.

    Of these compiled callables, their parts and pieces, or of loaded files; without any, of all of the process. At most ``calls_max``
    calls of each variant are kept, further ones counted. Raises :class:`ingot.Invalid` for anything else. Profiles may overlap.
    """
    return Profile(*functions, calls_max=calls_max)


def measured(function: typing.Any, args: "tuple[typing.Any, ...]", kwargs: "dict[str, typing.Any]", wait: "typing.Callable[[], typing.Any]") -> Profile:
    """A profile of calls that are made for it, after those that make native code where there is none. Without gradients where something
    requires them, else in the caller's mode, which code is made for."""
    owner = paths.self_of(_native.target_of(function))
    found = [*torch.utils._pytree.tree_leaves((args, kwargs)), *(owner.parameters() if isinstance(owner, torch.nn.Module) else ())]
    requires_grad = torch.is_grad_enabled() and any(isinstance(one, torch.Tensor) and one.requires_grad for one in found)
    with torch.no_grad() if requires_grad else contextlib.nullcontext():
        for _ in range(_WARM_CALLS):
            function(*args, **kwargs)
            wait()
        with Profile(function) as seen:
            ends = time.monotonic() + _SECONDS
            for i in range(_CALLS):
                function(*args, **kwargs)
                if i + 1 >= _CALLS_MIN and time.monotonic() > ends:
                    break
    return seen


def _rate(amount: "float | None", by: float) -> "float | None":
    return None if amount is None or by <= 0 else amount / by


def _alike(steps: "typing.Iterable[Step]") -> "list[list[Step]]":
    """Steps that do the same, the longest together first."""
    groups: "dict[tuple[typing.Any, ...], list[Step]]" = {}
    for step in steps:
        groups.setdefault((step.kind, step.name, step.symbol, step.flops, step.bytes), []).append(step)
    return sorted(groups.values(), key=lambda group: -sum(step.median_s for step in group))


def _row(group: "list[Step]") -> "tuple[str, ...]":
    one = group[0]
    took = sum(step.median_s for step in group)
    moved, flops = _rate(one.bytes, took / len(group)), _rate(one.flops, took / len(group))
    bounds = [bound for bound in (one.memory_s, one.compute_s) if bound is not None]
    of_roof = max(bounds) * len(group) / took if bounds and max(bounds) > 0 and took > 0 else None
    whole = dataclasses.replace(one, median_s=took / len(group))
    return (one.name, str(len(group)), _seconds(took), f"{sum(step.share for step in group):.1%}", _amount(one.bytes, "B"), _amount(one.flops, ""),
            "-" if moved is None else f"{moved / 1e9:.1f}", "-" if flops is None else f"{flops / 1e9:.1f}",
            "-" if of_roof is None else f"{of_roof:.0%} {whole.limit}")


def _seconds(seconds: float) -> str:
    return f"{seconds * 1e6:.1f} us" if seconds < 1e-3 else f"{seconds * 1e3:.2f} ms" if seconds < 1 else f"{seconds:.2f} s"


def _amount(number: "int | None", unit: str) -> str:
    if number is None:
        return "-"
    scale = next(((by, letter) for by, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")) if number >= by), (1, ""))
    return f"{number / scale[0]:.4g} {scale[1]}{unit}".rstrip()


def _aligned(rows: "list[tuple[str, ...]]") -> str:
    """The first column to the left, the others to the right, the last to the left."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    last = len(widths) - 1
    return "\n".join("  " + "  ".join(cell.ljust(width) if i in (0, last) else cell.rjust(width) for i, (cell, width) in enumerate(zip(row, widths))).rstrip()
                     for row in rows)
