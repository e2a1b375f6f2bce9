# SPDX-License-Identifier: Apache-2.0
"""Ties a stored variant to the objects of this process: weights by path, what to watch, result builder."""

import json
import typing

import torch

from ingot import _native, dependencies, errors, groups, paths, tree

_SIMPLE = (type(None), bool, int, float, str)


class Variant:
    """One variant of an entry, as the daemon sent it and as far as it is bound here."""

    def __init__(self, reply: "dict[str, typing.Any]") -> None:
        self.is_template = reply["kind"] == 1
        self.graph: str = reply["graph"]
        self.artifact = reply["artifact"]
        self.artifact_digest: str = reply["artifact_digest"]
        self.artifact_bytes: int = reply["artifact_bytes"]
        self.range: str = reply["range"]
        self._range = _native.GuardSet.parse(self.range)
        self.proven: "list[tuple[int, ...]]" = [tuple(symbols) for symbols in reply["proven"]]
        self.signature: "dict[str, typing.Any]" = json.loads(reply["signature"])
        self.raw_signature: bytes = reply["signature"]
        self.record: "list[dependencies.Dependency]" = [tuple(d) for d in reply["dependencies"]]
        self.program: typing.Any = None
        self.holds = True
        self._watch: typing.Any = None
        self._weights: "list[torch.Tensor]" = []
        self._group_names: "list[str]" = []

    def covers(self, symbols: "typing.Sequence[int]") -> bool:
        """Whether a template may run these sizes: a recording proved them, or they lie in the proved range."""
        return tuple(symbols) in self.proven or (self.range != "" and self._range.holds(list(symbols)))

    def differs_in_sizes_alone(self, old: "Variant") -> bool:
        """Whether the sizes that are proved are all that could differ."""
        same = self.graph == old.graph and self.artifact_digest == old.artifact_digest and self.range == old.range
        return same and self.raw_signature == old.raw_signature and self.record == old.record

    def take_over(self, old: "Variant") -> None:
        """Uses what an older answer for the same graph has bound, where it is the same artifact."""
        if old.program is not None and old.artifact_digest == self.artifact_digest:
            self.program, self._weights, self._group_names = old.program, old._weights, old._group_names

    def bind(self, roots: paths.Roots) -> None:
        """Resolves weights and makes the program; NotFound or Incompatible says what does not fit."""
        weights: "list[torch.Tensor]" = []
        self._watch = _watched(roots, self.record)
        for path in self.signature["weights"]:
            weights.append(_weight(path, roots, self._watch))
        names = groups.names_of(self.signature.get("groups", ()))
        same = len(weights) == len(self._weights) and all(a is b for a, b in zip(weights, self._weights))
        same = same and names == self._group_names
        if self.program is None or not same or not self.program.groups_hold():
            self.program = _native.Program.bind(self.artifact, weights, names)
            self._weights, self._group_names = weights, names

    def _is_verifiable(self) -> bool:
        """A call can be answered twice; other ranks would see a collective twice."""
        return not self.signature["epilogues"] and not self.signature.get("groups")

    def parts(self, roots: paths.Roots, guards: str) -> "dict[str, typing.Any]":
        """What the call site installs (client/native/call_site.cpp MakeVariant)."""
        outputs = tree.decode(self.signature["outputs"], roots)
        if self.signature["epilogues"]:
            outputs = _with_epilogues(outputs, self.signature["epilogues"], roots)
        fetches = [(int(str(path[0]).partition(":")[2]), [tuple(step) for step in path[1:]])
                   for path in self.signature["inputs"] if path is not None]
        provenance = self.artifact.provenance()
        return {"program": self.program, "outputs": outputs, "leaf_count": provenance["outputs"],
                "input_count": len(self.signature["inputs"]), "watch": self._watch,
                "objects": list(roots.objects), "object_checks": _object_checks(roots), "fetches": fetches,
                "weights": self._weights, "proven": self.proven, "range": self.range, "guards": guards,
                "heavy": provenance["aten_steps"] > 0, "verifiable": self._is_verifiable()}


def _weight(path: paths.Path, roots: paths.Roots, watch: typing.Any) -> torch.Tensor:
    """Follows a path and notes, for each step inside a module or object, that it must lead to the same thing."""
    value = roots.get(path[0])
    for kind, key in path[1:]:
        child = paths.step(value, kind, key)
        table = _table_of(value, kind, key)
        if table is not None:
            watch.add_slot(table, key, child)
        value = child
    if not isinstance(value, torch.Tensor):
        raise errors.NotFound(f"{paths.to_text(path)} is {type(value).__name__}, a tensor when it was recorded")
    return value


def _table_of(value: typing.Any, kind: str, key: typing.Any) -> "dict[typing.Any, typing.Any] | None":
    if kind == "i":
        return value if type(value) is dict else None
    state = getattr(value, "__dict__", None)
    if not isinstance(state, dict):
        return None
    if isinstance(value, torch.nn.Module):
        for name in ("_parameters", "_buffers", "_modules"):
            if key in state.get(name, ()):
                return typing.cast("dict[typing.Any, typing.Any]", state[name])
    return state if key in state else None


def _watched(roots: paths.Roots, record: "list[dependencies.Dependency]") -> typing.Any:
    """Everything outside the inputs that calls could branch on and that this process may change."""
    watch = _native.Watch()
    watch.add_attributes(dependencies.uttered_names(record))
    for globals_, code in dependencies.executed(record):
        watch.add_names(globals_, code)
    for start in [roots.module, *(o for o in roots.objects if isinstance(o, torch.nn.Module))]:
        if start is not None:
            watch.add_tree(start)
    plain = paths.plain_function(roots.function)
    for cell in getattr(plain, "__closure__", None) or ():
        watch.add_cell(cell)
    for value in paths.closure_of(roots.function).values():
        watch.add_tree(value)
    for owner, name, value in dependencies.definitions(record):
        watch.add_slot(owner, name, value)
        watch.add_tree(value)
        watch.add_function(value)
    return watch


def _object_checks(roots: paths.Roots) -> "list[tuple[int, list[tuple[str, typing.Any]], typing.Any]]":
    """(object number, steps, value) of plain state inside object arguments, compared at every call."""
    found = []
    for number, root in enumerate(roots.objects):
        if isinstance(root, torch.nn.Module):
            continue
        for path, _, content in paths.walk(f"object:{number}", root):
            for kind, key, child in content:
                if isinstance(child, _SIMPLE) or isinstance(child, (torch.dtype, torch.device)):
                    found.append((number, [tuple(step) for step in path[1:]] + [(kind, key)], child))
    return found


def _with_epilogues(outputs: "tuple[typing.Any, ...]", epilogues: "list[dict[str, typing.Any]]",
                    roots: paths.Roots) -> "tuple[typing.Any, ...]":
    holders = [(paths.resolve(e["holder"], roots), e["kind"], e["key"]) for e in epilogues]

    def finish(values: "list[typing.Any]") -> typing.Any:
        for (holder, kind, key), value in zip(holders, values[1:]):
            if kind == "a":
                setattr(holder, key, value)
            else:
                holder[key] = value
        return values[0]

    return ("call", finish, [outputs, *(tree.decode(e["value"], roots) for e in epilogues)])
