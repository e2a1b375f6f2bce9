# SPDX-License-Identifier: Apache-2.0
"""Calls between two gears, filled up to the next one: opt-in, and trusted only where the answer has proved right."""

import typing

import torch

from ingot import gears
from ingot.site import binding


class Padded:
    """Which sizes of one call site may be filled up, and what their answers look like."""

    def __init__(self) -> None:
        self._shapes: "dict[gears.Sizes, tuple[list[torch.Size], list[torch.Size]] | None]" = {}
        """For sizes tried: the sizes of the padded answer's tensors and of eager's, or None where padding changed the answer."""

    def is_refused(self, sizes: gears.Sizes) -> bool:
        """Whether padding these sizes gave another answer than eager."""
        return sizes in self._shapes and self._shapes[sizes] is None

    @staticmethod
    def may_fill(variants: "typing.Sequence[binding.Variant]") -> bool:
        """What a call writes, it would write to the filled copy, and twice where its answer is compared."""
        return len(variants) > 0 and not any(variant.writes() for variant in variants)

    def answer(self, sizes: gears.Sizes, padded: typing.Any, eager: "typing.Callable[[], typing.Any]") -> typing.Any:
        """The padded answer cut to size; the first time it is compared with eager's, which decides for good."""
        known, whole = self._shapes.get(sizes), [leaf.shape for leaf in _leaves(padded)]
        if known is None:
            expected = eager()
            shapes = [leaf.shape for leaf in _leaves(expected)]
            cut = _cut(padded, shapes)
            right = cut is not None and all(_close(a, b) for a, b in zip(_leaves(cut), _leaves(expected)))
            self._shapes[sizes] = (whole, shapes) if right else None
            return expected
        if whole != known[0]:  # The values decide how many there are.
            self._shapes[sizes] = None
            return eager()
        return _cut(padded, known[1])


def filled_up(declared: gears.Declared, tensors: "typing.Sequence[torch.Tensor]", gear: "tuple[int, ...]") -> "list[torch.Tensor] | None":
    """The tensors in a larger gear; None where a dim that grows has no value to pad with."""
    made = list(tensors)
    for (number, dim, _), size, value in zip(declared.dims, gear, declared.pads):
        missing = size - made[number].shape[dim]
        if missing > 0:
            if value is None:
                return None
            sizes = [missing if d == dim else s for d, s in enumerate(made[number].shape)]
            made[number] = torch.cat([made[number], made[number].new_full(sizes, value)], dim)
    return made


def _leaves(value: typing.Any) -> "list[torch.Tensor]":
    from torch.utils import _pytree

    return [leaf for leaf in _pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def _cut(value: typing.Any, shapes: "list[torch.Size]") -> typing.Any:
    """The answer with each tensor cut to a shape; None where one does not fit."""
    leaves = _leaves(value)
    if len(leaves) != len(shapes) or any(leaf.dim() != len(shape) for leaf, shape in zip(leaves, shapes)):
        return None
    made = []
    for leaf, shape in zip(leaves, shapes):
        if any(have < want for have, want in zip(leaf.shape, shape)):
            return None
        made.append(leaf if leaf.shape == shape else leaf[tuple(slice(want) for want in shape)].contiguous())
    return gears.replaced(value, leaves, made) if leaves else value


def _close(a: torch.Tensor, b: torch.Tensor) -> bool:
    try:
        torch.testing.assert_close(a, b, equal_nan=True)
    except AssertionError:
        return False
    return True
