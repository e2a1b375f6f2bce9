# SPDX-License-Identifier: Apache-2.0
"""What native code reads of the values it is handed, and what Python code gives back to it."""
import array
import collections
import copy
import dataclasses
import datetime
import enum
import fractions
import functools
import itertools
import math
import operator
import re
import string
import types
import weakref

import torch


# %% isinstance_class_changed
class A: pass
class B(A): pass
class C: pass
o = B()
def fn(x): return x * (2 if isinstance(o, A) else 3)
def inputs():
    return (torch.arange(3.0),)
mutations = ['o.__class__ = C']
native = None

# %% callable_added
class A: pass
o = A()
def fn(x): return x * (2 if callable(o) else 3)
def inputs():
    return (torch.arange(3.0),)
mutations = ['A.__call__ = lambda s: 1', 'del A.__call__']
native = None

# %% truth_added
class A: pass
o = A()
def fn(x): return x * 2 if o else x * 3
def inputs():
    return (torch.arange(3.0),)
mutations = ['A.__bool__ = lambda s: False', 'del A.__bool__; A.__len__ = lambda s: 0']
native = None

# %% len_added
class A:
    n = 2
    def __len__(self): return self.n
o = A()
def fn(x): return x * len(o)
def inputs():
    return (torch.arange(3.0),)
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
def inputs():
    return (torch.arange(3.0),)
mutations = ['o.n = 4', 'A.__int__ = lambda s: 9', 'A.__float__ = lambda s: 9.', 'A.__index__ = lambda s: 1']
native = None

# %% int_added
class A:
    def __index__(self): return 3
o = A()
def fn(x): return x * int(o)
def inputs():
    return (torch.arange(3.0),)
mutations = ['A.__int__ = lambda s: 9']
native = None

# %% dict_of_object
class A:
    def __init__(s): s.d = {"a": 1}
    def keys(s): return s.d.keys()
    def __getitem__(s, k): return s.d[k]
o = A()
def fn(x): return x * sum(dict(o).values())
def inputs():
    return (torch.arange(3.0),)
mutations = ['o.d["b"] = 2', 'A.__getitem__ = lambda s, k: 5', 'A.keys = lambda s: ["q"]', 'o.keys = lambda: ["q", "r"]']
native = None

# %% dict_update_instance_keys
class A:
    def __iter__(s): return iter([("a", 1)])
    def __getitem__(s, k): return 10
o = A()
def fn(x):
    d = {}; d.update(o); return x * sum(d.values())
def inputs():
    return (torch.arange(3.0),)
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
def inputs():
    return (torch.arange(3.0),)
mutations = ['o.d["b"] = 2', 'o.keys = lambda: []']
native = None

# %% mappingproxy
class A:
    k = 2
def fn(x): return x * A.__dict__["k"] + A.__dict__.get("z", 0) + len(vars(A))
def inputs():
    return (torch.arange(3.0),)
mutations = ['A.k = 3', 'A.z = 4', 'A.y = 4']
native = None

# %% mappingproxy_iter
class A:
    k = 2
def fn(x): return x * sum(v for n, v in A.__dict__.items() if isinstance(v, int))
def inputs():
    return (torch.arange(3.0),)
mutations = ['A.k = 3', 'A.z = 4']
native = None

# %% mappingproxy_plain
d = {"a": 1}
p = types.MappingProxyType(d)
def fn(x): return x * p["a"] + sum(p.values())
def inputs():
    return (torch.arange(3.0),)
mutations = ['d["a"] = 2', 'd["b"] = 2']
native = None

# %% copy_slots
class S:
    __slots__ = ("a", "b")
s = S(); s.a = 1; s.b = 2
def fn(x): return x * copy.copy(s).a
def inputs():
    return (torch.arange(3.0),)
mutations = ['s.a = 3']
native = None

# %% deepcopy_slots
class S:
    __slots__ = ("a", "b")
s = S(); s.a = [1]; s.b = 2
def fn(x): return x * copy.deepcopy(s).a[0]
def inputs():
    return (torch.arange(3.0),)
mutations = ['s.a = [3]', 's.a[0] = 5']
native = None

# %% copy_plain
class S:
    def __init__(s): s.a = 1
s = S()
def fn(x): return x * copy.copy(s).a
def inputs():
    return (torch.arange(3.0),)
mutations = ['s.a = 3', 'S.a = 9; del s.a']
native = None

# %% reduce_ex
class S:
    __slots__ = ("a",)
s = S(); s.a = 1
def fn(x): return x * s.__reduce_ex__(2)[2][1]["a"]
def inputs():
    return (torch.arange(3.0),)
mutations = ['s.a = 3']
native = None

# %% counter_outside
c = collections.Counter("aab")
def fn(x):
    c.update("a"); return x * c["a"]
def inputs():
    return (torch.arange(3.0),)
mutations = ['c["a"] = 0']
native = False

# %% counter_own
w = ["a", "b", "a"]
def fn(x): return x * collections.Counter(w)["a"]
def inputs():
    return (torch.arange(3.0),)
mutations = ['w.append("a")']
native = None

# %% most_common
w = ["a", "b", "a"]
def fn(x): return x * collections.Counter(w).most_common(1)[0][1]
def inputs():
    return (torch.arange(3.0),)
mutations = ['w.append("b"); w.append("b")']
native = None

# %% err_note
e = ValueError("a")
def fn(x):
    e.add_note("n"); return x * len(e.__notes__)
def inputs():
    return (torch.arange(3.0),)
mutations = ['e.__notes__.clear()']
native = None

# %% err_args
e = ValueError("a", 2)
def fn(x): return x * e.args[1] + len(str(e))
def inputs():
    return (torch.arange(3.0),)
mutations = ['e.args = ("b", 3)']
native = False

# %% err_repr
e = ValueError("a", 2)
def fn(x): return x * len(repr(e))
def inputs():
    return (torch.arange(3.0),)
mutations = ['e.args = ("bbbbb", 3)']
native = None

# %% tuple_deep_eq
t = ([1, 2],)
def fn(x): return x * (2 if t == ([1, 2],) else 3)
def inputs():
    return (torch.arange(3.0),)
mutations = ['t[0].append(3)']
native = None

# %% list_deep_in
t = [[1], [2]]
def fn(x): return x * (2 if [3] in t else 3) + t.count([1])
def inputs():
    return (torch.arange(3.0),)
mutations = ['t[0][0] = 3']
native = None

# %% sorted_deep
t = [[2, 5], [1, 9]]
def fn(x): return x * sorted(t)[0][1] + max(t)[1]
def inputs():
    return (torch.arange(3.0),)
mutations = ['t[0][0] = 0', 't[1][0] = 9']
native = None

