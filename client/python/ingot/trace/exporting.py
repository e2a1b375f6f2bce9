# SPDX-License-Identifier: Apache-2.0
"""capture="export": a program as torch.export sees it, recorded, and the range of sizes for which it is proved.

The user's function runs once as it is, for its answer, its dependencies and its side effects. torch.export then traces it
with symbolic sizes (before any decomposition), and what it exported is run under the recorder: at the sizes of the call and,
where sizes are symbolic, at the few others that prove a template for the whole range (ranges.py). Parameters stay those of
the live module: the exported program holds the very same tensors.
"""

import contextlib
import logging
import typing

import torch

from ingot import gears
from ingot.trace import calls, interrupts, memories, paths, ranges, recording
from ingot.config import Config, pass_name

log = logging.getLogger("ingot")

# Refusals of the recorder for what export traces away. Everything else could make the answer depend on more than its inputs.
_TOLERATED = frozenset(["functorch", "escape-repr"])
_TEXT_MAX = 300


class Proof(typing.NamedTuple):
    """Recordings that prove a range, in the order to send them, and the claim itself."""

    range: ranges.Range
    points: "list[recording.Captured]"


class Outcome(typing.NamedTuple):
    captured: recording.Captured
    proof: "Proof | None"
    warning: "str | None"


class _Program(torch.nn.Module):
    """The user's function over its tensors alone, in the order of the call; everything else is as it was passed."""

    def __init__(self, target: typing.Any, call: calls.Call) -> None:
        super().__init__()
        owner = paths.self_of(target)
        if isinstance(owner, torch.nn.Module):
            self.owner = owner
        self._function = [target]  # In a list, so that a module is not registered twice.
        self._positions = {id(tensor): number for number, tensor in enumerate(call.tensors)}
        self._arguments = (call.args, call.kwargs)

    def forward(self, *tensors: torch.Tensor) -> typing.Any:
        def pick(value: typing.Any) -> typing.Any:
            return tensors[self._positions[id(value)]] if isinstance(value, torch.Tensor) else value

        args, kwargs = torch.utils._pytree.tree_map(pick, self._arguments)
        return self._function[0](*args, **kwargs)


class _ModuleRecording(recording.Recording):
    """A run of the exported program in place of the function whose recording it stands for."""

    def __init__(self, original: recording.Recording, module: typing.Any, literals: "dict[str, torch.Tensor]",
                 tensors: "list[torch.Tensor]") -> None:
        call = original._call
        super().__init__(original._function, original._name, call._replace(tensors=tensors), original._config)
        self._module, self._literals, self.observer = module, literals, original.observer

    def _invoke(self) -> typing.Any:
        # What the code wrote down as numbers is made anew, so that the recorder knows where it comes from.
        for name, value in self._literals.items():
            owner, _, leaf = name.rpartition(".")
            setattr(self._module.get_submodule(owner), leaf, torch.tensor(value.tolist(), dtype=value.dtype))
        return self._module(*self._call.tensors)

    def _observe(self) -> typing.Any:
        return None  # What the function read and wrote, its own run has shown.

    def _start_observing(self) -> None:
        pass

    def _stop_observing(self) -> None:
        pass


def capture(run: recording.Recording, result: typing.Any, target: typing.Any, call: calls.Call, config: Config,
            declared: "gears.Declared | None") -> Outcome:
    """What to compile for a call that ``run`` has just answered with ``result``; Refused says why there is nothing."""
    plain: "recording.Captured | None" = None
    refused: "recording.Refused | None" = None
    try:
        plain = run.finish(result)
    except recording.Refused as e:
        if e.name not in _TOLERATED or run.observer.refused is not None:
            raise
        if run.observer.writes():
            raise recording.Refused("side-effect", f"Python state was changed, beside {e}") from None
        refused = e.with_traceback(None)  # Else it and this frame would hold each other.
    try:
        return _export(run, target, call, config, declared, refused)
    except Exception as e:
        if interrupts.is_one(e):
            raise
        why = f"torch.export: {type(e).__name__}: {str(e).strip()[:_TEXT_MAX]}"
        if isinstance(e, recording.Refused):
            why = f"of the exported program: {e}"
        if plain is None:
            raise recording.Refused("export", f"{refused}; {why}") from None
        return Outcome(plain, None, why)


