# SPDX-License-Identifier: Apache-2.0
"""Ordinary programs: classes, protocols, values of libraries, and what may lie below their surface."""
import array
import collections
import dataclasses
import datetime
import enum
import functools
import itertools
import math
import operator
import re
import string
import types

import torch


def inputs():
    return (torch.arange(3.0),)


# %% sum_start_obj
class V:
    def __init__(s, v): s.v = v
    def __add__(s, o): return V(s.v + (o.v if isinstance(o, V) else o))
    __radd__ = __add__
vs = [V(1), V(2)]
def fn(x): return x * sum(vs).v
mutations = ['vs[0].v = 7', 'V.__radd__ = lambda s, o: V(100)']
native = None


# %% nested_partial_method
class A:
    def __init__(s): s.k = 2
    def m(s, a, x): return x * s.k * a
o = A()
p = functools.partial(functools.partial(o.m), 3)
def fn(x): return p(x)
mutations = ['o.k = 5']
native = None


# %% staticmethod_obj
class A:
    @staticmethod
    def s(x): return x * 2
    @classmethod
    def c(cls, x): return x * cls.k
    k = 3
def fn(x): return A.s(x) + A.c(x) + A().c(x)
mutations = ['A.k = 5', 'A.s = staticmethod(lambda x: x)', 'A.c = classmethod(lambda cls, x: x)']
native = None


# %% bound_in_list
class A:
    def __init__(s): s.k = 2
    def m(s, x): return x * s.k
o = A()
fs = [o.m, torch.relu]
def fn(x):
    for g in fs: x = g(x)
    return x
mutations = ['o.k = -5', 'fs.append(torch.neg)']
native = None


# %% dispatch_dict_bound
class A:
    def __init__(s): s.k = 2; s.t = {"a": s.m}
    def m(s, x): return x * s.k
o = A()
def fn(x): return o.t["a"](x)
mutations = ['o.k = -5']
native = None


# %% decorated_class_state
class Deco:
    def __init__(s, fn): s.fn = fn; s.scale = 2
    def __call__(s, x): return s.fn(x) * s.scale
@Deco
def h(x): return x + 1
def fn(x): return h(x)
mutations = ['h.scale = 5', 'h.fn = torch.neg']
native = None


# %% generator_method
class A:
    def __init__(s): s.ks = [1, 2]
    def gen(s):
        for k in s.ks: yield k
o = A()
def fn(x):
    for k in o.gen(): x = x * k + 1
    return x
mutations = ['o.ks.append(3)']
native = None


# %% sorted_objs_in_dict
class J:
    def __init__(s, p): s.p = p
js = {"a": J(2), "b": J(1)}
def fn(x):
    for n, j in sorted(js.items(), key=lambda kv: kv[1].p): x = x * j.p + len(n)
    return x
mutations = ['js["a"].p = 0', 'js["cc"] = J(5)']
native = None


# %% min_by_attr_default
class J:
    def __init__(s, p): s.p = p
js = [J(2), J(1)]
def fn(x): return x * min((j.p for j in js), default=0) + max(js, key=operator.attrgetter("p")).p
mutations = ['js[1].p = 9', 'js.clear(); js.append(J(3))']
native = None


# %% zip_strict_objs
class J:
    def __init__(s, p): s.p = p
a, b = [J(2)], [J(3)]
def fn(x): return x * sum(i.p * j.p for i, j in zip(a, b))
mutations = ['b[0].p = 9']
native = None


# %% chained_attr_dict_obj
class C:
    def __init__(s, **k): s.__dict__.update(k)
cfg = C(a=C(b=C(c=[1, {"d": 2}])))
def fn(x): return x * cfg.a.b.c[1]["d"]
mutations = ['cfg.a.b.c[1]["d"] = 5', 'cfg.a.b = C(c=[0, {"d": 9}])']
native = None


# %% getattr_dict_class
class AttrDict(dict):
    def __getattr__(s, n):
        try: return s[n]
        except KeyError as e: raise AttributeError(n) from e
cfg = AttrDict(a=AttrDict(b=2))
def fn(x): return x * cfg.a.b + (1 if hasattr(cfg, "z") else 0) + getattr(cfg, "q", 5)
mutations = ['cfg.a["b"] = 5', 'cfg["z"] = 5', 'cfg["q"] = 1']
native = None


# %% slots_dataclass
@dataclasses.dataclass(slots=True, frozen=True)
class D:
    a: int
    b: tuple