# %% namespace_eq
n = types.SimpleNamespace(a=1, b=[2])
def fn(x): return x * (2 if n == types.SimpleNamespace(a=1, b=[2]) else 3)
def inputs():
    return (torch.arange(3.0),)
mutations = ['n.a = 2', 'n.a = 1', 'n.b.append(3)']
native = None

# %% namespace_list_eq
n = [types.SimpleNamespace(a=1)]
def fn(x): return x * (2 if n == [types.SimpleNamespace(a=1)] else 3)
def inputs():
    return (torch.arange(3.0),)
mutations = ['n[0].a = 2']
native = None

# %% namespace_repr
n = types.SimpleNamespace(a=1)
def fn(x): return x * len(repr(n))
def inputs():
    return (torch.arange(3.0),)
mutations = ['n.a = 2222']
native = None

# %% namespace_list_repr
n = [types.SimpleNamespace(a=1)]
def fn(x): return x * len(repr(n)) + len(f"{n}") + len("%s" % n)
def inputs():
    return (torch.arange(3.0),)
mutations = ['n[0].a = 2222']
native = None

# %% partial_repr
p = functools.partial(int, base=2)
def fn(x): return x * len(repr(p)) + p("10")
def inputs():
    return (torch.arange(3.0),)
mutations = ['p.keywords["base"] = 16']
native = None

# %% deque_eq
d = collections.deque([[1]])
def fn(x): return x * (2 if d == collections.deque([[1]]) else 3)
def inputs():
    return (torch.arange(3.0),)
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
def inputs():
    return (torch.arange(3.0),)
mutations = ['a.v = 2']
native = None

# %% dict_eq_deep
d = {"a": {"b": [1]}}
def fn(x): return x * (2 if d == {"a": {"b": [1]}} else 3)
def inputs():
    return (torch.arange(3.0),)
mutations = ['d["a"]["b"][0] = 2']
native = None

# %% items_view
d = {"a": [1]}
def fn(x): return x * (2 if ("a", [1]) in d.items() else 3)
def inputs():
    return (torch.arange(3.0),)
mutations = ['d["a"][0] = 2']
native = None

# %% keys_and
d = {"a": 1}
def fn(x): return x * len(d.keys() & {"a", "b"})
def inputs():
    return (torch.arange(3.0),)
mutations = ['d["b"] = 2']
native = None

# %% enum_like
class E(enum.Enum):
    A = 1
    B = 2
cfg = {"m": E.A}
def fn(x): return x * cfg["m"].value + (1 if cfg["m"] is E.B else 0) + len(E)
def inputs():
    return (torch.arange(3.0),)
mutations = ['cfg["m"] = E.B']
native = None

# %% dataclass_eq
@dataclasses.dataclass
class D:
    a: int = 1
    b: list = dataclasses.field(default_factory=list)
d = D()
def fn(x): return x * (2 if d == D() else 3)
def inputs():
    return (torch.arange(3.0),)
mutations = ['d.b.append(1)', 'd.b.clear(); d.a = 2']
native = None

# %% asdict
@dataclasses.dataclass
class D:
    a: int = 1
    b: list = dataclasses.field(default_factory=lambda: [1])
d = D()
def fn(x): return x * sum(dataclasses.asdict(d)["b"]) + dataclasses.replace(d, a=4).a
def inputs():
    return (torch.arange(3.0),)
mutations = ['d.b.append(1)', 'd.a = 9']
native = None

# %% namedtuple
P = collections.namedtuple("P", "a b")
p = [P(1, [2])]
def fn(x): return x * p[0].a + sum(p[0].b) + p[0]._replace(a=2).a + len(p[0]._asdict())
def inputs():
    return (torch.arange(3.0),)
mutations = ['p[0].b.append(2)', 'p[0] = P(4, [1])']
native = None

# %% sorted_values
d = {"a": [2, 5], "b": [1, 9]}
def fn(x): return x * sorted(d.values())[0][1] + max(d.items())[1][0]
def inputs():
    return (torch.arange(3.0),)
mutations = ['d["a"][0] = 0', 'd["b"][0] = 7']
native = None

# %% sorted_key_returns_list
class R:
    def __init__(s, v): s.v = v
rs = [R([2, 5]), R([1, 9])]
def fn(x): return x * sorted(rs, key=lambda r: r.v)[0].v[1]
def inputs():
    return (torch.arange(3.0),)
mutations = ['rs[0].v[0] = 0']
native = None

# %% min_gen_of_lists
rows = [[2, 5], [1, 9]]
def fn(x): return x * min(r for r in rows)[1] + x * max(reversed(rows))[1]
def inputs():
    return (torch.arange(3.0),)
mutations = ['rows[0][0] = 0', 'rows[1][0] = 9']
native = None

# %% sum_lists
rows = [[2, 5], [1, 9]]
def fn(x): return x * sum(sum(rows, []))
def inputs():
    return (torch.arange(3.0),)
mutations = ['rows[0][0] = 0', 'rows.append([1])']
native = None

# %% sum_gen_lists
class R:
    def __init__(s, v): s.v = v
rs = [R([2, 5]), R([1, 9])]
def fn(x): return x * sum(sum((r.v for r in rs), []))
def inputs():
    return (torch.arange(3.0),)
mutations = ['rs[0].v[0] = 0']
native = None

# %% map_attrgetter
class R:
    def __init__(s, v): s.v = v
rs = [R(2), R(1)]
def fn(x): return x * sum(map(operator.attrgetter("v"), rs))
def inputs():
    return (torch.arange(3.0),)
mutations = ['rs[0].v = 5']
native = None

# %% sorted_attrgetter
class R:
    def __init__(s, v): s.v = v
rs = [R(2), R(1)]
def fn(x): return x * sorted(rs, key=operator.attrgetter("v"))[0].v
def inputs():
    return (torch.arange(3.0),)
mutations = ['rs[0].v = 0']
native = None

# %% map_getattr
class R:
    def __init__(s, v): s.v = v
rs = [R(2), R(1)]
def fn(x): return x * sum(map(getattr, rs, ["v", "v"]))
def inputs():
    return (torch.arange(3.0),)
mutations = ['rs[0].v = 0']
native = None

# %% reduce_getattr
class R:
    def __init__(s, v): s.v = v
o = R(R(3))
def fn(x): return x * functools.reduce(getattr, ["v", "v"], o)
def inputs():
    return (torch.arange(3.0),)
mutations = ['o.v.v = 0', 'o.v = R(7)']
native = None

# %% sorted_dict_get
d = {"a": 2, "b": 1}
def fn(x): return x * d[sorted(["a", "b"], key=d.get)[0]] + max(d, key=d.get).count("a")
def inputs():
    return (torch.arange(3.0),)
mutations = ['d["a"] = 0']
native = None

