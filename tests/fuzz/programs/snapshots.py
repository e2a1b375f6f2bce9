# SPDX-License-Identifier: Apache-2.0
"""What a program can observe of values: a picture of everything reachable, which survives the process it was made in.

A picture is plain data: kind, type, identity (the number of the object among those met before), contents. Two
pictures of equal programs are equal, but for rounding; ``difference`` names the first place where they are not.
"""

import array
import collections
import contextvars
import enum
import functools
import io
import itertools
import logging
import pathlib
import random
import re
import sys
import threading
import types
import typing
import weakref

import numpy as np
import torch

PLAIN = (type(None), bool, int, str, bytes, type(Ellipsis), type(NotImplemented))
SPELT = (range, slice, torch.Size, torch.dtype, torch.device, torch.layout, np.dtype, types.BuiltinFunctionType, types.MethodDescriptorType,
         types.WrapperDescriptorType, types.GetSetDescriptorType, types.MemberDescriptorType, types.MethodWrapperType, types.ModuleType,
         contextvars.Token, pathlib.PurePath, re.Pattern)
WEAK = {weakref.ref, weakref.WeakKeyDictionary, weakref.WeakValueDictionary, weakref.WeakSet}
DEPTH_MAX = 40
"""Deeper than that a picture says only that there is more."""


class Picture(typing.NamedTuple):
    """One value: ``content`` is data, or pictures by name; ``number`` tells objects apart, -1 where identity says nothing."""

    kind: str
    type: str
    number: int
    content: typing.Any


class Camera:
    """Takes pictures that share their numbering: whether an object was met before is part of each."""

    def __init__(self) -> None:
        self._numbers: "dict[int, int]" = {}
        self._storages: "dict[int, tuple[int, int]]" = {}
        self._kept: "list[typing.Any]" = []  # So that no address is used twice.
        self._depth = 0

    def take(self, value: typing.Any) -> Picture:
        name = type_name(type(value))
        if isinstance(value, enum.Enum):
            return Picture("spelt", name, -1, value.name)
        if type(value) in PLAIN:
            return Picture("plain", name, -1, value)
        if isinstance(value, (float, complex, np.generic)):
            plain = value.item() if isinstance(value, np.generic) else complex(value) if isinstance(value, complex) else float(value)
            return Picture("number", name, -1, plain)
        if isinstance(value, SPELT):
            said = getattr(value, "__qualname__", None) or getattr(value, "__name__", None) or repr(value)
            return Picture("spelt", name, -1, said if type(said) is str else type_name(type(said)))  # Changes may put anything there.
        if isinstance(value, types.MethodType):  # Made anew whenever it is looked up.
            return self._inner(name, -1, {"function": value.__func__, "self": value.__self__})
        if type(value) is tuple:
            return self._inner(name, -1, dict(enumerate(value)))
        number = self._numbers.get(id(value))
        if number is not None:
            return Picture("again", name, number, None)
        number = self._numbers[id(value)] = len(self._numbers)
        self._kept.append(value)
        if isinstance(value, torch.Tensor) and not torch.nn.parameter.is_lazy(value):
            return self._tensor(name, number, value)
        if isinstance(value, np.ndarray) and value.dtype != object:
            return Picture("tensor", name, number, {"dtype": str(value.dtype), "shape": value.shape, "values": value.copy()})
        if isinstance(value, type):
            return self._class(name, number, value)
        parts = contents(value)
        if isinstance(value, (set, frozenset)):  # Its order is that of addresses: members met before come first, as they were met.
            parts.update(enumerate(sorted(_ordered(value), key=lambda item: self._numbers.get(id(item), sys.maxsize))))
        return self._inner(name, number, parts)

    def take_all(self, values: "dict[str, typing.Any]") -> Picture:
        """Several values under names."""
        return self._inner("", -1, values)

    def _inner(self, name: str, number: int, parts: "dict[typing.Any, typing.Any]") -> Picture:
        self._kept.append(parts)
        if self._depth > DEPTH_MAX:
            return Picture("deep", name, number, None)
        self._depth += 1
        try:
            return Picture("object", name, number, {key: self.take(part) for key, part in parts.items()})
        finally:
            self._depth -= 1

    def _class(self, name: str, number: int, value: type) -> Picture:
        if value.__module__ not in programs or isinstance(value, enum.EnumMeta):
            return Picture("spelt", name, -1, type_name(value))
        own = {key: item for key, item in vars(value).items() if not (key.startswith("__") and key.endswith("__")) and not key.startswith("_abc")}
        return self._inner(name, number, {"name": type_name(value), "bases": [type_name(base) for base in value.__bases__], **own})

    def _tensor(self, name: str, number: int, value: torch.Tensor) -> Picture:
        plain = value.detach()
        plain = plain if type(plain) is torch.Tensor else plain.as_subclass(torch.Tensor)
        place: typing.Any = None
        if plain.layout == torch.strided and plain.numel() and not plain._is_zerotensor():
            start = plain.untyped_storage().data_ptr()
            first = self._storages.setdefault(start, (len(self._storages), plain.data_ptr()))
            place = (first[0], plain.data_ptr() - first[1])
        stride = tuple(value.stride()) if plain.layout == torch.strided and value.numel() > 1 else str(plain.layout)
        said = {"dtype": str(value.dtype), "shape": tuple(value.shape), "stride": stride,
                "requires_grad": value.requires_grad, "memory": place, "values": plain.clone().resolve_conj().resolve_neg().to_dense()}
        own = {key: item for key, item in vars(value).items() if not key.startswith("_")}
        return Picture("tensor", name, number, {**said, "attributes": self._inner("dict", -1, own)} if own else said)