d = [D(1, (2, 3))]
def fn(x): return x * d[0].a + sum(d[0].b) + (1 if d[0] == D(1, (2, 3)) else 0) + hash(d[0].a)
mutations = ['d[0] = D(4, (2,))']
native = None


# %% enum_dict
class M(str, enum.Enum):
    A = "a"
    B = "b"
t = {M.A: 2, M.B: 3}; cur = [M.A]
def fn(x): return x * t[cur[0]] + (1 if cur[0] == "a" else 0) + t.get(M("b"), 0)
mutations = ['cur[0] = M.B', 't[M.B] = 9']
native = None


# %% itertools_product
rs = [[1, 2], [3]]
def fn(x): return x * sum(a * b for a, b in itertools.product(*rs)) + len(list(itertools.combinations(rs[0], 2)))
mutations = ['rs[1].append(4)', 'rs[0].append(4)']
native = None


# %% sequence_abc
import collections.abc
class S(collections.abc.Sequence):
    def __init__(s, v): s.v = v
    def __len__(s): return len(s.v)
    def __getitem__(s, i): return s.v[i]
o = S([1, 2])
def fn(x): return x * sum(o) + (1 if 2 in o else 0) + o.index(2) + o.count(1) + len(list(reversed(o)))
mutations = ['o.v.append(3)', 'o.v[0] = 2']
native = None


# %% mapping_abc
import collections.abc
class S(collections.abc.MutableMapping):
    def __init__(s, v): s.v = v
    def __len__(s): return len(s.v)
    def __getitem__(s, i): return s.v[i]
    def __setitem__(s, i, k): s.v[i] = k
    def __delitem__(s, i): del s.v[i]
    def __iter__(s): return iter(s.v)
o = S({"a": 1})
def fn(x): return x * sum(o.values()) + len(dict(o)) + sum({**o}.values()) + o.get("z", 4) + (1 if o == {"a": 1} else 0)
mutations = ['o["b"] = 3', 'o["z"] = 0']
native = None


# %% set_ops
a = {1, 2}; b = {2, 3}
def fn(x): return x * len(a | b) + len(a & b) + len(a - b) + len(a ^ b) + (1 if a < b else 0) + (1 if a.isdisjoint(b) else 0) + len(a.union([9], b))
mutations = ['a.add(3)', 'b.clear()']
native = None


# %% tuple_of_lists_hash_free
t = ((1, [2]), (3, [4]))
def fn(x): return x * dict((k, v[0]) for k, v in t)[1] + dict(t)[3][0] + sum(v[0] for _, v in t)
mutations = ['t[0][1][0] = 9', 't[1][1][0] = 9']
native = None


# %% str_methods_table
table = {97: "bb"}
def fn(x): return x * len("aaa".translate(table)) + len(str.maketrans("a", "b"))
mutations = ['table[97] = ""']
native = None


# %% int_from_env_list
v = ["1", "2"]
def fn(x): return x * sum(map(int, v)) + sum(map(float, v)) + int("".join(v), 8)
mutations = ['v.append("3")']
native = None


# %% round_obj_floor
class R:
    def __init__(s): s.v = 2.5
    def __round__(s, n=None): return int(s.v)
    def __floor__(s): return int(s.v) + 1
    def __ceil__(s): return int(s.v) + 2
    def __trunc__(s): return int(s.v) + 3
    def __abs__(s): return s.v
    def __neg__(s): return -s.v
    def __pow__(s, o): return s.v ** o
    def __divmod__(s, o): return divmod(s.v, o)
o = R()
def fn(x): return x * round(o) + math.floor(o) + math.ceil(o) + math.trunc(o) + abs(o) + -o + o ** 2 + divmod(o, 2)[0]
mutations = ['o.v = 5.5', 'R.__floor__ = lambda s: 0']
native = None


# %% matmul_obj
class R:
    def __init__(s): s.w = torch.ones(3)
    def __rmatmul__(s, o): return torch.dot(o, s.w)
    def __torch_function__(s, *a): return NotImplemented
o = R()
def fn(x):
    return x * o.w.sum()
mutations = ['o.w = torch.zeros(3)']
native = None


# %% index_obj
class I:
    def __init__(s): s.i = 1
    def __index__(s): return s.i
i = I(); l = [5, 6, 7]
def fn(x): return x * l[i] + x[i] + sum(l[i:]) + len(range(i)) + x[i:].sum() + sum([1] * i)
mutations = ['i.i = 2']
native = None