# %% map_getitem
d = {"a": 2, "b": 1}
def fn(x): return x * sum(map(d.__getitem__, ["a", "b"]))
def inputs():
    return (torch.arange(3.0),)
mutations = ['d["a"] = 0']
native = None

# %% filter_none
l = [[1], [], [2]]
def fn(x): return x * len(list(filter(None, l)))
def inputs():
    return (torch.arange(3.0),)
mutations = ['l[1].append(1)', 'l[0].clear()']
native = None

# %% any_all
l = [[1], [], [2]]
def fn(x): return x * (2 if any(l) else 1) * (3 if all(l) else 1)
def inputs():
    return (torch.arange(3.0),)
mutations = ['l[1].append(1)']
native = None

# %% bool_nested
l = [[1], [], [2]]
def fn(x): return x * len([1 for i in l if i]) * (2 if not l[1] else 1)
def inputs():
    return (torch.arange(3.0),)
mutations = ['l[1].append(1)']
native = None

# %% zip_rows
rows = [[2, 5], [1, 9]]
def fn(x): return x * sum(a * b for a, b in zip(*rows))
def inputs():
    return (torch.arange(3.0),)
mutations = ['rows[0][0] = 0', 'rows[0].append(1); rows[1].append(1)']
native = None

# %% chain_rows
rows = [[2, 5], [1, 9]]
def fn(x): return x * sum(itertools.chain(*rows)) + sum(itertools.chain.from_iterable(rows))
def inputs():
    return (torch.arange(3.0),)
mutations = ['rows[0][0] = 0', 'rows[0].append(1)']
native = None

# %% accumulate
rows = [2, 5]
def fn(x): return x * list(itertools.accumulate(rows, operator.mul))[-1] + sum(itertools.starmap(operator.add, [rows]))
def inputs():
    return (torch.arange(3.0),)
mutations = ['rows[0] = 3']
native = None

# %% getitem_seq
class Q:
    def __init__(s): s.r = [[3], [1]]
    def __getitem__(s, i): return s.r[i]
    def __len__(s): return len(s.r)
q = Q()
def fn(x): return x * sorted(q)[0][0] + (1 if [3] in q else 0) + sum(i[0] for i in q) + len(list(reversed(q)))
def inputs():
    return (torch.arange(3.0),)
mutations = ['q.r[0][0] = 0', 'q.r.append([0])', 'Q.__getitem__ = lambda s, i: s.r[i] if i < 1 else [][1]']
native = None

# %% iter_obj
class Q:
    def __init__(s): s.r = [[3], [1]]
    def __iter__(s): return iter(s.r)
q = Q()
def fn(x): return x * sorted(q)[0][0] + (1 if [3] in q else 0) + sum(i[0] for i in q)
def inputs():
    return (torch.arange(3.0),)
mutations = ['q.r[0][0] = 0', 'q.r.append([0])']
native = None

# %% contains_obj
class Q:
    def __init__(s): s.r = {1, 2}
    def __contains__(s, i): return i in s.r
q = Q()
def fn(x): return x * (2 if 1 in q else 3)
def inputs():
    return (torch.arange(3.0),)
mutations = ['q.r.remove(1)']
native = None

# %% set_of_objects
class K:
    def __init__(s, v): s.v = v
    def __hash__(s): return hash(s.v)
    def __eq__(s, o): return s.v == o.v
k = K(1); st = {k}
def fn(x): return x * (2 if K(1) in st else 3)
def inputs():
    return (torch.arange(3.0),)
mutations = ['k.v = 2']
native = False

# %% sorted_objs_lt
class K:
    def __init__(s, v): s.v = v
    def __lt__(s, o): return s.v < o.v
ks = [K([2]), K([1])]
def fn(x): return x * min(ks).v[0] + sorted(ks)[1].v[0]
def inputs():
    return (torch.arange(3.0),)
mutations = ['ks[0].v[0] = 0', 'K.__lt__ = lambda s, o: s.v > o.v']
native = None

# %% total_ordering
@functools.total_ordering
class K:
    def __init__(s, v): s.v = v
    def __lt__(s, o): return s.v < o.v
    def __eq__(s, o): return s.v == o.v
ks = [K(2), K(1)]
def fn(x): return x * max(ks).v + (1 if ks[0] >= ks[1] else 0)
def inputs():
    return (torch.arange(3.0),)
mutations = ['ks[1].v = 5']
native = None

# %% numpy_out
import numpy as np
o = np.zeros(3)
def fn(x):
    np.add(o, 1, out=o); return x * float(o[0])
def inputs():
    return (torch.arange(3.0),)
mutations = ['o[0] = 9']
native = None

# %% numpy_at
import numpy as np
o = np.zeros(3)
def fn(x):
    np.add.at(o, [0], 1); return x * float(o.sum())
def inputs():
    return (torch.arange(3.0),)
mutations = ['o[0] = 9']
native = None

# %% numpy_iadd
import numpy as np
o = np.zeros(3)
def fn(x):
    global o
    o += 1; return x * float(o.sum())
def inputs():
    return (torch.arange(3.0),)
mutations = ['o[0] = 9']
native = None

# %% numpy_setitem
import numpy as np
o = np.zeros(3)
def fn(x):
    o[1] = o[1] + 1; return x * float(o.sum())
def inputs():
    return (torch.arange(3.0),)
mutations = ['o[0] = 9']
native = None

# %% numpy_read
import numpy as np
o = np.arange(3.)
def fn(x): return x * float(o.mean()) + o[1] + o.tolist()[2] + len(o) + o.shape[0] + float(np.sqrt(o)[1]) + float((o * 2).max())
def inputs():
    return (torch.arange(3.0),)
mutations = ['o[0] = 9', 'o.resize((2,), refcheck=False)']
native = None

# %% numpy_list
import numpy as np
o = [np.arange(3.), np.arange(2.)]
def fn(x): return x * float(sum(a.sum() for a in o)) + np.array(o[0]).sum().item()
def inputs():
    return (torch.arange(3.0),)
mutations = ['o[0][0] = 9', 'o[1] = np.ones(5)']
native = None

# %% numpy_obj_array
import numpy as np
class A:
    def __init__(s): s.v = [1., 2.]
    def __array__(s, *a, **k): return np.array(s.v)
o = A()
def fn(x): return x * float(np.asarray(o).sum()) + float(np.sqrt(o)[0])
def inputs():
    return (torch.arange(3.0),)
mutations = ['o.v[0] = 9.']
native = None

# %% numpy_scalar_attr
import numpy as np
cfg = {"k": np.float32(2)}
def fn(x): return x * cfg["k"] + float(cfg["k"] * 2)
def inputs():
    return (torch.arange(3.0),)
mutations = ['cfg["k"] = np.float32(3)']
native = None

