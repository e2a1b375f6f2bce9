# SPDX-License-Identifier: Apache-2.0
"""Programs in which one method of one builtin or library class is called, in one of the ways in which people call methods."""

import collections
import functools
import random
import typing

from generate import PRELUDE

_ENTRIES = ["T.__setitem__({o}, 'k', 5)", "T.clear({o})", "T.update({o}, {{'z': 1, 'k': 2}})"]
_NEW = ["{o} = type({o})({other})", "{o} = type({o})({empty})"]
_SEQUENCE = ["T.__setitem__({o}, 0, 5)", "T.clear({o})", "T.extend({o}, [4, 1])"]
TYPES = {
    "dict": ("{'k': 1, 'm': 2}", _ENTRIES), "OrderedDict": ("[('k', 1), ('m', 2)]", _ENTRIES), "defaultdict": ("int, {'k': 1, 'm': 2}", _ENTRIES),
    "collections.Counter": ("{'k': 1, 'm': 2}", _ENTRIES), "collections.ChainMap": ("{'k': 1}, {'m': 2}", ["{o}.maps[0]['k'] = 5", "{o}.maps[1].clear()"]),
    "collections.UserDict": ("{'k': 1, 'm': 2}", ["{o}.data['k'] = 5", "{o}.data.clear()"]), "collections.UserList": ("[1, 2, 3]", ["{o}.data[0] = 5", "{o}.data.clear()"]),
    "list": ("[1, 2, 3]", _SEQUENCE), "deque": ("[1, 2, 3]", _SEQUENCE), "set": ("[1, 2, 3]", ["T.add({o}, 5)", "T.clear({o})", "T.update({o}, [4, 1])"]),
    "bytearray": ("b'abc'", ["{o}[0] = 5", "{o}.clear()", "{o}.extend(b'kk')"]), "frozenset": ("[1, 2]", _NEW), "tuple": ("[1, 2, 3]", _NEW), "str": ("'k7'", _NEW),
    "int": ("7", _NEW), "float": ("7.5", _NEW)}
"""What an object is made of, and how it is changed."""
_OTHER = {"frozenset": ("[4]", "[]"), "tuple": ("[4, 2]", "[]"), "str": ("'k k'", "''"), "int": ("4", "0"), "float": ("4.5", "0")}
_GIVEN = ["", "'k'", "1", "0", "'k', 7", "0, 7", "'zz'", "[2, 1]", "{'k': 3}", "[('q', 4)]", "{1, 2}"]
_OF_OBJECTS = set("__class__ __new__ __init__ __init_subclass__ __subclasshook__ __getattribute__ __setattr__ __delattr__ __dir__ __doc__ __reduce__ __reduce_ex__ "
                  "__class_getitem__ __sizeof__ __repr__ __str__ __format__ __getstate__ __setstate__ __hash__ __abstractmethods__ __copy__ __getnewargs__".split())
_STYLES = {
    "plain": ("pass", "o.{m}({a})"), "super": ("def {m}(self, *args): return super().{m}(*args)", "o.{m}({a})"),
    "of its type": ("def {m}(self, *args): return T.{m}(self, *args)", "o.{m}({a})"), "direct": ("pass", "T.{m}({oa})"), "bound before": ("pass", "B({a})"),
    "partial": ("pass", "functools.partial(o.{m})({a})"), "argument": ("pass", "a.{m}({a})"), "direct of an argument": ("pass", "T.{m}({aa})"),
    "by a name": ("def __getattr__(self, name): return getattr(self.inner, name[3:])", "o.of_{m}({a})")}
_STYLES_OF_ONE = {
    "map": ("pass", "list(map(o.{m}, [{a}]))"), "map a partial": ("pass", "list(map(functools.partial(o.{m}), [{a}]))"),
    "map of its type": ("pass", "list(map(functools.partial(T.{m}, o), [{a}]))"), "filter": ("pass", "list(filter(o.{m}, [{a}]))"), "key": ("pass", "sorted([{a}], key=o.{m})")}
"""With one argument alone."""
_OPERATIONS = {
    "__len__": ["len(o)", "bool(o)", "not o"], "__iter__": ["list(o)", "[v for v in o]", "(lambda *all: all)(*o)", "sorted(o, key=str)", "set(o)"],
    "__contains__": ["1 in o", "'k' in o"], "__getitem__": ["o[0]", "o['k']", "o[-1]"], "__eq__": ["o == [1, 2, 3]", "o == {'k': 1, 'm': 2}"],
    "__reversed__": ["list(reversed(o))"], "keys": ["{**o}", "dict(o)"], "__bool__": ["1 if o else 2"], "__missing__": ["o['zz']"], "__or__": ["o | {'z': 1}", "o | {9}"],
    "__add__": ["o + [1]", "o + 1"], "__mul__": ["o * 2"], "items": ["list(o.items())"]}
"""What calls a method by itself."""


def _type(name: str) -> typing.Any:
    return getattr(collections, name.removeprefix("collections."), None) or __builtins__[name]  # type: ignore[index]


@functools.cache
def _takes(name: str, method: str) -> "list[str]":
    """Arguments with which it raises nothing."""
    kind, found = _type(name), []
    for given in _GIVEN:
        try:
            eval(f"o.{method}({given})", {"o": eval(f"kind({TYPES[name][0]})", {"kind": kind})})
            found.append(given)
        except Exception:
            pass
    return found


class Writer:
    """As generate.Writer."""

    def __init__(self, seed: int, calls: int) -> None:
        pick = random.Random(seed)
        name = pick.choice(list(TYPES))
        content, changes = TYPES[name]
        methods = [one for one in dir(_type(name)) if one not in _OF_OBJECTS and callable(getattr(_type(name), one)) and _takes(name, one)]
        style = ""
        if pick.random() < 0.25:
            method = pick.choice([one for one in _OPERATIONS if one in methods or one in ("__missing__", "__bool__")])
            body, call = _STYLES[pick.choice(["plain", *["super", "of its type"] * (method in methods)])][0].format(m=method), pick.choice(_OPERATIONS[method])
        else:
            method = pick.choice(methods)
            given = pick.choice(_takes(name, method))
            styles = {**_STYLES, **(_STYLES_OF_ONE if given and (given[0] in "[{" or "," not in given) else {})}
            style = pick.choice(list(styles))
            comma = ", " if given else ""
            words = {"m": method, "a": given, "oa": "o" + comma + given, "aa": "a" + comma + given}
            body, call = (text.format(**words) for text in styles[style])
        self.text = PRELUDE + (f"T = {name}\nclass Kind(T):\n    {body}\no = Kind({content})\ntry:\n    o.inner = T({content})\nexcept AttributeError:\n    pass\n"
                               f"B = getattr(o, '{method}', 0)\n\n\n"
                               f"def f(x, a):\n    try:\n        r = {call}\n    except Exception as e:\n        r = type(e).__name__\n"
                               "    if hasattr(r, '__next__') or type(r).__name__ in ('dict_keys', 'dict_values', 'dict_items', 'odict_keys', 'odict_values', 'odict_items'):\n"
                               "        r = list(r)\n    return small(x), r\n")
        other, empty = _OTHER.get(name, ("", ""))
        place = "o.inner" if style == "by a name" else "o"
        self.changes = [pick.choice(changes).format(o=place, other=other, empty=empty) if turn > 1 and pick.random() < 0.6 else "" for turn in range(calls)]
        self.arguments = ["o" if "argument" in style else "None"] * calls
