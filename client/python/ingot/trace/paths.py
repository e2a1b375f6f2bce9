# SPDX-License-Identifier: Apache-2.0
"""Names for things a function reaches: text such as ``self._modules["layers"].scale`` (client/native/places/place_access.h).

A path begins with ``self`` (what the function belongs to), ``function`` (the function itself), ``object:<i>`` (the i-th object
argument) or ``module:`` and goes on by steps that run no code of the program.
"""

import re
import typing

import torch

from ingot import _native, errors

Path = str


class Roots:
    """Where paths start, for one call: the function, its module, and the call's object arguments."""

    def __init__(self, function: typing.Any, objects: "typing.Sequence[typing.Any]" = ()) -> None:
        self.function = function
        self.objects = objects
        self.module = self_of(function)

    def named(self) -> "dict[str, typing.Any]":
        """The root objects by name."""
        found: "dict[str, typing.Any]" = {}
        if self.module is not None:
            found["self"] = self.module
        plain = function_root(self.function)
        if plain is not None:
            found["function"] = plain
        found.update((f"object:{i}", value) for i, value in enumerate(self.objects))
        return found


def function_root(function: typing.Any) -> typing.Any:
    """The Python function that is called; None for modules and objects, whose class has it."""
    function = getattr(function, "__func__", function)
    return function if hasattr(function, "__code__") else None


def plain_function(function: typing.Any) -> typing.Any:
    """The Python function behind a module, bound method or callable object; None for builtins."""
    if isinstance(function, torch.nn.Module):
        return type(function).forward
    own = function_root(function)
    if own is not None:
        return own
    return getattr(type(function), "__call__", None) if hasattr(type(function).__call__, "__code__") else None


def self_of(function: typing.Any) -> typing.Any:
    """The module or object a callable belongs to; None for plain functions."""
    if isinstance(function, torch.nn.Module):
        return function
    bound = getattr(function, "__self__", None)
    if bound is not None and not isinstance(bound, type(re)):
        return bound
    return None if hasattr(function, "__code__") else function


def closure_of(function: typing.Any) -> "dict[str, typing.Any]":
    """Free variables of a function by name; cells that are still empty are left out."""
    plain = plain_function(function)
    cells = {}
    if plain is not None and getattr(plain, "__closure__", None):
        for name, cell in zip(plain.__code__.co_freevars, plain.__closure__):
            try:
                cells[name] = cell.cell_contents
            except ValueError:
                continue
    return cells


_TABLE = re.compile(r'\._(?:modules|parameters|buffers)\["([^"]*)"\]')


def to_text(path: Path) -> str:
    """A path for people: ``self.layers.0.weight``."""
    parts = _TABLE.split(path)  # Names at every second place; a recording has one for each weight.
    parts[1::2] = ["." + name for name in parts[1::2]]
    return "".join(parts)


def resolve(path: Path, roots: Roots) -> typing.Any:
    """What the path names in this process; NotFound where it leads nowhere."""
    found = _native.resolve_path(path, roots.named())
    if found is None:
        raise errors.NotFound(f"{to_text(path)} does not exist in this process")
    return found
