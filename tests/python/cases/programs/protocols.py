# SPDX-License-Identifier: Apache-2.0
"""How classes look attributes up, order their bases and make objects, changed later; and what library objects hold."""
import array
import collections
import contextvars
import copy
import dataclasses
import datetime
import enum
import fractions
import functools
import importlib
import itertools
import math
import operator
import re
import sys
import types
import warnings
import weakref

import torch


# %% ga1
class O: pass
o = O()
def fn(x): return x * getattr(o, "k", 1)


def inputs():
    return (torch.arange(3.0),)
mutations = ['O.__getattr__ = lambda s, n: 8']
native = None

# %% ga2
class O: pass
o = O(); o.k = 1
def fn(x): return x * o.k


def inputs():
    return (torch.arange(3.0),)
mutations = ['O.__getattribute__ = lambda s, n: 8']
native = None

# %% ga3
class B: pass
class O(B): pass
o = O()
def fn(x): return x * (2 if hasattr(o, "k") else 1)


def inputs():
    return (torch.arange(3.0),)
mutations = ['B.__getattr__ = lambda s, n: 8']
native = None

# %% ga4
class O: k = 1
o = O()
def fn(x): return x * o.k


def inputs():
    return (torch.arange(3.0),)
mutations = ['O.__getattribute__ = lambda s, n: 8']
native = None

# %% dunder_getattr_added
class O: pass
o = O()
def fn(x): return x * getattr(o, "k", 1)


def inputs():
    return (torch.arange(3.0),)
mutations = ['O.__getattr__ = lambda s, n: 8', 'del O.__getattr__', 'O.__getattribute__ = lambda s, n: 11']
native = None

# %% ds1
class D:
    def __get__(self, o, t): return 4
class O: d = D()
o = O(); o.__dict__["d"] = 7
def fn(x): return x * o.d


def inputs():
    return (torch.arange(3.0),)
mutations = ['D.__set__ = lambda s, o, v: None']
native = None

# %% ds2
class D: pass
class O: d = D()
o = O(); o.__dict__["d"] = 7
def fn(x): return x * o.d


def inputs():
    return (torch.arange(3.0),)
mutations = ['D.__get__ = lambda s, o, t: 5; D.__set__ = lambda s, o, v: None']
native = None

# %% ds3
class D: v = 3
class O: d = D()
o = O()
def fn(x): return x * getattr(o.d, "v", 10)


def inputs():
    return (torch.arange(3.0),)
mutations = ['D.__get__ = lambda s, o, t: 5']
native = None

# %% ds6
class P(property):
    pass
class O:
    @P
    def k(self): return 2
o = O()
def fn(x): return x * o.k


def inputs():
    return (torch.arange(3.0),)
mutations = ['P.__get__ = lambda s, o, t=None: 9']
native = None

# %% desc_data
class D:
    def __init__(self): self.v = 2
    def __get__(self, o, t): return self.v
class O: d = D()
o = O()
def fn(x): return x * o.d


def inputs():
    return (torch.arange(3.0),)
mutations = ['O.__dict__["d"].v = 4', 'o.__dict__["d"] = 7', 'D.__set__ = lambda s, o, v: None']
native = None

# %% mro1
class A:
    def g(self): return 1
class A2:
    def g(self): return 100
class X(A): pass
class B(X):
    def g(self): return super().g() + 10
b = B()
def fn(x): return x * b.g()


def inputs():
    return (torch.arange(3.0),)
mutations = ['X.__bases__ = (A2,)']
native = None

# %% mro2
class A:
    def g(self): return 1
class A2(A):
    def g(self): return 100
class B(A):
    def g(self): return super().g() + 10
class C(B): pass
b = C()
def fn(x): return x * b.g()


def inputs():
    return (torch.arange(3.0),)
mutations = ['B.__bases__ = (A2,)']
native = None

# %% mro3
class A:
    def g(self): return 1
class B(A):
    def g(self): return super().g() + 10
b = B()
def fn(x): return x * b.g()


def inputs():
    return (torch.arange(3.0),)
mutations = ['class A2(A):\n    def g(self): return 100\nB.__bases__ = (A2,)']
native = None

# %% mro5
class A:
    k = 1
class A2(A): pass
class B(A): pass
b = B()
def fn(x): return x * isinstance(b, A2)


def inputs():
    return (torch.arange(3.0),)
mutations = ['B.__bases__ = (A2,)']
native = None

# %% mro7
class A:
    def g(self): return 1
class A2(A):
    def g(self): return 100
class B(A):
    def g(self): return super().g() + 10
class C(B): pass
b = C()
def fn(x): return x * b.g()


