# SPDX-License-Identifier: Apache-2.0
"""One recorded run of the user's function: the eager answer, and all a compile needs to know about it."""

import contextlib
import functools
import json
import re
import typing

import torch

from ingot import _native, counters, errors
from ingot.reasons import notes
from ingot.trace import calls, collectives, custom_ops, dependencies, effects, groups, interrupts, kinds, memories, paths, tree
from ingot.config import Config

_DEFERRED_ABOVE = 32 << 10
"""Elements: an operator that reads fewer costs about as much as putting it off."""
_OWN = __file__.rsplit("/", 2)[0] + "/"


class Captured:
    """What a recording yields besides its answer."""

    def __init__(self, recording: bytes, signature: bytes, places: "list[paths.Path]", observer: typing.Any,
                 operators: "list[dependencies.Dependency]") -> None:
        self.recording, self.signature, self._places = recording, signature, places
        self._observer, self._operators = observer, operators
        observer.settle()
        self.moved: "list[tuple[paths.Path, str, bool]]" = observer.moved()
        """Places that hold something else now: path, digest of what was read ("" where it was fetched), and whether calls could fetch
        what lies there."""

    def must_fetch(self, places: "set[paths.Path]") -> bool:
        """Whether tensors of it are bound to what lay in places that hold others now: in the place itself, or in a tuple there."""
        return any(used == place or used.startswith(place + "[") for used in self._places for place in places)

    @property
    def unrepeatable(self) -> "list[str]":
        """Operators that ran and may do more than compute; kernels that the program has registered do not."""
        return [where for kind, where, _, text in self._operators if (kind, text) != ("custom_op", custom_ops.REGISTERED)]

    @property
    def opaque(self) -> "list[str]":
        """What it depended on and nobody can tell apart."""
        return [where for kind, where, _, _ in self._operators if kind == "opaque"]

    @functools.cached_property
    def record(self) -> typing.Any:
        """A ``_native.DependencyRecord``: what the run depended on. Putting it into words takes longer than the run's caller should wait."""
        key = (self._observer.fingerprint, tuple(self._operators))
        found = _records.get(key)
        if found is None:
            found = self._observer.record(self._operators)
            fault = self._observer.identity_fault(found)
            if fault is not None:
                raise Refused("identity", fault)
            while len(_records) >= _RECORDS_MAX:
                _records.pop(next(iter(_records)), None)
            _records[key] = found
        return found

    def still_holds(self) -> bool:
        """Whether everything the run read is still what it read."""
        return bool(self._observer.settle())


_RECORDS_MAX = 16
_records: "dict[typing.Any, typing.Any]" = {}
"""The newest records by fingerprint: recordings of one function for many sizes read the same."""


class Refused(Exception):
    """A run that cannot become a graph: ``name`` is counted, ``detail`` is shown."""

    def __init__(self, name: str, detail: str) -> None:
        super().__init__(f"{name}: {detail}")
        self.name, self.detail = name, detail


MAY_PASS = frozenset(["call", "fresh-answer", "interrupted", "side-effect", "result", "unbound-tensor", "unexplained-code", "unexplained-class", "unexplained-global",
                      "unexplained-object", "unexplained-module", "outside-iterator", "foreign-type", "foreign-attribute", "import", "traced", "exception", "uninitialized"])
"""Refusals that may be of a first call alone."""


