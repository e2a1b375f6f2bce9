# SPDX-License-Identifier: Apache-2.0
"""One object in two places, two that become one, and values of which there may be many."""
import array
import collections
import contextvars
import dataclasses
import datetime
import functools
import math
import re
import types

import torch


def inputs():
    return (torch.arange(3.0),)


# %% z4
def mk(k):
    def act(x): return x * k
    return act
class L(torch.nn.Module):
    def __init__(s, a): super().__init__(); s.a = a
    def forward(s, x): return s.a(x)
a = mk(2)
net = torch.nn.Sequential(L(a), L(a))
def fn(x): return net(x)
mutations = ['net[1].a = mk(5)']
native = None


# %% t26
cfg = types.SimpleNamespace(lr=2)
class Layer(torch.nn.Module):
    def __init__(s, c): super().__init__(); s.cfg = c
    def forward(s, x): return x * s.cfg.lr
net = torch.nn.Sequential(Layer(cfg), Layer(cfg))
def fn(x): return net(x)
mutations = ['net[1].cfg = types.SimpleNamespace(lr=5)', 'net[1].cfg.lr = 7']
native = None


# %% q5
a, b = types.SimpleNamespace(v=2), types.SimpleNamespace(v=11)
a.me = a
def fn(x): return x * a.me.v
mutations = ['a.me = b', 'a.me = a']
native = None


# %% q9
a, b = types.SimpleNamespace(v=2), types.SimpleNamespace(v=2)
st = {"p": a, "q": a}
def fn(x):
    st["p"].v = 5
    return x * st["q"].v
mutations = ['a.v = 2; st["q"] = b']
native = None


# %% z9
t, u = (1, [2]), (1, [9])
st = {"p": t, "q": t}
def fn(x): return x * st["p"][1][0] + st["q"][1][0]
mutations = ['st["q"] = u', 'u[1][0] = 4']
native = None


# %% v7
def mkf(v):
    def g(x): return x * v
    return g
a, b = mkf(2), mkf(7)
st = {"p": a, "q": a}
def fn(x): return st["p"](x) + st["q"](x)
mutations = ['st["q"] = b']
native = None


# %% z6
def g(x, k=2): return x * k
def cp(k): return types.FunctionType(g.__code__, g.__globals__, "g", (k,))
a = cp(2)
st = {"p": a, "q": a}
def fn(x): return st["p"](x) + st["q"](x)
mutations = ['st["q"] = cp(7)']
native = None


# %% al_cls
a = type('A', (), {'v': 2}); b = type('A', (), {'v': 7})
st = {"p": a, "q": a}
def fn(x): return x * st["p"].v + st["q"].v
mutations = ['st["q"] = b']
native = None


# %% v2
def mkc(v):
    class A: pass
    A.v = v
    return A
A, B = mkc(2), mkc(7)
st = {"p": A, "q": A}
def fn(x): return x * st["p"].v + st["q"].v
mutations = ['st["q"] = B']
native = None


# %% v5
def mkc(v):
    class A:
        def __init__(s): s.v = v
    return A
A, B = mkc(2), mkc(7)
st = {"p": A, "q": A}
def fn(x): return x * st["p"]().v + st["q"]().v
mutations = ['st["q"] = B']
native = None


# %% v6
def mkc(v):
    class A: pass
    A.v = v
    return A
A, B = mkc(2), mkc(7)
o, q = A(), A()
def fn(x): return x * o.v + q.v
mutations = ['q.__class__ = B']
native = None


# %% z7
class A: v = 2
class B: v = 7
B.__name__ = B.__qualname__ = "A"
o, q = A(), A()
def fn(x): return x * o.v + q.v
mutations = ['q.__class__ = B']
native = None


# %% v3
m, n = types.ModuleType("mm"), types.ModuleType("mm"); m.v = 2; n.v = 7
st = {"p": m, "q": m}
def fn(x): return x * st["p"].v + st["q"].v
mutations = ['st["q"] = n']
native = None