def inputs():
    return (torch.arange(3.0),)
mutations = ['C.__bases__ = (B, A2)']
native = None

# %% r21
class A:
    def g(s): return 1
class B(A):
    def h(s): return super(B, s).g()
b = B()
def fn(x): return x * b.h()


def inputs():
    return (torch.arange(3.0),)
mutations = ['class Z(A):\n    def g(s): return 50\nB.__bases__ = (Z,)']
native = None

# %% super_mro
class A:
    def g(self): return 1
class B(A):
    def g(self): return super().g() + 10
class M:
    def g(self): return 50
class C(B, A): pass
c = C()
def fn(x): return x * c.g()


def inputs():
    return (torch.arange(3.0),)
mutations = ['A.g = lambda s: 3', 'class A2(A):\n    def g(self): return 100\nC.__bases__ = (B, A2) if False else (B,)', 'B.__bases__ = (A2,)']
native = None

# %% mc1
class M(type):
    def __call__(cls, *a): return super().__call__(*a)
class O(metaclass=M):
    def __init__(self, v): self.v = v
def fn(x): return O(x * 2).v


def inputs():
    return (torch.arange(3.0),)
mutations = ['O.__new__ = lambda c, v: types.SimpleNamespace(v=v * 0)']
native = None

# %% mc2
class O:
    def __init__(self, v): self.v = v
def fn(x): return type.__call__(O, x * 2).v


def inputs():
    return (torch.arange(3.0),)
mutations = ['O.__new__ = lambda c, v: types.SimpleNamespace(v=v * 0)']
native = None

# %% mc3
class M(type):
    def __call__(cls, *a): return super().__call__(*a)
class O(metaclass=M):
    v = 1
def fn(x): return O().v * x


def inputs():
    return (torch.arange(3.0),)
mutations = ['O.__init__ = lambda s: setattr(s, "v", 8)']
native = None

# %% mc4
class M(type):
    def __call__(cls, *a): return type.__call__(cls, *a)
class B: pass
class O(B, metaclass=M):
    v = 1
def fn(x): return O().v * x


def inputs():
    return (torch.arange(3.0),)
mutations = ['B.__init__ = lambda s: setattr(s, "v", 8)']
native = None

# %% mc9
class O: v = 1
def fn(x): return x * list(map(O, [])) .__len__() + collections.defaultdict(O)["a"].v


def inputs():
    return (torch.arange(3.0),)
mutations = ['O.__init__ = lambda s: setattr(s, "v", 8)']
native = None

# %% meta_call
class M(type):
    def __call__(cls, *a): return super().__call__(*a)
class O(metaclass=M):
    def __init__(self, v): self.v = v
def fn(x): return O(x * 2).v


def inputs():
    return (torch.arange(3.0),)
mutations = ['M.__call__ = lambda cls, v: type.__call__(cls, v + 1)', 'O.__init__ = lambda s, v: setattr(s, "v", v * 3)', 'O.__new__ = lambda c, v: types.SimpleNamespace(v=v * 0)']
native = None

# %% v16
g = operator.itemgetter(0)
def fn(x): return x * g([2, 7])


def inputs():
    return (torch.arange(3.0),)
mutations = ['g = operator.itemgetter(1)']
native = None

# %% v15
class A:
    _get = operator.itemgetter(0)
    def first(s, l): return A._get(l)
a = A()
def fn(x): return x * a.first([2, 7])


def inputs():
    return (torch.arange(3.0),)
mutations = ['A._get = operator.itemgetter(1)']
native = None

# %% t11
st = {"b": operator.itemgetter(0)}
l = [1, 2]
def fn(x): return x * st["b"](l)


def inputs():
    return (torch.arange(3.0),)
mutations = ['st["b"] = operator.itemgetter(1)']
native = None

# %% rp_itemgetter
a = operator.itemgetter(0); b = operator.itemgetter(1)
st = {"p": a}
def fn(x): return x * st["p"]([2, 7])


def inputs():
    return (torch.arange(3.0),)
mutations = ['st["p"] = b']
native = None

# %% rp_attrgetter
a = operator.attrgetter('real'); b = operator.attrgetter('imag')
st = {"p": a}
def fn(x): return x * st["p"](5)


def inputs():
    return (torch.arange(3.0),)
mutations = ['st["p"] = b']
native = None

# %% al_itemgetter
a = operator.itemgetter(0); b = operator.itemgetter(1)
st = {"p": a, "q": a}
def fn(x): return x * st["p"]([2, 7]) + st["q"]([2, 7])


def inputs():
    return (torch.arange(3.0),)
