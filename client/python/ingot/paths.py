# SPDX-License-Identifier: Apache-2.0
"""Names for things a function reaches: from a root, by attributes and items.

A path is JSON: ``[root, [kind, key], ...]`` with root ``"self"``, ``"object:<i>"`` (the i-th object
argument), ``"closure:<name>"`` or ``"global:<module>:<name>"``; kind ``"a"`` is an attribute, ``"i"`` an item.
"""

import itertools
import sys
import typing

import torch

from ingot import errors

Path = typing.List[typing.Any]
_DEPTH_MAX = 32
_ITEMS_MAX = 4096
_ATOM_TYPES = frozenset([type(None), bool, int, float, str])
_ATOMS = (type(None), bool, int, float, complex, str, bytes, type, torch.dtype, torch.device)


def to_text(path: Path) -> str:
    """``self.layers[0].weight``"""
    text = str(path[0])
    for kind, key in path[1:]:
        text += f".{key}" if kind == "a" else f"[{key!r}]"
    return text


class Roots:
    """Where paths start, for one call: the function, its module, and the call's object arguments."""

    def __init__(self, function: typing.Any, objects: "typing.Sequence[typing.Any]" = ()) -> None:
        self.function = function
        self.objects = objects
        self.module = self_of(function)

    def get(self, name: str) -> typing.Any:
        """The root object; NotFound when this process has none of that name."""
        kind, _, rest = name.partition(":")
        if kind == "self" and self.module is not None:
            return self.module
        if kind == "object" and int(rest) < len(self.objects):
            return self.objects[int(rest)]
        if kind == "closure":
            cells = closure_of(self.function)
            if rest in cells:
                return cells[rest]
        if kind == "global":
            module, _, attribute = rest.partition(":")
            if module in sys.modules and hasattr(sys.modules[module], attribute):
                return getattr(sys.modules[module], attribute)
        raise errors.NotFound(f"root {name!r} does not exist in this process")


def plain_function(function: typing.Any) -> typing.Any:
    """The Python function behind a module, bound method or callable object; None for builtins."""
    if isinstance(function, torch.nn.Module):
        return type(function).forward
    function = getattr(function, "__func__", function)
    if hasattr(function, "__code__"):
        return function
    return getattr(type(function), "__call__", None) if hasattr(type(function).__call__, "__code__") else None


def self_of(function: typing.Any) -> typing.Any:
    """The module or object a callable belongs to; None for plain functions."""
    if isinstance(function, torch.nn.Module):
        return function
    bound = getattr(function, "__self__", None)
    if bound is not None and not isinstance(bound, type(sys)):
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


def step(value: typing.Any, kind: str, key: typing.Any) -> typing.Any:
    """One step of a path; NotFound when it leads nowhere."""
    try:
        return getattr(value, key) if kind == "a" else value[key]
    except (AttributeError, KeyError, IndexError, TypeError):
        raise errors.NotFound(f"{type(value).__name__} has no {'attribute' if kind == 'a' else 'item'} {key!r}") from None


def resolve(path: Path, roots: Roots) -> typing.Any:
    """What the path names in this process; NotFound says which step failed."""
    value = roots.get(path[0])
    for kind, key in path[1:]:
        value = step(value, kind, key)
    return value


# nn.Module's own tables: hooks and switches that no forward reads as state.
_BOOKKEEPING = frozenset(name for name in vars(torch.nn.Module()) if name.startswith("_")) - {"_parameters", "_buffers", "_modules"}

Content = typing.List[typing.Tuple[str, typing.Any, typing.Any]]


def children(value: typing.Any) -> Content:
    """(kind, key, child) of everything directly inside a value, modules' tables flattened."""
    found: Content = []
    if isinstance(value, dict):
        found += [("i", key, item) for key, item in itertools.islice(value.items(), _ITEMS_MAX) if isinstance(key, (str, int))]
    elif isinstance(value, (list, tuple)):
        found += [("i", index, item) for index, item in enumerate(value[:_ITEMS_MAX])]
    state = getattr(value, "__dict__", None)
    if type(state) is not dict:
        return found
    if isinstance(value, torch.nn.Module):
        for table in (value._parameters, value._buffers, value._modules):
            found += [("a", key, item) for key, item in table.items()]
        found += [("a", key, item) for key, item in state.items() if key not in _BOOKKEEPING and key not in _TABLES]
    else:
        found += [("a", key, item) for key, item in state.items() if not key.startswith("__")]
    return found


_TABLES = ("_parameters", "_buffers", "_modules")


def _is_opaque(value: typing.Any) -> bool:
    """Things that hold no state of the program: modules of code, functions, classes."""
    return isinstance(value, type(sys)) or (callable(value) and not isinstance(value, torch.nn.Module))


def walk(root_name: str, root: typing.Any) -> "typing.Iterator[tuple[Path, typing.Any, Content]]":
    """(path, value, content) of everything reachable from a root, breadth first, each object once; tensors have
    no content."""
    queue: "list[tuple[Path, typing.Any]]" = [([root_name], root)]
    seen = {id(root)}
    for path, value in queue:
        content = [] if isinstance(value, torch.Tensor) or len(path) > _DEPTH_MAX else children(value)
        yield path, value, content
        for kind, key, child in content:
            if type(child) in _ATOM_TYPES or id(child) in seen or isinstance(child, _ATOMS) or _is_opaque(child):
                continue
            seen.add(id(child))
            queue.append((path + [[kind, key]], child))