# %% s12
m = types.ModuleType("mm"); m.v = 2; m.me = m
n = types.ModuleType("mm"); n.v = 7
def fn(x): return x * m.me.v
mutations = ['m.me = n']
native = None


# %% q12
a, b, c = [types.SimpleNamespace(v=i) for i in (1, 2, 7)]
a.next = b; b.prev = a
def fn(x): return x * a.next.prev.v
mutations = ['b.prev = c', 'c.v = 9']
native = None


# %% s9
a, b, c = [types.SimpleNamespace(v=i) for i in (1, 2, 7)]
a.kids = [b]; b.parent = a
def fn(x): return x * a.kids[0].parent.v
mutations = ['b.parent = c']
native = None


# %% s6
a, b = types.SimpleNamespace(v=2), types.SimpleNamespace(v=3)
st = {"p": a, "q": a}
def fn(x): return x * st["p"].v + st["q"].v
mutations = ['st["q"] = b', 'b.v = 8']
native = None


# %% s7
a, b = types.SimpleNamespace(v=2), types.SimpleNamespace(v=3)
class Hd: pass
h = Hd(); h.p = a; h.q = a
def fn(x): return x * h.p.v + h.q.v
mutations = ['h.q = b', 'b.v = 8']
native = None


# %% s8
a, b = types.SimpleNamespace(v=2), types.SimpleNamespace(v=3)
r = types.SimpleNamespace(p=a, q=a)
def fn(x): return x * r.p.v + r.q.v
mutations = ['r.q = b', 'b.v = 8']
native = None


# %% t27
class A: pass
class Hook:
    def __init__(s, ns): s.ns = ns
c = types.SimpleNamespace(v=2)
h = [Hook(c), Hook(c)]
def fn(x): return x * h[0].ns.v + h[1].ns.v
mutations = ['h[1] = Hook(types.SimpleNamespace(v=9))']
native = None


# %% t29
def mk(c):
    def fn(x): return x * c.v + other.v
    return fn
other = types.SimpleNamespace(v=2)
fn = mk(other)
mutations = ['other = types.SimpleNamespace(v=9)', 'fn.__closure__[0].cell_contents = types.SimpleNamespace(v=4)']
native = None


# %% mt1
def m(s, x): return x * s.v
o = types.SimpleNamespace(v=2); o.m = types.MethodType(m, o)
def fn(x): return o.m(x)
mutations = ['o.m = types.MethodType(m, types.SimpleNamespace(v=11))']
native = None


# %% mt5
def m(s, x): return x * s.v
o = types.SimpleNamespace(v=2); o.m = types.MethodType(m, o)
def fn(x): return o.m(x)
mutations = ['o.m = types.MethodType(m, types.SimpleNamespace(v=2))', 'o.m.__self__.v = 9']
native = None


# %% mt6
def m(s, x): return x * s.v
o = types.SimpleNamespace(v=2); o.m = functools.partial(m, o)
def fn(x): return o.m(x)
mutations = ['o.m = functools.partial(m, types.SimpleNamespace(v=11))']
native = None


# %% q3
def m(s, x): return x * s.v
a, b = types.SimpleNamespace(v=2), types.SimpleNamespace(v=11)
a.p = functools.partial(m, a)
def fn(x): return a.p(x)
mutations = ['a.p = functools.partial(m, b)', 'b.v = 3']
native = None


# %% v8
act = functools.partial(torch.mul, other=torch.ones(3))
class L(torch.nn.Module):
    def __init__(s, a): super().__init__(); s.a = a
    def forward(s, x): return s.a(x)
net = torch.nn.Sequential(L(act), L(act))
def fn(x): return net(x)
mutations = ['net[1].a = functools.partial(torch.mul, other=torch.full((3,), 5.))']
native = None