# %% bytes_obj
class B:
    def __init__(s): s.b = b"ab"
    def __bytes__(s): return s.b
o = B()
def fn(x): return x * len(bytes(o)) + bytes(o)[0]
mutations = ['o.b = b"cde"']
native = None


# %% context_reentrant
class C:
    def __init__(s): s.d = 0; s.k = 2
    def __enter__(s): s.d += 1; return s
    def __exit__(s, *a): s.d -= 1
c = C()
def fn(x):
    with c as q: return x * q.k + q.d
mutations = ['c.k = 5', 'c.d = 3']
native = None


# %% try_finally_flag
st = types.SimpleNamespace(flag=False, n=2)
def fn(x):
    st.flag = True
    try: return x * st.n
    finally: st.flag = False
mutations = ['st.n = 5']
native = None


# %% walrus_match
cfg = {"op": "mul", "args": [2, 3]}
def fn(x):
    match cfg:
        case {"op": "mul", "args": [a, b]}: return x * a * b
        case {"op": "add", "args": [a, *r]}: return x + a + len(r)
        case _: return x
mutations = ['cfg["args"][1] = 9', 'cfg["op"] = "add"', 'del cfg["args"]']
native = None


# %% match_class
class P:
    __match_args__ = ("a", "b")
    def __init__(s, a, b): s.a = a; s.b = b
o = P(1, [2])
def fn(x):
    match o:
        case P(1, [k]): return x * k
        case P(a=a): return x + a
mutations = ['o.b[0] = 9', 'o.a = 3', 'P.__match_args__ = ("b", "a")']
native = None


# %% dataclass_kw_default_factory
@dataclasses.dataclass
class D:
    a: list = dataclasses.field(default_factory=lambda: [2])
    def __post_init__(s): s.n = sum(s.a)
k = [3]
def fn(x): return x * D().n + D(k).n
mutations = ['k.append(4)']
native = None


# %% inherited_property
class A:
    @property
    def v(s): return s._v
class B(A):
    def __init__(s): s._v = 2
    @A.v.setter
    def v(s, n): s._v = n
o = B()
def fn(x): return x * o.v
mutations = ['o.v = 7']
native = None


# %% own_setattr
class A:
    def __init__(s): object.__setattr__(s, "d", {"k": 2})
    def __getattr__(s, n): return s.d[n]
    def __setattr__(s, n, v): s.d[n] = v
o = A()
def fn(x): return x * o.k
mutations = ['o.k = 5']
native = None


# %% torch_helpers
ws = [torch.ones(3), torch.ones(3) * 2]
def fn(x): return torch.stack(ws).sum(0) * x + torch.cat([w for w in ws]).sum() + torch.tensor([w.sum().item() for w in ws]).sum()
mutations = ['ws[0].add_(3)', 'ws.append(torch.zeros(3))']
native = None


# %% module_list_dict
ms = torch.nn.ModuleDict({"a": torch.nn.ReLU(), "b": torch.nn.Tanh()})
order = ["a", "b"]
def fn(x):
    for n in order: x = ms[n](x - 1)
    return x
mutations = ['order.reverse()', 'ms["b"] = torch.nn.Sigmoid()', 'order.append("a")']
native = None


# %% numpy_object_array
import numpy as np
o = np.array([{"a": 1}, [2]], dtype=object)
def fn(x): return x * o[0]["a"] + o[1][0]
mutations = ['o[0]["a"] = 5', 'o[1] = [9]', 'o[1][0] = 3']
native = None


# %% numpy_struct
import numpy as np
o = np.zeros(2, dtype=[("a", "f4"), ("b", "i4")])
def fn(x): return x + float(o["a"][0]) + int(o[1]["b"])
mutations = ['o["a"][0] = 5', 'o[1]["b"] = 7']
native = None


# %% datetime_tz
class TZ(datetime.tzinfo):
    h = 1
    def utcoffset(s, d): return datetime.timedelta(hours=s.h)
    def dst(s, d): return None
    def tzname(s, d): return "x" * s.h
t = datetime.datetime(2020, 1, 1, tzinfo=TZ())
def fn(x): return x * t.utcoffset().seconds + len(t.tzname())
mutations = ['TZ.h = 3']
native = None


# %% dict_key_objects
class K:
    def __init__(s, v): s.v = v
    def __hash__(s): return hash(s.v)
    def __eq__(s, o): return s.v == o.v