programs: "set[str]" = set()
"""Modules whose classes are the program's own."""


def type_name(found: type) -> str:
    """A program's own types are named alike in every copy of it."""
    return found.__qualname__ if found.__module__ in programs else f"{found.__module__}.{found.__qualname__}"


def _function(value: typing.Any) -> "dict[typing.Any, typing.Any]":
    if value.__globals__.get("__name__") not in programs:  # What libraries keep for themselves.
        return {"name": value.__qualname__}
    parts: "dict[typing.Any, typing.Any]" = {"name": value.__qualname__, "defaults": value.__defaults__, "kwdefaults": value.__kwdefaults__}
    for name, cell in zip(value.__code__.co_freevars, value.__closure__ or ()):
        try:
            parts["cell " + name] = cell.cell_contents
        except ValueError:
            parts["cell " + name] = "empty"
    return {**parts, **{key: item for key, item in vars(value).items() if not key.startswith("__")}}


def _items(table: "dict[typing.Any, typing.Any]") -> "dict[typing.Any, typing.Any]":
    named = all(isinstance(key, str) for key in table)
    return {f"[{key!r}]": item for key, item in dict.items(table)} if named else {"items": list(dict.items(table))}


def _ordered(values: typing.Iterable[typing.Any]) -> "list[typing.Any]":
    return sorted(values, key=lambda item: (type_name(type(item)), repr(item) if isinstance(item, (*PLAIN, float, tuple, frozenset)) else ""))