# %% t30
d, e = collections.deque([2]), collections.deque([9])
b1 = bytearray(b"a"); b2 = bytearray(b"z")
s1, s2 = {1}, {1, 2}
a1, a2 = array.array("i", [1]), array.array("i", [5])
st = {"d": [d, d], "b": [b1, b1], "s": [s1, s1], "a": [a1, a1]}
def fn(x): return x * st["d"][0][0] + st["d"][1][0] + st["b"][0][0] + st["b"][1][0] + sum(st["s"][0]) + sum(st["s"][1]) + st["a"][0][0] + st["a"][1][0]
mutations = ['st["d"][1] = e', 'st["b"][1] = b2', 'st["s"][1] = s2', 'st["a"][1] = a2']
native = None


# %% t32
l1, l2 = threading_l = [types.MappingProxyType({"v": 2}), types.MappingProxyType({"v": 7})]
q1, q2 = collections.UserDict(v=2), collections.UserDict(v=7)
st = {"m": [l1, l1], "q": [q1, q1]}
def fn(x): return x * st["m"][0]["v"] + st["m"][1]["v"] + st["q"][0]["v"] + st["q"][1]["v"]
mutations = ['st["m"][1] = l2', 'st["q"][1] = q2']
native = None


# %% t33
cv1, cv2 = contextvars.ContextVar("a", default=2), contextvars.ContextVar("b", default=9)
st = [cv1, cv1]
def fn(x): return x * st[0].get() + st[1].get()
mutations = ['st[1] = cv2', 'cv2.set(11)']
native = None


# %% al_simplens
a = types.SimpleNamespace(v=2); b = types.SimpleNamespace(v=7)
st = {"p": a, "q": a}
def fn(x): return x * st["p"].v + st["q"].v
mutations = ['st["q"] = b']
native = None


# %% al_deque
a = collections.deque([2]); b = collections.deque([9])
st = {"p": a, "q": a}
def fn(x): return x * st["p"][0] + st["q"][0]
mutations = ['st["q"] = b']
native = None


# %% al_bytearray
a = bytearray(b'a'); b = bytearray(b'z')
st = {"p": a, "q": a}
def fn(x): return x * st["p"][0] + st["q"][0]
mutations = ['st["q"] = b']
native = None


# %% al_memview
a = memoryview(b'a'); b = memoryview(b'z')
st = {"p": a, "q": a}
def fn(x): return x * st["p"][0] + st["q"][0]
mutations = ['st["q"] = b']
native = None


# %% al_array
a = array.array('i', [1]); b = array.array('i', [5])
st = {"p": a, "q": a}
def fn(x): return x * st["p"][0] + st["q"][0]
mutations = ['st["q"] = b']
native = None


# %% al_mproxy
a = types.MappingProxyType({'v': 2}); b = types.MappingProxyType({'v': 7})
st = {"p": a, "q": a}
def fn(x): return x * st["p"]['v'] + st["q"]['v']
mutations = ['st["q"] = b']
native = None


# %% al_ctxvar
a = contextvars.ContextVar('a', default=2); b = contextvars.ContextVar('a', default=8)
st = {"p": a, "q": a}
def fn(x): return x * st["p"].get() + st["q"].get()
mutations = ['st["q"] = b']
native = None


# %% al_partial
a = functools.partial(max, 2); b = functools.partial(max, 9)
st = {"p": a, "q": a}
def fn(x): return x * st["p"](1) + st["q"](1)
mutations = ['st["q"] = b']
native = None


# %% al_lru
a = functools.lru_cache(lambda: 2); b = functools.lru_cache(lambda: 7)
st = {"p": a, "q": a}
def fn(x): return x * st["p"]() + st["q"]()
mutations = ['st["q"] = b']
native = None


# %% al_pattern
a = re.compile('a'); b = re.compile('b')
st = {"p": a, "q": a}
def fn(x): return x * len(st["p"].findall('abb')) + len(st["q"].findall('abb'))
mutations = ['st["q"] = b']
native = None