# %% array_array
o = array.array("i", [1, 2])
def fn(x): return x * o[0] + len(o) + sum(o) + (1 if 2 in o else 0) + (1 if o == array.array("i", [1, 2]) else 0)
def inputs():
    return (torch.arange(3.0),)
mutations = ['o[0] = 5', 'o.append(2)']
native = None

# %% bytearray_
o = bytearray(b"ab")
def fn(x): return x * o[0] + len(o) + sum(o) + o.find(b"b") + (1 if o == b"ab" else 0) + int(o.decode() == "ab")
def inputs():
    return (torch.arange(3.0),)
mutations = ['o[0] = 5', 'o.append(2)']
native = None

# %% memoryview_
b = bytearray(b"ab"); o = memoryview(b)
def fn(x): return x * o[0] + len(o) + sum(o)
def inputs():
    return (torch.arange(3.0),)
mutations = ['b[0] = 5']
native = None

# %% ordered_dict
o = collections.OrderedDict(a=[1], b=[2])
def fn(x): return x * list(o.values())[0][0] + (1 if o == collections.OrderedDict(a=[1], b=[2]) else 0) + next(iter(o)).count("a")
def inputs():
    return (torch.arange(3.0),)
mutations = ['o["a"][0] = 5', 'o["a"][0] = 1; o.move_to_end("a")']
native = None

# %% chainmap
a, b = {"k": 1}, {"k": 2, "j": 3}
o = collections.ChainMap(a, b)
def fn(x): return x * o["k"] + o["j"] + len(o) + sum(o.values())
def inputs():
    return (torch.arange(3.0),)
mutations = ['a["j"] = 5', 'del a["k"]', 'o.maps.append({"z": 1})']
native = None

# %% userdict
o = collections.UserDict(a=1)
def fn(x): return x * o["a"] + len(o) + sum(o.values())
def inputs():
    return (torch.arange(3.0),)
mutations = ['o["b"] = 5', 'o.data["a"] = 4']
native = None

# %% dict_subclass_missing
class M(dict):
    k = 3
    def __missing__(s, key): return s.k
o = M(a=1)
def fn(x): return x * o["a"] + o["zz"]
def inputs():
    return (torch.arange(3.0),)
mutations = ['M.k = 5', 'o["zz"] = 4']
native = None

# %% list_subclass
class L(list):
    def __init__(s, v): super().__init__(v); s.scale = 2
    def __getitem__(s, i): return list.__getitem__(s, i) * s.scale
o = L([1, 2])
def fn(x): return x * o[0] + sum(o) + len(o)
def inputs():
    return (torch.arange(3.0),)
mutations = ['o.scale = 5', 'list.__setitem__(o, 0, 9)', 'o.append(3)']
native = None

# %% int_subclass
class I(int):
    def __new__(cls, v, s): o = int.__new__(cls, v); o.s = s; return o
    def __mul__(s, o): return int(s) * s.s * o
    def __rmul__(s, o): return o * (int(s) * s.s)
o = [I(2, 3)]
def fn(x): return o[0] * 2 + x * o[0].s + int(o[0])
def inputs():
    return (torch.arange(3.0),)
mutations = ['o[0].s = 5', 'o[0] = I(7, 3)']
native = None

# %% str_subclass
class S(str):
    def __len__(s): return s.n
o = S("abc"); o.n = 5
def fn(x): return x * len(o) + o.count("a") + (1 if o == "abc" else 0) + len(o.upper())
def inputs():
    return (torch.arange(3.0),)
mutations = ['o.n = 6']
native = None

# %% float_subclass_config
class F(float): pass
cfg = types.SimpleNamespace(a=F(2.))
def fn(x): return x * cfg.a + math.floor(cfg.a) + (1 if cfg.a > 1 else 0)
def inputs():
    return (torch.arange(3.0),)
mutations = ['cfg.a = F(.5)']
native = None

# %% datetime_
o = [datetime.datetime(2020, 1, 2), datetime.timedelta(days=1)]
def fn(x): return x * o[0].year + (o[0] + o[1]).day + o[1].days + (1 if o[0] > datetime.datetime(2019, 1, 1) else 0)
def inputs():
    return (torch.arange(3.0),)
mutations = ['o[0] = datetime.datetime(2018, 1, 2)', 'o[1] = datetime.timedelta(days=3)']
native = None

# %% fraction
o = [fractions.Fraction(1, 3)]
def fn(x): return x * float(o[0] + 1) + o[0].denominator + round(o[0] * 7)
def inputs():
    return (torch.arange(3.0),)
mutations = ['o[0] = fractions.Fraction(1, 2)']
native = None

# %% regex
p = [re.compile("a+")]
def fn(x): return x * len(p[0].findall("aa b aaa")) + (p[0].match("aab").end()) + len(p[0].sub(lambda m: m.group() * 2, "aa")) 
def inputs():
    return (torch.arange(3.0),)
mutations = ['p[0] = re.compile("b")', 'p[0] = re.compile("A+", re.I)']
native = None

# %% class_assign_method
class A:
    k = 2
    def m(s): return s.k
class B:
    k = 3
    def m(s): return s.k * 10
o = A()
def fn(x): return x * o.m() + o.k
def inputs():
    return (torch.arange(3.0),)
mutations = ['o.__class__ = B']
native = None

# %% class_assign_len
class A:
    def __len__(s): return 2
class B:
    def __len__(s): return 3
o = A()
def fn(x): return x * len(o) + (1 if o else 0)
def inputs():
    return (torch.arange(3.0),)
mutations = ['o.__class__ = B']
native = None

# %% class_assign_type
class A: pass
class B: pass
o = A()
def fn(x): return x * (2 if type(o) is A else 3) + len(type(o).__name__) + (1 if o.__class__ is A else 0)
def inputs():
    return (torch.arange(3.0),)
mutations = ['o.__class__ = B']
native = None

# %% class_assign_module
class A(torch.nn.Module):
    def forward(s, x): return x * 2
class B(torch.nn.Module):
    def forward(s, x): return x * 3
o = A()
def fn(x): return o(x)
def inputs():
    return (torch.arange(3.0),)
mutations = ['o.__class__ = B']
native = None

# %% dunder_nonfunction
class A:
    def __init__(s): s.n = 2
    def real(s): return s.n
    __len__ = real
o = A()
def other(s): return 5
def fn(x): return x * len(o)
def inputs():
    return (torch.arange(3.0),)
mutations = ['A.__len__ = functools.partialmethod(other)', 'A.__len__ = property(lambda s: lambda: 9)']
native = None

# %% dunder_none
class A:
    def __iter__(s): return iter([1, 2])
    def __contains__(s, i): return i == 7
o = A()
def fn(x):
    try: return x * (2 if 7 in o else 3)
    except TypeError: return x * 100
