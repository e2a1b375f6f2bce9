# SPDX-License-Identifier: Apache-2.0
"""Of what class an object of the program is. ``isinstance`` asks the object, which may run its class's code and believes what it says."""

import typing

import torch


def is_a(value: object, kind: "type | tuple[type, ...]") -> bool:
    """By the object's type alone."""
    return issubclass(type(value), kind)


def is_tensor(value: object) -> "typing.TypeGuard[torch.Tensor]":
    """A tensor or of a class that comes from it."""
    return is_a(value, torch.Tensor)
