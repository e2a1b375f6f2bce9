# SPDX-License-Identifier: Apache-2.0
"""What functions of the standard library read of a program."""
import collections
import dataclasses
import enum
import functools
import itertools
import math
import operator
import string
import weakref

import torch


def inputs():
    return (torch.arange(3.0),)


# %% partial_kw
p = functools.partial(lambda a, s: a * s, s=2)
def fn(x): return p(x) + p.keywords["s"] + len(p.args)
mutations = ['p.keywords["s"] = 5']
native = None


# %% random_instance
import random
r = random.Random(0)
def fn(x): return x * r.random()
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
mutations = ['cfg["v"] = 3']
native = None


# %% singledispatch
@functools.singledispatch
def h(v): return 1
@h.register
def _(v: int): return 2
cfg = {"v": 2}
def fn(x): return x * h(cfg["v"])
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
mutations = ['o.__dict__["m"] = 9', 'A.n = 5; del o.__dict__["m"]']
native = None


# %% fn_annotations
def h(v: 2): return v
def fn(x): return x * h.__annotations__["v"]
mutations = ['h.__annotations__["v"] = 5']
native = None


# %% fn_attr
def h(v): return v
h.k = [2]
def fn(x): return x * h.k[0] + len(h.__dict__)
mutations = ['h.k[0] = 5', 'h.z = 1']
native = True


# %% fn_doc_name
def h(v):
    "abc"
    return v
def fn(x): return x * len(h.__doc__) + len(h.__name__) + len(h.__qualname__) + len(h.__module__)
mutations = ['h.__doc__ = "abcdef"', 'h.__name__ = "hhhhh"', 'h.__module__ = "hhhhh"']
native = None


# %% cls_names
class A:
    "doc"
    v: int = 3
def fn(x): return x * len(A.__name__) + len(A.__doc__) + len(A.__annotations__) + len(A.__qualname__)
mutations = ['A.__name__ = "AAAA"', 'A.__doc__ = "AAAA99"', 'A.__annotations__["q"] = int', 'A.__qualname__ = "AAAAdd"']
native = None


# %% type_name_of_obj
class A: pass
o = A()
def fn(x): return x * len(type(o).__name__) + len(o.__class__.__name__) + (1 if type(o).__name__ == "A" else 0)
mutations = ['A.__name__ = "AAAA"']
native = None


# %% dict_iter_obj
class A:
    def __init__(s): s.a = 1; s.b = 2
o = A()
def fn(x): return x * sum(o.__dict__.values()) + sum(v for k, v in vars(o).items() if k != "a")
mutations = ['o.c = 4', 'del o.a']
native = None


# %% inspect_sig
import inspect
def h(a, b=2): return a
def fn(x): return x * len(inspect.signature(h).parameters) + inspect.signature(h).parameters["b"].default
mutations = ['h.__defaults__ = (5,)', 'h.__signature__ = inspect.signature(lambda a, b=9, c=1: 0)']
native = None


# %% getfullargspec
import inspect
def h(a, b=2): return a
def fn(x): return x * h.__code__.co_argcount + len(h.__code__.co_varnames) + h.__defaults__[0]
mutations = ['h.__defaults__ = (5,)', 'h.__code__ = (lambda a, b, c=1: a).__code__']
native = None


# %% env_get
import os
os.environ.pop("OWN_K", None)
os.environ.pop("OWN_Z", None)
def fn(x): return x * int(os.environ.get("OWN_K", "2")) + (1 if os.getenv("OWN_Z") else 0)
mutations = ['os.environ["OWN_K"] = "5"', 'os.environ["OWN_Z"] = "5"', 'os.environ.pop("OWN_K", None)']
native = True


# %% globals_item
K = 2
def fn(x): return x * globals()["K"] + globals().get("ZZ", 0)
mutations = ['globals()["K"] = 5', 'globals()["ZZ"] = 5']
native = None


# %% eval_
K = 2
def fn(x): return x * eval("K * 2")
mutations = ['global K; K = 5']
native = None


# %% exec_
K = 2
def fn(x):
    d = {}
    exec("y = K * 2", globals(), d)
    return x * d["y"]
mutations = ['global K; K = 5']
native = None


# %% import_module
import importlib
def fn(x): return x * importlib.import_module("math").pi + __import__("math").e
mutations = ['math.pi = 3', 'math.pi = 3.141592653589793']
native = None


# %% class_made
class A: k = 2
def fn(x):
    T = type("T", (A,), {"j": 3})
    class U(A):
        m = A.k
    return x * T.k + T().j + U.m
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
mutations = ['A.m = lambda s: 10', 'o.v = 9; del A.m; A.m = lambda s: s.v']
native = None