def inputs():
    return (torch.arange(3.0),)
mutations = ['A.__contains__ = None']
native = None

# %% dunder_added_base
class Z: pass
class A(Z): pass
o = A()
def fn(x): return x * (2 if o else 3) + (1 if o == 5 else 2)
def inputs():
    return (torch.arange(3.0),)
mutations = ['Z.__bool__ = lambda s: False', 'Z.__eq__ = lambda s, o: True']
native = None

# %% eq_added
class A: pass
o = A(); l = [o]
def fn(x): return x * (2 if 5 in l else 3) + l.count(5)
def inputs():
    return (torch.arange(3.0),)
mutations = ['A.__eq__ = lambda s, o: True']
native = None

# %% iter_return_list_attr
class A:
    def __init__(s): s.names = ["a"]; s.v = {"a": 1, "b": 2}
    def keys(s): return s.names
    def __getitem__(s, k): return s.v[k]
o = A()
def h(**k): return sum(k.values())
def fn(x): return x * h(**o) + sum(dict(o).values())
def inputs():
    return (torch.arange(3.0),)
mutations = ['o.names.append("b")']
native = None

# %% instancecheck_list
class M(type):
    items = []
    def __instancecheck__(cls, o): return cls.items
class A(metaclass=M): pass
def fn(x): return x * (2 if isinstance(5, A) else 3)
def inputs():
    return (torch.arange(3.0),)
mutations = ['M.items.append(1)']
native = None

# %% exit_list
class C:
    def __init__(s): s.errs = [1]
    def __enter__(s): return s
    def __exit__(s, *a): return s.errs
c = C()
def fn(x):
    with c:
        raise ValueError
    return x
def g(x):
    try:
        with c: raise ValueError
        return x * 2
    except ValueError: return x * 3
f = g
def inputs():
    return (torch.arange(3.0),)
mutations = ['c.errs.clear()']
native = None

# %% lt_returns_list
class K:
    def __init__(s, v): s.v = v
    def __lt__(s, o): return s.v
a, b = K([1]), K([])
def fn(x): return x * len(sorted([a, b])[0].v)
def inputs():
    return (torch.arange(3.0),)
mutations = ['a.v.clear(); b.v.append(1); b.v.append(1)']
native = None

# %% key_tuple_of_lists
class R:
    def __init__(s, v): s.v = v
rs = [R([2, 5]), R([1, 9])]
def fn(x): return x * max(rs, key=lambda r: (0, r.v)).v[1]
def inputs():
    return (torch.arange(3.0),)
mutations = ['rs[1].v[0] = 9']
native = None

# %% reduce_lists
rows = {"a": [1], "b": [2]}
def fn(x): return x * sum(functools.reduce(lambda acc, k: acc + rows[k], ["a", "b"], []))
def inputs():
    return (torch.arange(3.0),)
mutations = ['rows["a"].append(5)']
native = None

# %% join_names
class N:
    def __init__(s): s.parts = ["a", "b"]
n = N()
def fn(x): return x * len("".join(p for p in n.parts)) + len(",".join(n.parts)) + len("%s-%s" % tuple(n.parts))
def inputs():
    return (torch.arange(3.0),)
mutations = ['n.parts.append("cc"); n.parts.pop(0)', 'n.parts[0] = "long"']
native = None

# %% yield_from
class N:
    def __init__(s): s.rows = [[1], [3]]
    def walk(s): yield from s.rows
n = N()
def fn(x): return x * max(n.walk())[0] + len(list(n.walk())) + sum(sum(n.walk(), []))
def inputs():
    return (torch.arange(3.0),)
mutations = ['n.rows[0][0] = 7', 'n.rows.append([9])']
native = None

# %% map_lambda_rows
n = {"rows": [[1], [3]]}
def fn(x): return x * max(map(lambda i: n["rows"][i], [0, 1]))[0]
def inputs():
    return (torch.arange(3.0),)
mutations = ['n["rows"][0][0] = 7']
native = None

# %% filter_lambda
n = {"rows": [[1], []]}
def fn(x): return x * len(list(filter(lambda i: n["rows"][i], [0, 1])))
def inputs():
    return (torch.arange(3.0),)
mutations = ['n["rows"][1].append(7)']
native = None

# %% any_gen
n = {"rows": [[], []]}
def fn(x): return x * (2 if any(n["rows"][i] for i in (0, 1)) else 3)
def inputs():
    return (torch.arange(3.0),)
mutations = ['n["rows"][1].append(7)']
native = None

# %% dict_comp_items
n = {"a": {"w": 1}, "b": {"w": 2}}
def fn(x): return x * sum(v["w"] for v in n.values()) + sum({k: v["w"] for k, v in n.items()}.values())
def inputs():
    return (torch.arange(3.0),)
mutations = ['n["a"]["w"] = 7', 'n["c"] = {"w": 3}']
native = None

# %% max_dict_values_dicts
n = {"a": (1, {"w": 1}), "b": (1, {"w": 1})}
def fn(x): return x * (2 if n["a"] == n["b"] else 3)
def inputs():
    return (torch.arange(3.0),)
mutations = ['n["a"][1]["w"] = 7']
native = None

# %% torch_tensor_from_view
n = {"a": [1., 2.], "b": [3., 4.]}
def fn(x): return x.sum() + torch.tensor(list(n.values()))
def inputs():
    return (torch.arange(3.0),)
mutations = ['n["a"][0] = 9.']
native = None

# %% torch_stack_list_attr
class H:
    def __init__(s): s.scales = [1., 2., 3.]
h = H()
def fn(x): return x * torch.tensor(h.scales) + torch.as_tensor(h.scales).sum()
def inputs():
    return (torch.arange(3.0),)
mutations = ['h.scales[0] = 9.']
native = None

# %% torch_tensor_seq_object
class H:
    def __init__(s): s.v = [1., 2., 3.]
    def __len__(s): return len(s.v)
    def __getitem__(s, i): return s.v[i]
h = H()
def fn(x): return x * torch.tensor(h)
def inputs():
    return (torch.arange(3.0),)
mutations = ['h.v[0] = 9.']
native = None

# %% reshape_list
h = {"shape": [3, 1]}
def fn(x): return x.reshape(h["shape"]).sum(0) + x.view(*h["shape"])
def inputs():
    return (torch.arange(3.0),)
mutations = ['h["shape"][:] = [1, 3]']
native = None

# %% deque_list_max
d = collections.deque([[1], [3]])
def fn(x): return x * max(d)[0] + sorted(d)[0][0]
def inputs():
    return (torch.arange(3.0),)
mutations = ['d[0][0] = 7']
native = None

# %% set_of_tuples_objects
class K:
    def __init__(s, v): s.v = v
    def __eq__(s, o): return s.v == o.v
    def __hash__(s): return 1