k1, k2 = K(1), K(2)
d = {k1: 10, k2: 20}
def fn(x): return x * d[K(2)] + d.get(K(3), 0) + (1 if K(1) in d else 0)
mutations = ['d[k2] = 30', 'd[K(3)] = 7']
native = None


# %% dict_tuple_keys
d = {(1, "a"): 2, (2, "b"): 3}
def fn(x): return x * d[(1, "a")] + d.get((9, "z"), 0) + sum(k[0] for k in d)
mutations = ['d[(1, "a")] = 5', 'd[(9, "z")] = 5']
native = None


# %% default_mutable
def h(x, acc=[1]): return x * sum(acc)
def fn(x): return h(x)
mutations = ['h.__defaults__[0].append(4)']
native = None


# %% default_obj
class A:
    def __init__(s): s.k = 2
def h(x, o=A()): return x * o.k
def fn(x): return h(x)
mutations = ['h.__defaults__[0].k = 4']
native = None


# %% kwonly_obj
class A:
    def __init__(s): s.k = 2
def h(x, *, o=A()): return x * o.k
def fn(x): return h(x)
mutations = ['h.__kwdefaults__["o"].k = 4', 'h.__kwdefaults__["o"] = A()']
native = None


# %% getattribute_hook
class A:
    def __init__(s): object.__setattr__(s, "k", 2)
    def __getattribute__(s, n): return object.__getattribute__(s, n)
o = A()
def fn(x): return x * o.k
mutations = ['o.k = 4', 'A.__getattribute__ = lambda s, n: 9']
native = None


# %% eq_tensor
class A:
    def __init__(s): s.w = torch.ones(3)
    def __eq__(s, o): return s.w == o
o = A()
def fn(x): return x + (o == x).float()
mutations = ['o.w.zero_()']
native = None


# %% structseq
import sys, time, os
t = [time.gmtime(0)]
def fn(x): return x * t[0].tm_year + sys.version_info[0] + sys.float_info.dig
mutations = ['t[0] = time.gmtime(1e9)']
native = None


# %% class_body_reads
K = 2
def fn(x):
    class C:
        k = K
        def m(s): return s.k
    return x * C().m()
mutations = ['global K; K = 5']
native = None


# %% nested_def_closure
cfg = {"k": 2}
def fn(x):
    def g(y):
        def h(z): return z * cfg["k"]
        return h(y)
    return g(x)
mutations = ['cfg["k"] = 5']
native = None


# %% comprehension_scopes
ks = [1, 2]; m = {"a": [3]}
def fn(x): return x * sum(k * j for k in ks for j in m["a"]) + sum([k for k in ks]) + len({k: j for k, j in zip(ks, ks)})
mutations = ['m["a"].append(1)', 'ks[0] = 9']
native = None


# %% star_args_list
a = [1, 2]; kw = {"c": 3}
def h(x, a, b=0, c=0, *r): return x * a + b + c + len(r)
def fn(x): return h(x, *a, **kw)
mutations = ['a[0] = 5', 'kw["c"] = 7', 'a.pop()']
native = None


# %% multi_inherit
class A:
    k = 1
    def m(s): return s.k
class B(A): pass
class C(A): pass
class D(B, C): pass
o = D()
def fn(x): return x * o.m() + D.k
mutations = ['C.k = 5', 'B.m = lambda s: 9', 'D.__bases__ = (C, B)']
native = None


# %% bases_changed
class A: k = 2
class B: k = 3
class C(A): pass
def fn(x): return x * C.k + (1 if issubclass(C, A) else 0)
mutations = ['C.__bases__ = (B,)']
native = None


# %% instance_method_shadow
class A:
    def m(s): return 2
o = A()
def fn(x): return x * o.m()
mutations = ['o.m = lambda: 5', 'del o.m; A.m = lambda s: 7']
native = None


# %% del_attr_fallback
class A:
    k = 1
    def __init__(s): s.k = 2
o = A()
def fn(x): return x * o.k + getattr(o, "z", 3)
mutations = ['del o.k', 'A.z = 9']
native = None


# %% lambda_table
ops = {"a": lambda x: x * 2, "b": lambda x: x * 3}
cur = ["a"]
def fn(x): return ops[cur[0]](x)
mutations = ['cur[0] = "b"', 'ops["b"] = lambda x: x * 4']
native = None


