# SPDX-License-Identifier: Apache-2.0
"""What a recorded run changed outside itself, done again on every native call: the same operations in the same order.

A value that is stored is a tensor of the graph, a number or text, an object from before, or something built of these; what
else a run stores is refused before anything is compiled.
"""

import collections
import functools
import typing

from ingot import errors
from ingot.trace import kinds, paths, tree

Write = tuple[typing.Any, str, str, tuple[typing.Any, ...], str]
"""(holder, its path, operation, values, line) as the observer lists them."""

_OWNERS: "dict[str, typing.Any]" = {"list": list, "dict": dict, "set": set, "collections.deque": collections.deque,
                                    "collections.OrderedDict": collections.OrderedDict}


def encode(writes: "list[Write]", encoder: tree.Encoder) -> "list[dict[str, typing.Any]]":
    """The operations as JSON; Unsupported says which cannot be done again, and why."""
    return [_encode(write, encoder) for write in writes]


def _encode(write: Write, encoder: tree.Encoder) -> "dict[str, typing.Any]":
    _, path, name, values, line = write
    where = f"{paths.to_text(path)} ({line})"
    try:
        return {"h": path, "n": name, "v": [encoder.encode(value) for value in values]}
    except errors.Unsupported as e:
        raise errors.Unsupported(f"{where} was changed: {e}") from None


def _set_cell(function: typing.Any, name: str, value: typing.Any) -> None:
    function.__closure__[function.__code__.co_freevars.index(name)].cell_contents = value


def _operation(name: str, holder: typing.Any) -> "typing.Callable[..., typing.Any]":
    """One operation on its holder; runs no code of a class."""
    if name in ("setattr", "setslot", "delattr", "delslot"):
        owner = type if kinds.is_a(holder, type) else object
        change: typing.Any = owner.__setattr__ if name.startswith("set") else owner.__delattr__
        return functools.partial(change, holder)
    if name == "setcell":
        return functools.partial(_set_cell, holder)
    owner_name, _, method = name.rpartition(".")
    if name in ("setitem", "delitem"):
        owner_name = next((n for n, o in _OWNERS.items() if n in ("list", "dict", "collections.deque") and kinds.is_a(holder, o)), "?")
        if kinds.is_a(holder, collections.OrderedDict):
            owner_name = "collections.OrderedDict"
        method = f"__{name}__"
    if owner_name not in _OWNERS or not kinds.is_a(holder, _OWNERS[owner_name]):
        raise errors.Incompatible(f"{name} does not fit a {type(holder).__name__}")
    return functools.partial(getattr(_OWNERS[owner_name], method), holder)


def holders(writes: "list[dict[str, typing.Any]]", roots: paths.Roots) -> "dict[paths.Path, typing.Any]":
    """What the operations change, by path."""
    return {path: paths.resolve(path, roots) for path in sorted({write["h"] for write in writes})}


def replayed(outputs: "tuple[typing.Any, ...]", writes: "list[dict[str, typing.Any]]", changed: "dict[paths.Path, typing.Any]",
             roots: paths.Roots) -> "tuple[typing.Any, ...]":
    """The result's tree with the operations done behind it, to ``changed`` of holders()."""
    operations = [(_operation(write["n"], changed[write["h"]]), len(write["v"])) for write in writes]
    return ("then", operations, [outputs, *(tree.decode(value, roots) for write in writes for value in write["v"])])
