# SPDX-License-Identifier: Apache-2.0
"""Draws changes by rule: walks what a program's module reaches and writes statements that rebind, merge, copy, swap, retype and edit it.

``draw`` runs in a process of its own, where each statement is executed before the next is drawn.
"""

import collections
import functools
import importlib
import os
import random
import sys
import types
import typing

import torch

MOST = 160
"""Places looked at."""
SIMPLE = (bool, int, float, str, type(None))


class Draw(typing.NamedTuple):
    """What to draw: ``count`` statements for a module in a folder, of whose names some are no part of the program."""

    folder: str
    module: str
    hidden: "tuple[str, ...]"
    seed: int
    count: int


class Place(typing.NamedTuple):
    """Where a value lies: the text that reads it, and the statements that put ``{v}`` there and that take it away ("" where none does)."""

    text: str
    assign: str
    delete: str
    value: typing.Any


def draw(plan: Draw) -> "list[str]":
    sys.path.insert(0, plan.folder)
    os.chdir(plan.folder)
    module = importlib.import_module(plan.module)
    chance, found = random.Random(plan.seed), []
    for _ in range(plan.count * 4):
        places = Walk(module, plan.hidden).places
        if not places or len(found) == plan.count:
            break
        text = Rules(chance, places).draw()
        try:
            exec(compile(text, "<mutation>", "exec"), vars(module))
        except Exception:
            continue
        found.append(text)
    return found


class Walk:
    """The places below a module's names, in the order in which they stand there."""

    def __init__(self, module: types.ModuleType, hidden: "typing.Container[str]") -> None:
        self._module = module
        self._seen: "set[int]" = set()
        self.places: "list[Place]" = []
        self._kept: "list[typing.Any]" = []   # So that no address is used twice.
        queue = collections.deque(Place(name, f"{name} = {{v}}", f"del {name}", value) for name, value in list(vars(module).items())
                                  if not name.startswith("__") and name not in hidden and self._is_own(value))
        while queue and len(self.places) < MOST:
            place = queue.popleft()
            try:
                if eval(place.text, vars(module)) is not place.value:
                    continue
            except Exception:
                continue
            self.places.append(place)
            if id(place.value) not in self._seen and not isinstance(place.value, SIMPLE):
                self._seen.add(id(place.value))
                self._kept.append(place.value)
                queue.extend(self._inside(place.text, place.value))

    def _is_own(self, value: typing.Any) -> bool:
        """Not what the program has imported."""
        if isinstance(value, types.ModuleType):
            return value.__spec__ is None
        if isinstance(value, (type, types.FunctionType)):
            return value.__module__ == self._module.__name__
        return not isinstance(value, types.BuiltinFunctionType)

    def _inside(self, e: str, value: typing.Any) -> "typing.Iterator[Place]":
        if isinstance(value, types.FunctionType):
            yield from self._of_function(e, value)
        elif isinstance(value, type):
            yield from self._of_class(e, value)
        elif isinstance(value, types.MethodType):
            yield Place(f"{e}.__self__", "", "", value.__self__)
            yield Place(f"{e}.__func__", "", "", value.__func__)
        elif isinstance(value, functools.partial):
            yield Place(f"{e}.func", "", "", value.func)
            yield Place(f"{e}.args", "", "", value.args)
            yield Place(f"{e}.keywords", "", "", value.keywords)
        elif isinstance(value, property):
            yield Place(f"{e}.fget", "", "", value.fget)
        elif isinstance(value, (staticmethod, classmethod)):
            yield Place(f"{e}.__func__", "", "", value.__func__)
        elif not isinstance(value, torch.Tensor):
            yield from self._of_items(e, value)
            yield from self._of_instance(e, value)

    def _of_function(self, e: str, value: types.FunctionType) -> "typing.Iterator[Place]":
        if not self._is_own(value):
            return
        if value.__defaults__:
            yield Place(f"{e}.__defaults__", f"{e}.__defaults__ = {{v}}", f"{e}.__defaults__ = None", value.__defaults__)
        if value.__kwdefaults__:
            yield Place(f"{e}.__kwdefaults__", f"{e}.__kwdefaults__ = {{v}}", f"{e}.__kwdefaults__ = None", value.__kwdefaults__)
        for at, cell in enumerate(value.__closure__ or ()):
            text = f"{e}.__closure__[{at}].cell_contents"
            try:
                yield Place(text, f"{text} = {{v}}", "", cell.cell_contents)
            except ValueError:
                continue
        for name, item in list(vars(value).items()):
            yield Place(f"{e}.{name}", f"{e}.{name} = {{v}}", f"del {e}.{name}", item)

    def _of_class(self, e: str, value: type) -> "typing.Iterator[Place]":
        if not self._is_own(value):
            return
        for name, item in list(vars(value).items()):
            is_own = not name.startswith("_") or name.startswith("__")  # What libraries keep in a class is theirs.
            if is_own and name not in ("__module__", "__dict__", "__weakref__", "__doc__", "__qualname__", "__slots__"):
                yield Place(f"vars({e})[{name!r}]", f"{e}.{name} = {{v}}", f"del {e}.{name}", item)

    def _of_items(self, e: str, value: typing.Any) -> "typing.Iterator[Place]":
        if isinstance(value, (list, collections.deque, tuple)):
            for at, item in list(enumerate(value))[:6]:
                fixed = isinstance(value, tuple)
                yield Place(f"{e}[{at}]", "" if fixed else f"{e}[{at}] = {{v}}", "" if fixed else f"del {e}[{at}]", item)
        elif isinstance(value, (dict, types.MappingProxyType, collections.UserDict, collections.ChainMap)):
            fixed = isinstance(value, types.MappingProxyType)
            for key in list(value)[:8]:
                if isinstance(key, SIMPLE) or isinstance(key, tuple) and all(isinstance(part, SIMPLE) for part in key):
                    yield Place(f"{e}[{key!r}]", "" if fixed else f"{e}[{key!r}] = {{v}}", "" if fixed else f"del {e}[{key!r}]", value[key])

    def _of_instance(self, e: str, value: typing.Any) -> "typing.Iterator[Place]":
        kind = type(value)
        own = getattr(value, "__dict__", None)
        for name, item in list(own.items()) if isinstance(own, dict) else []:
            if name in ("_parameters", "_buffers", "_modules"):
                yield Place(f"{e}.{name}", "", "", item)
            elif isinstance(name, str) and name.isidentifier() and not (name.startswith("_") and isinstance(value, torch.nn.Module)):
                yield Place(f"{e}.{name}", f"{e}.{name} = {{v}}", f"del {e}.{name}", item)
        if kind.__module__ == self._module.__name__:
            for name, member in [(name, member) for base in kind.__mro__ for name, member in vars(base).items()]:
                if isinstance(member, types.MemberDescriptorType):
                    try:
                        yield Place(f"{e}.{name}", f"{e}.{name} = {{v}}", f"del {e}.{name}", member.__get__(value))
                    except AttributeError:
                        continue
            yield Place(f"type({e})", "", "", kind)


