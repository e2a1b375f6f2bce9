# SPDX-License-Identifier: Apache-2.0
"""A call that eager has answered, kept until native code has been held against that answer (docs/agreed.md)."""

import json
import os
import threading
import typing
import weakref

import torch

from ingot import _native, errors
from ingot.trace import recording, tree

_lock = threading.Lock()
_bytes = 0
"""Of all calls that are kept now."""


class NotCompared(Exception):
    """Native code is not held against eager's answer: ``name`` is counted, ``detail`` is shown."""

    def __init__(self, name: str, detail: str = "") -> None:
        super().__init__(f"{name}: {detail}" if detail else name)
        self.name, self.detail = name, detail


class Kept:
    """What a call was given, what it answered, and what it changed: copies, all but weights that it left alone."""

    def __init__(self, signature: bytes, inputs: "list[torch.Tensor]", weights: "list[torch.Tensor]", mark: str) -> None:
        self.signature = signature
        """Of its recording: what is where among inputs, weights and leaves."""
        self.inputs = inputs
        """As they were before the call."""
        self.weights = weights
        self.leaves: "list[torch.Tensor]" = []
        """Its results, and what it stored."""
        self.inputs_after: "dict[int, torch.Tensor]" = {}
        """Those that it wrote, by number."""
        self.weights_before: "dict[int, torch.Tensor]" = {}
        self.weights_after: "dict[int, torch.Tensor]" = {}
        self.is_uninitialized = False
        """It has made tensors of memory as it was (``torch.empty``), which may be among its results."""
        self._mark = mark

    def counted(self, memory: typing.Any) -> "Kept":
        """Itself; what it has in a ``_native.KeptMemory`` counts for as long as it lives."""
        _take(memory.bytes)
        weakref.finalize(self, _take, -memory.bytes)
        return self

    def writes(self) -> bool:
        """Whether the call has written inputs or weights."""
        return bool(self.inputs_after or self.weights_before)

    def weights_stayed(self) -> bool:
        """Whether the weights that the call left alone are what they were."""
        return _mark(self.weights, self.weights_before) == self._mark

    def of_another_call(self, inputs: "list[torch.Tensor]") -> "Kept":
        """The beginning of one of the same structure, with weights as they were."""
        another = Kept(self.signature, inputs, self.weights, self._mark)
        another.is_uninitialized = self.is_uninitialized
        return another


class Keeper:
    """Keeps one call: what it draws, and, while it is recorded, what it writes is copied before."""

    def __init__(self, bytes_max: int) -> None:
        with _lock:
            room = max(0, bytes_max - _bytes)
        self.memory: typing.Any = _native.KeptMemory(room)
        self._bytes_max = bytes_max
        self._generator = _native.generator_number()

    def of_recording(self, run: "recording.Recording", captured: "recording.Captured") -> Kept:
        """What the run was, once it is finished and before anybody else has its results; NotCompared says why there is nothing."""
        if captured.signature != run.signature:
            raise NotCompared("exported", "its code is of another recording than that of the call")
        if run.groups:
            raise NotCompared("collective", "other ranks would have to take part in another call")
        for op in captured.unrepeatable:
            raise NotCompared("operator", f"{op} is not PyTorch's, and may do more than compute")
        self._check_generator()
        memory, inputs, weights = self.memory, run.declared, run.weights
        changed = [i for i, tensor in enumerate(inputs) if memory.is_written(tensor)]
        written = [i for i, weight in enumerate(weights) if memory.is_written(weight)]
        kept = Kept(run.signature, self._room(memory.before(inputs)), weights, _mark(weights, written))
        kept.inputs_after = dict(zip(changed, self._room(memory.now([inputs[i] for i in changed]))))
        kept.weights_before = dict(zip(written, self._room(memory.before([weights[i] for i in written]))))
        kept.weights_after = dict(zip(written, self._room(memory.now([weights[i] for i in written]))))
        kept.leaves = self._room(memory.now(run.leaves))
        kept.is_uninitialized = run.is_uninitialized
        return kept.counted(memory)

    def of_answer(self, begun: Kept, inputs: "list[torch.Tensor]", result: typing.Any) -> Kept:
        """A call like one that has been recorded, which wrote nothing, with what it has answered."""
        self._check_generator()
        encoder = tree.Encoder(lambda value: None, inputs)
        try:
            spec = encoder.encode(result)
        except errors.Unsupported as e:
            raise NotCompared("structure", str(e)) from None
        encoder.find_links([*inputs, *begun.weights])
        if json.loads(json.dumps(spec)) != json.loads(begun.signature)["outputs"]:
            raise NotCompared("structure", "it has answered something of another structure")
        begun.leaves = self._room(self.memory.now(encoder.leaves))
        return begun.counted(self.memory)

    def copies(self, tensors: "list[torch.Tensor]") -> "list[torch.Tensor]":
        """Before the call: NotCompared where there is no room."""
        return self._room(self.memory.now(tensors))

    def _check_generator(self) -> None:
        if self._generator != _native.generator_number():
            raise NotCompared("random", "it draws random numbers from the generator that the program goes on with")

    def _room(self, copies: "list[torch.Tensor] | None") -> "list[torch.Tensor]":
        if copies is None:
            raise NotCompared("memory", f"what is kept of calls would be more than agree_bytes_max={self._bytes_max}")
        return copies


def copies_of(tensors: "typing.Sequence[torch.Tensor]") -> "list[torch.Tensor]":
    """For as long as somebody runs on them; they share memory as the tensors do."""
    return typing.cast("list[torch.Tensor]", _native.KeptMemory((1 << 63) - 1).now(tensors))


def _mark(weights: "list[torch.Tensor]", without: "typing.Container[int]") -> str:
    return str(_native.mark_of([weight for i, weight in enumerate(weights) if i not in without]))


def _take(bytes_: int) -> None:
    global _bytes
    with _lock:
        _bytes += bytes_


def _forked() -> None:
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_forked)