class Recording:
    """Runs the function once as it is, under the recorder and the observer.

    ``deferred``: elements that nobody reads are not computed; the result is worth nothing.
    ``follows_sizes``: what Python computes with sizes is noted, so that the recording may serve others.
    ``fixed``: (tensor, dim) of sizes that are no other call's. ``moving``: places that other calls have changed: each call fetches the tensor there, or a number as one.
    """

    def __init__(self, function: typing.Any, name: str, call: calls.Call, config: Config, deferred: bool = False,
                 follows_sizes: bool = False, moving: "typing.Iterable[paths.Path]" = (),
                 fixed: "typing.Sequence[tuple[int, int]]" = ()) -> None:
        self._function, self._name, self._call, self._config, self._follows_sizes = function, name, call, config, follows_sizes
        self._fixed = fixed
        self._moving, self._moving_numbers = frozenset(moving), _native.MovingNumbers()
        self._recorder = _native.Recorder(_DEFERRED_ABOVE if deferred else None)
        self._roots = paths.Roots(function, call.objects)
        self._own: "dict[calls.Argument, int | float]" = {}
        """What stands for the numbers of arguments that are inputs."""
        self._inputs: "list[paths.Path | None]" = []
        self.declared: "list[torch.Tensor]" = []
        """Its inputs: the call's tensors, and those that calls fetch."""
        self.weights: "list[torch.Tensor]" = []
        self.leaves: "list[torch.Tensor]" = []
        """The tensors of its results and of what it stored, where it is kept."""
        self._is_kept = False
        self.signature = b""
        self._writes_weights = False
        self._given_back: typing.Any = None
        self.observer = self._observe()

    def _observe(self) -> typing.Any:
        observer = _native.Observer(_OWN)
        for name, root in self._roots.named().items():
            observer.add_root(root, name)
        for argument, value in self._call.given().items():
            for part in calls.structure(value) if argument not in self._call.opened else ():
                observer.add_argument(part)
        return observer

    def run(self) -> typing.Any:
        """The function's own result; exceptions of the function pass through."""
        call, recorder = self._call, self._recorder
        for tensor, name in zip(call.tensors, call.names):
            recorder.declare_input(tensor, name)
            self._inputs.append(None)
            self.declared.append(tensor)
        for name, identity in groups.live().items():
            recorder.declare_group(name, identity)
        if self._follows_sizes:
            recorder.follow_sizes(self.observer)
            for tensor_number, dim in self._fixed:
                self.observer.fix_size(call.tensors[tensor_number], dim, call.tensors[tensor_number].shape[dim])
            self._moving_numbers.put(sorted(self._moving), self._roots.named(), self.observer)
            for argument, number in call.varying.items():
                self._own[argument] = self._moving_numbers.own(call.numbers()[argument], call.tensors[number], call.names[number], self.observer)
        modes = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
        with collectives.Unwrapping() if groups.initialized() else contextlib.nullcontext():
            recorder.start()
            self._start_observing()
            try:
                result = self._invoke()
                self._stop_observing()
                collectives.settle(result)
            except BaseException:
                recorder.refuse("exception", "the function raised")
                raise
            finally:
                self._stop_observing()
                recorder.stop()
        if (torch.is_grad_enabled(), torch.is_inference_mode_enabled()) != modes:
            recorder.refuse("side-effect", "the grad mode or the inference mode was changed")
        return result

    def _start_observing(self) -> None:
        # The observer keeps its hooks: they must not lead back to it.
        recorder = self._recorder
        self.observer.set_hooks(recorder.refuse, recorder.refuse, lambda tensor: _read_list(recorder, tensor), recorder.note_alias)
        self.observer.set_interrupts(list(interrupts.codes()))
        self.observer.start(self._function, self._config.instructions_max)

    def _stop_observing(self) -> None:
        self.observer.stop()
        self._moving_numbers.take_back()

    def _invoke(self) -> typing.Any:
        args, kwargs = self._call.with_numbers(self._own)
        return self._function(*args, **kwargs)

    def finish(self, result: typing.Any) -> Captured:
        """Everything the daemon needs; Refused says why there is nothing."""
        self._check_refusal()
        aliased = next((path for path in map(self.observer.path_of, self._call.tensors) if path), None)
        if aliased is not None:
            raise Refused("aliased-input", f"an argument is also {paths.to_text(aliased)}")
        encoder = tree.Encoder(self.observer.path_of, self.declared, self.observer.is_argument, self._measured)
        try:
            spec = encoder.encode(result)
        except errors.Unsupported as e:
            self._given_back = encoder.touched
            raise Refused("result", str(e)) from None
        try:
            writes = effects.encode(self.observer.writes(), encoder)
        except errors.Unsupported as e:
            self._given_back = encoder.touched
            raise Refused("side-effect", str(e)) from None
        if encoder.has_orders:
            self.observer.note_orders()
            self._check_refusal()
        results = list(encoder.leaves)
        encoder.number_measures()
        for leaf in encoder.leaves:
            self._recorder.note_output(leaf)
        numbers = self._bind_moving_numbers()
        weights = self._bind_foreigns()
        fetched: "list[typing.Any]" = [tensor for path, tensor in zip(self._inputs, self.declared) if path is not None]
        self.observer.set_fetched(fetched + numbers, encoder.given_on, self._moving)
        overlaps = memories.overlaps(self.weights) if self._writes_weights else []
        # Used in a no_grad of the function's own, or the recorder had refused them.
        untracked = [i for i, weight in enumerate(self.weights) if weight.requires_grad] if torch.is_grad_enabled() else []
        encoder.found_in_arguments(self.declared)
        owners = [*self.declared, *self.weights]
        encoder.find_links(owners)
        makes_inference = _makes_inference(results, owners)
        self._recorder.note_sizes(self.observer)
        if self._is_kept:  # Whether somebody holds what a deferred run has made decides what becomes of it.
            self.leaves = list(encoder.leaves)
        try:
            recording = self._recorder.finish(self._name, encoder.leaves)
        except RuntimeError as e:
            self._check_refusal()
            raise Refused("recorder", str(e)) from None
        foreign = self._recorder.foreign_operators()
        # A value that turns out to be another is found when the operator has run: eager would run it again.
        twice = next((name for name, is_decided, _ in foreign if is_decided and custom_ops.is_python(name)), None)
        if twice is not None:
            raise Refused("custom-op-decides", f"a value decides what Python does behind {twice}, whose code may do more than compute")
        mode = _own_mode([(name, modes) for name, _, modes in foreign], makes_inference, untracked, results)
        signature = {"weights": weights, "inputs": self._inputs, "outputs": spec, "writes": writes,
                     "leaves": len(encoder.leaves), "groups": self._recorder.groups,
                     **({"overlaps": overlaps} if overlaps else {}), **({"untracked": untracked} if untracked else {}),
                     **({"mode": mode} if mode else {})}
        self.signature = json.dumps(signature, separators=(",", ":")).encode()
        return Captured(recording, self.signature,
                        [*weights, *(path for path in self._inputs if path is not None)], self.observer,
                        dependencies.of_operators(name for name, *_ in foreign))

    def read(self) -> "frozenset[notes.Row]":
        """What it has read by now, of a run that became no graph: without what it has changed itself."""
        if self.observer.refused is not None:
            return notes.rows_of(self.observer.read_before_refusal) | notes.missing(self.observer.missed_before_refusal)
        self.observer.settle()
        changed = {place for place, _, _ in self.observer.moved()}
        return notes.rows_of(self.observer.record(dependencies.of_operators(name for name, *_ in self._recorder.foreign_operators())), changed)

    def keep_in(self, memory: typing.Any) -> None:
        """Before it runs: what it writes, and was there before, is kept in a ``_native.KeptMemory``."""
        self._is_kept = True
        self._recorder.keep_before_writes(memory)

    @property
    def is_uninitialized(self) -> bool:
        """Whether it has made tensors of memory as it was."""
        return bool(self._recorder.makes_uninitialized)

    @property
    def groups(self) -> "list[str]":
        """The process groups that it communicates in."""
        return list(self._recorder.groups)

    @property
    def touched(self) -> typing.Any:
        """A container among the arguments that the run changed or gave back, or of which it read more than a call's structure
        says; or None."""
        return self._given_back if self._given_back is not None else self.observer.touched

    def fixed_arguments(self) -> "set[calls.Argument]":
        """Arguments whose numbers were inputs, and that the run has looked at: they are a part of what such calls do."""
        return {argument for argument, own in self._own.items() if self._moving_numbers.is_fixed(own, self.observer)}

    def complete_if_kept(self) -> None:
        """Deferred, when the result is dropped: computes what was put off if the function keeps a tensor of it."""
        if self._recorder.complete_if_kept():
            counters.add("deferred_completed")

    def _measured(self, value: typing.Any) -> "tuple[str, torch.Tensor] | None":
        """For a number that is no part of what every call does: a tensor that has it as its last size, or as its element."""
        if self._follows_sizes:
            read = self.observer.number_tensor(value)
            if read is not None:
                return "item", read
            made = self._recorder.note_size(self.observer, value) if type(value) is int else None
            if made is not None:
                return "sized", made
        self.observer.fix(value)
        return None

    def _bind_moving_numbers(self) -> "list[int | float]":
        """Makes inputs of those that the run has read; gives them."""
        found = self._moving_numbers.read_by(self.observer)
        for path, _, tensor in found:
            self._recorder.declare_fetched(self._recorder.note_output(tensor), paths.to_text(path))
            self._inputs.append(path)
            self.declared.append(tensor)
        return [value for _, value, _ in found]

    def _check_refusal(self) -> None:
        # The observer's reasons are the recorder's as well, which keeps the first: what comes behind it may come of it.
        refusal = self._recorder.refusal or self.observer.refused
        if refusal is not None:
            raise Refused(*refusal)

    def _is_call_state(self, path: paths.Path) -> bool:
        """Whether a tensor is fetched at every call: it lies in an object argument (a KV cache), or where calls have put others.
        A module's are weights."""
        if any(path == place or path.startswith(place + "[") for place in self._moving):
            return True
        if not path.startswith("object:"):
            return False
        number = int(_NUMBER.match(path, len("object:")).group())  # type: ignore[union-attr]
        return not kinds.is_a(self._call.objects[number], torch.nn.Module)

    def _bind_foreigns(self) -> "list[paths.Path]":
        """Paths of the weights in source order; tensors inside object arguments become inputs."""
        weights: "list[paths.Path]" = []
        for value, tensor, written in self._recorder.foreigns():
            path = self.observer.path_of(tensor)
            if path is not None and self._is_call_state(path):
                self._recorder.declare_fetched(value, paths.to_text(path))
                self._inputs.append(path)
                self.declared.append(tensor)
            elif path is not None:
                self._recorder.declare_weight(value, paths.to_text(path))
                weights.append(path)
                self.weights.append(tensor)
                self._writes_weights |= bool(written)
            else:
                raise Refused("unbound-tensor", f"a tensor of sizes {list(tensor.shape)} that no path leads to"
                              + (" was changed in place" if written else ""))
        return weights