SPECIAL = {
    "__eq__": "lambda self, other: True", "__ne__": "lambda self, other: True", "__hash__": "lambda self: 7", "__bool__": "lambda self: False",
    "__len__": "lambda self: 1", "__getattr__": "lambda self, name: 3.0", "__getattribute__": "lambda self, name: object.__getattribute__(self, name)",
    "__setattr__": "lambda self, name, value: object.__setattr__(self, name, 2.0)", "__call__": "lambda self, *args, **more: 4.0",
    "__iter__": "lambda self: iter([2.0, 3.0])", "__contains__": "lambda self, value: True", "__getitem__": "lambda self, key: 5.0",
    "__setitem__": "lambda self, key, value: None", "__float__": "lambda self: 6.0", "__int__": "lambda self: 2", "__index__": "lambda self: 1",
    "__add__": "lambda self, other: other", "__radd__": "lambda self, other: other", "__mul__": "lambda self, other: other",
    "__rmul__": "lambda self, other: other", "__neg__": "lambda self: 1.0", "__lt__": "lambda self, other: True", "__gt__": "lambda self, other: True",
    "__str__": "lambda self: 'text'", "__repr__": "lambda self: 'text'", "__format__": "lambda self, how: 'text'", "__enter__": "lambda self: 2.0",
    "__exit__": "lambda self, *error: True", "__get__": "lambda self, owner, kind=None: 8.0", "__set__": "lambda self, owner, value: None",
    "__torch_function__": "classmethod(lambda cls, f, kinds, args=(), kwargs=None: torch.zeros(4))", "__copy__": "lambda self: 2.0",
    "__next__": "lambda self: 2.0", "__reversed__": "lambda self: iter([4.0])", "__missing__": "lambda self, key: 9.0", "__abs__": "lambda self: 2.0",
    "__class_getitem__": "classmethod(lambda cls, item: 2.0)", "__match_args__": "('v',)", "__name__": "'Other'", "__init__": "lambda self, *args, **more: None",
    "__iadd__": "lambda self, other: other", "__matmul__": "lambda self, other: other", "__delattr__": "lambda self, name: None", "__del__": "lambda self: None",
    "__instancecheck__": "lambda self, value: True", "__init_subclass__": "classmethod(lambda cls: None)", "__post_init__": "lambda self: None",
}
"""Special methods that a class is given."""
PASSING = "(lambda inner: lambda *args, **more: inner(*args, **more))({v})"
LITERALS = ["2.0", "3", "True", "None", "'relu'", "[1.0]", "(2.0, 1.0)", "{'a': 1.0}", "torch.ones(4)", "0.0", "-1", "float('nan')", "''", "1e30"]


