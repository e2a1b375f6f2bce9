# SPDX-License-Identifier: Apache-2.0
"""Modules whose classes have special methods of every sort, with a function that reads and writes what lies outside of it.

Tensors hold small integers: every sum is exact. Most of a program is plain; one or two of its special methods are not.
"""

import collections
import random

from statements import CHANGES, GIVEN, MATCHES, READS, USES, WRITES

PRELUDE = """
import collections, contextvars, dataclasses, functools, operator, threading, weakref
from collections import OrderedDict, defaultdict, deque

import torch

N, M, COUNT, EXTRA, LOG = 1, 2, 0, 5, []
L, D, S, Q = [1, 2, 3], {"k": 1, "m": [2]}, {1, 2}, deque([1, 2, 3])

def small(t):
    return torch.remainder(t, 8) - 3

def num(v):
    return v if isinstance(v, (int, float)) else len(v) if isinstance(v, (str, tuple)) else 7

def many(*args, **kw):
    return len(args), list(kw), sum(num(v) for v in kw.values())

def add(v, k=1):
    return num(v) + k

class Holder:
    pass

class Own(dict):
    def keys(self):
        return ["k", "own"]
    def __getitem__(self, k):
        return len(k)

class Walks(dict):
    def __iter__(self):
        return iter(["m"])

@dataclasses.dataclass
class Point:
    m: int = 1
    n: int = 2
    rest: list = dataclasses.field(default_factory=list)

class Pair(collections.namedtuple("Pair", "m n")):
    pass

def extra(v, **named):
    vars(v).update(named)
    return v
"""
DRAWN = """
def note(*args):
    global COUNT
    {effect}
    if args and type(args[-1]) is int and args[-1] > 40:
        raise IndexError(args[-1])
    return {noted}

def some(*args):
    {effect_2}
    return iter([1, 4, len(args)])

def yes(*args):
    return len(args) < 3

class Recorder:
    def __init__(self, what=note):
        self.what, self.calls = what, 0
    def __call__(self, *args):
        {recorded}
        return self.what(*args)

def closing(start):
    n, box = start, [start]
    def inner(v):
        nonlocal n
        {inner}
        return v + n + len(box)
    return inner

H, TL, CV, INNER, PART = Holder(), threading.local(), contextvars.ContextVar("CV", default=2), closing(1), functools.partial(add, k=2)
H.a, H.l, TL.a, P0, T0 = 1, [1, 2], 3, Point(1, 2), torch.ones(4)
"""
CLASSES = """
def make():
    made = {new}
    for name, value in (("a", 1), ("b", 2), ("items", [1, 2]), ("table", {{"k": 1, "m": 2}})):
        {put}
    {fill}
    return made

o, p = make(), make()
W = weakref.proxy(o)
"""
SPECIAL = {
    "__setitem__": ("k, v", "self.table[k] = v"), "__getitem__": ("k", "return self.table[k]"), "__delitem__": ("k", "del self.table[k]"),
    "__contains__": ("k", "return k in self.table"), "__len__": ("", "return len(self.items)"), "__iter__": ("", "return iter(self.items)"),
    "__next__": ("", "return self.items.pop() if self.items else self.a"), "__enter__": ("", "return self"), "__exit__": ("*e", "return e[0] is KeyError"),
    "__call__": ("k=1", "return num(k) + self.a"), "__iadd__": ("v", "self.items.append(v); return self"), "__ior__": ("v", "self.table.update(k=4); return self"),
    "__add__": ("v", "return self.a + 1"), "__radd__": ("v", "return [v, self.b]"), "__lshift__": ("v", "self.items.append(v); return self"),
    "__eq__": ("v", "return self.a == v"), "__lt__": ("v", "return self.a < 3"), "__hash__": ("", "return 5"), "__bool__": ("", "return self.a > 1"),
    "__missing__": ("k", "self.b = 6; return 6"), "__setattr__": ("n, v", "object.__setattr__(self, n, v)"), "__delattr__": ("n", "object.__delattr__(self, n)"),
    "__getattr__": ("n", "return 4 if n in ('z', 'zz', 'w') else object.__getattribute__(self, n)")}