# %% al_timedelta
a = datetime.timedelta(seconds=1); b = datetime.timedelta(seconds=5)
st = {"p": a, "q": a}
def fn(x): return x * st["p"].seconds + st["q"].seconds
mutations = ['st["q"] = b']
native = None


# %% v12
d = datetime.date(2020, 1, 2)
st = {"p": d, "q": d}
def fn(x): return x * st["p"].day + st["q"].day
mutations = ['st["q"] = datetime.date(2020, 1, 9)']
native = None


# %% al_size
a = torch.Size([1, 2]); b = torch.Size([1, 2, 3])
st = {"p": a, "q": a}
def fn(x): return x * len(st["p"]) + len(st["q"])
mutations = ['st["q"] = b']
native = None


# %% v9
sz = torch.Size([3])
st = {"p": sz, "q": sz}
def fn(x): return x.reshape(st["p"]).sum() + torch.zeros(st["q"])
mutations = ['st["q"] = torch.Size([1])']
native = None


# %% al_dview
a = {'a': 1}.values(); b = {'a': 6}.values()
st = {"p": a, "q": a}
def fn(x): return x * sum(st["p"]) + sum(st["q"])
mutations = ['st["q"] = b']
native = None


# %% al_bmeth
a = [1].count; b = [1, 1, 1].count
st = {"p": a, "q": a}
def fn(x): return x * st["p"](1) + st["q"](1)
mutations = ['st["q"] = b']
native = None


# %% al_proxy
a = types.MethodType(lambda s: s, 3); b = types.MethodType(lambda s: s, 8)
st = {"p": a, "q": a}
def fn(x): return x * st["p"]() + st["q"]()
mutations = ['st["q"] = b']
native = None


# %% v11
class C:
    def __init__(s, v): s.v = v
    def m(s, x): return x * s.v
a, b = C(2), C(7)
k = a.m
st = {"p": k, "q": k}
def fn(x): return st["p"](x) + st["q"](x)
mutations = ['st["q"] = b.m']
native = None


# %% al_gen
a = types.GenericAlias(list, (int,)); b = types.GenericAlias(list, (int, str))
st = {"p": a, "q": a}
def fn(x): return x * len(st["p"].__args__) + len(st["q"].__args__)
mutations = ['st["q"] = b']
native = None


# %% al1
l = [1]
m = [l, [1]]
def fn(x):
    m[0].append(1)
    r = x * len(m[1])
    m[0].pop()
    return r
mutations = ['m[1] = m[0]']
native = None


# %% z11
class C: pass
a, b, c = C(), C(), C(); a.v, b.v, c.v = 1, 1, 5
st = [a, b]
def fn(x):
    old = st[0].v; st[0].v = 3
    try: return x * st[1].v
    finally: st[0].v = old
mutations = ['st[1] = a', 'st[1] = c']
native = None


# %% al2
a = {"k": 1}; b = {"k": 1}
st = types.SimpleNamespace(a=a, b=b)
def fn(x):
    st.a["k"] = 5
    r = x * st.b["k"]
    st.a["k"] = 1
    return r
mutations = ['st.b = st.a']
native = None


# %% al3
class O: pass
a, b = O(), O(); a.v = b.v = 1
st = [a, b]
def fn(x):
    st[0].v = 5
    r = x * st[1].v
    st[0].v = 1
    return r
mutations = ['st[1] = st[0]']
native = None


# %% al6
s, t = {1}, {1}
st = [s, t]
def fn(x):
    st[0].add(2)
    r = x * len(st[1])
    st[0].discard(2)
    return r
mutations = ['st[1] = st[0]']
native = None


# %% al8
d1, d2 = collections.deque([1]), collections.deque([1])
st = [d1, d2]
def fn(x):
    st[0].append(2)
    r = x * len(st[1])
    st[0].pop()
    return r
mutations = ['st[1] = st[0]']
native = None


