# SPDX-License-Identifier: Apache-2.0
"""What native code reads to compare, copy, print and convert objects."""
import collections
import copy
import dataclasses
import enum
import functools
import operator
import types
import weakref

import torch


def inputs():
    return (torch.arange(3.0),)


# %% isinstance_class_changed
class A: pass
class B(A): pass
class C: pass
o = B()
def fn(x): return x * (2 if isinstance(o, A) else 3)
mutations = ['o.__class__ = C']
native = None


# %% callable_added
class A: pass
o = A()
def fn(x): return x * (2 if callable(o) else 3)
mutations = ['A.__call__ = lambda s: 1', 'del A.__call__']
native = None


# %% truth_added
class A: pass
o = A()
def fn(x): return x * 2 if o else x * 3
mutations = ['A.__bool__ = lambda s: False', 'del A.__bool__; A.__len__ = lambda s: 0']
native = None


# %% len_added
class A:
    n = 2
    def __len__(self): return self.n
o = A()
def fn(x): return x * len(o)
mutations = ['o.n = 4', 'A.__len__ = lambda s: 7']
native = None


# %% int_of_object
class A:
    n = 2
    def __int__(self): return self.n
    def __float__(self): return self.n + .5
    def __index__(self): return self.n
o = A()
def fn(x): return x * int(o) + float(o) + operator.index(o) + round(3.14159, o)
mutations = ['o.n = 4', 'A.__int__ = lambda s: 9', 'A.__float__ = lambda s: 9.', 'A.__index__ = lambda s: 1']
native = None


# %% int_added
class A:
    def __index__(self): return 3
o = A()
def fn(x): return x * int(o)
mutations = ['A.__int__ = lambda s: 9']
native = None


# %% dict_of_object
class A:
    def __init__(s): s.d = {"a": 1}
    def keys(s): return s.d.keys()
    def __getitem__(s, k): return s.d[k]
o = A()
def fn(x): return x * sum(dict(o).values())
mutations = ['o.d["b"] = 2', 'A.__getitem__ = lambda s, k: 5', 'A.keys = lambda s: ["q"]', 'o.keys = lambda: ["q", "r"]']
native = None


# %% dict_update_instance_keys
class A:
    def __iter__(s): return iter([("a", 1)])
    def __getitem__(s, k): return 10
o = A()
def fn(x):
    d = {}; d.update(o); return x * sum(d.values())
mutations = ['o.keys = lambda: ["q", "r"]', 'del o.keys']
native = None


# %% star_star
class A:
    def __init__(s): s.d = {"a": 1}
    def keys(s): return s.d.keys()
    def __getitem__(s, k): return s.d[k]
o = A()
def h(**k): return sum(k.values())
def fn(x): return x * h(**o)
mutations = ['o.d["b"] = 2', 'o.keys = lambda: []']
native = None


# %% mappingproxy
class A:
    k = 2
def fn(x): return x * A.__dict__["k"] + A.__dict__.get("z", 0) + len(vars(A))
mutations = ['A.k = 3', 'A.z = 4', 'A.y = 4']
native = None


# %% mappingproxy_iter
class A:
    k = 2
def fn(x): return x * sum(v for n, v in A.__dict__.items() if isinstance(v, int))
mutations = ['A.k = 3', 'A.z = 4']
native = None


# %% mappingproxy_plain
d = {"a": 1}
p = types.MappingProxyType(d)
def fn(x): return x * p["a"] + sum(p.values())
mutations = ['d["a"] = 2', 'd["b"] = 2']
native = None


# %% copy_slots
class S:
    __slots__ = ("a", "b")
s = S(); s.a = 1; s.b = 2
def fn(x): return x * copy.copy(s).a
mutations = ['s.a = 3']
native = None


# %% deepcopy_slots
class S:
    __slots__ = ("a", "b")
s = S(); s.a = [1]; s.b = 2
def fn(x): return x * copy.deepcopy(s).a[0]
mutations = ['s.a = [3]', 's.a[0] = 5']
native = None


# %% copy_plain
class S:
    def __init__(s): s.a = 1
s = S()
def fn(x): return x * copy.copy(s).a
mutations = ['s.a = 3', 'S.a = 9; del s.a']
native = None


# %% reduce_ex
class S:
    __slots__ = ("a",)
s = S(); s.a = 1
def fn(x): return x * s.__reduce_ex__(2)[2][1]["a"]
mutations = ['s.a = 3']
native = None


# %% counter_outside
c = collections.Counter("aab")
def fn(x):
    c.update("a"); return x * c["a"]
mutations = ['c["a"] = 0']
native = False


# %% counter_own
w = ["a", "b", "a"]
def fn(x): return x * collections.Counter(w)["a"]
mutations = ['w.append("a")']
native = None