"""Parameters, and what it does where nothing is inherited."""
NATIVE = {
    "dict": {"__setitem__": "setdefault __setitem__ pop get", "__getitem__": "get __getitem__ pop setdefault", "__delitem__": "pop __delitem__ setdefault",
             "__contains__": "get setdefault __contains__", "__len__": "__len__ clear", "__iter__": "__reversed__ __iter__", "__enter__": "copy popitem clear items",
             "__call__": "get setdefault pop update", "__iadd__": "update __ior__", "__ior__": "update setdefault", "__add__": "get setdefault __or__",
             "__radd__": "get setdefault", "__lshift__": "setdefault update", "__missing__": "setdefault get", "__setattr__": "setdefault __setitem__",
             "__getattr__": "__getitem__ get setdefault", "__delattr__": "pop __delitem__", "__eq__": "__contains__ get", "__lt__": "setdefault get", "__next__": "popitem copy"},
    "list": {"__setitem__": "insert __setitem__", "__getitem__": "pop count index __getitem__", "__delitem__": "pop remove append", "__contains__": "append count remove",
             "__len__": "__len__ pop", "__iter__": "__reversed__ __iter__", "__enter__": "copy clear reverse", "__call__": "append pop index extend",
             "__iadd__": "append __imul__ extend", "__ior__": "append extend __iadd__", "__add__": "append __mul__ count", "__radd__": "append count",
             "__lshift__": "append extend", "__next__": "pop clear", "__eq__": "__contains__ append count", "__lt__": "append count", "__getattr__": "append count",
             "__delattr__": "append remove"},
    "set": {"__iadd__": "add update", "__ior__": "add update", "__lshift__": "add update", "__contains__": "discard add __contains__", "__call__": "add discard update",
            "__getitem__": "__contains__ remove", "__delitem__": "remove discard", "__enter__": "copy clear pop", "__add__": "union add", "__next__": "pop",
            "__eq__": "issuperset __contains__", "__delattr__": "discard add", "__getattr__": "add __contains__"},
    "deque": {"__setitem__": "insert", "__getitem__": "count rotate", "__next__": "popleft pop", "__call__": "append appendleft rotate", "__iadd__": "append extendleft",
              "__lshift__": "appendleft rotate", "__enter__": "popleft copy clear", "__delitem__": "rotate remove", "__iter__": "__reversed__", "__contains__": "count append"},
    "object": {"__setattr__": "__setattr__", "__delattr__": "__delattr__", "__eq__": "__eq__ __ne__", "__hash__": "__hash__"}}
BOUND = {0: ["Q.popleft", "L.pop", "D.popitem", "D.copy", "L.__len__", "L.__iter__"], 1: ["D.get", "D.setdefault", "L.append", "S.add", "Q.append", "L.__contains__", "bool"],
         2: ["D.setdefault", "D.__setitem__", "L.insert", "D.get", "operator.is_", "operator.add"]}
"""Native functions that take no ``self``, by their arguments."""
KINDS = {"object": "object", "slots": "object", "borg": "object", "dataclass": "object", "dict": "dict", "OrderedDict": "dict", "defaultdict": "dict", "list": "list",
         "set": "set", "deque": "deque", "meta": "object"}
CONTENT = {"dict": '{"k": 1, "m": 2}', "OrderedDict": '[("k", 1), ("m", 2)]', "defaultdict": 'int, {"k": 1}', "list": "[1, 2, 3]", "set": "[1, 2, 3]", "deque": "[1, 2, 3]"}
METHODS = {"dict": "dict.copy dict.clear dict.pop dict.__len__ dict.setdefault dict.update", "list": "list.copy list.clear list.pop list.__len__ list.append",
           "set": "set.copy set.clear set.pop set.add set.update", "deque": "deque.copy deque.clear deque.pop deque.append", "object": "vars bool note"}
DESCRIPTORS = ["w = property(operator.attrgetter('a'), functools.partial(note, 1), note)", "w = property(lambda self: self.a, lambda self, v: L.append(v), note)",
               "w = property(some, yes)", "w = functools.cached_property(lambda self: self.a + 1)", "w = Field()", "w = Field()", "w = Field()",
               "w = property(operator.methodcaller('__class__'))", "w = property({native}, {native}, {native})", "w = property({native}, {native}, {native})",
               "w = functools.partialmethod(note, 2)", "w = staticmethod(note)"]
FIELDS = ["class Field(dict):\n    __get__, __set__ = dict.get, dict.__setitem__", "class Field(list):\n    __get__, __set__ = list.count, list.insert",
          ("class Field:\n    def __get__(self, at, owner=None):\n        return self if at is None else at.a + 1\n"
           "    def __set__(self, at, v):\n        {effect}\n        at.b = v"),
          "class Field:\n    __get__, __delete__ = staticmethod(note), note\n    def __set__(self, at, v):\n        at.table['w'] = v",
          "class Field:\n    __get__, __set__ = Recorder(), Recorder()", "class Field:\n    def __get__(self, at, owner=None):\n        {effect}\n        return 3"]