# %% same_lambda_other_cell
def mk(k): return lambda x: x * k
h = mk(2)
def fn(x): return h(x)
mutations = ['global h; h = mk(3)', 'h = mk(torch.ones(3))']
native = None


# %% module_global_obj_swap
class A:
    def __init__(s, k): s.k = k
a, b = A(2), A(3)
cur = a
def fn(x): return x * cur.k
mutations = ['global cur; cur = b', 'b.k = 7', 'cur = a']
native = None


# %% aliasing_lists
a = [1]; b = a
def fn(x): return x * (2 if a is b else 3) + a[0] + b[0]
mutations = ['global b; b = [1]', 'b[0] = 4']
native = None


# %% weights_alias
w = torch.ones(3); v = w
def fn(x): return x * w + v + (1 if w is v else 0)
mutations = ['global v; v = torch.ones(3) * 2', 'w.add_(1)']
native = None


# %% nested_modules_shared
lin = torch.nn.Linear(3, 3).requires_grad_(False); torch.nn.init.ones_(lin.weight); torch.nn.init.zeros_(lin.bias)
m = torch.nn.Sequential(lin, torch.nn.ReLU(), lin)
def fn(x): return m(x)
mutations = ['lin.weight.data.mul_(2)', 'm[2] = torch.nn.Identity()', 'lin.weight = torch.nn.Parameter(torch.zeros(3, 3), requires_grad=False)']
native = None


# %% hooks
m = torch.nn.Linear(3, 3).requires_grad_(False); torch.nn.init.ones_(m.weight); torch.nn.init.zeros_(m.bias)
k = [2]
def fn(x): return m(x)
mutations = ['h = m.register_forward_hook(lambda mod, i, o: o * k[0])', 'k[0] = 5', 'h.remove()',
             'torch.nn.modules.module.register_module_forward_hook(lambda mod, i, o: o + 1)',
             'torch.nn.modules.module._global_forward_hooks.clear()']
native = None


# %% parametrize
import torch.nn.utils.parametrize as P
class Dbl(torch.nn.Module):
    k = 2
    def forward(s, w): return w * s.k
m = torch.nn.Linear(3, 3).requires_grad_(False); torch.nn.init.ones_(m.weight); torch.nn.init.zeros_(m.bias)
P.register_parametrization(m, "weight", Dbl())
def fn(x): return m(x)
mutations = ['Dbl.k = 3', 'P.remove_parametrizations(m, "weight")']
native = None


# %% buffers
m = torch.nn.BatchNorm1d(3).eval().requires_grad_(False)
def fn(x): return m(x[None])
mutations = ['m.running_mean.add_(1)', 'm.eps = 0.5', 'm.train()']
native = None


# %% default_dtype
def fn(x): return x + torch.ones(3).sum() + torch.tensor([1.5]).sum()
mutations = ['torch.set_default_dtype(torch.float64)', 'torch.set_default_dtype(torch.float32)']
native = None


# %% int_div_list
sizes = [[2, 3], [4]]
def fn(x): return x * sum(len(s) for s in sizes) + max(map(len, sizes)) + min(sizes, key=len)[0]
mutations = ['sizes[1].extend([1, 1, 1])', 'sizes[0][0] = 50']
native = None


# %% iter_sentinel
vals = [3, 2, 0, 5]
def fn(x):
    it = iter(list(vals))
    return x * sum(iter(lambda: next(it), 0))
mutations = ['vals[1] = 9', 'vals.insert(0, 0)']
native = None


# %% functools_cmp
vals = [3, 1, 2]; sign = [1]
def fn(x): return x * sorted(vals, key=functools.cmp_to_key(lambda a, b: (a - b) * sign[0]))[0]
mutations = ['sign[0] = -1', 'vals[0] = 10']
native = None


# %% lru_method
class A:
    def __init__(s): s.k = 2
    @functools.lru_cache(None)
    def m(s, v): return v * s.k
o = A()
def fn(x): return x * o.m(3)
mutations = ['o.k = 5', 'A.m.cache_clear()']
native = None


# %% exception_flow
lim = {"max": 1}
class TooBig(Exception): pass
def chk(v):
    if v > lim["max"]: raise TooBig(v)
    return v
def fn(x):
    try: return x * chk(2)
    except TooBig as e: return x + e.args[0]
mutations = ['lim["max"] = 5', 'lim["max"] = 0']
native = None