# %% is_big
SENT = 10**6
st = {"s": SENT}
def fn(x): return x * (2 if st["s"] is SENT else 3)
mutations = ['st["s"] = int(str(10**6))']
native = None


# %% is_int
a = [1000]
b = a[0]
def fn(x): return x * (2 if a[0] is b else 3)
mutations = ['a[0] = int("1000")', 'a[0] = b']
native = None


# %% is_str
a = ["hello world"]
b = a[0]
def fn(x): return x * (2 if a[0] is b else 3)
mutations = ['a[0] = "".join(["hello ", "world"])']
native = None


# %% is_tuple
a = [(1, 2)]
b = a[0]
def fn(x): return x * (2 if a[0] is b else 3)
mutations = ['a[0] = tuple([1, 2])']
native = None


# %% u4
sent = {"v": (1, 2)}
keep = sent["v"]
def fn(x): return x * (2 if sent["v"] is keep else 3)
mutations = ['sent["v"] = (1, int("2"))']
native = None


# %% is_bytes
SENT = b"sentinel"
st = {"s": SENT}
def fn(x): return x * (2 if st["s"] is SENT else 3)
mutations = ['st["s"] = bytes(bytearray(b"sentinel"))']
native = None


# %% nan5
n = math.nan
k = [n]
def fn(x): return x * (2 if k[0] is n else 3)
mutations = ['k[0] = float("nan")']
native = None


# %% nan1
a = [float("nan")]
n = a[0]
def fn(x): return x * (2 if n in a else 3)
mutations = ['a[0] = float("nan")', 'a[0] = n']
native = None


# %% nan8
@dataclasses.dataclass
class C: a: float
p, q = C(math.nan), C(math.nan)
def fn(x): return x * (2 if p == q else 3)
mutations = ['q.a = float("nan")']
native = None


# %% nan2
n = float("nan")
t = (n, 1)
st = {"u": (n, 1)}
def fn(x): return x * (2 if t == st["u"] else 3)
mutations = ['st["u"] = (float("nan"), 1)']
native = None


# %% nan3
d = {"a": float("nan")}
e = {"a": d["a"]}
def fn(x): return x * (2 if d == e else 3)
mutations = ['e["a"] = float("nan")']
native = None


# %% nan7
st = types.SimpleNamespace(v=float("nan"))
n = st.v
def fn(x): return x * (st.v is n) + [n].index(st.v) if [n].count(st.v) else x - 1
mutations = ['st.v = float("nan")']
native = None


# %% dc_eqorder
@dataclasses.dataclass(order=True)
class C:
    a: int; b: float = 0.
p, q = C(1), C(2)
def fn(x): return x * (2 if p < q else 3) + (p == q)
mutations = ['p.a = 2', 'p.b = 1.', 'p.b = float("nan"); q.b = p.b', 'q.b = float("nan")']
native = None


# %% in_list
class A: pass
a, b, c = A(), A(), A()
st = {"sel": a, "l": [b, c]}
def fn(x): return x * (2 if st["sel"] in st["l"] else 3)
mutations = ['st["l"][0] = a', 'st["l"][0] = b', 'st["sel"] = c']
native = None


# %% eq_plain
class A: pass
a, b = A(), A()
st = {"p": a, "q": b}
def fn(x): return x * (2 if st["p"] == st["q"] else 3)
mutations = ['st["q"] = a', 'st["q"] = b']
native = None


# %% ne_plain
class A: pass
a, b = A(), A()
st = {"p": a, "q": b}
def fn(x): return x * (2 if st["p"] != st["q"] else 3)
mutations = ['st["q"] = a']
native = None


# %% dict_key
class A: pass
a, b = A(), A()
d = {a: 2}
st = {"s": b}
def fn(x): return x * d.get(st["s"], 7)
mutations = ['st["s"] = a', 'st["s"] = b']
native = None


# %% set_member
class A: pass
a, b = A(), A()
d = {a}
st = {"s": b}
def fn(x): return x * (2 if st["s"] in d else 3)
mutations = ['st["s"] = a', 'd.add(b); st["s"] = b']
native = None


