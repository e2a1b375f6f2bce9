# SPDX-License-Identifier: Apache-2.0
"""Writes by methods that a class has of its own, and reads of what a call has written: each call leaves what eager leaves."""

import contextvars
import copy
import functools
import json
import operator
import os
import pathlib
import subprocess
import sys
import types

import pytest
import torch

CASES = {
    "a class attribute, read again": """
class O: last = None
def fn(x):
    O.last = x * 2
    return O.last + 1
def state(): return O.last
""",
    "a class attribute, by an instance of a subclass": """
class Base: last = None
class O(Base): pass
o = O()
def fn(x):
    Base.last = x * 2
    return o.last + 1
def state(): return Base.last, O.last
""",
    "a class attribute that a subclass hides later": """
class Base: last = torch.zeros(2)
class O(Base): pass
def fn(x):
    Base.last = x * 2
    return O.last + 1
def state(): return Base.last, O.last
changes = ["", "", "O.last = torch.ones(2)", "", "del O.last", ""]
""",
    "a class method": """
class O:
    last = None
    @classmethod
    def keep(cls, x):
        cls.last = (x * 2, x.shape[0])
        return cls.last[0] + 1
def fn(x): return O.keep(x)
def state(): return O.last
""",
    "a dict that stores by super": """
class Log(dict):
    def __setitem__(self, k, v): super().__setitem__(k, v)
d = Log()
def fn(x):
    d["a"] = x * 2
    return x + 1
def state(): return d
""",
    "a dict that changes keys": """
class Log(dict):
    def __setitem__(self, k, v): dict.__setitem__(self, str(k) + "!", v)
    def __delitem__(self, k): super().__delitem__(k + "!")
d = Log()
def fn(x):
    d["a"] = x * 2
    del d["a"]
    d[1] = x * 3
    return d["1!"] + 1
def state(): return d
""",
    "a list that stores by super": """
class Items(list):
    def __setitem__(self, i, v): super().__setitem__(i, v)
l = Items([0, 0])
def fn(x):
    l[1] = x * 2
    return x + 1
def state(): return l
""",
    "an ordered dict like transformers' outputs": """
class Out(collections.OrderedDict):
    def __setitem__(self, k, v):
        super().__setitem__(k, v)
        super().__setattr__(k, v)
d = Out()
def fn(x):
    d["hidden"] = x * 2
    return x + 1
def state(): return list(d), d["hidden"], d.hidden
""",
    "a list with its own +=": """
class Items(list):
    def __iadd__(self, o):
        super().extend(o)
        return self
l = Items()
def fn(x):
    global l
    l += [x * 2]
    return x + 1
def state(): return l
""",
    "a set that takes other things": """
class Only(set):
    def __ior__(self, o):
        self.add(7)
        return self
s = Only()
def fn(x):
    global s
    s |= {1, 2}
    return x + 1
def state(): return set(s)
""",
    "a dict that takes nothing": """
class Frozen(dict):
    def __ior__(self, o): return self
d = Frozen(a=1)
def fn(x):
    global d
    d |= {"b": 2}
    return x + 1
def state(): return dict(d)
""",
    "a list that multiplies by super": """
class Items(list):
    def __imul__(self, n): return super().__imul__(n)
l = Items([1])
def fn(x):
    global l
    l *= 2
    return x + 1
def state(): return list(l)
""",
    "an ordered dict's |=": """
od = collections.OrderedDict()
def fn(x):
    global od
    od |= {"k": 1}
    return x + 1
def state(): return list(od), len(od)
changes = ["", "", "od = collections.OrderedDict()", "", "od = collections.OrderedDict(z=1)", ""]
""",
    "a context variable set to a size": """
cv = contextvars.ContextVar("cv", default=0)
def fn(x):
    cv.set(x.shape[0])
    return x * 2
def state(): return cv.get()
sizes = [3, 3, 2, 4, 4, 3]
""",
    "whether a weight needs a gradient": """
w = torch.ones(2)
def fn(x):
    w.requires_grad_(False)
    return x * w
def state(): return w.requires_grad
changes = ["", "", "w.requires_grad_(True)", "", "w.requires_grad_(True)", ""]
""",
    "a table by size": """
scales = [1.0] * 8
def fn(x): return x * scales[x.shape[0]]
sizes = [3, 4, 3, 4, 3, 4]
changes = ["", "", "scales[3] = 2.0", "", "", "scales[4] = 3.0"]
""",
    "an entry by size": """
d = {}
def fn(x): return x * 2 if x.shape[0] in d else x * 3
sizes = [3, 4, 5, 3, 4, 5]
changes = ["", "", "", "d[3] = 1", "", "d[5] = 1"]
def state(): return d
""",
    "a list that was empty": """
l = []
def fn(x):
    try:
        v = l.pop()
    except IndexError:
        v = 3.0
    return x * v
def state(): return l
changes = ["", "", "", "l.append(2.0)", "", "l.append(4.0)"]
""",
    "an entry that was not there": """
d = {}
def fn(x):
    try:
        del d["k"]
    except KeyError:
        d["missed"] = d.get("missed", 0) + 1
    return x * 2
def state(): return d
changes = ["", "", "", "d['k'] = 2.0", "", ""]
""",
    "a list that was too short": """
l = []
def fn(x):
    try:
        l[3] = 1.0
    except IndexError:
        l.append(1.0)
    return x * 2
def state(): return l
""",
    "an element without a hash": """
s = set()
def fn(x):
    try:
        s.add([1])
    except TypeError:
        s.add(x.shape[0])
    return x * 2
def state(): return s
""",
    "an operand that grows later": """
l = []
def fn(x):
    more, same = [1.0], l
    same += more
    more.append(2.0)
    return x * 2
def state(): return l
changes = ["", "", "", "l.clear()", "", ""]
""",
    "attributes that are changed all at once": """
class O: pass
o = O()
def fn(x):
    vars(o).update({"a": x * 2, "l": []})
    o.l.append(5.0)
    return o.a + 1
def state(): return o.a, o.l
""",
    "attributes that instances share": """
class Borg:
    shared = {"scale": 1.0}
    def __init__(self): self.__dict__ = self.shared
def fn(x): return x * Borg().scale
changes = ["", "", "", "Borg.shared['scale'] = 3.0", "", ""]
""",
    "counts by size": """
counts = {}
def fn(x):
    n = x.shape[0]
    counts[n] = counts.get(n, 0) + 1
    return x * 3
def state(): return counts
sizes = [3, 3, 4, 3, 4, 5]
""",
    "a memo by size": """
c = {}
def fn(x):
    k = x.shape[0]
    if k not in c:
        c[k] = 1
    return x * 2 + c[k]
def state(): return c
sizes = [3, 4, 3, 4, 3, 4]
changes = ["", "", "c[3] = 10", "", "c.clear()", ""]
""",
    "a layer by size": """
layers = torch.nn.ModuleList([torch.nn.ReLU(), torch.nn.Sigmoid(), torch.nn.ReLU(), torch.nn.ReLU(), torch.nn.ReLU()])
def fn(x): return layers[x.shape[0]](x)
sizes = [3, 4, 3, 4, 3, 4]
changes = ["", "", "layers[3] = torch.nn.Tanh()", "", "", "layers[4] = torch.nn.Sigmoid()"]
""",
}


