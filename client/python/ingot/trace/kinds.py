# SPDX-License-Identifier: Apache-2.0
"""Of what class an object of the program is, and what it holds. ``isinstance``, ``getattr`` and loops ask the object, which may run its class's code
and believe what it says."""

import typing

import torch


def is_a(value: object, kind: "type | tuple[type, ...]") -> bool:
    """By the object's type alone."""
    return issubclass(type(value), kind)


def class_name(value: object) -> str:
    """With its module, by what the class itself has: a metaclass is not asked."""
    kind = type(value)
    return f"{type.__getattribute__(kind, '__module__')}.{type.__getattribute__(kind, '__qualname__')}"


def elements(value: "typing.Sequence[typing.Any]") -> "typing.Iterator[typing.Any]":
    """Of a list or tuple, whatever its class says of iterating."""
    kind: typing.Any = tuple if is_a(value, tuple) else list
    return kind.__iter__(value)  # type: ignore[no-any-return]


def is_tensor(value: object) -> "typing.TypeGuard[torch.Tensor]":
    """A tensor or of a class that comes from it."""
    return is_a(value, torch.Tensor)