# %% list_index
class A: pass
a, b, c = A(), A(), A()
l = [a, b, c]
st = {"s": b}
def fn(x): return x * l.index(st["s"])
mutations = ['st["s"] = c', 'l[0] = c']
native = None


# %% list_count
class A: pass
a, b, c = A(), A(), A()
l = [a, b, c]
st = {"s": A()}
def fn(x): return x * l.count(st["s"])
mutations = ['st["s"] = c', 'l[0] = c']
native = None


# %% tuple_eq
class A: pass
a, b = A(), A()
st = {"p": (1, a), "q": (1, b)}
def fn(x): return x * (2 if st["p"] == st["q"] else 3)
mutations = ['st["q"] = (1, a)']
native = None


# %% fn_eq
def g(): return 1
def mk(v):
    def h(): return v
    return h
a, b = mk(1), mk(2)
st = {"p": a, "q": b}
def fn(x): return x * (2 if st["p"] == st["q"] else 3)
mutations = ['st["q"] = a']
native = None


# %% is_plain
class A: pass
a, b = A(), A()
st = {"p": a, "q": b}
def fn(x): return x * (2 if st["p"] is st["q"] else 3)
mutations = ['st["q"] = a', 'st["q"] = b']
native = None


# %% is_in_loop
class A: pass
ns = [A(), A(), A()]
st = {"s": A()}
def fn(x):
    n = 0
    for o in ns:
        if o is st["s"]: n += 1
    return x * n
mutations = ['ns[1] = st["s"]', 'st["s"] = A()']
native = None


# %% remove_obj
class A: pass
a, b = A(), A()
l = [a, b]
st = {"s": A()}
def fn(x):
    k = list(l)
    if st["s"] in k: k.remove(st["s"])
    return x * len(k)
mutations = ['st["s"] = a']
native = None


# %% len_set_of
class A: pass
a, b = A(), A()
l = [a, b]
def fn(x): return x * len(set(l))
mutations = ['l[1] = a', 'l[1] = b']
native = None


# %% dict_from
class A: pass
a, b = A(), A()
l = [a, b]
def fn(x): return x * len({o: 1 for o in l})
mutations = ['l[1] = a']
native = None


# %% id_len
class A: pass
a, b = A(), A()
l = [a, b]
def fn(x): return x * len({id(o) for o in l})
mutations = ['l[1] = a']
native = None


# %% modules_dedup
a = torch.nn.Linear(3, 3).requires_grad_(False); b = torch.nn.Linear(3, 3).requires_grad_(False)
for m in (a, b): torch.nn.init.ones_(m.weight); torch.nn.init.zeros_(m.bias)
net = torch.nn.ModuleList([a, b])
def fn(x): return x * len(list(net.modules())) + len(list(net.parameters()))
mutations = ['net[1] = a', 'net[1] = b']
native = None


# %% dataclass_eq_false
@dataclasses.dataclass(eq=False)
class A: v: int
a, b = A(1), A(1)
st = {"p": a, "q": b}
def fn(x): return x * (2 if st["p"] == st["q"] else 3)
mutations = ['st["q"] = a']
native = None


# %% visited
class N:
    def __init__(s, v): s.v = v; s.next = None
a, b, c = N(1), N(2), N(3)
a.next = b; b.next = c
def fn(x):
    seen, n, t = set(), a, 0
    while n is not None and n not in seen:
        seen.add(n); t += n.v; n = n.next
    return x * t
mutations = ['c.next = a', 'c.next = N(5)', 'c.next.next = b']
native = None


# %% a_set_that_holds_itself
class Link:
    def __init__(self, v):
        self.v = v


one = Link([1])
links = frozenset([one])


def fn(x):
    return x * (2 if links == frozenset([Link([1])]) else 3)
mutations = ["one.v[0] = links"]
native = None