EFFECTS = ["pass", "pass", "LOG.append(len(args))", "LOG.append(len(args))", "COUNT = COUNT + 1", "H.a = 4", "D['noted'] = len(args)"]
ARGUMENTS = [["Point(1, 2)", "extra(Point(1, 2), z=3)", "Point(2, 2, [1])"], ["Pair(1, 2)", "extra(Pair(1, 2), z=1)", "Pair(1, [3])"], ["[1, 2]", "[1, 2, 3]", "L"],
             ["{'k': 1}", "{'k': 1, 'z': 2}", "D", "Own(k=1, q=2)"], ["torch.ones(4)", "extra(torch.ones(4), z=1)", "extra(torch.ones(4), z=2)"],
             ["o", "p", "make()"], ["make()", "make()", "o", "H"], ["[1, 2]", "[1, 2]", "L", "L", "H.l"], ["{'k': 1, 'm': [2]}", "D", "D", "vars(H)"],
             ["Point(1, 2)", "Point(1, 2)", "P0"], ["torch.ones(4)", "T0"]]
"""The first is that of most calls; others are what the program reaches by itself, too."""


class Writer:
    """One program: its text defines ``f(x, a)``; there are changes for between two calls (empty: none), and arguments."""

    def __init__(self, seed: int, calls: int) -> None:
        self._random = pick = random.Random(seed)
        self._kind, self._arguments = pick.choice(list(KINDS)), pick.choice(ARGUMENTS)
        self._content = KINDS[self._kind]
        self._drawn = pick.sample([name for name in SPECIAL if name != "__missing__" or self._content == "dict"], pick.choice([0, 1, 1, 1, 2])) + ["w"] * (pick.random() < 0.2)
        self._read, self._written = pick.choice([("o", "p"), ("o", "H"), ("p", "o"), ("a", "o"), ("o", "a"), ("H", "o"), ("o", "o")])
        lines = ["def f(x, a):", "    global N, M, EXTRA", "    y, out, T = small(x), [], [1, 2]",
                 *("    " + line for _ in range(pick.randint(1, 4)) for line in self._statement()),
                 "    return y, out" + pick.choice(["", "", ", N", ", o.a", ", L", ", o"])]
        self.text = PRELUDE + DRAWN.format(effect=pick.choice(EFFECTS), effect_2=pick.choice(EFFECTS[:4]), noted=pick.choice(["3", "3", "len(args)", "None"]),
                                   recorded=pick.choice(["pass", "self.calls += 1", "self.last = len(args)"]),
                                   inner=pick.choice(["pass", "pass", "n = v", "n += 1", "box[0] = v", "box.append(v)"])) + self._classes() + "\n\n" + "\n".join(lines) + "\n"
        self.changes = [self._change() if turn > 1 and pick.random() < 0.6 else "" for turn in range(calls)]
        self.arguments = [self._arguments[0]] * calls if pick.random() < 0.5 else pick.choices(self._arguments, k=calls)

    def _fill(self, text: str, o: str, container: str = "L") -> str:
        pick, key = self._random, self._random.choice(["'k'", "'k'", "'m'", "'zz'"])
        return text.format(o=o, l=container, v=pick.choice([1, 2, 3, 9, "N", "x.shape[0]", "H.a"]), n=pick.choice("azzbc"), k=key, it=pick.choice(GIVEN),
                           key=key if self._content in ("dict", "object") else pick.choice([0, 1, 2]))

    def _one(self, table: "dict[str, list[str]]", o: str) -> str:
        """A read or a write of something outside."""
        pick, kind = self._random, self._arguments[0].split("(")[0].split(".")[0]
        sort = pick.choice(["any", "any", "list", "dict", "set", "deque", "other", kind if kind in table else "any"])
        places = {"list": ["L", "H.l", "o.items"], "dict": ["D", "o.table", "vars(H)"], "set": ["S"], "deque": ["Q"]}.get(sort, ["L"])
        if sort == self._content:
            places.append(o if o != "H" else "o")
        if kind[0] == "[" and sort == "list" or kind[0] == "{" and sort == "dict":
            places += ["a", "a"]
        half = len(places) // 2  # Most places are either read or written.
        places = places if half == 0 or pick.random() < 0.3 else places[half:] if table is READS else places[:half]
        return self._fill(table[sort][int(len(table[sort]) * pick.random() ** 1.7)], "o" if o == "a" and self._arguments[0] != "o" else o, pick.choice(places))

    def _statement(self) -> "list[str]":
        pick, how = self._random, self._random.random()
        if how < 0.35 and self._drawn:
            line = self._fill(pick.choice(USES[pick.choice(self._drawn)]), "o")
        elif how < 0.4:
            return ["match " + pick.choice(["a", "o", "L", "D"]) + ":", *("    " + line for line in pick.sample(MATCHES, 2))]
        else:
            line = self._one(READS, self._read) if how < 0.7 else self._one(WRITES, self._written)
        if line[0] == "?":
            line = pick.choice(["out.append({})", "out.append({})", "y = small(y + num({}))", "y = y + 1 if {} else y * 2", "M = {}"]).replace("{}", line[1:])
        return [line] if pick.random() < 0.2 else ["try:", "    " + line, "except Exception as e:", "    out.append(type(e).__name__)"]

    def _change(self) -> str:
        pick, o = self._random, self._random.choice(["o", "o", "p", "H"])
        text = pick.choice(CHANGES)
        if text == "{use}":
            text = pick.choice(USES[pick.choice(self._drawn or ["__setattr__"])])
        elif text == "{write}":
            text = pick.choice(WRITES[pick.choice(["any", self._content if self._content in WRITES else "any"])])
        # A dict finds a key whose hash has changed, or does not, as its address has it.
        special = [name for name in self._drawn if name != "__hash__"] or ["__len__"]
        text = self._fill(text.replace("{special}", pick.choice(special)), o, "o").replace("x.shape[0]", "2")
        return "x, y, out, T = torch.ones(2, 4), torch.ones(2, 4), [], [1, 2]; " * ("T" in text or "y" in text or "out" in text) + text.removeprefix("?")

    def _classes(self) -> str:
        pick, kind = self._random, self._kind
        parent = {"meta": "object", "slots": "object", "borg": "object", "dataclass": "object"}.get(kind, kind)
        init = {"slots": ["__slots__ = ('a', 'b', 'items', 'table', 'z', '__weakref__')"], "dataclass": ["a: int = 1", "b: int = 2"],
                "borg": ["shared = {}", "def __init__(self): object.__setattr__(self, '__dict__', type(self).shared)"]}.get(kind, [])
        special = [line for name in self._drawn for line in self._special(name)]
        base, own = [*init, *([] if kind == "dataclass" else ["c = 5"])], ["d = 6", *(["__slots__ = ()"] if kind == "slots" else [])]
        (base if pick.random() < 0.5 or kind == "dataclass" else own).extend(special if kind != "meta" else [])
        if kind != "dataclass" and "__eq__" in self._drawn and "__hash__" not in self._drawn:
            own += ["__hash__ = object.__hash__"]
        lines = ["@dataclasses.dataclass"] * (kind == "dataclass")
        field = pick.choice(FIELDS).format(effect="LOG.append(2)") + "\n"
        meta = "class Meta(type):\n" + "\n".join("    " + line for line in ["pass", *special]) + "\n" if kind == "meta" else ""
        parts = [field, meta, "\n".join(lines + [f"class Base({parent}):"] + ["    " + line for line in base]),
                 f"\nclass Kind(Base{', metaclass=Meta' if kind == 'meta' else ''}):\n" + "\n".join("    " + line for line in own)]
        put = "type.__setattr__(made, name, value)" if kind == "meta" else "object.__setattr__(made, name, list(value) if name == 'items' else value)"
        return "".join(parts) + CLASSES.format(put=put, new='Meta("Made", (Kind,), {})' if kind == "meta" else "Kind()" if kind == "borg" else "Kind.__new__(Kind)",
                                               fill=f"made.__init__({CONTENT[kind]})" if kind in CONTENT else "pass")

    def _special(self, name: str) -> "list[str]":
        """Lines of a class."""
        pick, owner = self._random, self._kind if self._kind == "OrderedDict" else self._content  # A dict's own methods break an OrderedDict.
        natives = [f"{owner}.{one}" for one in NATIVE[self._content].get(name, "").split() if (name, one, owner) != ("__setitem__", "setdefault", "OrderedDict")]
        if name == "w":
            methods = METHODS[self._content].replace("dict", owner).split()
            line = pick.choice(DESCRIPTORS)
            while "{native}" in line:
                line = line.replace("{native}", pick.choice(methods), 1)
            return [line]
        parameters, body = SPECIAL[name]
        count = 2 if parameters.count(",") else 1 if parameters else 0
        noted = {"__iter__": "some", "__bool__": "yes"}.get(name, "note")
        effect = pick.choice(["pass", "pass", "LOG.append(1)", "H.count = 3", "self.b = 5" if name not in ("__setattr__", "__delattr__", "__getattr__") else "pass"])
        if name in dir({"dict": dict, "list": list, "set": set, "deque": collections.deque}.get(self._content, object)) and name not in dir(object):
            body = f"return super().{name}({parameters})"
        python = [f"def {name}({', '.join(['self', parameters] if parameters else ['self'])}):", f"    {effect}", f"    {body}"]
        how = pick.random()
        if how < 0.45 or name == "__setattr__" and how < 0.5:
            return python
        if how < 0.7 and natives:
            return [f"{name} = {pick.choice(natives)}"]
        return [f"{name} = " + pick.choice([f"Recorder({noted})", f"functools.partial({noted}, 2)", f"functools.partialmethod({noted}, 2)", f"staticmethod({noted})",
                                            f"classmethod({noted})", f"lambda *args: {noted}(*args)", pick.choice(BOUND[count]), f"property(lambda self: {noted})",
                                            "property(operator.attrgetter('table.get'))" if count else "property(operator.attrgetter('items.copy'))"])]
