# SPDX-License-Identifier: Apache-2.0
"""A program's own namespace, called and changed beside its twin, and descriptions of values by which both are compared."""

import collections
import contextvars
import functools
import itertools
import pathlib
import re
import sys
import threading
import types
import typing
import weakref

import torch

ITERATORS: "tuple[type, ...]" = (type(iter([])), type(iter({})), type(iter(())), type(reversed([])), type(iter(collections.deque())))
PLAIN = (int, float, str, bytes, bool, complex, type(None), type(...), type(NotImplemented))
READS: "dict[type, typing.Callable[[typing.Any], typing.Any]]" = {
    dict: lambda v: list(dict.items(v)), collections.OrderedDict: lambda v: list(itertools.islice(collections.OrderedDict.keys(v), 100)),
    list: lambda v: list(list.__iter__(v)), tuple: lambda v: list(tuple.__iter__(v)), collections.deque: lambda v: [*collections.deque.__iter__(v), v.maxlen],
    set: lambda v: sorted(repr(one) if type(one) in PLAIN else type(one).__name__ for one in set.__iter__(v))}
"""What a container has in it; nothing of its class is called."""


class Look:
    """A description of values that is the same for two sides exactly where they have the same contents, order, types and shared objects."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._met: "dict[int, tuple[int, typing.Any]]" = {}

    def at(self, value: typing.Any) -> typing.Any:
        kind = type(value)
        if kind in PLAIN:
            return (kind.__name__, re.sub(r"0x\w+", "0x", value) if kind is str else repr(value))
        if id(value) in self._met:
            return ("same", self._met[id(value)][0])
        if kind is not tuple:  # One like it is as good.
            self._met[id(value)] = (len(self._met), value)
        if kind in (weakref.ProxyType, weakref.CallableProxyType):
            return "proxy"
        if issubclass(kind, type):
            return self._class(value)
        if issubclass(kind, torch.Tensor):
            return (kind.__qualname__, str(value.dtype), list(value.shape), value.tolist(), self.at(vars(value)))
        if kind in ITERATORS:
            return (kind.__name__, self.at(value.__reduce__()[1:]))
        if kind is types.FunctionType:
            return (value.__qualname__, [self.at(cell.cell_contents) for cell in value.__closure__ or ()], self.at(vars(value)))
        if kind in (types.ModuleType, types.BuiltinFunctionType, types.MethodDescriptorType):
            return value.__name__
        if kind is contextvars.ContextVar:
            return ("variable", self.at(value.get()))
        if kind in (functools.partial, types.MethodType):
            return (kind.__name__, self.at((value.func, value.args, value.keywords) if kind is functools.partial else (value.__func__, value.__self__)))
        found: "list[typing.Any]" = [kind.__qualname__]
        for base, read in READS.items():
            if issubclass(kind, base):
                found.append([tuple(map(self.at, one)) if base is dict else self.at(one) for one in read(value)])
        if kind.__module__ == self._module or kind is threading.local:
            found.append(self._attributes(value))
        return found

    def _attributes(self, value: typing.Any) -> "list[typing.Any]":
        slots = [(name, getattr_static(value, name)) for base in type(value).__mro__ for name in vars(base).get("__slots__", ()) if name != "__weakref__"]
        held = [one for base in type(value).__mro__ if isinstance(one := vars(base).get("__dict__"), types.GetSetDescriptorType)]
        names = held[0].__get__(value) if held else vars(value) if type(value) is threading.local else {}
        return [self.at(names), [(name, self.at(one)) for name, one in slots]]

    def _class(self, value: type) -> typing.Any:
        if type.__getattribute__(value, "__module__") != self._module:
            return value.__name__
        names = type.__getattribute__(value, "__dict__")
        return (type.__getattribute__(value, "__qualname__"), [(name, self.at(one)) for name, one in names.items() if not name.startswith("__")])


def getattr_static(value: typing.Any, name: str) -> typing.Any:
    """What lies in a slot."""
    try:
        return object.__getattribute__(value, name)
    except AttributeError:
        return "nothing"


class Side:
    """One of both: a program's own namespace, and what is called in it."""

    def __init__(self, text: str, path: pathlib.Path) -> None:
        self._name = path.stem
        sys.modules[self._name] = module = types.ModuleType(self._name)
        module.__file__ = str(path)
        self.scope: "dict[str, typing.Any]" = vars(module)
        exec(compile(text, str(path), "exec"), self.scope)
        self.call: typing.Any = self.scope["f"]

    def change(self, statement: str) -> str:
        """What it raises."""
        try:
            exec(statement, self.scope)
        except Exception as e:
            return type(e).__name__
        return ""

    def step(self, x: torch.Tensor, argument: str, looks: bool) -> "list[tuple[str, typing.Any]]":
        """What the call gives or raises, and all state after it."""
        given = eval(argument, self.scope)
        try:
            found: typing.Any = self.call(x, given)
        except Exception as e:
            found = (type(e).__name__, re.sub(r"0x\w+", "0x", str(e))[:60])
        look = Look(self._name)
        state = [("result", look.at(found)), ("the argument", look.at(given)), ("x", look.at(x))]
        if looks:
            names = [name for name in self.scope if not name.startswith("__") and name not in ("x", "y", "out", "T", "P", "r", "w")]
            state += [(name, look.at(self.scope[name])) for name in names]
        return state