class Program:
    """One of two that are run side by side."""

    def __init__(self, text, name):
        module = types.ModuleType(name)
        sys.modules[name] = module
        self.scope = vars(module)
        exec("import collections, contextvars, torch\nchanges, sizes = [''] * 6, [2] * 6\ndef state(): return None\n" + text, self.scope)
        self.call = self.scope["fn"]

    def run(self, number):
        exec(self.scope["changes"][number], self.scope)
        x = torch.arange(1.0, self.scope["sizes"][number] + 1) + number
        return self.call(x), copy.deepcopy(self.scope["state"]())


def runs(name):
    """Both programs' texts of what each call gives and leaves."""
    import ingot

    plain, side = (Program(CASES[name], f"own_methods_{which}") for which in ("plain", "side"))
    side.call = step = ingot.compile(side.call, wait=True)
    with torch.no_grad():
        for number in range(6):
            wanted, found = contextvars.copy_context().run(plain.run, number), side.run(number)
            yield str(wanted), str(found), step.report()


@pytest.mark.parametrize("name", CASES)
def test_each_call_leaves_what_eager_leaves(ingot, name):
    for number, (wanted, found, report) in enumerate(runs(name)):
        assert found == wanted, f"call {number}\n{report}"


PROGRAM = """
import json, sys
sys.path[:0] = [{here!r}, {here!r}.rpartition("/")[0]]
import test_own_methods as t
print(json.dumps([[name, list(t.runs(name))] for name in t.CASES]))
"""


def test_and_so_does_the_next_process(tmp_path):
    program = PROGRAM.format(here=str(pathlib.Path(__file__).parent))
    environment = {**os.environ, "INGOT_STORE_DIR": str(tmp_path / "store")}
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
        for name, calls in json.loads(done.stdout.splitlines()[-1]):
            for number, (wanted, found, report) in enumerate(calls):
                assert found == wanted, f"{name}, call {number}\n{report}"


class Slotted:
    __slots__ = ("n", "t")

    def __init__(self):
        self.n, self.t = 0, torch.ones(2)


def test_a_slot_of_an_argument(ingot):
    def function(a):
        a.n += 1
        a.t = a.t * 2
        return a.t + 1

    step, given, plain = ingot.compile(function, wait=True), Slotted(), Slotted()
    with torch.no_grad():
        for _ in range(4):
            assert torch.equal(step(given), function(plain)), step.report()
            assert given.n == plain.n and torch.equal(given.t, plain.t), step.report()


class Holder:
    n = 1


@pytest.mark.parametrize("holder, write", [({"a": 1}, lambda held: functools.partial(operator.setitem, held, "b", 2)),
                                           ([1], lambda held: functools.partial(list.append, held, 2)),
                                           ({1}, lambda held: functools.partial(set.add, held, 2)),
                                           (Holder(), lambda held: functools.partial(setattr, held, "n", 2))], ids=["dict", "list", "set", "object"])
def test_a_change_that_nobody_saw_is_refused(ingot, holder, write):
    hidden = ingot.mark_pure(write(holder))  # Which it is not.

    def function(x):
        k = getattr(holder, "n", None) or len(holder)
        hidden()
        return x * k

    step = ingot.compile(function, wait=True)
    with torch.no_grad():
        for _ in range(3):
            step(torch.ones(2))
    assert "was changed by something that was not seen" in step.why_miss(), step.report()
