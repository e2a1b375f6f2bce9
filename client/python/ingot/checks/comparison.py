# SPDX-License-Identifier: Apache-2.0
"""Native code run once on the copies of a kept call, and held against what eager answered (docs/agreed.md)."""

import math
import typing

import torch

from ingot import _native, errors
from ingot.checks import verification
from ingot.trace import paths
from ingot.checks.kept import Kept, NotCompared, copies_of

if typing.TYPE_CHECKING:
    from ingot.site import binding

_NUDGES = 4
_NUDGED_BY = 8.0
"""Units in the last place."""
_NUDGED_BYTES_MAX = 64 << 20
_SUMMED = 8.0
_MOVED = 64.0
"""So many times what nudges of the last digits move a result it may be off, as in the proof of kernels (docs/numerics.md)."""

Pair = tuple[str, torch.Tensor, torch.Tensor]
"""Name, eager's, native code's."""


class Comparison:
    """One comparison. After ``difference`` the answers of both are at hand for whoever wants to show them."""

    def __init__(self, kept: Kept, variant: "binding.Variant") -> None:
        self.kept, self._variant = kept, variant
        self.found: "list[torch.Tensor]" = []
        """What native code answered."""

    def difference(self) -> "str | None":
        """What differs, or None; NotCompared where it says nothing."""
        kept = self.kept
        if kept.signature != self._variant.raw_signature:
            raise NotCompared("structure", "its code is of another recording")
        if not kept.weights_stayed():
            raise NotCompared("weights", "weights have changed since the call")
        pairs = self._run(kept.inputs, kept.weights)
        self.found = [found for _, _, found in pairs[:len(kept.leaves)]]
        wrong = self._wrong(pairs, [None] * len(pairs))
        if not any(why is not None for why in wrong):
            return None
        if kept.is_uninitialized:
            raise NotCompared("uninitialized", f"{next(why for why in wrong if why)}, and memory is used that nothing was written to")
        # Where a rounded value is cut to an integer or compared, its last digit may decide.
        steady = self._wrong(pairs, self._moved(pairs), is_second=True)
        if not kept.weights_stayed():
            raise NotCompared("weights", "weights have changed while it was compared")
        certain = next((why for why in steady if why is not None), None)
        if certain is None:
            raise NotCompared("unsteady", f"{next(why for why in wrong if why)}, which the last digits of its operands decide")
        return certain

    def _run(self, inputs: "list[torch.Tensor]", weights: "list[torch.Tensor]") -> "list[Pair]":
        """Results of native code on copies, beside eager's."""
        kept, variant = self.kept, self._variant
        facts = variant.artifact.writes()
        inputs = copies_of(inputs) if facts["inputs"] else inputs
        own = sorted({*kept.weights_before, *facts["weights"]})
        copies = copies_of([kept.weights_before.get(i, weights[i]) for i in own])
        bound = list(weights)
        for i, copy in zip(own, copies):
            bound[i] = copy
        try:
            program = _native.Program.bind(variant.artifact, bound, [], counted=False)
            if program.accepts(inputs) is None:
                raise NotCompared("guard", str(program.explain(inputs)))
            with torch.inference_mode(False), torch.no_grad():
                found = program.run(inputs)
        except errors.Error as e:  # It would not have served the call either, and eager answers it.
            raise NotCompared("guard", str(e)) from None
        if len(found) != len(kept.leaves):
            raise NotCompared("structure", f"it has {len(found)} results, {len(kept.leaves)} were recorded")
        pairs = [(name, expected, native) for name, expected, native in zip(self._names(len(found)), kept.leaves, found)]
        for i in sorted({*kept.inputs_after, *facts["inputs"]}):
            pairs.append((self._input_name(i), kept.inputs_after.get(i, kept.inputs[i]), inputs[i]))
        for i, copy in zip(own, copies):
            pairs.append((paths.to_text(variant.signature["weights"][i]), kept.weights_after.get(i, weights[i]), copy))
        return pairs

    def _names(self, count: int) -> "list[str]":
        names = [f"output {name}" for name in verification.leaf_names(self._variant.signature["outputs"])]
        return names + [f"a tensor that the call stores ({i})" for i in range(len(names), count)]

    def _input_name(self, number: int) -> str:
        path = self._variant.signature["inputs"][number]
        return f"input {number}" if path is None else paths.to_text(path)

    def _wrong(self, pairs: "list[Pair]", moved: "list[torch.Tensor | None]", is_second: bool = False) -> "list[str | None]":
        tensors = [*self.kept.inputs, *self.kept.weights, *self.kept.leaves]
        relative, absolute = verification.loosest(tensors)
        most = max((tensor.numel() for tensor in tensors), default=0)
        # What overflows in f16 between two operations of eager's does not in f32, and some of eager's make NaN of infinities (docs/numerics.md).
        may_overflow = any(tensor.dtype == torch.float16 for tensor in tensors) or not all(map(_is_finite, self.kept.inputs))
        # Which of them a kernel spreads, and where sums overflow on the way, is documented to differ: it is no proof of a fault.
        is_open = is_second and not all(map(_is_finite, [*self.kept.inputs, *self.kept.weights]))
        return [None if why is None else f"{name} {why}" for (name, _, _), why in
                zip(pairs, (verification.compare(expected, found, (relative * _more(most, expected), absolute * _more(most, expected)), one, may_overflow, is_open)
                            for (_, expected, found), one in zip(pairs, moved)))]

    def _moved(self, pairs: "list[Pair]") -> "list[torch.Tensor | None]":
        """How far each element goes where the last digits of what the call was given are others; infinite where it becomes something else."""
        generator = torch.Generator().manual_seed(0)
        moved: "list[torch.Tensor | None]" = [None] * len(pairs)
        for _ in range(_NUDGES):
            with torch.no_grad():
                inputs = [_nudged(tensor, generator) for tensor in copies_of(self.kept.inputs)]
                try:
                    again = self._run(inputs, self._nudged_weights(generator, inputs))
                except NotCompared:  # Other values lead elsewhere.
                    continue
            for i, ((_, _, before), (_, _, after)) in enumerate(zip(pairs, again)):
                far = verification.distance(before, after) * _MOVED
                known = moved[i]
                moved[i] = far if known is None else torch.maximum(known, far)
        return moved

    def _nudged_weights(self, generator: torch.Generator, inputs: "list[torch.Tensor]") -> "list[torch.Tensor]":
        """The weights; where no input has digits, some of them nudged, the small ones first."""
        weights = list(self.kept.weights)
        if any(tensor.is_floating_point() for tensor in inputs):
            return weights
        room = _NUDGED_BYTES_MAX
        for i in sorted(range(len(weights)), key=lambda i: weights[i].nbytes):
            if weights[i].is_floating_point() and i not in self.kept.weights_before and weights[i].nbytes <= room:
                room -= weights[i].nbytes
                weights[i] = _nudged(weights[i].detach().clone(), generator)
        return weights


def _is_finite(tensor: torch.Tensor) -> bool:
    return tensor.dtype not in verification.TOLERANCE or bool(torch.isfinite(tensor).all())


def _more(most: int, result: torch.Tensor) -> float:
    """Eager's own sums of many numbers are off by more than a few digits: how much more is allowed of a result, by the largest tensor that took part."""
    return max(1.0, math.sqrt(most / max(result.numel(), 1)) / _SUMMED)


def _nudged(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """The tensor with other last digits, in its own memory."""
    if tensor.is_floating_point() and tensor.dtype in verification.TOLERANCE and tensor.numel() > 0:
        by = torch.empty(tensor.shape).uniform_(-1, 1, generator=generator) * (_NUDGED_BY * torch.finfo(tensor.dtype).eps)
        tensor.copy_((tensor.double() * (1 + by)).to(tensor.dtype))
    return tensor
