# SPDX-License-Identifier: Apache-2.0
"""One recorded run of the user's function: the eager answer, and all a compile needs to know about it."""

import json
import typing

import torch

from ingot import _native, collectives, counters, dependencies, effects, errors, groups, names, paths, tree
from ingot.escapes import Escapes

_DEFERRED_ABOVE = 32 << 10
"""Elements: an operator that reads fewer costs about as much as putting it off."""
_SKIP_CODE = [torch.__path__[0], __file__.rsplit("/", 1)[0]]


class Call(typing.NamedTuple):
    """The arguments of one call, taken apart."""

    args: "tuple[typing.Any, ...]"
    kwargs: "dict[str, typing.Any]"
    tensors: "list[torch.Tensor]"
    names: "list[str]"
    objects: "list[typing.Any]"

    def sizes(self) -> "tuple[tuple[int, ...], ...]":
        """The sizes of every tensor."""
        return tuple(tuple(t.shape) for t in self.tensors)


class Captured(typing.NamedTuple):
    """What a recording yields besides its answer."""

    recording: bytes
    signature: bytes
    record: "list[dependencies.Dependency]"
    opaque: "list[str]"


class Refused(Exception):
    """A run that cannot become a graph: ``name`` is counted, ``detail`` is shown."""

    def __init__(self, name: str, detail: str) -> None:
        super().__init__(f"{name}: {detail}")
        self.name, self.detail = name, detail


_ADVICE = {
    "communication": "; use torch.distributed._functional_collectives",
    "requires-grad": "; call it under torch.no_grad() or torch.inference_mode()",
    "autocast": "; cast the model instead, e.g. model.to(torch.bfloat16)",
    "function-mode": "; leave the torch function mode (torch.device, set_default_device) before the call",
    "device": "; only CPU tensors are served",
    "impure-call": "; move the call out of the function",
    "side-effect": "; return the value instead of storing it",
}


def advice(name: str) -> str:
    """What the user can do about a refusal, to follow its name; empty where there is nothing."""
    return _ADVICE.get(name, "")


def root_objects(function: typing.Any, objects: "typing.Sequence[typing.Any]") -> "dict[str, typing.Any]":
    """Everything a call can reach without globals, by the root of its paths."""
    roots: "dict[str, typing.Any]" = {}
    owner = paths.self_of(function)
    if owner is not None:
        roots["self"] = owner
    roots.update((f"object:{i}", value) for i, value in enumerate(objects))
    roots.update((f"closure:{name}", value) for name, value in paths.closure_of(function).items())
    return roots