def _export(run: recording.Recording, target: typing.Any, call: calls.Call, config: Config, declared: "gears.Declared | None",
            refused: "recording.Refused | None") -> Outcome:
    if call.objects:
        raise recording.Refused("export", f"an argument is a {type(call.objects[0]).__name__}; pass its tensors")
    if run.observer.writes():
        raise recording.Refused("export", "Python state was changed")
    programs = _trace(run, target, call, _dynamic_sizes(call.tensors, config, declared), refused)
    program = programs[-1]
    module = _passed(program.module(), config)
    literals = {name: tensor for name, tensor in program.constants.items() if "lifted_tensor" in name}
    written = _written_state(program, module)

    def record(tensors: "list[torch.Tensor]") -> recording.Captured:
        one = _ModuleRecording(run, module, literals, tensors)
        # The call has drawn its random numbers already.
        with _restored(written), torch.random.fork_rng(devices=[]):
            result = one.run()
            return one.finish(result)

    copies = [_copy(tensor) for tensor in call.tensors]
    captured = record(copies)
    if not gears.is_dynamic(config, declared):
        return Outcome(captured, None, None)
    try:
        found = ranges.of_programs(programs, call.tensors)
        if found is None:
            return Outcome(captured, None, None)
        points = []
        for sizes in found.points:
            tensors = [ranges.resized(tensor, wanted) for tensor, wanted in zip(call.tensors, sizes)]
            if any(tensor is None for tensor in tensors):
                raise ranges.Unprovable("an input is not dense: its strides at other sizes are unknown")
            points.append(record(typing.cast("list[torch.Tensor]", tensors)))
        if any(point.signature != captured.signature for point in points):
            raise ranges.Unprovable("the result's structure or numbers depend on sizes")
    except ranges.Unprovable as e:
        return Outcome(captured, None, f"no range is proved: {e}")
    return Outcome(captured, Proof(found, points), None)


def _passed(module: typing.Any, config: Config) -> typing.Any:
    """The exported program after the user's passes."""
    for one in config.passes:
        name = f"{pass_name(one)} of version {one.version!r}"
        try:
            given = one(module)
            module = module if given is None else given
            if not isinstance(module, torch.fx.GraphModule):
                raise TypeError(f"it returned {type(module).__name__}, expected a torch.fx.GraphModule or None")
            module.graph.lint()
            module.recompile()
        except Exception as e:
            if interrupts.is_one(e):
                raise
            raise recording.Refused("pass", f"{name}: {type(e).__name__}: {str(e).strip()[:_TEXT_MAX]}") from e
    return module


def _trace(run: recording.Recording, target: typing.Any, call: calls.Call, dynamic: "list[dict[int, typing.Any]] | None",
           refused: "recording.Refused | None") -> "list[typing.Any]":
    """The exported program, and its decomposed form where only that can be recorded."""
    import torch.export

    shapes = None if dynamic is None else (tuple(dynamic),)
    program = torch.export.export(_Program(target, call), tuple(call.tensors), dynamic_shapes=shapes, strict=False)
    if any("functorch" in getattr(node.target, "__module__", "") for node in program.graph.nodes if callable(node.target)):
        # Transforms are traced as calls that the recorder cannot take; decomposing leaves what they do.
        return [program, program.run_decompositions({})]
    return [program]


