# SPDX-License-Identifier: Apache-2.0
"""Calls taken apart: which numbers among their arguments are inputs, and which containers are objects."""

import threading
import typing

import torch

from ingot import _native
from ingot.trace import kinds

Argument = int | str
"""One of a call's, by position or name."""


_DEPTH_MAX = 32


class DynamicScalar:
    """What keys and structures have in the place of an argument's number that is an input."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.kind = {torch.float32: "size", torch.int64: "integer", torch.float64: "float"}[tensor.dtype]
        """As _native tells apart what calls may fetch."""


def structure(value: typing.Any, depth: int = 0) -> "typing.Iterator[typing.Any]":
    """The containers and tensors of which a call's structure speaks, as client/native/site/arguments.cpp takes them apart."""
    inner = _inner(value) if depth <= _DEPTH_MAX else None
    if inner is not None or kinds.is_tensor(value):
        yield value
    for one in inner or ():
        yield from structure(one, depth + 1)


def _inner(value: typing.Any) -> "typing.Iterable[typing.Any] | None":
    """What a container holds; None for anything else."""
    if type(value) is list or kinds.is_a(value, tuple):
        return kinds.elements(value)
    if type(value) is dict:
        return value.values() if _native.has_plain_keys(value) else None
    fields = None if kinds.is_tensor(value) else _native.dataclass_fields(value)
    return fields if fields is None else fields.values()


class ByReference:
    """What keys and structures have in the place of a container that is an object."""

    def __init__(self, container: typing.Any) -> None:
        self.container, self.kind = container, kinds.class_name(container)


class Call(typing.NamedTuple):
    """The arguments of one call, taken apart."""

    args: "tuple[typing.Any, ...]"
    kwargs: "dict[str, typing.Any]"
    tensors: "list[torch.Tensor]"
    names: "list[str]"
    objects: "list[typing.Any]"
    signature_key: bytes
    """Its structure, as call sites tell calls apart."""
    varying: "typing.Mapping[Argument, int]" = {}
    """Arguments, by position or name, whose numbers are inputs: which of the tensors stands for each."""
    opened: "typing.Mapping[Argument, typing.Any]" = {}
    """Lists, dicts, tuples and dataclasses that are objects: a call may change them, and finds in them what it looks for."""

    def sizes(self) -> "tuple[tuple[int, ...], ...]":
        """The sizes of every tensor."""
        return tuple(tuple(t.shape) for t in self.tensors)

    def with_numbers(self, values: "typing.Mapping[Argument, typing.Any]") -> "tuple[tuple[typing.Any, ...], dict[str, typing.Any]]":
        """The arguments, with others in the places of numbers that are inputs."""
        args = tuple(values.get(i, value) for i, value in enumerate(self.args)) if values else self.args
        return args, {**self.kwargs, **{name: value for name, value in values.items() if isinstance(name, str)}}

    def given(self) -> "dict[Argument, typing.Any]":
        """The arguments by position or name."""
        found: "dict[Argument, typing.Any]" = dict(enumerate(self.args))
        found.update(self.kwargs)
        return found

    def numbers(self) -> "dict[Argument, int | float]":
        """The arguments that are numbers, by position or name."""
        return {argument: value for argument, value in self.given().items() if type(value) in (int, float)}

    def in_words(self) -> "tuple[tuple[typing.Any, ...], dict[str, typing.Any]]":
        """The arguments as keys and structures have them."""
        numbers = {argument: DynamicScalar(self.tensors[number]) for argument, number in self.varying.items()}
        return self.with_numbers({**numbers, **{argument: ByReference(value) for argument, value in self.opened.items()}})


class CallFlattener:
    """Takes the calls of one callable apart. Calls that differ in numbers among their arguments alone make those inputs; a
    container that a call changes is an object from then on."""

    def __init__(self, site: typing.Any, parameters: "tuple[str, ...]", skeletons_max: int) -> None:
        self._site, self.parameters, self._skeletons_max = site, parameters, skeletons_max
        self._varying: "tuple[Argument, ...]" = ()
        self.opened: "frozenset[Argument]" = frozenset()
        """Those that are objects, whatever container they are."""
        self._pinned: "set[Argument]" = set()
        """Whose numbers decide what a call does in a way that nobody follows."""
        self._first: "dict[bytes, dict[Argument, int | float]]" = {}
        """The numbers of the first call of each structure, numbers apart."""
        self._lock = threading.Lock()

    def of(self, args: "tuple[typing.Any, ...]", kwargs: "dict[str, typing.Any]") -> Call:
        call = Call(args, kwargs, *_native.flatten(args, kwargs, self.parameters, self._varying))
        if not self._varying:
            return call
        names = {argument: self._name_of(argument) for argument in self._varying if argument in call.numbers()}
        given, objects = call.given(), {id(one) for one in call.objects}
        opened = {argument: given[argument] for argument in self._varying if argument in given and id(given[argument]) in objects}
        return call._replace(varying={argument: call.names.index(name) for argument, name in names.items() if name in call.names}, opened=opened)

    def _name_of(self, argument: Argument) -> str:
        if isinstance(argument, str):
            return argument
        return self.parameters[argument] if argument < len(self.parameters) else f"args[{argument}]"

    def vary(self, call: Call) -> Call:
        """A call of a structure that is new, taken apart again where a known one differs from it in numbers alone."""
        numbers = {argument: value for argument, value in call.numbers().items() if argument not in self._pinned}
        if not numbers:
            return call
        skeleton = _native.flatten(call.args, call.kwargs, self.parameters, tuple(numbers))[3]
        with self._lock:
            if skeleton not in self._first and len(self._first) >= self._skeletons_max:
                return call
            first = self._first.setdefault(skeleton, numbers)
            changed = {argument for argument, value in numbers.items() if first.get(argument, value) != value}
            if changed.issubset(self._varying):
                return call
            self._set({*self._varying, *changed})
        return self.of(call.args, call.kwargs)

    def open(self, call: Call, touched: typing.Any) -> bool:
        """A call's structure did not say enough of this container: the argument that holds it is an object from now on. False
        where none is."""
        holders = {argument for argument, value in call.given().items()
                   if not kinds.is_tensor(value) and any(one is touched for one in structure(value))}
        return self.add_opened(holders)

    def add_opened(self, arguments: "set[Argument]") -> bool:
        """False where all of them are objects already."""
        with self._lock:
            if arguments.issubset(self.opened):
                return False
            self.opened |= arguments
            self._set({*self._varying, *arguments})
        return True

    def pin(self, arguments: "set[Argument]") -> None:
        """Their numbers are a part of the structure, for good."""
        with self._lock:
            self._pinned |= arguments
            self._set({*self._varying} - arguments)

    def _set(self, varying: "set[Argument]") -> None:
        self._varying = tuple(sorted(varying, key=str))
        self._site._vary(self._varying)

    def forget_locks(self) -> None:
        """In a child process."""
        self._lock = threading.Lock()
