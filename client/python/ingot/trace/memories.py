# SPDX-License-Identifier: Apache-2.0
"""Which tensors lie in the memory of others: a write to one is a write to the others."""

import typing

import torch


def overlaps(tensors: "typing.Sequence[torch.Tensor]") -> "list[list[int]]":
    """``[i, j, bytes]`` for each tensor j that begins so many bytes behind the beginning of i and before its end."""
    found: "list[list[int]]" = []
    widest, widest_ends = -1, 0
    for begins, j in sorted((tensor.data_ptr(), j) for j, tensor in enumerate(tensors) if tensor.numel() > 0):
        if begins < widest_ends:
            found.append([widest, j, begins - tensors[widest].data_ptr()])
        ends = begins + extent(tensors[j]) * tensors[j].element_size()
        if ends > widest_ends:
            widest, widest_ends = j, ends
    return found


def extent(tensor: torch.Tensor) -> int:
    """Elements from the first to the last in memory, of a tensor that has some."""
    return 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