# What types that keep their contents elsewhere than in a __dict__ or in slots hold.
HELD: "list[tuple[typing.Any, typing.Callable[[typing.Any], typing.Any]]]" = [
    (types.FunctionType, _function),
    ((list, tuple, types.MappingProxyType, array.array, memoryview, bytearray),
     lambda v: dict(v) if isinstance(v, types.MappingProxyType) else dict(enumerate(v))),
    (collections.deque, lambda v: {**dict(enumerate(v)), "maxlen": v.maxlen}),
    (collections.defaultdict, lambda v: {"default_factory": v.default_factory, **_items(v)}),
    (dict, _items),
    ((set, frozenset), lambda v: dict(enumerate(_ordered(v)))),
    ((type({}.keys()), type({}.values()), type({}.items())), lambda v: dict(enumerate(v))),
    (functools.partial, lambda v: {"func": v.func, "args": v.args, "keywords": v.keywords}),
    ((staticmethod, classmethod), lambda v: {"function": v.__func__}),
    (property, lambda v: {"get": v.fget, "set": v.fset}),
    (types.CellType, lambda v: {"contents": v.cell_contents}),
    (types.GeneratorType, lambda v: {"line": v.gi_frame.f_lineno if v.gi_frame else "finished"}),
    (contextvars.ContextVar, lambda v: {"value": v.get("unset")}),
    (random.Random, lambda v: {"state": repr(v.getstate())}),
    (np.random.Generator, lambda v: {"state": repr(v.bit_generator.state)}),
    (np.random.RandomState, lambda v: {"state": repr(v.get_state())}),
    (torch.Generator, lambda v: {"state": v.get_state()}),
    (io.StringIO, lambda v: {"text": v.getvalue(), "position": v.tell()}),
    (logging.Logger, lambda v: {"name": v.name, "level": v.level}),
    (RecursionError, lambda v: {}),  # Its text says where the stack happened to end.
    (BaseException, lambda v: {"args": v.args, "text": str(v), "cause": type(v.__cause__)}),
    (type(threading.Lock()), lambda v: {"locked": v.locked()}),
    ((itertools.count, itertools.repeat), lambda v: {"next": repr(v)}),
    ((type(iter([])), type(iter(())), type(iter({})), type(iter(range(0))), type(iter("")), itertools.cycle, itertools.chain, itertools.islice,
      zip, map, filter, enumerate, reversed, type(reversed([]))), lambda v: {"rest": v.__reduce__()}),
    (functools._lru_cache_wrapper, lambda v: {"function": v.__wrapped__}),
]