def _dynamic_sizes(tensors: "list[torch.Tensor]", config: Config,
                   declared: "gears.Declared | None") -> "list[dict[int, typing.Any]] | None":
    """The sizes that may change: geared dims where there are some, else those marked dynamic, else all; less those marked
    static. None: no size does."""
    if not gears.is_dynamic(config, declared):
        return None
    marked: "list[set[int]]" = [getattr(tensor, "_dynamo_dynamic_indices", set()) for tensor in tensors]
    fixed = [set(getattr(tensor, "_dynamo_static_indices", set())) for tensor in tensors]
    wanted = marked if any(marked) else [set(range(tensor.dim())) for tensor in tensors]
    if declared is not None:
        for tensor, dim in declared.static:
            fixed[tensor].add(dim)
        if declared.dims:
            wanted = [{dim for number, dim, _ in declared.dims if number == tensor} for tensor in range(len(tensors))]
    return [dict.fromkeys(sorted(dims - static), torch.export.Dim.AUTO) for dims, static in zip(wanted, fixed)]


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    """Same sizes, strides and elements in memory of its own: a recording may write it."""
    if tensor.numel() == 0:
        return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)
    flat = tensor.detach().as_strided((memories.extent(tensor),), (1,), tensor.storage_offset()).clone()
    return flat.as_strided(tensor.shape, tensor.stride())


def _base_of(node: typing.Any) -> typing.Any:
    """The placeholder whose memory a node's tensor may be: views are followed to what they show."""
    while node.op == "call_function" and node.args and isinstance(node.args[0], torch.fx.Node):
        schema = getattr(node.target, "_schema", None)
        if schema is None or not any(value.alias_info is not None for value in schema.returns):
            return node
        node = node.args[0]
    return node


def _written_state(program: typing.Any, module: typing.Any) -> "list[torch.Tensor]":
    """Parameters, buffers and constants that the program writes in place."""
    signature = program.graph_signature
    names = {**signature.inputs_to_parameters, **signature.inputs_to_buffers, **signature.inputs_to_lifted_tensor_constants}
    found: "dict[str, torch.Tensor]" = {}
    if signature.buffers_to_mutate:
        found.update((name, _tensor_of(module, name)) for name in signature.buffers_to_mutate.values())
    for node in program.graph.nodes:
        schema = getattr(node.target, "_schema", None) if node.op == "call_function" else None
        if schema is None or not schema.is_mutable:
            continue
        for argument, value in zip(schema.arguments, node.args):
            if argument.alias_info is not None and argument.alias_info.is_write and isinstance(value, torch.fx.Node):
                base = _base_of(value)
                if base.name in names:
                    found[names[base.name]] = _tensor_of(module, names[base.name])
    return list(found.values())


def _tensor_of(module: typing.Any, name: str) -> torch.Tensor:
    owner, _, leaf = name.rpartition(".")
    return typing.cast(torch.Tensor, getattr(module.get_submodule(owner), leaf))


@contextlib.contextmanager
def _restored(tensors: "list[torch.Tensor]") -> "typing.Iterator[None]":
    """The call has happened once already: what recordings write into the live module is taken back."""
    before = [tensor.detach().clone() for tensor in tensors]
    try:
        yield
    finally:
        with torch.no_grad():
            for tensor, value in zip(tensors, before):
                tensor.copy_(value)


Send = typing.Callable[[recording.Captured, str, int], "dict[str, typing.Any]"]


def prove(example: "dict[str, typing.Any]", captured: recording.Captured, proof: Proof,
          send: Send) -> "tuple[dict[str, typing.Any] | None, str | None]":
    """Sends the recordings that prove the range, then the claim: the reply that carries it, or None and why there is none.

    ``example`` is the answer to ``captured``, which is one of the points: they determine the template's integers together.
    """
    template = example["variant"]["graph"]
    for point in proof.points:
        variant = send(point, "", 0)["variant"]
        if variant["kind"] != 1 or variant["graph"] != template:
            return None, "no range is proved: its recordings are no instances of one template"
    reply = send(captured, proof.range.text, proof.range.degree)
    if reply["variant"]["graph"] != template or not reply["variant"]["range"]:
        return None, f"no range is proved: the daemon did not take {proof.range.text}"
    return reply, None