# %% most_common
w = ["a", "b", "a"]
def fn(x): return x * collections.Counter(w).most_common(1)[0][1]
mutations = ['w.append("b"); w.append("b")']
native = None


# %% err_note
e = ValueError("a")
def fn(x):
    e.add_note("n"); return x * len(e.__notes__)
mutations = ['e.__notes__.clear()']
native = None


# %% err_args
e = ValueError("a", 2)
def fn(x): return x * e.args[1] + len(str(e))
mutations = ['e.args = ("b", 3)']
native = False


# %% err_repr
e = ValueError("a", 2)
def fn(x): return x * len(repr(e))
mutations = ['e.args = ("bbbbb", 3)']
native = None


# %% tuple_deep_eq
t = ([1, 2],)
def fn(x): return x * (2 if t == ([1, 2],) else 3)
mutations = ['t[0].append(3)']
native = None


# %% list_deep_in
t = [[1], [2]]
def fn(x): return x * (2 if [3] in t else 3) + t.count([1])
mutations = ['t[0][0] = 3']
native = None


# %% sorted_deep
t = [[2, 5], [1, 9]]
def fn(x): return x * sorted(t)[0][1] + max(t)[1]
mutations = ['t[0][0] = 0', 't[1][0] = 9']
native = None


# %% namespace_eq
n = types.SimpleNamespace(a=1, b=[2])
def fn(x): return x * (2 if n == types.SimpleNamespace(a=1, b=[2]) else 3)
mutations = ['n.a = 2', 'n.a = 1', 'n.b.append(3)']
native = None


# %% namespace_list_eq
n = [types.SimpleNamespace(a=1)]
def fn(x): return x * (2 if n == [types.SimpleNamespace(a=1)] else 3)
mutations = ['n[0].a = 2']
native = None


# %% namespace_repr
n = types.SimpleNamespace(a=1)
def fn(x): return x * len(repr(n))
mutations = ['n.a = 2222']
native = None


# %% namespace_list_repr
n = [types.SimpleNamespace(a=1)]
def fn(x): return x * len(repr(n)) + len(f"{n}") + len("%s" % n)
mutations = ['n[0].a = 2222']
native = None


# %% partial_repr
p = functools.partial(int, base=2)
def fn(x): return x * len(repr(p)) + p("10")
mutations = ['p.keywords["base"] = 16']
native = None


# %% deque_eq
d = collections.deque([[1]])
def fn(x): return x * (2 if d == collections.deque([[1]]) else 3)
mutations = ['d[0][0] = 2']
native = None


# %% weakref_eq
class A:
    def __init__(s, v): s.v = v
    def __eq__(s, o): return s.v == o.v
    __hash__ = None
a, b = A(1), A(1)
r, q = weakref.ref(a), weakref.ref(b)
def fn(x): return x * (2 if r == q else 3)
mutations = ['a.v = 2']
native = None


# %% dict_eq_deep
d = {"a": {"b": [1]}}
def fn(x): return x * (2 if d == {"a": {"b": [1]}} else 3)
mutations = ['d["a"]["b"][0] = 2']
native = None


# %% items_view
d = {"a": [1]}
def fn(x): return x * (2 if ("a", [1]) in d.items() else 3)
mutations = ['d["a"][0] = 2']
native = None


# %% keys_and
d = {"a": 1}
def fn(x): return x * len(d.keys() & {"a", "b"})
mutations = ['d["b"] = 2']
native = None


# %% enum_like
class E(enum.Enum):
    A = 1
    B = 2
cfg = {"m": E.A}
def fn(x): return x * cfg["m"].value + (1 if cfg["m"] is E.B else 0) + len(E)
mutations = ['cfg["m"] = E.B']
native = None


# %% dataclass_eq
@dataclasses.dataclass
class D:
    a: int = 1
    b: list = dataclasses.field(default_factory=list)
d = D()
def fn(x): return x * (2 if d == D() else 3)
mutations = ['d.b.append(1)', 'd.b.clear(); d.a = 2']
native = None


# %% asdict
@dataclasses.dataclass
class D:
    a: int = 1
    b: list = dataclasses.field(default_factory=lambda: [1])
d = D()
def fn(x): return x * sum(dataclasses.asdict(d)["b"]) + dataclasses.replace(d, a=4).a
mutations = ['d.b.append(1)', 'd.a = 9']
native = None


# %% namedtuple
P = collections.namedtuple("P", "a b")
p = [P(1, [2])]
def fn(x): return x * p[0].a + sum(p[0].b) + p[0]._replace(a=2).a + len(p[0]._asdict())
mutations = ['p[0].b.append(2)', 'p[0] = P(4, [1])']
native = None
