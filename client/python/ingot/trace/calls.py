# SPDX-License-Identifier: Apache-2.0
"""Calls taken apart: which numbers among their arguments are inputs, and which containers are objects."""

import collections
import itertools
import json
import threading
import typing

import torch

from ingot import _native
from ingot.trace import kinds

Argument = int | str
"""One of a call's, by position or name."""


_DEPTH_MAX = 32
_ODD_MAX, _UNFOLLOWED_MAX = 8, 2
"""Calls with numbers that cannot be followed, of an argument that has been followed at others, or never."""
_WITHIN_MAX = 256
"""Numbers inside of a call's containers: more are data."""


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


def numbers_within(value: typing.Any, depth: int = 0) -> "typing.Iterator[tuple[str, int | float]]":
    """The numbers that a container holds where a call could fetch others from, each with the rest of the path that leads to it."""
    if depth > _DEPTH_MAX:
        return
    if type(value) in (int, float):
        yield "", value
    elif type(value) is list or kinds.is_a(value, tuple):
        for i, one in enumerate(kinds.elements(value)):
            yield from ((f"[{i}]{rest}", number) for rest, number in numbers_within(one, depth + 1))
    elif type(value) is dict and _native.has_plain_keys(value):
        for key, one in value.items():
            step = _native.item_path("", key)
            yield from ((f"{step}{rest}", number) for rest, number in numbers_within(one, depth + 1) if step is not None)
    elif not kinds.is_tensor(value):
        for name, one in (_native.dataclass_fields(value) or {}).items():
            yield from ((f".{name}{rest}", number) for rest, number in numbers_within(one, depth + 1))


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

    def says_values(self) -> bool:
        """Whether its structure holds more than tensors and objects: numbers that may vary, or containers that may be objects."""
        return any(type(value) in (int, float) or _inner(value) is not None for value in self.given().values())

    def in_words(self) -> "tuple[tuple[typing.Any, ...], dict[str, typing.Any]]":
        """The arguments as keys and structures have them."""
        numbers = {argument: DynamicScalar(self.tensors[number]) for argument, number in self.varying.items()}
        return self.with_numbers({**numbers, **{argument: ByReference(value) for argument, value in self.opened.items()}})