# %% numpy_dates
import numpy as np
o = np.array(["2020-01-01", "2021-01-01"], dtype="datetime64[D]")
def fn(x): return x * (2 if o[0] < np.datetime64("2020-06-01") else 3)
mutations = ['o[0] = "2022-01-01"']
native = None


# %% numpy_strings
import numpy as np
o = np.array(["ab", "c"])
def fn(x): return x * len(o[0]) + len(o)
mutations = ['o[0] = "d"']
native = None


# %% float_repr
class T(float):
    def __repr__(s): return "T"
    __str__ = __repr__
t = T(2.0)
def fn(x): return x * t
mutations = ['global t; t = T(3.0)']
native = None


# %% int_repr
class T(int):
    def __repr__(s): return "T"
t = T(2)
def fn(x): return x * t + len([1] * t)
mutations = ['global t; t = T(3)']
native = None


# %% str_repr
class T(str):
    def __repr__(s): return "T"
t = T("ab")
def fn(x): return x * len(t.upper()) + (1 if t == "ab" else 0)
mutations = ['global t; t = T("abc")']
native = None


# %% bytes_sub
class T(bytes): pass
t = T(b"ab")
def fn(x): return x * len(t.upper()) + t[0]
mutations = ['global t; t = T(b"bbc")']
native = None


# %% long_regex
p = re.compile("b" * 250 + "|a")
def fn(x): return x * len(p.findall("a" * 3 + "c"))
mutations = ['global p; p = re.compile("b" * 250 + "|c")', 'p = re.compile("b" * 250 + "|C", re.I)']
native = None


# %% match_obj
m = re.match("(a+)", "aab")
def fn(x): return x * len(m.group(1)) + len(m.string) + m.end()
mutations = ['global m; m = re.match("(a+)", "aabbbb")', 'm = re.match("(a)", "aabbbb")']
native = None


# %% huge_int
n = 10 ** 5000
def fn(x): return x * (n % 97)
mutations = ['global n; n = 10 ** 5000 + 1']
native = None


# %% set_frozen_objects
fs = frozenset([1, 2]); t = (frozenset(["a"]), 3)
def fn(x): return x * len(fs) + len(t[0]) + t[1] + (1 if fs == {1, 2} else 0)
mutations = ['global fs, t; fs = frozenset([1])', 't = (frozenset(["a", "b"]), 3)']
native = None


# %% bytearray_nested
b = {"k": [bytearray(b"ab")]}
def fn(x): return x * b["k"][0][1] + len(b["k"][0])
mutations = ['b["k"][0][1] = 9', 'b["k"][0].append(1)']
native = None


# %% range_slice_global
r = [range(3), slice(0, 2)]
def fn(x): return x * len(r[0]) + x[r[1]].sum() + sum(r[0])
mutations = ['r[0] = range(5)', 'r[1] = slice(0, 1)']
native = None


# %% complex_
c = [1 + 2j]
def fn(x): return x * c[0].real + abs(c[0])
mutations = ['c[0] = 3 + 4j']
native = None


# %% uuid_
import uuid
u = [uuid.UUID(int=5)]
def fn(x): return x * u[0].int + len(str(u[0]))
mutations = ['u[0] = uuid.UUID(int=7)']
native = None


# %% nan_key
n = [float("nan")]
def fn(x): return x * (2 if n[0] == n[0] else 3) + (1 if n[0] in n else 0)
mutations = ['n[0] = 1.0']
native = None


# %% negative_zero
z = [0.0]
def fn(x): return x + math.copysign(1, z[0]) + (1 / (z[0] + 1))
mutations = ['z[0] = -0.0']
native = None


# %% bool_int
v = [1]
def fn(x): return x * (2 if v[0] is True else 3) + len(str(v[0]))
mutations = ['v[0] = True', 'v[0] = 1.0']
native = None


# %% unpack_nested
rows = [[1, [2, 3]], (4, [5, 6])]
def fn(x):
    (a, (b, c)), (d, [e, g]) = rows
    return x * (a + b + c + d + e + g)
mutations = ['rows[0][1][0] = 9', 'rows[1][1][1] = 0']
native = None


# %% for_nested_unpack
rows = {"k": ([1, 2], {"z": 3})}
def fn(x):
    for k, ((a, b), d) in rows.items(): x = x * a + b + d["z"] + len(k)
    return x
mutations = ['rows["k"][0][0] = 7', 'rows["k"][1]["z"] = 7']
native = None