k = K([1]); st = frozenset([k])
def fn(x): return x * (2 if st == frozenset([K([1])]) else 3)
def inputs():
    return (torch.arange(3.0),)
mutations = ['k.v[0] = 5']
native = None

# %% slots_objs
class S:
    __slots__ = ("v",)
    def __init__(s, v): s.v = v
    def __eq__(s, o): return s.v == o.v
l = [S([1]), S([2])]
def fn(x): return x * l.index(S([2])) + (2 if S([1]) in l else 3)
def inputs():
    return (torch.arange(3.0),)
mutations = ['l[1].v[0] = 1; l[0].v[0] = 2']
native = None

# %% exception_attr
class MyErr(Exception):
    def __init__(s, code): super().__init__("m"); s.code = code
e = MyErr(3)
def fn(x): return x * e.code + len(e.args)
def inputs():
    return (torch.arange(3.0),)
mutations = ['e.code = 4', 'e.args = (1, 2)']
native = None

# %% raised_own
def h(v):
    if v > 1: raise ValueError("abc", v)
cfg = {"v": 2}
def fn(x):
    try: h(cfg["v"])
    except ValueError as e: return x * len(str(e)) + e.args[1]
    return x
def inputs():
    return (torch.arange(3.0),)
mutations = ['cfg["v"] = 300', 'cfg["v"] = 0']
native = None

# %% partial_kw
p = functools.partial(lambda a, s: a * s, s=2)
def fn(x): return p(x) + p.keywords["s"] + len(p.args)
def inputs():
    return (torch.arange(3.0),)
mutations = ['p.keywords["s"] = 5']
native = None

# %% random_instance
import random
r = random.Random(0)
def fn(x): return x * r.random()
def inputs():
    return (torch.arange(3.0),)
mutations = ['r.seed(0)']
native = None

# %% contextlib_
import contextlib
@contextlib.contextmanager
def ctx(v): yield v
cfg = {"v": 2}
def fn(x):
    with ctx(cfg["v"]) as v, contextlib.suppress(ValueError):
        return x * v
def inputs():
    return (torch.arange(3.0),)
mutations = ['cfg["v"] = 3']
native = None

# %% singledispatch
@functools.singledispatch
def h(v): return 1
@h.register
def _(v: int): return 2
cfg = {"v": 2}
def fn(x): return x * h(cfg["v"])
def inputs():
    return (torch.arange(3.0),)
mutations = ['h.register(int, lambda v: 7)', 'cfg["v"] = "s"']
native = None

# %% cached_property
class A:
    n = 2
    @functools.cached_property
    def m(s): return s.n * 2
o = A()
o.m
def fn(x): return x * o.m
def inputs():
    return (torch.arange(3.0),)
mutations = ['o.__dict__["m"] = 9', 'A.n = 5; del o.__dict__["m"]']
native = None

# %% fn_annotations
def h(v: 2): return v
def fn(x): return x * h.__annotations__["v"]
def inputs():
    return (torch.arange(3.0),)
mutations = ['h.__annotations__["v"] = 5']
native = None

# %% fn_attr
def h(v): return v
h.k = [2]
def fn(x): return x * h.k[0] + len(h.__dict__)
def inputs():
    return (torch.arange(3.0),)
mutations = ['h.k[0] = 5', 'h.z = 1']
native = True

# %% fn_doc_name
def h(v):
    "abc"
    return v
def fn(x): return x * len(h.__doc__) + len(h.__name__) + len(h.__qualname__) + len(h.__module__)
def inputs():
    return (torch.arange(3.0),)
mutations = ['h.__doc__ = "abcdef"', 'h.__name__ = "hhhhh"', 'h.__module__ = "hhhhh"']
native = None

# %% cls_names
class A:
    "doc"
    v: int = 3
def fn(x): return x * len(A.__name__) + len(A.__doc__) + len(A.__annotations__) + len(A.__qualname__)
def inputs():
    return (torch.arange(3.0),)
mutations = ['A.__name__ = "AAAA"', 'A.__doc__ = "AAAA99"', 'A.__annotations__["q"] = int', 'A.__qualname__ = "AAAAdd"']
native = None

# %% type_name_of_obj
class A: pass
o = A()
def fn(x): return x * len(type(o).__name__) + len(o.__class__.__name__) + (1 if type(o).__name__ == "A" else 0)
def inputs():
    return (torch.arange(3.0),)
mutations = ['A.__name__ = "AAAA"']
native = None

# %% dict_iter_obj
class A:
    def __init__(s): s.a = 1; s.b = 2
o = A()
def fn(x): return x * sum(o.__dict__.values()) + sum(v for k, v in vars(o).items() if k != "a")
def inputs():
    return (torch.arange(3.0),)
mutations = ['o.c = 4', 'del o.a']
native = None

# %% inspect_sig
import inspect
def h(a, b=2): return a
def fn(x): return x * len(inspect.signature(h).parameters) + inspect.signature(h).parameters["b"].default
def inputs():
    return (torch.arange(3.0),)
mutations = ['h.__defaults__ = (5,)', 'h.__signature__ = inspect.signature(lambda a, b=9, c=1: 0)']
native = None

# %% getfullargspec
import inspect
def h(a, b=2): return a
def fn(x): return x * h.__code__.co_argcount + len(h.__code__.co_varnames) + h.__defaults__[0]
def inputs():
    return (torch.arange(3.0),)
mutations = ['h.__defaults__ = (5,)', 'h.__code__ = (lambda a, b, c=1: a).__code__']
native = None

# %% env_get
import os
os.environ.pop("OWN_K", None)
os.environ.pop("OWN_Z", None)
def fn(x): return x * int(os.environ.get("OWN_K", "2")) + (1 if os.getenv("OWN_Z") else 0)
def inputs():
    return (torch.arange(3.0),)
mutations = ['os.environ["OWN_K"] = "5"', 'os.environ["OWN_Z"] = "5"', 'os.environ.pop("OWN_K", None)']
native = True

# %% globals_item
K = 2
def fn(x): return x * globals()["K"] + globals().get("ZZ", 0)
def inputs():
    return (torch.arange(3.0),)
mutations = ['globals()["K"] = 5', 'globals()["ZZ"] = 5']
native = None

# %% eval_
K = 2
def fn(x): return x * eval("K * 2")
def inputs():
    return (torch.arange(3.0),)
mutations = ['global K; K = 5']
native = None

# %% exec_
K = 2
def fn(x):
    d = {}
    exec("y = K * 2", globals(), d)
    return x * d["y"]
def inputs():
    return (torch.arange(3.0),)
mutations = ['global K; K = 5']
native = None

# %% import_module
import importlib
def fn(x): return x * importlib.import_module("math").pi + __import__("math").e
def inputs():
    return (torch.arange(3.0),)