class CallFlattener:
    """Takes the calls of one callable apart. Calls that differ in numbers among their arguments alone make those inputs; a
    container that a call changes is an object from then on."""

    def __init__(self, site: typing.Any, parameters: "tuple[str, ...]", skeletons_max: int, tell: "typing.Callable[[], None]") -> None:
        """``tell`` is called where something has been found out."""
        self._site, self.parameters, self._skeletons_max, self._tell = site, parameters, skeletons_max, tell
        self._varying: "tuple[Argument, ...]" = ()
        self.opened: "frozenset[Argument]" = frozenset()
        """Those that are objects, whatever container they are."""
        self._pinned: "set[Argument]" = set()
        """Whose numbers decide what a call does in a way that nobody follows."""
        self._followed: "set[Argument]" = set()
        """Of which a recording has followed the number."""
        self._odd: "collections.defaultdict[Argument, collections.Counter[str]]" = collections.defaultdict(collections.Counter)
        """Numbers that a recording could not follow, each with how many calls have had it."""
        self._first: "dict[bytes, dict[Argument, int | float]]" = {}
        """The numbers of the first call of each structure, numbers apart."""
        self._within: "set[tuple[Argument, str]]" = set()
        """Numbers inside of those that are objects, by the rest of their path: they differ in each call, and are fetched."""
        self._first_within: "dict[bytes, dict[tuple[Argument, str], int | float]]" = {}
        """Those of the first call of each structure, containers apart."""
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
        call = self._vary_within(call)
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
        self._tell()
        return self.of(call.args, call.kwargs)

    def _vary_within(self, call: Call) -> Call:
        """The same of numbers inside of lists, dicts and dataclasses: the container is an object, whose numbers are fetched."""
        numbers = {(argument, rest): number for argument, value in call.given().items() if type(value) not in (int, float)
                   for rest, number in itertools.islice(numbers_within(value), _WITHIN_MAX + 1)}
        if not numbers or len(numbers) > _WITHIN_MAX:
            return call
        holders = {argument for argument, _ in numbers}
        skeleton = _native.flatten(call.args, call.kwargs, self.parameters, (*sorted({*holders, *self._varying}, key=str),))[3]
        with self._lock:
            if skeleton not in self._first_within and len(self._first_within) >= self._skeletons_max:
                return call
            first = self._first_within.setdefault(skeleton, numbers)
            changed = {place for place, number in numbers.items() if first.get(place, number) != number}
            if first.keys() != numbers.keys() or changed.issubset(self._within):
                return call
            self._within = self._within | changed  # Whoever reads it meanwhile has the set as it was.
            self.opened |= {argument for argument, _ in changed}
            self._set({*self._varying, *self.opened})
        self._tell()
        return self.of(call.args, call.kwargs)

    def places(self, call: Call) -> "set[str]":
        """Of numbers inside of a call's objects that differ in each call."""
        numbers = {id(one): i for i, one in reversed(list(enumerate(call.objects)))}
        given = call.given()
        return {f"object:{numbers[id(given[argument])]}{rest}" for argument, rest in self._within
                if argument in given and id(given[argument]) in numbers}

    def open(self, call: Call, touched: typing.Any) -> bool:
        """A call's structure did not say enough of this container: the argument that holds it is an object from now on. False
        where none is."""
        holders = {argument for argument, value in call.given().items()
                   if not kinds.is_tensor(value) and any(one is touched for one in structure(value))}
        with self._lock:
            if holders.issubset(self.opened):
                return False
            self.opened |= holders
            self._set({*self._varying, *holders})
        self._tell()
        return True

    def was_recorded(self, call: Call, fixed: "set[Argument]") -> None:
        """What a recording has shown of the arguments whose numbers are inputs: those ``fixed`` it could not follow. Numbers of which that holds
        again and again are a part of the structure, for good; one odd one, as of no range that follows, is answered by eager."""
        with self._lock:
            self._followed |= call.varying.keys() - fixed
        self._count_odd(call, fixed)

    def is_odd(self, call: Call) -> bool:
        """Whether a recording could not follow a number of the call."""
        given = call.given()
        odd = {argument for argument in call.varying if repr(given[argument]) in self._odd.get(argument, ())}
        self._count_odd(call, odd)
        return bool(odd)

    def _count_odd(self, call: Call, arguments: "set[Argument]") -> None:
        if not arguments:
            return
        given = call.given()
        with self._lock:
            for argument in arguments:
                self._odd[argument][repr(given[argument])] += 1
            pinned = {argument for argument in arguments
                      if self._odd[argument].total() >= (_ODD_MAX if argument in self._followed else _UNFOLLOWED_MAX)}
            self._pinned |= pinned
            if pinned:
                self._set({*self._varying} - pinned)
        if pinned:
            self._tell()

    def found(self) -> "dict[str, list[typing.Any]]":
        """What calls have shown, as the next process is told it: not what a single number has."""
        with self._lock:
            pinned = {argument for argument in self._pinned if len(self._odd.get(argument, ())) != 1}
            arguments = ("varying", set(self._varying) - self.opened), ("opened", self.opened), ("pinned", pinned), ("within", self._within)
            return {name: sorted(found, key=str) for name, found in arguments}

    def take(self, text: str) -> bool:
        """Begins where another process has ended; False where that says nothing, or is not of this version."""
        try:
            told = json.loads(text)
            varying, opened, pinned = ({one for one in told[name] if type(one) in (int, str)} for name in ("varying", "opened", "pinned"))
            within = {(argument, rest) for argument, rest in told["within"] if type(argument) in (int, str) and type(rest) is str}
        except (ValueError, TypeError, AttributeError, KeyError):
            return False
        with self._lock:
            self.opened |= opened
            self._within = self._within | within
            self._pinned |= pinned
            self._set({*self._varying, *varying, *opened} - self._pinned)
        return True

    def _set(self, varying: "set[Argument]") -> None:
        self._varying = tuple(sorted(varying, key=str))
        self._site._vary(self._varying)

    def forget_locks(self) -> None:
        """In a child process."""
        self._lock = threading.Lock()