mutations = ['st["q"] = b']
native = None

# %% al_attrgetter
a = operator.attrgetter('real'); b = operator.attrgetter('imag')
st = {"p": a, "q": a}
def fn(x): return x * st["p"](5) + st["q"](5)


def inputs():
    return (torch.arange(3.0),)
mutations = ['st["q"] = b']
native = None

# %% t1
st = {"t": list[int]}
def fn(x): return x * len(st["t"].__args__)


def inputs():
    return (torch.arange(3.0),)
mutations = ['st["t"] = dict[int, str]']
native = None

# %% u1
st = {"t": int | str}
v = 1.5
def fn(x): return x * (2 if isinstance(v, st["t"]) else 3)


def inputs():
    return (torch.arange(3.0),)
mutations = ['st["t"] = int | float']
native = None

# %% t5
st = {"t": list[int]}
def fn(x): return x * (2 if st["t"] == list[int] else 3) + (st["t"].__origin__ is list)


def inputs():
    return (torch.arange(3.0),)
mutations = ['st["t"] = list[str]', 'st["t"] = tuple[int]']
native = None

# %% t3
st = {"t": int | str}
def fn(x): return x * (2 if isinstance(1.5, st["t"]) else 3)


def inputs():
    return (torch.arange(3.0),)
mutations = ['st["t"] = int | float', 'st["t"] = float', 'st["t"] = (float, str)', 'st["t"] = (int, (str, bytes))']
native = None

# %% ismod
class C: pass
st = {"t": list[int]}
def fn(x): return x * (2 if st["t"] is list else 3) + len(st["t"].__args__ if hasattr(st["t"], "__args__") else ())


def inputs():
    return (torch.arange(3.0),)
mutations = ['st["t"] = dict[int, str]', 'st["t"] = list']
native = None

# %% rp_gen
a = types.GenericAlias(list, (int,)); b = types.GenericAlias(list, (int, str))
st = {"p": a}
def fn(x): return x * len(st["p"].__args__)


def inputs():
    return (torch.arange(3.0),)
mutations = ['st["p"] = b']
native = None

# %% par1
def h(a, x): return x * a
p = functools.partial(h, 2)
def fn(x): return p(x)


def inputs():
    return (torch.arange(3.0),)
mutations = ['p.__setstate__((h, (5,), {}, {}))']
native = None

# %% eg1
eg = ExceptionGroup("m", [ValueError(1)])
def fn(x):
    try: raise eg
    except* ValueError as g: r = x + g.exceptions[0].args[0]
    return r


def inputs():
    return (torch.arange(3.0),)
mutations = ['eg.exceptions[0].args = (7,)']
native = None

# %% eg10
l = [1]
eg = ExceptionGroup("m", [ValueError(l)])
def fn(x):
    try: raise eg
    except* ValueError as g: r = x + g.exceptions[0].args[0][0]
    return r


def inputs():
    return (torch.arange(3.0),)
mutations = ['l[0] = 7']
native = None

# %% exc_group
eg = ExceptionGroup("m", [ValueError(1), TypeError(2)])
def fn(x):
    r = x
    try: raise eg
    except* ValueError as g: r = r + g.exceptions[0].args[0]
    except* TypeError as g: r = r * g.exceptions[0].args[0]
    return r


def inputs():
    return (torch.arange(3.0),)
mutations = ['eg.exceptions[0].args = (7,)', 'eg.exceptions[1].args = (9,)']
native = None


# %% fields_of_named_tuples_change_places
Pair = collections.namedtuple("Pair", "a b")
pair = Pair(1.0, 2.0)


def fn(x):
    return x * pair.a

def inputs():
    return (torch.arange(3.0),)
mutations = ["Pair.a = Pair.b", "pair = Pair(3.0, 4.0)", "Pair.a = property(lambda self: 5.0)"]


# %% properties_whose_getters_are_made_in_c
class Holder:
    first = property(operator.attrgetter("u"))
    size = property(len)

    def __init__(self):
        self.u, self.v = 1.0, 2.0

    def __len__(self):
        return 3


class Row(tuple):
    head = property(operator.itemgetter(0))


holder, row = Holder(), Row((1.0, 2.0))


def fn(x):
    return x * holder.first + holder.size - row.head

def inputs():
    return (torch.arange(3.0),)
mutations = ["Holder.first = property(operator.attrgetter('v'))", "holder.v = 7.0", "Holder.__len__ = lambda self: 5", "row = Row((3.0,))",
             "Row.head = property(operator.itemgetter(-1))", "Row.__getitem__ = lambda self, i: 9.0"]