class Recording:
    """Runs the function once as it is, under the recorder.

    ``deferred``: elements that nobody reads are not computed; the result is worth nothing.
    """

    def __init__(self, function: typing.Any, name: str, call: Call, constant_bytes_max: int, deferred: bool = False) -> None:
        self._function, self._name, self._call = function, name, call
        self._constant_bytes_max = constant_bytes_max
        self._recorder = _native.Recorder(_DEFERRED_ABOVE if deferred else None)
        self._profiler = _native.Profiler(_SKIP_CODE)
        self._environment: "dict[str, str | None]" = {}
        self._names: "set[str]" = set()
        self._roots = paths.Roots(function, call.objects)
        self._inputs: "list[paths.Path | None]" = []
        self._declared: "list[torch.Tensor]" = []   # the tensors of _inputs
        self._snapshot = effects.Snapshot(root_objects(function, call.objects))

    def run(self) -> typing.Any:
        """The function's own result; exceptions of the function pass through."""
        call, recorder = self._call, self._recorder
        for tensor, name in zip(call.tensors, call.names):
            recorder.declare_input(tensor, name)
            self._inputs.append(None)
            self._declared.append(tensor)
        declared = {id(tensor) for tensor in call.tensors}
        aliased = None
        for path, tensor in self._snapshot.tensors:
            if id(tensor) in declared and aliased is None:
                aliased = f"an argument is also {paths.to_text(path)}"
            # Tensors inside object arguments (a KV cache) are inputs fetched at every call; a module's are weights.
            if self._is_call_state(path) and id(tensor) not in declared:
                recorder.declare_input(tensor, paths.to_text(path))
                self._inputs.append(path)
                self._declared.append(tensor)
                declared.add(id(tensor))
        for name, identity in groups.live().items():
            recorder.declare_group(name, identity)
        unwrapper = collectives.Unwrapper() if groups.initialized() else None
        with effects.environment.into(self._environment), names.noted.into(self._names), Escapes(recorder, self._profiler, unwrapper):
            self._profiler.start()
            recorder.start()
            if aliased is not None:
                # The recorder knows tensors by identity: which of the two a step meant cannot be told.
                recorder.refuse("aliased-input", aliased)
            try:
                result = self._invoke()
                collectives.settle(result)
                return result
            except BaseException:
                recorder.refuse("exception", "the function raised")
                raise
            finally:
                recorder.stop()
                self._profiler.stop()

    def _invoke(self) -> typing.Any:
        return self._function(*self._call.args, **self._call.kwargs)

    def _observed(self) -> "tuple[typing.Any, typing.Any, typing.Any, typing.Any]":
        """Code that ran with the names of its modules, impure calls, environment variables read, and names noted."""
        return self._codes(), self._profiler.impure, self._environment, self._names

    def _is_call_state(self, path: paths.Path) -> bool:
        root = str(path[0])
        return root.startswith("object:") and not isinstance(self._roots.get(root), torch.nn.Module)

    def finish(self, result: typing.Any) -> Captured:
        """Everything the daemon needs; Refused says why there is nothing."""
        self._check_refusal()
        codes, impure, environment, noted = self._observed()
        if impure:
            raise Refused("impure-call", ", ".join(impure[:3]))
        encoder = tree.Encoder(self._snapshot.path_of, self._declared)
        try:
            spec = encoder.encode(result)
        except errors.Unsupported as e:
            raise Refused("result", str(e)) from None
        epilogues = self._epilogues(encoder)
        for leaf in encoder.leaves:
            self._recorder.note_output(leaf)
        weights = self._bind_foreigns(codes)
        try:
            recording = self._recorder.finish(self._name, encoder.leaves)
        except RuntimeError as e:
            self._check_refusal()
            raise Refused("recorder", str(e)) from None
        signature = {"weights": weights, "inputs": self._inputs, "outputs": spec, "epilogues": epilogues,
                     "leaves": len(encoder.leaves), "groups": self._recorder.groups}
        observed = dependencies.Observed(codes, environment, noted, self._recorder.foreign_operators())
        record = dependencies.collect(observed, self._roots)
        opaque = [where for kind, where, _, _ in record if kind == "opaque"]
        return Captured(recording, json.dumps(signature, separators=(",", ":")).encode(), record, opaque)

    def complete_if_kept(self) -> None:
        """Deferred, when the result is dropped: computes what was put off if the function keeps a tensor of it."""
        if self._recorder.complete_if_kept():
            counters.add("deferred_completed")

    def _codes(self) -> "list[tuple[typing.Any, str]]":
        """Code that ran. What was generated for this function alone (a piece of Dynamo's) names no module that it
        could be looked up in; the entry key holds its digest."""
        own = getattr(paths.plain_function(self._function), "__code__", None)
        return [(code, module) for code, module in self._profiler.codes() if module or code is not own]

    def _check_refusal(self) -> None:
        if self._recorder.refusal is not None:
            raise Refused(*self._recorder.refusal)

    def _epilogues(self, encoder: tree.Encoder) -> "list[dict[str, typing.Any]]":
        epilogues = []
        for change in self._snapshot.changes():
            where = paths.to_text(change.holder + [[change.kind, change.key]])
            try:
                value = encoder.encode(change.value)
            except errors.Unsupported as e:
                raise Refused("side-effect", f"{where}: {e}") from None
            if value["t"] != "leaf":
                raise Refused("side-effect", f"{where} was changed to a {type(change.value).__name__}")
            if change.kind != "a" and not isinstance(change.key, (int, str)):
                raise Refused("side-effect", f"{where} was changed")
            epilogues.append({"holder": change.holder, "kind": change.kind, "key": change.key, "value": value})
        return epilogues

    def _bind_foreigns(self, codes: "list[tuple[typing.Any, str]]") -> "list[paths.Path]":
        """Paths of the weights in source order."""
        known = {id(tensor): path for path, tensor in self._snapshot.tensors}
        weights: "list[paths.Path]" = []
        searched = False
        for value, tensor, written in self._recorder.foreigns():
            path = known.get(id(tensor))
            if path is None and not searched:
                searched = True
                known.update(self._search_globals(codes))
                path = known.get(id(tensor))
            if path is not None:
                self._recorder.declare_weight(value, paths.to_text(path))
                weights.append(path)
                continue
            where = f"a tensor of sizes {list(tensor.shape)} that no path leads to"
            if written:
                raise Refused("unbound-tensor", f"{where} was changed in place")
            problem = self._recorder.declare_constant(value, self._constant_bytes_max)
            if problem is not None:
                raise Refused("unbound-tensor", f"{where}: {problem}")
        return weights

    def _search_globals(self, codes: "list[tuple[typing.Any, str]]") -> "dict[int, paths.Path]":
        """Tensors reachable from globals that executed code names."""
        import sys

        found: "dict[int, paths.Path]" = {}
        seen = set()
        for code, module in codes:
            space = getattr(sys.modules.get(module), "__dict__", {})
            for name in code.co_names:
                value = space.get(name)
                plain = value is None or isinstance(value, (type(sys), type, int, float, str)) or id(value) in seen
                if plain or callable(value) and not isinstance(value, torch.nn.Module):
                    continue
                seen.add(id(value))
                for path, child, _ in paths.walk(f"global:{module}:{name}", value):
                    if isinstance(child, torch.Tensor):
                        found.setdefault(id(child), path)
        return found