# %% starred_mid
rows = [1, 2, 3, 4]
def fn(x):
    a, *m, b = rows
    return x * a + b + sum(m) + len([*rows, *m]) + len({*rows}) + len((*rows,))
mutations = ['rows.insert(1, 9)', 'rows[-1] = 0']
native = None


# %% dict_merge_ops
a, b = {"p": 1}, {"q": 2}
def fn(x): return x * sum((a | b).values()) + len({**a, **b}) + sum(dict(a, **b).values()) + dict(a).get("p", 0)
mutations = ['b["p"] = 9', 'a["r"] = 1']
native = None


# %% own_containers_of_outside
class A:
    def __init__(s, v): s.v = v
a = [A(1), A(2)]
def fn(x):
    own = {i: o for i, o in enumerate(a)}
    st = [o for o in own.values() if o.v > 1]
    own[0], own[1] = own[1], own[0]
    return x * own[0].v + len(st)
mutations = ['a[0].v = 7', 'a.reverse()']
native = None


# %% queue_own
from collections import deque
tree = {"v": 1, "kids": [{"v": 2, "kids": []}, {"v": 3, "kids": [{"v": 4, "kids": []}]}]}
def fn(x):
    q = deque([tree]); s = 0
    while q:
        n = q.popleft(); s = s * 2 + n["v"]; q.extend(n["kids"])
    return x * s
mutations = ['tree["kids"][1]["kids"][0]["v"] = 9', 'tree["kids"][0]["kids"].append({"v": 1, "kids": []})']
native = None


# %% recursion_obj
class N:
    def __init__(s, v, *k): s.v = v; s.k = list(k)
    def total(s): return s.v + sum(c.total() for c in s.k)
t = N(1, N(2), N(3, N(4)))
def fn(x): return x * t.total()
mutations = ['t.k[1].k[0].v = 9', 't.k[0].k.append(N(5))']
native = None


# %% linked_list
class N:
    def __init__(s, v, n=None): s.v = v; s.n = n
h = N(1, N(2, N(3)))
def fn(x):
    n = h
    while n: x = x * n.v; n = n.n
    return x
mutations = ['h.n.n.v = 9', 'h.n = N(4)']
native = None


# %% registry_decorator
REG = {}
def reg(n):
    def d(fn): REG[n] = fn; return fn
    return d
@reg("a")
def a_(x): return x * 2
@reg("b")
def b_(x): return x + 2
def fn(x):
    for n in sorted(REG): x = REG[n](x)
    return x
mutations = ['reg("c")(lambda x: x - 5)', 'REG["a"] = lambda x: x']
native = None


# %% strategy_class
class S:
    def run(s, x): raise NotImplementedError
class D(S):
    def run(s, x): return x * 2
class T(S):
    def run(s, x): return x * 3
class Ctx:
    def __init__(s, st): s.st = st
    def __call__(s, x): return s.st.run(x)
c = Ctx(D())
def fn(x): return c(x)
mutations = ['c.st = T()', 'T.run = lambda s, x: x']
native = None


# %% builder_chain
class B:
    def __init__(s): s.p = []
    def add(s, v): s.p.append(v); return s
    def sum(s): return sum(s.p)
base = [1]
def fn(x): return x * B().add(base[0]).add(2).sum()
mutations = ['base[0] = 5']
native = None


# %% observer_pattern
class E:
    def __init__(s): s.h = []
    def fire(s, x):
        for h in s.h: x = h(x)
        return x
e = E(); e.h.append(lambda x: x * 2)
def fn(x): return e.fire(x)
mutations = ['e.h.append(lambda x: x + 1)', 'e.h.pop(0)']
native = None


# %% config_parser
import configparser
cp = configparser.ConfigParser(); cp.read_string("[a]\nk = 2\n")
def fn(x): return x * int(cp["a"]["k"]) + cp.getint("a", "k")
mutations = ['cp["a"]["k"] = "5"']
native = None


# %% argparse_ns
import argparse
ns = argparse.Namespace(k=2, l=[1])
def fn(x): return x * ns.k + sum(vars(ns)["l"]) + (1 if "k" in ns else 0) + (1 if ns == argparse.Namespace(k=2, l=[1]) else 0)
mutations = ['ns.l.append(4)', 'ns.k = 5']
native = None


# %% chainmap_nested
m = collections.ChainMap({"a": [1]}, {"b": [2]})
def fn(x): return x * m["a"][0] + sum(v[0] for v in m.values())
mutations = ['m.maps[1]["b"][0] = 9', 'm["b"] = [4]']
native = None