# %% meta_attr
class M(type):
    k = 2
    def __getattr__(c, n): return 7
class A(metaclass=M): pass
def fn(x): return x * A.k + A.zzz
mutations = ['M.k = 3', 'A.zzz = 4', 'M.__getattr__ = lambda c, n: 8; del A.zzz']
native = None


# %% class_getitem
class A:
    t = {"i": 2}
    def __class_getitem__(c, i): return c.t[i]
def fn(x): return x * A["i"]
mutations = ['A.t["i"] = 3']
native = None


# %% exitstack
import contextlib
log = [1]
def fn(x):
    with contextlib.ExitStack() as st:
        st.callback(lambda: None)
        return x * log[0]
mutations = ['log[0] = 3']
native = None


# %% thread_local
import threading
t = threading.local(); t.k = 2
def fn(x): return x * t.k
mutations = ['t.k = 5']
native = None


# %% thread_name
import threading
def fn(x): return x * len(threading.current_thread().name)
mutations = ['threading.current_thread().name = "qqqqq"']
native = None


# %% json_
import json
cfg = {"a": [1, 2]}
def fn(x): return x * len(json.dumps(cfg))
mutations = ['cfg["a"].append(3)']
native = None


# %% json_loads
import json
cfg = ['{"a": 2}']
def fn(x): return x * json.loads(cfg[0])["a"]
mutations = ['cfg[0] = \'{"a": 5}\'']
native = None


# %% struct_
import struct
cfg = [b"\x01\x00\x00\x00"]
def fn(x): return x * struct.unpack("<i", cfg[0])[0]
mutations = ['cfg[0] = b"\\x05\\x00\\x00\\x00"']
native = None


# %% hashlib_
import hashlib
cfg = ["a"]
def fn(x): return x * int(hashlib.md5(cfg[0].encode()).hexdigest()[:2], 16)
mutations = ['cfg[0] = "b"']
native = None


# %% heapq_
import heapq
h = [[1, 5], [2, 6]]
def fn(x): return x * heapq.nsmallest(1, h)[0][1]
mutations = ['h[0][0] = 9']
native = None


# %% statistics_
import statistics
v = [1.0, 2.0, 4.0]
def fn(x): return x * statistics.mean(v) + statistics.median(v)
mutations = ['v.append(9.0)']
native = None


# %% bisect_
import bisect
v = [1.0, 2.0, 4.0]
def fn(x): return x * bisect.bisect(v, 2.5)
mutations = ['v.insert(0, 0.5)']
native = None


# %% pathlib_
import pathlib
p = [pathlib.Path("/a/b")]
def fn(x): return x * len(p[0].name) + len(p[0].parts) + len(str(p[0] / "c"))
mutations = ['p[0] = pathlib.Path("/a/bbbb/c")']
native = None


# %% dataclass_fields
@dataclasses.dataclass
class D:
    a: int = 1
    b: int = 2
d = D()
def fn(x): return x * sum(getattr(d, q.name) for q in dataclasses.fields(d))
mutations = ['d.b = 7']
native = None


# %% flag
class F(enum.Flag):
    A = 1
    B = 2
c = {"f": F.A | F.B}
def fn(x): return x * (2 if F.B in c["f"] else 3) + c["f"].value
mutations = ['c["f"] = F.A']
native = None


# %% typing_hints
import typing
class A:
    v: int
def fn(x): return x * len(typing.get_type_hints(A))
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
mutations = ['A.__dict__["d"].k = 5', 'o.base = 9', 'A.d = Dsc(1)']
native = None


# %% weak_dict
class A:
    def __init__(s, v): s.v = v
a = A(2)
w = weakref.WeakValueDictionary(); w["a"] = a
def fn(x): return x * w["a"].v
mutations = ['a.v = 5', 'w["a"] = b = A(9); globals()["keep"] = b']
native = None


# %% weak_key
class A: pass
a = A()
w = weakref.WeakKeyDictionary(); w[a] = 2
def fn(x): return x * w[a]
mutations = ['w[a] = 5']
native = None


# %% weak_set
class A:
    def __init__(s, v): s.v = v
a = A(2)
w = weakref.WeakSet([a])
def fn(x): return x * sum(i.v for i in w)
mutations = ['a.v = 5']
native = False


# %% method_self
class A:
    def __init__(s): s.v = [2]
    def m(s): return s.v[0]
bm = A().m
def fn(x): return x * bm() + bm.__self__.v[0]
mutations = ['bm.__self__.v[0] = 5']
native = None


