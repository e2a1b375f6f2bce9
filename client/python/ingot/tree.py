# SPDX-License-Identifier: Apache-2.0
"""The structure of results: what a function returned, as JSON, and how to build it again.

Tensors become leaves; containers, named tuples, dataclasses, Hugging Face outputs and plain objects keep
their class by name, which is looked up, never imported.
"""

import dataclasses
import math
import sys
import typing

import torch

from ingot import collectives, errors, paths

Spec = typing.Dict[str, typing.Any]
_DEPTH_MAX = 32


class Encoder:
    """Encodes one result; ``leaves`` collects its tensors in order.

    ``known`` and ``inputs`` existed before the call. A tensor of theirs that the function returns, and one that it returns
    twice, is the same object in every result.
    """

    def __init__(self, known: "dict[int, paths.Path]", inputs: "typing.Sequence[torch.Tensor]" = ()) -> None:
        self.leaves: "list[torch.Tensor]" = []
        self._known = known
        self._inputs = {id(tensor): i for i, tensor in reversed(list(enumerate(inputs)))}
        self._first: "dict[int, int]" = {}

    def encode(self, value: typing.Any, depth: int = 0) -> Spec:
        """Unsupported names the type that cannot be rebuilt."""
        if depth > _DEPTH_MAX:
            raise errors.Unsupported("the result is nested too deep or contains itself")
        if isinstance(value, torch.Tensor):
            plain = collectives.unwrapped(value)
            if plain is not value:
                return {"t": "async", "c": [self.encode(plain, depth + 1)]}
            self.leaves.append(value)
            return {"t": "leaf", "i": len(self.leaves) - 1, **self._same_object(value)}
        if value is None or isinstance(value, (bool, int, str)) and type(value) in (bool, int, str):
            return {"t": "const", "v": value}
        if type(value) is float:
            return {"t": "float", "v": value.hex() if math.isfinite(value) else repr(value)}
        if isinstance(value, (torch.dtype, torch.device)):
            return {"t": type(value).__name__, "v": str(value)}
        if isinstance(value, type):
            return {"t": "class", **_class_name(value)}
        if id(value) in self._known:
            return {"t": "path", "p": self._known[id(value)]}
        kind = type(value)
        if kind in (tuple, list, torch.Size):
            return {"t": "size" if kind is torch.Size else kind.__name__, "c": [self.encode(v, depth + 1) for v in value]}
        if kind is dict:
            return {"t": "dict", "k": [self._key(k) for k in value], "c": [self.encode(v, depth + 1) for v in value.values()]}
        return self._encode_class(value, depth)

    def _same_object(self, tensor: torch.Tensor) -> Spec:
        if id(tensor) in self._inputs:
            return {"input": self._inputs[id(tensor)]}
        if id(tensor) in self._known:
            return {"p": self._known[id(tensor)]}
        first = self._first.setdefault(id(tensor), len(self.leaves) - 1)
        return {"same": first} if first < len(self.leaves) - 1 else {}

    def _key(self, key: typing.Any) -> typing.Any:
        if type(key) not in (str, int):
            raise errors.Unsupported(f"the result has a dict key of type {type(key).__name__}")
        return key

    def _encode_class(self, value: typing.Any, depth: int) -> Spec:
        kind = type(value)
        name = _class_name(kind)
        if isinstance(value, tuple):
            style = "named" if hasattr(kind, "_fields") else "sequence"
            return {"t": style, **name, "c": [self.encode(v, depth + 1) for v in value]}
        if dataclasses.is_dataclass(value):
            fields = [f.name for f in dataclasses.fields(value) if f.init]
            return {"t": "keywords", **name, "k": fields, "c": [self.encode(getattr(value, f), depth + 1) for f in fields]}
        if isinstance(value, dict):
            return {"t": "mapping", **name, "k": [self._key(k) for k in value],
                    "c": [self.encode(v, depth + 1) for v in value.values()]}
        state = getattr(value, "__dict__", None)
        if state is None or kind.__module__ == "builtins" or callable(value):
            raise errors.Unsupported(f"the result contains a {kind.__module__}.{kind.__qualname__}, which cannot be rebuilt")
        return {"t": "object", **name, "k": list(state), "c": [self.encode(v, depth + 1) for v in state.values()]}


def _class_name(kind: type) -> Spec:
    if "<locals>" in kind.__qualname__:
        raise errors.Unsupported(f"the result contains a {kind.__qualname__}, a class that another process cannot find by name")
    return {"m": kind.__module__, "q": kind.__qualname__}


def find_class(spec: Spec) -> typing.Any:
    """The class a spec names, among what is loaded; NotFound otherwise."""
    value: typing.Any = sys.modules.get(spec["m"])
    for part in spec["q"].split("."):
        value = getattr(value, part, None)
    if not isinstance(value, type):
        raise errors.NotFound(f"class {spec['m']}.{spec['q']} is not loaded in this process")
    return value


def _rebuild_object(kind: type, names: "list[str]") -> "typing.Callable[[list[typing.Any]], typing.Any]":
    def build(values: "list[typing.Any]") -> typing.Any:
        made = kind.__new__(kind)
        made.__dict__.update(zip(names, values))
        return made
    return build


def decode(spec: Spec, roots: paths.Roots, loaded: bool = False) -> "tuple[typing.Any, ...]":
    """The nested tuples that the native output tree takes (client/native/output_tree.h). ``loaded``: from a file, whose
    weights are objects of nobody's."""
    kind = spec["t"]
    if kind == "leaf":
        if "input" in spec:
            return ("input", spec["input"])
        if "p" in spec and not loaded:
            return ("const", paths.resolve(spec["p"], roots))
        return ("leaf", spec.get("same", spec["i"]))
    if kind == "const":
        return ("const", spec["v"])
    if kind == "float":
        return ("const", float.fromhex(spec["v"]) if "0x" in spec["v"] else float(spec["v"]))
    if kind == "dtype":
        return ("const", getattr(torch, spec["v"].removeprefix("torch.")))
    if kind == "device":
        return ("const", torch.device(spec["v"]))
    if kind == "class":
        return ("const", find_class(spec))
    if kind == "path":
        return ("const", paths.resolve(spec["p"], roots))
    inner = [decode(child, roots, loaded) for child in spec["c"]]
    if kind in ("tuple", "list"):
        return (kind, inner)
    if kind == "size":
        return ("call", torch.Size, inner)
    if kind == "dict":
        return ("dict", spec["k"], inner)
    if kind == "async":
        return ("call", lambda values: collectives.done(values[0]), inner)
    made = find_class(spec)
    if kind == "named":
        return ("call", lambda values: made(*values), inner)
    if kind == "sequence":
        return ("call", made, inner)
    keys = spec["k"]
    if kind == "keywords":
        return ("call", lambda values: made(**dict(zip(keys, values))), inner)
    if kind == "mapping":
        return ("call", lambda values: made(zip(keys, values)), inner)
    if kind == "object":
        return ("call", _rebuild_object(made, keys), inner)
    raise errors.Corrupt(f"unknown result structure {kind!r}")