# %% defaultdict_read
d = collections.defaultdict(list, {"a": [1, 2]})
def fn(x): return x * sum(d["a"]) + len(d.get("z", [])) + len(d)
mutations = ['d["a"].append(3)', 'd["z"].append(1)']
native = None


# %% counter_ops
c1 = collections.Counter("aab"); c2 = collections.Counter("b")
def fn(x): return x * (c1 + c2)["b"] + (c1 - c2)["a"] + c1["zz"] + sum(c1.values()) + c1.most_common()[0][1]
mutations = ['c2["b"] = 7', 'c1["zz"] = 2']
native = None


# %% textwrap_
import textwrap
t = ["aaa bbb ccc"]
def fn(x): return x * len(textwrap.wrap(t[0], 4)) + len(textwrap.dedent("  " + t[0]))
mutations = ['t[0] = "aaa bbb ccc ddd"']
native = None


# %% operator_itemgetter_multi
rows = [{"a": 1, "b": [2]}, {"a": 0, "b": [3]}]
g = operator.itemgetter("a", "b")
def fn(x): return x * sorted(rows, key=operator.itemgetter("a"))[0]["b"][0] + g(rows[0])[1][0] + sum(map(operator.itemgetter("a"), rows))
mutations = ['rows[0]["a"] = -1', 'rows[0]["b"][0] = 8']
native = None


# %% map_method_of_obj
class A:
    def __init__(s): s.k = 2
    def m(s, v): return v * s.k
a = A(); vs = [1, 2]
def fn(x): return x * sum(map(a.m, vs)) + len(list(filter(a.m, vs))) + functools.reduce(lambda p, q: p + a.m(q), vs, 0)
mutations = ['a.k = 0', 'vs.append(5)']
native = None


# %% key_method
class A:
    w = {"a": 2, "b": 1}
    def key(s, n): return s.w[n]
a = A()
def fn(x): return x * A.w[min(["a", "b"], key=a.key)] + A.w[sorted(A.w, key=a.key)[-1]]
mutations = ['A.w["a"] = 0', 'A.w["b"] = 5']
native = None


# %% class_attr_list_shared
class A:
    items = [1]
class B(A): pass
b = B()
def fn(x): return x * sum(b.items) + len(B.items)
mutations = ['A.items.append(4)', 'b.items = [9]']
native = None


# %% mutable_class_counter
class A:
    n = 0
    def __init__(s): type(s).n += 1
def fn(x):
    A(); return x * A.n
mutations = ['A.n = 10']
native = None


# %% property_cache
class A:
    def __init__(s): s._c = {}; s.k = 2
    @property
    def v(s):
        if "v" not in s._c: s._c["v"] = s.k * 2
        return s._c["v"]
a = A()
def fn(x): return x * a.v
mutations = ['a._c.clear(); a.k = 5', 'a._c["v"] = 1']
native = None


# %% lazy_global
_c = None
def get():
    global _c
    if _c is None: _c = {"k": 2}
    return _c
def fn(x): return x * get()["k"]
mutations = ['get()["k"] = 5', 'global _c; _c = None']
native = None


# %% memo_dict
memo = {}
def h(n):
    if n not in memo: memo[n] = n * 2
    return memo[n]
def fn(x): return x * h(3)
mutations = ['memo[3] = 100', 'memo.clear()']
native = None


# %% tensor_cache_by_size
cache = {}
def mask(n):
    if n not in cache: cache[n] = torch.ones(n) * 2
    return cache[n]
def fn(x): return x * mask(x.shape[0])
mutations = ['cache[3] = torch.zeros(3)', 'cache.clear()']
native = None


# %% stateful_iter_reset
class It:
    def __init__(s): s.i = 0; s.v = [1, 2]
    def __iter__(s): s.i = 0; return s
    def __next__(s):
        if s.i >= len(s.v): raise StopIteration
        s.i += 1; return s.v[s.i - 1]
it = It()
def fn(x): return x * sum(it) + len(list(it))
mutations = ['it.v.append(4)']
native = None


# %% with_state_obj
class T:
    def __init__(s): s.on = False; s.k = 2
    def __enter__(s): s.on = True
    def __exit__(s, *a): s.on = False
t = T()
def fn(x):
    with t: y = x * (t.k if t.on else 0)
    return y + (1 if t.on else 0)
mutations = ['t.k = 4', 't.on = True']
native = None
