# SPDX-License-Identifier: Apache-2.0
"""Ties a stored variant to the objects of this process: weights by path, what to watch, result builder."""

import collections
import json
import typing

import torch

from ingot import _native, errors
from ingot.checks import agreed
from ingot.trace import dependencies, effects, groups, kinds, memories, paths, tree


_BOUND_IN_VAIN_MAX = 4


class Served:
    """How many calls a variant has served, through all that it has been bound to."""

    def __init__(self) -> None:
        self._before = 0
        self.as_bound_now: "typing.Callable[[], int]" = lambda: 0

    def follow(self, program: typing.Any) -> None:
        """What it is bound to from now on."""
        self._before, self.as_bound_now = self.total(), program.served_calls()

    def total(self) -> int:
        return self._before + self.as_bound_now()


class Variant:
    """One variant of an entry, as the daemon sent it and as far as it is bound here."""

    def __init__(self, reply: "dict[str, typing.Any]") -> None:
        self.is_template = reply["kind"] == 1
        self.graph: str = reply["graph"]
        self.artifact = reply["artifact"]
        self.artifact_digest: str = reply["artifact_digest"]
        self.artifact_bytes: int = reply["artifact_bytes"]
        self.range: str = reply["range"]
        self.fixed: "list[str]" = reply["fixed"]
        """Why sizes are numbers here and nothing that may vary."""
        self._range = _native.Ranges.parse(self.range)
        self._gears: "set[tuple[int, ...]] | None" = None
        self.proven: "list[tuple[int, ...]]" = [tuple(symbols) for symbols in reply["proven"]]
        self.signature: "dict[str, typing.Any]" = json.loads(reply["signature"])
        self.raw_signature: bytes = reply["signature"]
        self.agreed = agreed.Agreed(self.artifact_digest, reply["symbol_count"], reply["agreed"])
        self.record: typing.Any = reply["dependencies"]
        self.program: typing.Any = None
        self.holds = True
        self._state_guards: typing.Any = None
        self._validated: typing.Any = None
        """What the record says of the process, until the call site has it."""
        self._known_validated: "typing.Callable[[], typing.Any]" = lambda: None
        """The call site's, so that the collector of cycles sees through it."""
        self.served = Served()
        self._weights: "list[torch.Tensor]" = []
        self.changed_weights: "list[paths.Path]" = []
        """Those that were others the last time that it was bound, and that calls may fetch."""
        self._bound_in_vain = 0
        """How often in a row its weights were others after a call or none."""
        self._group_names: "list[str]" = []
        self.program_numbers: "collections.deque[int]" = collections.deque(maxlen=64)
        """Of the programs that it has been bound to last (``_native.Program.number``)."""

    def covers(self, symbols: "typing.Sequence[int]") -> bool:
        """Whether a template may run these sizes: a recording proved them, or they lie in the proved range."""
        if tuple(symbols) in self.proven:
            return True
        return self.range != "" and self._range.holds(list(symbols)) and (self._gears is None or tuple(symbols) in self._gears)

    def takes_all_of(self, exact: "Variant") -> bool:
        """Whether a template may run every call that a variant for numbers only takes."""
        symbols = self.artifact.symbols_of_exact(exact.artifact)
        return symbols is not None and self.covers(symbols)

    def reads_all_that(self, other: "Variant") -> bool:
        """Whether its record says all that the other's says: sizes that were proved there belong to what was read there."""
        return self.record == other.record or set(other.record.rows()) <= set(self.record.rows())

    def serve_only(self, gears: "typing.Iterable[tuple[int, ...]]") -> None:
        """Of the proved range these values of the symbols, and those said before: the gears that a caller has declared."""
        self._gears = {*(self._gears or ()), *gears}

    def why_not(self, symbols: "typing.Sequence[int]") -> str:
        """What keeps a template from these sizes, in words; empty where nothing does."""
        if not self.is_template or self.covers(symbols):
            return ""
        return str(self._range.explain(list(symbols))) if self.range else "no recording has proved these sizes"

    def differs_in_sizes_alone(self, old: "Variant") -> bool:
        """Whether the sizes that are proved are all that could differ."""
        same = self.graph == old.graph and self.artifact_digest == old.artifact_digest and self.range == old.range
        return same and self.raw_signature == old.raw_signature and self.record == old.record

    def take_over(self, old: "Variant") -> None:
        """Uses what an older answer for the same graph has bound, where it is the same artifact."""
        self.served = old.served
        if old.program is not None and old.artifact_digest == self.artifact_digest:
            self.program_numbers.extend(old.program_numbers)
            self.program, self._weights, self._group_names = old.program, old._weights, old._group_names

    def bind(self, roots: paths.Roots) -> None:
        """Resolves weights, checks the record and makes the program; NotFound or Incompatible says what does not fit."""
        weights = [_weight(path, roots) for path in self.signature["weights"]]
        if len({id(weight) for weight in weights}) != len(weights):
            raise errors.Incompatible("two weights of the recording are one tensor here")
        if self.artifact.writes()["weights"] and memories.overlaps(weights) != self.signature.get("overlaps", []):
            raise errors.Incompatible("weights share memory in another way than those of the recording")
        self._state_guards, self._validated = _native.StateGuards(), self._serving() or self._new_validated(weights)
        for weight in weights:
            self._state_guards.leave(weight)
        for value in roots.objects:
            self._state_guards.borrow(value)
        why = dependencies.first_mismatch(self.record, roots, self._state_guards, self._validated)
        if why is not None:
            raise errors.Incompatible(why)
        names = groups.names_of(self.signature.get("groups", ()))
        same = len(weights) == len(self._weights) and all(a is b for a, b in zip(weights, self._weights))
        same = same and names == self._group_names
        if self._weights and not same:
            self.changed_weights = [path for path, a, b in zip(self.signature["weights"], weights, self._weights)
                                    if a is not b and not a.requires_grad]
            self._bound_in_vain = self._bound_in_vain + 1 if self.served.as_bound_now() <= 1 else 0
        if self.program is None or not same or not self.program.groups_hold():
            self.program = _native.Program.bind(self.artifact, weights, names)
            self.served.follow(self.program)
            self.program_numbers.append(self.program.number)
            self._weights, self._group_names = weights, names

    def mismatch(self, roots: paths.Roots) -> "str | None":
        """The first dependency that does not hold in this process, in words; None when all hold, on which bind() relies."""
        try:
            self._validated = self._serving() or self._new_validated([_weight(path, roots) for path in self.signature["weights"]])
        except errors.NotFound:
            self._validated = None  # The record says why.
        why = dependencies.first_mismatch(self.record, roots, validated=self._validated)
        if why is not None:
            self._validated = None
        return why

    def _serving(self) -> typing.Any:
        """What was found to hold, and still does; or None."""
        found = (self._validated, self._known_validated())
        return next((validated for validated in found if validated is not None and validated.may_serve()), None)

    def _new_validated(self, weights: "list[torch.Tensor]") -> typing.Any:
        validated = _native.ValidatedRecord(self.record)
        for weight in weights:
            validated.leave(weight)  # The program checks those itself.
        return validated

    def proven_here(self) -> "list[tuple[int, ...]]":
        """Values of the symbols that calls may have, besides those of a range."""
        return self.proven if self._gears is None else sorted({*self.proven, *filter(self.covers, self._gears)})

    def is_bound_anew_each_time(self) -> bool:
        """Whether its weights have been others in every call for a while."""
        return self._bound_in_vain >= _BOUND_IN_VAIN_MAX and bool(self.changed_weights)

    def fetches(self) -> bool:
        """Whether calls find tensors or sizes in objects, which may be others each time."""
        return any(path is not None for path in self.signature["inputs"])

    def writes(self) -> bool:
        """Whether a call changes arguments, weights or objects."""
        return bool(self.signature["writes"]) or any(self.artifact.writes().values())

    def _is_verifiable(self) -> bool:
        """A call can be answered twice; other ranks would see a collective twice."""
        return not self.signature["writes"] and not self.signature.get("groups")

    def _number(self) -> int:
        """By which ranks tell each other that they run this graph, compiled by this build; never 0."""
        return int(str(_native.digest_text(f"{self.graph} {_native.build}"))[:15], 16) | 1

    def parts(self, roots: paths.Roots, guards: str) -> "dict[str, typing.Any]":
        """What the call site installs (client/native/site/call_site.cpp MakeVariant)."""
        outputs = tree.decode(self.signature["outputs"], roots)
        changed = effects.holders(self.signature["writes"], roots)
        if changed:
            outputs = effects.replayed(outputs, self.signature["writes"], changed, roots)
        fetches = [path for path in self.signature["inputs"] if path is not None]
        same = [tuple(where.split(" is ", 1)) for _, where, _, _ in self.record.of_kind("same")] if fetches else []
        # What lies there is another in each call: so is whether two of them are one.
        found_anew = {*fetches, *(where for _, where, _, _ in self.record.of_kind("fetched"))} if same else set()
        provenance = self.artifact.provenance()
        state_guards, validated = self._state_guards, self._validated  # The call site's alone from now on.
        self._state_guards, self._validated, self._known_validated = None, None, validated.weak()
        return {"program": self.program, "outputs": outputs, "leaf_count": provenance["outputs"],
                "input_count": len(self.signature["inputs"]), "state_guards": state_guards, "validated": validated,
                "objects": list(roots.objects), "changes": list(changed.values()), "fetches": fetches,
                "roots": roots.named() if fetches else {}, "same": [pair for pair in same if not found_anew.isdisjoint(pair)],
                "weights": self._weights, "untracked": self.signature.get("untracked", []),
                "mode": self.signature.get("mode", ""), "proven": self.proven_here(),
                "range": self.range if self._gears is None else "",
                "guards": guards, "heavy": provenance["aten_steps"] + provenance["product_steps"] > 0, "verifiable": self._is_verifiable(),
                "agreed": self.agreed.sizes, "number": self._number()}


def _weight(path: paths.Path, roots: paths.Roots) -> torch.Tensor:
    value = paths.resolve(path, roots)
    if not kinds.is_tensor(value):
        raise errors.NotFound(f"{paths.to_text(path)} is {type(value).__name__}, a tensor when it was recorded")
    return value


def fetched(path: paths.Path, roots: paths.Roots) -> torch.Tensor:
    """What a call fetches from a place: a tensor, or for a number one that stands for it."""
    value = paths.resolve(path, roots)
    made = value if kinds.is_tensor(value) else _native.tensor_of_number(value)
    if made is None:
        raise errors.NotFound(f"{paths.to_text(path)} is {type(value).__name__}, a tensor or a number when it was recorded")
    return made
