# SPDX-License-Identifier: Apache-2.0
"""Argument structures as data (docs/format/export.md): what a call site tells calls apart by, for exported files."""

import json
import typing

import torch

from ingot import _native, errors
from ingot.trace import calls, kinds

_INT_MAX = 1 << 63
_DEPTH_MAX = 32


class Describer:
    """Describes one call; ``tensors`` are its tensors in order, ``classes`` the classes it names."""

    def __init__(self) -> None:
        self.tensors: "list[torch.Tensor]" = []
        self.classes: "list[type]" = []
        self._numbers: "dict[int, int]" = {}

    def call(self, args: "typing.Sequence[typing.Any]", kwargs: "typing.Mapping[str, typing.Any]", names: "typing.Sequence[str]") -> str:
        """The structure as JSON; Unsupported names an argument that only Python could check."""
        found = [self._node(value, names[i] if i < len(names) else f"args[{i}]", 0) for i, value in enumerate(args)]
        named = {name: self._node(value, name, 0) for name, value in kwargs.items()}
        return json.dumps({"args": found, "names": list(names[:len(found)]), "kwargs": named}, separators=(",", ":"))

    def _node(self, value: typing.Any, path: str, depth: int) -> "dict[str, typing.Any]":
        if depth > _DEPTH_MAX:
            raise errors.Unsupported(f"'{path}' is nested too deep")
        if kinds.is_tensor(value):
            number = self._numbers.setdefault(id(value), len(self.tensors))
            if number == len(self.tensors):
                self.tensors.append(value)
            return {"t": "tensor", "i": number, "dtype": str(value.dtype).removeprefix("torch."), "rank": value.dim()}
        if value is None:
            return {"t": "none"}
        if kinds.is_a(value, calls.DynamicScalar):
            raise errors.Unsupported(f"'{path}' is a number that differs from call to call, which a file cannot hold; pass a tensor")
        kind = type(value)
        if kind is bool:
            return {"t": "bool", "v": value}
        if kind is int and -_INT_MAX <= value < _INT_MAX:
            return {"t": "int", "v": value}
        if kind is float:
            return {"t": "float", "v": value.hex()}
        if kind is str:
            return {"t": "text", "v": value}
        if kinds.is_a(value, (torch.dtype, torch.device)):
            return {"t": kind.__name__, "v": str(value)}
        if kind in (tuple, list):
            return {"t": kind.__name__, "c": self._nodes(value, path, depth)}
        if kind is dict:
            for key in value:
                if type(key) not in (str, int):
                    raise errors.Unsupported(f"'{path}' has a key of type {type(key).__name__}, a file checks str and int")
            return {"t": "dict", "k": list(value), "c": [self._node(child, f"{path}[{key!r}]", depth + 1) for key, child in value.items()]}
        if kinds.is_a(value, tuple):
            return {"t": "named", **self._class(kind), "c": self._nodes(value, path, depth)}
        fields = _native.dataclass_fields(value)
        if fields is not None and not _native.has_own_attributes(value):
            children = [self._node(field, f"{path}.{name}", depth + 1) for name, field in fields.items()]
            return {"t": "dataclass", **self._class(kind), "k": list(fields), "c": children}
        raise errors.Unsupported(f"'{path}' is a {kind.__module__}.{kind.__qualname__}, which only Python could check; pass its tensors and numbers")

    def _nodes(self, values: "typing.Sequence[typing.Any]", path: str, depth: int) -> "list[dict[str, typing.Any]]":
        return [self._node(child, f"{path}[{i}]", depth + 1) for i, child in enumerate(kinds.elements(values))]

    def _class(self, kind: type) -> "dict[str, str]":
        self.classes.append(kind)
        return {"m": kind.__module__, "q": kind.__qualname__}


def structure(call: calls.Call, names: "typing.Sequence[str]") -> "str | errors.Unsupported":
    """A call's structure as JSON, or what a file cannot hold of it."""
    try:
        return Describer().call(*call.in_words(), names)
    except errors.Unsupported as e:
        return errors.Unsupported(str(e))  # It is kept, and this one's traceback holds the frames of all callers.