class Rules:
    """Statements about one walk's places."""

    def __init__(self, chance: random.Random, places: "list[Place]") -> None:
        self._chance, self._places = chance, places

    def draw(self) -> str:
        place = self._chance.choice(self._places)
        ways = [way for way in (self._in_place(place), self._between(place), self._anew(place)) if way]
        return self._chance.choice(self._chance.choice(ways)) if ways else "pass"

    def _between(self, place: Place) -> "list[str]":
        """Two places become one, or change what they hold."""
        if not place.assign:
            return []
        alike = [other for other in self._places if other.value is not place.value and type(other.value) is type(place.value)]
        texts = [place.assign.format(v=other.text) for other in self._some(alike, 3) + self._some(self._places, 1)]
        texts += [f"kept_value = {place.text}\n{place.assign.format(v=other.text)}\n{other.assign.format(v='kept_value')}"
                  for other in self._some([other for other in alike if other.assign], 2)]
        return texts

    def _anew(self, place: Place) -> "list[str]":
        """Something else lies in the place."""
        if not place.assign:
            return []
        e, value = place.text, place.value
        values = self._some(LITERALS, 2)
        if isinstance(value, bool):
            values += [f"not {e}", f"int({e})"] * 2
        elif isinstance(value, (int, float)):
            values += [f"{e} + 1", f"-{e}", f"float({e})", f"{e} * 2", f"type('Number', ({type(value).__name__},), {{'__rmul__': lambda self, other: other}})({e})"]
        elif isinstance(value, str):
            values += [f"{e} + 'x'", f"{e}.upper()", f"type('Text', (str,), {{'__eq__': lambda self, other: True, '__hash__': str.__hash__}})({e})"]
        elif isinstance(value, torch.Tensor):
            values += [f"{e}.clone()", f"{e} * 2", f"{e}.double()", f"{e}.mT.contiguous().mT if {e}.ndim > 1 else {e}.flip(0)", f"{e}[:1]", f"{e}.view_as({e})",
                       f"torch.nn.Parameter({e}.clone().float(), requires_grad=False)", f"{e}.detach()", f"{e}.bool()",
                       f"torch.cat([{e}.reshape(-1), {e}.reshape(-1)])[::2]"]
        elif isinstance(value, (list, tuple, set, frozenset, collections.deque)):
            other = self._chance.choice(["list", "tuple", "collections.deque", "set", "reversed", "iter"])
            values += [f"type({e})({e})", f"{other}({e})", f"type('Own', (list,), {{'__len__': lambda self: 1}})({e})",
                       f"type('Own', (list,), {{'__iter__': lambda self: iter([3.0])}})({e})"]
        elif isinstance(value, dict):
            values += [f"dict({e})", f"collections.OrderedDict({e})", f"collections.defaultdict(float, {e})", f"types.MappingProxyType({e})",
                       f"dict(reversed(list({e}.items())))", f"type('Own', (dict,), {{'__getitem__': lambda self, key: 3.0}})({e})",
                       f"type('Own', (dict,), {{'get': lambda self, key, other=None: 3.0}})({e})"]
        elif isinstance(value, type):
            values += [f"type('Heir', ({e},), {{}})", PASSING.format(v=e), f"functools.partial({e})"]
        elif callable(value) and not isinstance(value, torch.nn.Module):
            values += [PASSING.format(v=e), f"functools.wraps({e})({PASSING.format(v=e)})", f"functools.partial({e})", f"functools.lru_cache({e})",
                       "lambda *args, **more: 2.0"]
        if not isinstance(value, SIMPLE):
            values += [f"copy.copy({e})", f"copy.deepcopy({e})"]
        return [place.assign.format(v=text) for text in values] + [place.delete] * bool(place.delete)

    def _in_place(self, place: Place) -> "list[str]":
        """What lies there changes."""
        e, value = place.text, place.value
        texts = []
        if isinstance(value, torch.Tensor):
            texts += [f"{e}.add_(1)", f"{e}.mul_(-2)", f"{e}.zero_()", f"{e}.data = {e}.data + 1", f"{e}.requires_grad_(not {e}.requires_grad)",
                      f"{e}.data = {e}.data.double()", f"{e}.t_()", f"{e}.own = 2.0", f"{e}.resize_(min(1, {e}.numel()))", f"{e}.data = {e}.data.flip(0)", f"{e}.unsqueeze_(0)"]
        elif isinstance(value, types.FunctionType):
            texts += [f"{e}.__code__ = {e}.__code__.replace(co_consts=tuple(part * 2 if type(part) is float else part for part in {e}.__code__.co_consts))",
                      f"{e}.__code__ = (lambda *args, **more: 2.0).__code__", f"{e}.__name__ = 'other'", f"{e}.own = 2.0", f"{e}.__defaults__ = (2.0,)",
                      f"{e}.__code__ = {e}.__code__.replace(co_name='other')", f"{e}.__kwdefaults__ = {{'k': 2.0}}"]
        elif isinstance(value, type):
            texts += self._of_class(e, value)
        elif isinstance(value, list):
            texts += [f"{e}.append({self._other(value)})", f"{e}.insert(0, {self._other(value)})", f"{e}.reverse()", f"{e}.pop()", f"{e}[:] = list({e})", f"{e} *= 2",
                      f"{e}.clear()", f"{e}.sort()"]
        elif isinstance(value, dict):
            texts += [f"{e}['new'] = {self._other(list(value.values()))}", f"{e}.popitem()", f"kept_item = {e}.popitem()\n{e}[kept_item[0]] = kept_item[1]",
                      f"for key in list({e})[:1]: {e}[key] = {e}.pop(key)", f"{e}.clear()"]
        elif isinstance(value, (set, collections.deque)):
            texts += [f"{e}.clear()", f"{e}.pop()", f"{e}.{'add' if isinstance(value, set) else 'appendleft'}({self._chance.choice(LITERALS[:5])})"]
        if isinstance(value, torch.nn.Module):
            texts += [f"{e}.train(not {e}.training)", f"{e}.register_buffer('made', torch.ones(4))", f"{e}.register_forward_hook(lambda m, i, o: o * 2)",
                      f"{e}.register_forward_pre_hook(lambda m, i: (i[0] + 1,))", f"{e}.forward = lambda *args, **more: args[0] * 3", f"{e}.requires_grad_(False)",
                      f"{e}.double()", f"{e}.add_module('made', torch.nn.Identity())"]
        if type(value).__flags__ & 1 << 9 and not isinstance(value, (type, torch.Tensor)) and hasattr(value, "__dict__"):
            name = self._chance.choice(list(SPECIAL))
            names = [key for key in vars(value) if isinstance(key, str) and key.isidentifier()] or ["v"]
            texts += [f"{e}.__class__ = type('Heir', (type({e}),), {{}})", f"{e}.__class__ = type('Heir', (type({e}),), {{{name!r}: {SPECIAL[name]}}})",
                      f"type({e}).{self._chance.choice(names)} = property(lambda self: 2.0)", f"type({e}).{self._chance.choice(names)} = 2.0",
                      f"{e}.own = 2.0", f"{e}.__dict__ = dict({e}.__dict__)"]
            classes = [other.text for other in self._places if isinstance(other.value, type) and other.value is not type(value)]
            texts += [f"{e}.__class__ = {text}" for text in self._some(classes, 2)]
        return texts

    def _of_class(self, e: str, value: type) -> "list[str]":
        names = [key for key in vars(value) if not key.startswith("__")] or ["v"]
        name, own = self._chance.choice(list(SPECIAL)), self._chance.choice(names)
        classes = [other.text for other in self._places if isinstance(other.value, type)]
        return [*(f"{e}.{name} = {SPECIAL[name]}" for name in self._some(list(SPECIAL), 5)),
                f"{e}.__bases__ = (type('Mixed', (), {{{own!r}: 2.0}}), *{e}.__bases__)", f"{e}.__bases__ = (type('Mixed', {e}.__bases__, {{{own!r}: 2.0}}),)",
                f"{e}.__bases__ = (type('Mixed', (), {{{name!r}: {SPECIAL[name]}}}), *{e}.__bases__)", f"{e}.__bases__ = ({self._chance.choice(classes)},)",
                f"{e}.__class__ = type('Meta', (type({e}),), {{{name!r}: {SPECIAL[name]}}})", f"{e}.own = 2.0", f"{e}.{own} = property(lambda self: 2.0)",
                f"{e}.__qualname__ = 'Other.Name'", f"{e}.__abstractmethods__ = frozenset()"]

    def _other(self, values: "list[typing.Any]") -> str:
        alike = [place.text for place in self._places if values and type(place.value) is type(values[-1])]
        return self._chance.choice([*self._some(alike, 3), *self._some(LITERALS, 1)])

    def _some(self, options: "list[typing.Any]", most: int) -> "list[typing.Any]":
        return self._chance.sample(options, min(most, len(options)))