mutations = ['math.pi = 3', 'math.pi = 3.141592653589793']
native = None

# %% class_made
class A: k = 2
def fn(x):
    T = type("T", (A,), {"j": 3})
    class U(A):
        m = A.k
    return x * T.k + T().j + U.m
def inputs():
    return (torch.arange(3.0),)
mutations = ['A.k = 5']
native = None

# %% super_
class A:
    def m(s): return s.v
class B(A):
    def __init__(s): s.v = 2
    def m(s): return super().m() + 1
o = B()
def fn(x): return x * o.m()
def inputs():
    return (torch.arange(3.0),)
mutations = ['A.m = lambda s: 10', 'o.v = 9; del A.m; A.m = lambda s: s.v']
native = None

# %% meta_attr
class M(type):
    k = 2
    def __getattr__(c, n): return 7
class A(metaclass=M): pass
def fn(x): return x * A.k + A.zzz
def inputs():
    return (torch.arange(3.0),)
mutations = ['M.k = 3', 'A.zzz = 4', 'M.__getattr__ = lambda c, n: 8; del A.zzz']
native = None

# %% class_getitem
class A:
    t = {"i": 2}
    def __class_getitem__(c, i): return c.t[i]
def fn(x): return x * A["i"]
def inputs():
    return (torch.arange(3.0),)
mutations = ['A.t["i"] = 3']
native = None

# %% exitstack
import contextlib
log = [1]
def fn(x):
    with contextlib.ExitStack() as st:
        st.callback(lambda: None)
        return x * log[0]
def inputs():
    return (torch.arange(3.0),)
mutations = ['log[0] = 3']
native = None

# %% thread_local
import threading
t = threading.local(); t.k = 2
def fn(x): return x * t.k
def inputs():
    return (torch.arange(3.0),)
mutations = ['t.k = 5']
native = None

# %% thread_name
import threading
def fn(x): return x * len(threading.current_thread().name)
def inputs():
    return (torch.arange(3.0),)
mutations = ['threading.current_thread().name = "qqqqq"']
native = None

# %% json_
import json
cfg = {"a": [1, 2]}
def fn(x): return x * len(json.dumps(cfg))
def inputs():
    return (torch.arange(3.0),)
mutations = ['cfg["a"].append(3)']
native = None

# %% json_loads
import json
cfg = ['{"a": 2}']
def fn(x): return x * json.loads(cfg[0])["a"]
def inputs():
    return (torch.arange(3.0),)
mutations = ['cfg[0] = \'{"a": 5}\'']
native = None

# %% struct_
import struct
cfg = [b"\x01\x00\x00\x00"]
def fn(x): return x * struct.unpack("<i", cfg[0])[0]
def inputs():
    return (torch.arange(3.0),)
mutations = ['cfg[0] = b"\\x05\\x00\\x00\\x00"']
native = None

# %% hashlib_
import hashlib
cfg = ["a"]
def fn(x): return x * int(hashlib.md5(cfg[0].encode()).hexdigest()[:2], 16)
def inputs():
    return (torch.arange(3.0),)
mutations = ['cfg[0] = "b"']
native = None

# %% heapq_
import heapq
h = [[1, 5], [2, 6]]
def fn(x): return x * heapq.nsmallest(1, h)[0][1]
def inputs():
    return (torch.arange(3.0),)
mutations = ['h[0][0] = 9']
native = None

# %% statistics_
import statistics
v = [1.0, 2.0, 4.0]
def fn(x): return x * statistics.mean(v) + statistics.median(v)
def inputs():
    return (torch.arange(3.0),)
mutations = ['v.append(9.0)']
native = None

# %% bisect_
import bisect
v = [1.0, 2.0, 4.0]
def fn(x): return x * bisect.bisect(v, 2.5)
def inputs():
    return (torch.arange(3.0),)
mutations = ['v.insert(0, 0.5)']
native = None

# %% pathlib_
import pathlib
p = [pathlib.Path("/a/b")]
def fn(x): return x * len(p[0].name) + len(p[0].parts) + len(str(p[0] / "c"))
def inputs():
    return (torch.arange(3.0),)
mutations = ['p[0] = pathlib.Path("/a/bbbb/c")']
native = None

# %% dataclass_fields
@dataclasses.dataclass
class D:
    a: int = 1
    b: int = 2
d = D()
def fn(x): return x * sum(getattr(d, q.name) for q in dataclasses.fields(d))
def inputs():
    return (torch.arange(3.0),)
mutations = ['d.b = 7']
native = None

# %% flag
class F(enum.Flag):
    A = 1
    B = 2
c = {"f": F.A | F.B}
def fn(x): return x * (2 if F.B in c["f"] else 3) + c["f"].value
def inputs():
    return (torch.arange(3.0),)
mutations = ['c["f"] = F.A']
native = None

# %% typing_hints
import typing
class A:
    v: int
def fn(x): return x * len(typing.get_type_hints(A))
def inputs():
    return (torch.arange(3.0),)
mutations = ['A.__annotations__["w"] = str']
native = None

# %% descriptor
class Dsc:
    def __init__(s, k): s.k = k
    def __get__(s, o, t): return s.k if o is None else s.k + o.base
class A:
    d = Dsc(2)
    base = 1
o = A()
def fn(x): return x * o.d + A.d
def inputs():
    return (torch.arange(3.0),)
mutations = ['A.__dict__["d"].k = 5', 'o.base = 9', 'A.d = Dsc(1)']
native = None

# %% weak_dict
class A:
    def __init__(s, v): s.v = v
a = A(2)
w = weakref.WeakValueDictionary(); w["a"] = a
def fn(x): return x * w["a"].v
def inputs():
    return (torch.arange(3.0),)
mutations = ['a.v = 5', 'w["a"] = b = A(9); globals()["keep"] = b']
native = None

# %% weak_key
class A: pass
a = A()
w = weakref.WeakKeyDictionary(); w[a] = 2
def fn(x): return x * w[a]
def inputs():
    return (torch.arange(3.0),)
mutations = ['w[a] = 5']
native = None

# %% weak_set
class A:
    def __init__(s, v): s.v = v
a = A(2)
w = weakref.WeakSet([a])
def fn(x): return x * sum(i.v for i in w)
def inputs():
    return (torch.arange(3.0),)
mutations = ['a.v = 5']
native = False

# %% method_self
class A:
    def __init__(s): s.v = [2]
    def m(s): return s.v[0]
bm = A().m
def fn(x): return x * bm() + bm.__self__.v[0]
def inputs():
    return (torch.arange(3.0),)
mutations = ['bm.__self__.v[0] = 5']
native = None

