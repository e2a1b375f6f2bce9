# SPDX-License-Identifier: Apache-2.0
"""Objects that native code compares by identity, and that become the same one."""
import collections
import dataclasses
import functools

import torch


def inputs():
    return (torch.arange(3.0),)


# %% w1
class P: pass
a, b = P(), P()
D = {a: 1., b: 2.}
Q = [P()]
def fn(x): return x * D.get(Q[0], 9.)
mutations = ['Q[0] = b', 'Q[0] = P()', 'Q[0] = a']
native = None


# %% w2
class P: pass
a, b = P(), P()
D = {a: 1., b: 2.}
Q = [P()]
def fn(x): return x * (5 if Q[0] in D else 2)
mutations = ['Q[0] = b', 'Q[0] = P()']
native = None


# %% w5
class P: pass
a, b = P(), P()
S = [a, b]
Q = [P()]
def fn(x): return x * (5 if Q[0] in S else 2)
mutations = ['Q[0] = b', 'Q[0] = P()']
native = None


# %% z9
class P: pass
a, b = P(), P()
q = [b]; L = collections.deque([a])
def fn(x): return x * (q[0] in L)
mutations = ['q[0] = a', 'L.append(b); q[0] = b']
native = None


# %% z10
class P: pass
a, b = P(), P()
q = [b]; D = {"k": a}
def fn(x): return x * (q[0] in D.values())
mutations = ['q[0] = a', 'D["k"] = P()']
native = None


# %% w6
class P: pass
a, b = P(), P()
D = {a: 1.}
q = b
def fn(x): return x * D.get(q, 9.)
mutations = ['q = a', 'q = b']
native = None


# %% w8
class P: pass
class O: pass
o = O(); o.k = P()
vis = {P(): 3.}
def fn(x): return x * vis.get(o.k, 9.)
mutations = ['o.k = next(iter(vis))']
native = None


# %% w12
class P: pass
a, b = P(), P()
D = {(a, 1): 2.}
Q = [b]
def fn(x): return x * D.get((Q[0], 1), 9.)
mutations = ['Q[0] = a']
native = None


# %% w13
class P: pass
a, b = P(), P()
D = collections.OrderedDict([(a, 1.)])
Q = [b]
def fn(x): return x * D.get(Q[0], 9.) + (Q[0] in D)
mutations = ['Q[0] = a']
native = None


# %% z21
class P: __slots__ = ()
a, b = P(), P()
D = {a: 1.}; q = [b]
def fn(x): return x * (q[0] in D)
mutations = ['q[0] = a']
native = None


# %% y11
M1, M2 = object(), object()
D = {M1: 1.}; q = [M2]
def fn(x): return x * D.get(q[0], 5.)
mutations = ['q[0] = M1']
native = None


# %% y7
m1, m2 = torch.nn.Identity(), torch.nn.Identity()
D = {m1: 1.}; q = [m2]
def fn(x): return x * D.get(q[0], 5.)
mutations = ['q[0] = m1']
native = None


# %% x4
p1, p2 = functools.partial(int), functools.partial(int)
D = {p1: 1.}; q = [p2]
def fn(x): return x * D.get(q[0], 5.)
mutations = ['q[0] = p1']
native = None


# %% z14
class P:
    def cb(s): pass
a, b = P(), P()
q = [b.cb]; L = [a.cb]
def fn(x): return x * (5 if q[0] in L else 2)
mutations = ['q[0] = a.cb', 'L[0] = b.cb']
native = None


# %% z3
class P: pass
a, b = P(), P()
u = [a]; v = [b]
def fn(x): return x * (5 if u == v else 2)
mutations = ['v[0] = a', 'v[0] = P()']
native = None


# %% z4
class P: pass
a, b = P(), P()
q = [b]
def fn(x): return x * (5 if (a, 1) == (q[0], 1) else 2)
mutations = ['q[0] = a']
native = None


# %% z5
class P: pass
a, b = P(), P()
q = {"k": b}
def fn(x): return x * (5 if {"k": a} == q else 2)
mutations = ['q["k"] = a']
native = None