def _makes_inference(leaves: "typing.Sequence[torch.Tensor]", owners: "typing.Sequence[torch.Tensor]") -> bool:
    """Whether results are made in an inference mode of the function's own; Refused where native code would make some in another mode."""
    mode = torch.is_inference_mode_enabled()
    if all(leaf.is_inference() == mode for leaf in leaves):
        return False
    made = {leaf.is_inference() for leaf in leaves if not any(torch._C._is_alias_of(leaf, owner) for owner in owners)}  # type: ignore[attr-defined]
    if len(made) > 1 or mode and False in made:
        raise Refused("result", "tensors made in inference mode, and others that are not")
    return not mode and True in made


def _own_mode(operators: "list[tuple[str, set[str]]]", makes_inference: bool, untracked: "list[int]", results: "list[torch.Tensor]") -> str:
    """The mode of autograd in which native code runs where that is not the call's: what results are made in, weights are used in, and
    operators hear whose code may ask for it. Refused where these are several."""
    grad = "grad" if torch.is_grad_enabled() else "no_grad"
    call = {"grad": "inference grad", "no_grad": "inference"}[grad] if torch.is_inference_mode_enabled() else grad
    own = "inference" if makes_inference else "no_grad" if untracked else call
    asking = [(name, modes) for name, modes in operators if custom_ops.is_python(name)]
    heard = set[str]().union(*(modes for _, modes in asking))
    if heard <= {own}:
        return "" if own == call else own
    mode = next(iter(heard))
    if len(heard) > 1 or own != call or mode == "inference grad" or (mode == "inference" and results):
        name, modes = next((name, modes) for name, modes in asking if modes != {own})
        raise Refused("custom-op-modes", f"{name} runs in {' and '.join(sorted(modes))} mode, and other things of the function do not")
    return mode


_LIST_MAX = 64
"""Elements: more are data, not a decision; a value guard for each would only fail."""


def _read_list(recorder: typing.Any, tensor: torch.Tensor) -> None:
    """Reads what ``tolist`` is about to give by operators that the recorder sees: each element becomes a value guard."""
    if tensor.numel() > _LIST_MAX:
        recorder.refuse("escape-tolist", f"Tensor.tolist of {tensor.dtype} {list(tensor.shape)}")
    else:
        for element in tensor.reshape(-1).unbind(0):
            element.item()


_NUMBER = re.compile(r"\d+")