# %% builtin_method_self
d = {"a": 2}
g_ = d.get
l = [1, 2]
c_ = l.count
def fn(x): return x * g_("a") + c_(1) + g_.__self__["a"]
def inputs():
    return (torch.arange(3.0),)
mutations = ['d["a"] = 5', 'l.append(1)']
native = None

# %% closure_cell
def mk():
    v = [2]
    def h(): return v[0]
    def s(k): v[0] = k
    return h, s
h, s_ = mk()
def fn(x): return x * h() + h.__closure__[0].cell_contents[0]
def inputs():
    return (torch.arange(3.0),)
mutations = ['s_(5)']
native = None

# %% property_obj
class A:
    def __init__(s): s._v = 2
    @property
    def v(s): return s._v
o = A()
def fn(x): return x * A.v.fget(o) + A.__dict__["v"].fget(o)
def inputs():
    return (torch.arange(3.0),)
mutations = ['o._v = 5', 'A.v = property(lambda s: 1)']
native = None

# %% sys_modules
import sys
def fn(x): return x * sys.modules["math"].pi + ("zzz" in sys.modules)
def inputs():
    return (torch.arange(3.0),)
mutations = ['math.pi = 3', 'math.pi = 3.141592653589793']
native = None

# %% traceback_text
import traceback
cfg = {"m": "abc"}
def fn(x):
    try: raise ValueError(cfg["m"])
    except ValueError as e: return x * len(traceback.format_exception_only(e)[0])
def inputs():
    return (torch.arange(3.0),)
mutations = ['cfg["m"] = "abcdef"']
native = None

# %% string_template
cfg = {"m": "abc"}
t = string.Template("$m $m")
def fn(x): return x * len(t.substitute(cfg)) + len("{m}".format(**cfg)) + len("{m}".format_map(cfg)) + len("%(m)s" % cfg)
def inputs():
    return (torch.arange(3.0),)
mutations = ['cfg["m"] = "abcdef"', 't.template = "$m"']
native = None

# %% format_obj
class A:
    def __init__(s): s.v = 2
    def __format__(s, spec): return "a" * s.v
    def __str__(s): return "b" * s.v
    def __repr__(s): return "c" * s.v
o = A()
def fn(x): return x * len(f"{o}") + len(str(o)) + len(repr(o)) + len(f"{o!r}{o!s}") + len("%s%r" % (o, o)) + len("{}".format(o)) + len(str([o]))
def inputs():
    return (torch.arange(3.0),)
mutations = ['o.v = 5', 'A.__str__ = lambda s: ""']
native = None

# %% sort_inplace_own
class K:
    def __init__(s, v): s.v = v
    def __lt__(s, o): return s.v < o.v
src = [K(2), K(1)]
def fn(x):
    own = list(src); own.sort(); return x * own[0].v
def inputs():
    return (torch.arange(3.0),)
mutations = ['src[0].v = 0']
native = None

# %% sort_outside
rows = [[2, 1], [1, 7]]
def fn(x):
    rows.sort(); return x * rows[0][1]
def inputs():
    return (torch.arange(3.0),)
mutations = ['rows[0][0] = 9']
native = None

# %% remove_deep
rows = [[2, 1], [1, 7]]
def fn(x):
    own = list(rows); own.remove([1, 7]); return x * len(own) + own[0][0]
def inputs():
    return (torch.arange(3.0),)
mutations = ['rows[0][:] = [1, 7]; rows.append([1, 7])']
native = None

# %% lru_user
K = 2
@functools.lru_cache
def h(v): return v * K
def fn(x): return x * h(3)
def inputs():
    return (torch.arange(3.0),)
mutations = ['h.cache_clear(); globals()["K"] = 5']
native = None

# %% partialmethod
class A:
    def __init__(s): s.v = 2
    def m(s, k): return s.v * k
    p = functools.partialmethod(m, 3)
o = A()
def fn(x): return x * o.p()
def inputs():
    return (torch.arange(3.0),)
mutations = ['o.v = 5', 'A.m = lambda s, k: 1']
native = None

# %% operator_methodcaller
o = {"a": 2}
def fn(x): return x * operator.methodcaller("get", "a")(o)
def inputs():
    return (torch.arange(3.0),)
mutations = ['o["a"] = 5']
native = None

# %% groupby
rows = [("a", [1]), ("a", [2]), ("b", [3])]
def fn(x): return x * sum(len(list(g)) * i for i, (k, g) in enumerate(itertools.groupby(rows, key=lambda r: r[0]), 1))
def inputs():
    return (torch.arange(3.0),)
mutations = ['rows[1] = ("b", [2])']
native = None

# %% ctxvar
import contextvars
v = contextvars.ContextVar("v", default=2)
def fn(x): return x * v.get()
def inputs():
    return (torch.arange(3.0),)
mutations = ['v.set(5)']
native = None

# %% ctxvar_list
import contextvars
v = contextvars.ContextVar("v"); v.set([2])
def fn(x): return x * v.get()[0]
def inputs():
    return (torch.arange(3.0),)
mutations = ['v.get()[0] = 5']
native = None

# %% userlist
o = collections.UserList([1, 2])
def fn(x): return x * sum(o) + o[0] + len(o)
def inputs():
    return (torch.arange(3.0),)
mutations = ['o.append(5)']
native = None

# %% generic_alias
import typing
T = typing.TypeVar("T")
class G(typing.Generic[T]):
    k = 2
def fn(x): return x * G[int].k + len(typing.get_args(list[int]))
def inputs():
    return (torch.arange(3.0),)
mutations = ['G.k = 5']
native = None

# %% protocol_isinstance
import typing
@typing.runtime_checkable
class P(typing.Protocol):
    def go(self): ...
class A: pass
o = A()
def fn(x): return x * (2 if isinstance(o, P) else 3)
def inputs():
    return (torch.arange(3.0),)
mutations = ['A.go = lambda s: 1']
native = None

# %% abc_register
import abc
class P(abc.ABC): pass
class A: pass
o = A()
def fn(x): return x * (2 if isinstance(o, P) else 3)
def inputs():
    return (torch.arange(3.0),)
mutations = ['P.register(A)']
native = None

# %% tensor_attr
w = torch.ones(3); w.scale = 2
def fn(x): return x * w.scale + w
def inputs():
    return (torch.arange(3.0),)
mutations = ['w.scale = 5']
native = None

# %% module_attrs
m = torch.nn.Linear(3, 3)
m.cfg = {"k": [2.0]}
def fn(x): return m(x) * m.cfg["k"][0] + len(list(m.named_parameters())) + m.in_features
def inputs():
    return (torch.arange(3.0),)
mutations = ['m.cfg["k"][0] = 5.', 'm.register_parameter("extra", torch.nn.Parameter(torch.ones(1)))', 'm.in_features = 9']
native = None