# %% builtin_method_self
d = {"a": 2}
g_ = d.get
l = [1, 2]
c_ = l.count
def fn(x): return x * g_("a") + c_(1) + g_.__self__["a"]
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
mutations = ['s_(5)']
native = None


# %% property_obj
class A:
    def __init__(s): s._v = 2
    @property
    def v(s): return s._v
o = A()
def fn(x): return x * A.v.fget(o) + A.__dict__["v"].fget(o)
mutations = ['o._v = 5', 'A.v = property(lambda s: 1)']
native = None


# %% sys_modules
import sys
def fn(x): return x * sys.modules["math"].pi + ("zzz" in sys.modules)
mutations = ['math.pi = 3', 'math.pi = 3.141592653589793']
native = None


# %% traceback_text
import traceback
cfg = {"m": "abc"}
def fn(x):
    try: raise ValueError(cfg["m"])
    except ValueError as e: return x * len(traceback.format_exception_only(e)[0])
mutations = ['cfg["m"] = "abcdef"']
native = None


# %% string_template
cfg = {"m": "abc"}
t = string.Template("$m $m")
def fn(x): return x * len(t.substitute(cfg)) + len("{m}".format(**cfg)) + len("{m}".format_map(cfg)) + len("%(m)s" % cfg)
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
mutations = ['o.v = 5', 'A.__str__ = lambda s: ""']
native = None


# %% sort_inplace_own
class K:
    def __init__(s, v): s.v = v
    def __lt__(s, o): return s.v < o.v
src = [K(2), K(1)]
def fn(x):
    own = list(src); own.sort(); return x * own[0].v
mutations = ['src[0].v = 0']
native = None


# %% sort_outside
rows = [[2, 1], [1, 7]]
def fn(x):
    rows.sort(); return x * rows[0][1]
mutations = ['rows[0][0] = 9']
native = None


# %% remove_deep
rows = [[2, 1], [1, 7]]
def fn(x):
    own = list(rows); own.remove([1, 7]); return x * len(own) + own[0][0]
mutations = ['rows[0][:] = [1, 7]; rows.append([1, 7])']
native = None


# %% lru_user
K = 2
@functools.lru_cache
def h(v): return v * K
def fn(x): return x * h(3)
mutations = ['h.cache_clear(); globals()["K"] = 5']
native = None


# %% partialmethod
class A:
    def __init__(s): s.v = 2
    def m(s, k): return s.v * k
    p = functools.partialmethod(m, 3)
o = A()
def fn(x): return x * o.p()
mutations = ['o.v = 5', 'A.m = lambda s, k: 1']
native = None


# %% operator_methodcaller
o = {"a": 2}
def fn(x): return x * operator.methodcaller("get", "a")(o)
mutations = ['o["a"] = 5']
native = None


# %% groupby
rows = [("a", [1]), ("a", [2]), ("b", [3])]
def fn(x): return x * sum(len(list(g)) * i for i, (k, g) in enumerate(itertools.groupby(rows, key=lambda r: r[0]), 1))
mutations = ['rows[1] = ("b", [2])']
native = None


# %% ctxvar
import contextvars
v = contextvars.ContextVar("v", default=2)
def fn(x): return x * v.get()
mutations = ['v.set(5)']
native = None


# %% ctxvar_list
import contextvars
v = contextvars.ContextVar("v"); v.set([2])
def fn(x): return x * v.get()[0]
mutations = ['v.get()[0] = 5']
native = None


# %% userlist
o = collections.UserList([1, 2])
def fn(x): return x * sum(o) + o[0] + len(o)
mutations = ['o.append(5)']
native = None


# %% generic_alias
import typing
T = typing.TypeVar("T")
class G(typing.Generic[T]):
    k = 2
def fn(x): return x * G[int].k + len(typing.get_args(list[int]))
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
mutations = ['A.go = lambda s: 1']
native = None


# %% abc_register
import abc
class P(abc.ABC): pass
class A: pass
o = A()
def fn(x): return x * (2 if isinstance(o, P) else 3)
mutations = ['P.register(A)']
native = None


# %% tensor_attr
w = torch.ones(3); w.scale = 2
def fn(x): return x * w.scale + w
mutations = ['w.scale = 5']
native = None


# %% module_attrs
m = torch.nn.Linear(3, 3)
m.cfg = {"k": [2.0]}
def fn(x): return m(x) * m.cfg["k"][0] + len(list(m.named_parameters())) + m.in_features
mutations = ['m.cfg["k"][0] = 5.', 'm.register_parameter("extra", torch.nn.Parameter(torch.ones(1)))', 'm.in_features = 9']
native = None