# %% z6
@dataclasses.dataclass
class D: p: object
class P: pass
a, b = P(), P()
d = D(a); e = D(b)
def fn(x): return x * (5 if d == e else 2)
mutations = ['e.p = a', 'e.p = P()']
native = None


# %% x1
class P: pass
a, b = P(), P()
q = [frozenset({b})]
def fn(x): return x * (5 if q[0] == frozenset({a}) else 2)
mutations = ['q[0] = frozenset({a})']
native = None


# %% x9
class P: pass
a, b = P(), P()
q = [b]
def fn(x): return x * (5 if q[0] != a else 2)
mutations = ['q[0] = a']
native = None


# %% x8
class P: pass
a, b = P(), P()
u, v = [a, b], [b]
def fn(x): return x * sum(i in u for i in v) + sum(1 for i in u for j in v if i == j) * 10
mutations = ['v.append(P())', 'v[1] = a', 'u[0] = P()', 'u.append(v[1])']
native = None


# %% x7
class C: A = object(); B = object()
q = [C.B]
def fn(x):
    match q[0]:
        case C.A: return x
        case _: return x * 7
mutations = ['q[0] = C.A']
native = None


# %% z8
class P: pass
a, b = P(), P()
q = [b]; L = [a, P()]
def fn(x): return x * L.count(q[0])
mutations = ['q[0] = a', 'L[1] = a']
native = None


# %% z7
class P: pass
a, b = P(), P()
q = [b]
def fn(x):
    L = [a]
    try: L.remove(q[0])
    except ValueError: return x
    return x * 5
mutations = ['q[0] = a']
native = None


# %% y13
class N: pass
a, b = N(), N()
D = {a: 1.}; q = [b]
def fn(x):
    d = dict(D); return x * d.pop(q[0], 5.) + len(d)
mutations = ['q[0] = a']
native = None


# %% y14
class N: pass
a, b = N(), N()
q = [b]
def fn(x):
    d = {a: 1.}; return x * d.setdefault(q[0], 5.) + len(d)
mutations = ['q[0] = a']
native = None


# %% x3
class P: pass
a, b = P(), P()
D = {a: 1.}; q = [b]
def fn(x): return x * len(D | {q[0]: 2.}) + len({**D, q[0]: 1})
mutations = ['q[0] = a']
native = None


# %% y12
class N: pass
a, b = N(), N()
s = {a}; q = [b]
def fn(x): return x * len(s | {q[0]}) + len(s & set(q)) + (set(q) <= s)
mutations = ['q[0] = a']
native = None


# %% y15
class N: pass
a, b = N(), N()
q = [a, b]
def fn(x): return x * len(set(q)) + len(dict.fromkeys(q)) + collections.Counter(q)[a]
mutations = ['q[1] = a', 'q[0] = q[1] = N()']
native = None


# %% z12
class N:
    def __init__(s): s.p = P0
class P: pass
P0 = P(); n = [N(), N()]; n[1].p = P()
def fn(x): return x * len({i.p for i in n}) + len({i.p: 1 for i in n})
mutations = ['n[1].p = P0', 'n[1].p = P()', 'n.append(N())']
native = None


# %% z13
class P: pass
a, b = P(), P()
items = [(a, 1.), (b, 2.)]
def fn(x):
    g = collections.defaultdict(list)
    for k, v in items: g[k].append(v)
    return x * len(g) + max(len(v) for v in g.values())
mutations = ['items[1] = (a, 2.)', 'items.append((P(), 3.))']
native = None


# %% w11
class P: pass
a, b = P(), P()
seen = {a}
def fn(x):
    n = 0
    for o in L:
        if o not in seen: n += 1
    return x * n
L = [a, P()]
mutations = ['L[1] = a', 'seen.add(P())', 'L[0] = P()', 'L.reverse()']
native = None


# %% z22
class P:
    reg = {}
    def rate(s): return P.reg.get(s, 5.)
a, b = P(), P(); P.reg[a] = 1.
q = [b]
def fn(x): return x * q[0].rate()
mutations = ['q[0] = a', 'q[0] = P()']
native = None