def contents(value: typing.Any) -> "dict[typing.Any, typing.Any]":
    """Everything that an object holds, by name; nothing of what holds others weakly, since what is watched lives a little longer."""
    if not WEAK.isdisjoint(type(value).__mro__):
        return {}
    parts: "dict[typing.Any, typing.Any]" = {}
    for held, how in HELD:
        if isinstance(value, held):
            parts.update(how(value))
            break
    else:
        if type(value).__repr__ is not object.__repr__ and not isinstance(value, torch.Tensor) and not hasattr(value, "__dict__") and not hasattr(type(value), "__slots__"):
            parts["text"] = re.sub(r"\b0x[0-9a-f]+", "0x", repr(value))
    for base in type(value).__mro__:
        slots = base.__dict__.get("__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else slots:
            if slot not in ("__dict__", "__weakref__"):
                try:
                    parts["slot " + slot] = object.__getattribute__(value, slot)
                except AttributeError:
                    pass
    if not isinstance(value, (types.FunctionType, logging.Logger)):
        own = getattr(value, "__dict__", None)
        if isinstance(own, dict):
            # Where PyTorch keeps what module.compile() makes, and Ingot a module's part: both go where the module goes.
            parts.update((key, item) for key, item in own.items() if not (isinstance(key, str) and (key.startswith("__") or key == "_compiled_call_impl")))
    return parts


def of_module(module: types.ModuleType, hidden: typing.Container[str]) -> "dict[str, typing.Any]":
    """A program's globals, without what it has imported and what it calls private."""
    return {name: value for name, value in vars(module).items()
            if not name.startswith("_") and name not in hidden and not isinstance(value, types.ModuleType)}


TOLERANCE = {"torch.float64": 1e-9, "torch.float32": 2e-5, "torch.float16": 4e-3, "torch.bfloat16": 3e-2, "float64": 1e-9, "float32": 2e-5}


ADDRESS = re.compile("0x[0-9a-f]{6,}")


def _values_differ(a: typing.Any, b: typing.Any, dtype: str, nudged: typing.Any) -> bool:
    if isinstance(a, np.ndarray) and a.dtype.kind not in "biufc":
        return a.tobytes() != b.tobytes()
    if isinstance(a, np.ndarray):
        a, b = torch.from_numpy(a), torch.from_numpy(b)
    tolerance = TOLERANCE.get(dtype, 1e-6)
    if not (a.is_floating_point() or a.is_complex()):
        return not torch.equal(a, b)
    slack = 0.0
    if isinstance(nudged, torch.Tensor) and nudged.shape == a.shape and nudged.dtype == a.dtype:
        slack = 8 * float((nudged - a).abs().nan_to_num(0, 0, 0).max()) if a.numel() else 0.0
    return not torch.allclose(a, b, rtol=tolerance, atol=tolerance + slack, equal_nan=True)


def difference(expected: Picture, found: Picture, nudged: "Picture | None" = None, where: str = "") -> "str | None":
    """The first place where two pictures say different things, in words; None where there is none. ``nudged`` is what was expected where
    operators round otherwise: values may be as far apart as a few times that."""
    if _is_mapping_error(expected, found):
        return None
    if (expected.kind, expected.type) != (found.kind, found.type):
        return f"{where or 'value'}: {_short(expected)}, but {_short(found)}"
    if expected.number != found.number:
        return f"{where}: another identity than in eager ({_short(expected)})"
    a, b = expected.content, found.content
    if expected.kind == "number":
        same = a == b or (a != a and b != b) or abs(a - b) <= 2e-5 * max(1.0, abs(a))
        return None if same else f"{where}: {a}, but {b}"
    if expected.kind == "tensor":
        for name in a:
            if name == "attributes":
                inner = difference(a[name], b.get(name, Picture("", "", 0, None)), None, where)
                if inner:
                    return inner
            elif _values_differ(a[name], b[name], a["dtype"], _beside(nudged, name)) if name == "values" else a[name] != b.get(name):
                return f"{where}: {name} {_flat(a[name])}, but {_flat(b.get(name))}"
        return None
    if isinstance(a, str) and isinstance(b, str):
        a, b = ADDRESS.sub("0x", a), ADDRESS.sub("0x", b)
    if not isinstance(a, dict):
        return None if a == b else f"{where}: {a!r}, but {b!r}"
    if list(a) != list(b):
        missing, more = [key for key in a if key not in b], [key for key in b if key not in a]
        if "exception" in more:
            return f"{where}: raises {_short(b['exception'])}"
        return f"{where}: lacks {missing}, has {more} more" if missing or more else f"{where}: {list(a)}, but {list(b)}"
    for key in a:
        inner = difference(a[key], b[key], _beside(nudged, key), f"{where}.{key}" if isinstance(key, str) else f"{where}[{key!r}]")
        if inner:
            return inner
    return None


def _is_mapping_error(expected: Picture, found: Picture) -> bool:
    """A KeyError out of the mapping in ``f(**mapping)``: CPython takes it for a keyword given twice, unless the thread is traced."""
    return found.type == "builtins.KeyError" and expected.type == "builtins.TypeError" and "got multiple values for keyword" in _short(expected)


def _beside(picture: "Picture | None", key: typing.Any) -> typing.Any:
    """What a picture has under a key; None where it looks otherwise."""
    return picture.content.get(key) if picture is not None and isinstance(picture.content, dict) else None


def _flat(value: typing.Any) -> str:
    return str(value.flatten().tolist()[:12]) if isinstance(value, (torch.Tensor, np.ndarray)) else str(value)


def _short(picture: Picture) -> str:
    content = picture.content
    if picture.kind == "tensor":
        return f"{picture.type} {_flat(content['values'])}"
    if picture.kind == "again":
        return f"the {picture.type} met before as number {picture.number}"
    if isinstance(content, dict):
        inside = ", ".join(f"{key}={_short(item)}" for key, item in list(content.items())[:4] if isinstance(item, Picture))
        return f"{picture.type}({inside})"[:200]
    return f"{picture.type} {content!r}"[:200]
