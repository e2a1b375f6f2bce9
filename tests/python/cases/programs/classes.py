# SPDX-License-Identifier: Apache-2.0
"""Objects and classes that are given another class, metaclasses, bases and hooks of class statements."""
import collections
import functools
import types

import torch


def inputs():
    return (torch.arange(3.0),)


# %% n4
class Add:
    def __call__(s, x): return x + 1
class Mul:
    def __call__(s, x): return x * 10
a = Add()
def fn(x): return a(x)
mutations = ['a.__class__ = Mul', 'a.__class__ = Add']
native = None


# %% n1
class Add:
    def __call__(s, x): return x + 1
class Mul:
    def __call__(s, x): return x * 10
class Ctx: strat = Add()
c = Ctx()
def fn(x): return c.strat(x)
mutations = ['Ctx.strat.__class__ = Mul']
native = None


# %% n5
class Add:
    def __call__(s, x): return x + 1
class Mul:
    def __call__(s, x): return x * 10
L = [Add()]; D = {"k": Add()}
def fn(x): return D["k"](L[0](x))
mutations = ['L[0].__class__ = Mul', 'D["k"].__class__ = Mul']
native = None


# %% n6
class Add:
    def __call__(s, x): return x + 1
class Mul:
    def __call__(s, x): return x * 10
def g(x, s=Add()): return s(x)
def fn(x): return g(x)
mutations = ['g.__defaults__[0].__class__ = Mul']
native = None


# %% n9
class Add:
    def __call__(s, x): return x + 1
class Mul:
    def __call__(s, x): return x * 10
a = Add(); 
ns = types.SimpleNamespace(s=a)
def fn(x): return ns.s(x)
mutations = ['ns.s = Mul()', 'ns.s = a', 'a.__class__ = Mul']
native = None


# %% t31
class In:
    def __call__(s, x): return x + 1
class In2:
    def __call__(s, x): return x * 10
class A:
    def __init__(s): s.act = In(); s.acts = {"a": In()}
    def go(s, x): return s.act(s.acts["a"](x))
a = A()
def fn(x): return a.go(x)
mutations = ['a.act.__class__ = In2', 'a.acts["a"].__class__ = In2']
native = None


# %% m21
class A:
    def __call__(s, x): return x + 1
class B:
    def __call__(s, x): return x * 10
holder = types.SimpleNamespace(fns={"a": [A()]})
def fn(x):
    for fn in holder.fns["a"]: x = fn(x)
    return x
mutations = ['holder.fns["a"][0].__class__ = B']
native = None


# %% m11
class A:
    def __call__(s, x): return x + 1
class B:
    def __call__(s, x): return x * 10
a = A()
def run(x, fn): return fn(x)
def fn(x): return run(x, a)
mutations = ['a.__class__ = B']
native = None


# %% m13
class A:
    def __call__(s, x): return x + 1
class B:
    def __call__(s, x): return x * 10
a = A(); p = functools.partial(a)
def fn(x): return p(x)
mutations = ['a.__class__ = B']
native = None


# %% m18
class A:
    def __call__(s, *x, **k): return x[0] + 1
class B:
    def __call__(s, *x, **k): return x[0] * 10
a = A()
def fn(x): return a(*[x], **{"z": 1})
mutations = ['a.__class__ = B']
native = None


# %% m17
class A:
    __slots__ = ()
    def __call__(s, x): return x + 1
class B:
    __slots__ = ()
    def __call__(s, x): return x * 10
a = A()
def fn(x): return a(x)
mutations = ['a.__class__ = B']
native = None


# %% m15
class A:
    def __call__(s, x): return x + 1
class B(A):
    def __call__(s, x): return super().__call__(x) * 2
class C(B):
    def __call__(s, x): return x * 10
a = B()
def fn(x): return a(x)
mutations = ['a.__class__ = C', 'a.__class__ = A']
native = None


# %% q12
class Norm:
    def __call__(s, x): return x - 1
class Scale:
    def __call__(s, x): return x * 3
class Compose:
    def __init__(s, t): s.t = t
    def __call__(s, x):
        for t in s.t: x = t(x)
        return x
c = Compose([Norm(), Scale()])
def fn(x): return c(x)
mutations = ['c.t.reverse()', 'c.t[0], c.t[1] = Norm(), Norm()', 'c.t[1].__class__ = Scale']
native = None


# %% t23
class A:
    def __call__(s, m, a, o): return o + 1
class B:
    def __call__(s, m, a, o): return o * 10
m = torch.nn.Identity(); hk = A(); m.register_forward_hook(hk)
def fn(x): return m(x)
mutations = ['hk.__class__ = B']
native = None


# %% q11
class A(torch.nn.Module):
    def __call__(s, x): return x + 1
class B(torch.nn.Module):
    def __call__(s, x): return x * 10
a = A()
def fn(x): return a(x)
mutations = ['a.__class__ = B']
native = None


# %% t30
class In:
    def __call__(s, x): return x + 1
class In2:
    def __call__(s, x): return x * 10
inn = In()
class A: __call__ = inn
a = A()
def fn(x): return a(x)
mutations = ['inn.__class__ = In2', 'A.__call__ = In()']
native = None


# %% t27
class A:
    def __call__(s, o): return 1
class B:
    def __call__(s, o): return 10
g = A()
class K: v = property(g)
k = K()
def fn(x): return x * k.v
mutations = ['g.__class__ = B']
native = None


# %% u28
class A:
    def __call__(s, o, *v): return 1
class B:
    def __call__(s, o, *v): return 10
g = A()
class K: v = functools.cached_property(g); 
K.v.__set_name__(K, "v")
class K2:
    w = property(lambda s: 1, lambda s, v: st(s, v))
class SA:
    def __call__(s, o, v): o.z = v
class SB:
    def __call__(s, o, v): o.z = v * 10
st = SA()
k = K2()
def fn(x):
    k.w = 2
    return x * K().v + k.z
mutations = ['g.__class__ = B', 'st.__class__ = SB']
native = None


# %% v1
class K: v = property(lambda s: 8)
class K3: v = 4
k = K()
def fn(x): return x * k.v
mutations = ['k.__class__ = K3']
native = None


# %% v2
class K: 
    @property
    def v(s): return 8
class K3:
    @property
    def v(s): return 4
k = K()
def fn(x): return x * k.v
mutations = ['k.__class__ = K3']
native = None


# %% v3
class K: 
    @property
    def v(s): return 8
class K3:
    @property
    def v(s): return 4
k = K()
def fn(x): return x * getattr(k, "v")
mutations = ['k.__class__ = K3']
native = None


# %% v4
L = []
class K: 
    @property
    def v(s): pass
    @v.setter
    def v(s, q): L.append(8)
class K3:
    @property
    def v(s): pass
    @v.setter
    def v(s, q): L.append(4)
k = K()
def fn(x): k.v = 3; return x * L.pop()
mutations = ['k.__class__ = K3']
native = None


# %% q3
class K:
    @property
    def v(s): return 1
    @v.deleter
    def v(s): st["n"] = 1
class K2:
    @property
    def v(s): return 1
    @v.deleter
    def v(s): st["n"] = 10
st = {}
k = K()
def fn(x):
    del k.v
    return x * st["n"]
mutations = ['k.__class__ = K2']
native = None


# %% v11
class M1(torch.nn.Module): v = property(lambda s: 1)
class M2(torch.nn.Module): v = property(lambda s: 10)
m = M1()
def fn(x): return x * m.v
mutations = ['m.__class__ = M2']
native = None


# %% q2
class B: v = property(lambda s: 1)
class K(B): pass
class K2(B): v = property(lambda s: 10)
L = [K()]
def fn(x): return x * sum(k.v for k in L)
mutations = ['L[0].__class__ = K2', 'L.append(K2())', 'L[1].__class__ = K']
native = None


# %% q4
class K: v = property(lambda s: 1)
class K2: v = property(lambda s: 10)
h = {"k": K()}
def fn(x): return x * h["k"].v
mutations = ['h["k"] = K2()', 'h["k"].__class__ = K', 'h["k"] = K()']
native = None


# %% w19
class K:
    def __setattr__(s, k, v): st["q"] = 1
class K3:
    def __setattr__(s, k, v): st["q"] = 10
st = {}
o = K()
def fn(x):
    o.z = 1
    return x * st["q"]
mutations = ['object.__setattr__(o, "__class__", K3)']
native = None


# %% w20
class K:
    def __delattr__(s, k): st["q"] = 1
class K3:
    def __delattr__(s, k): st["q"] = 10
st = {}
o = K()
def fn(x):
    del o.z
    return x * st["q"]
mutations = ['o.__class__ = K3']
native = None


# %% w17
L = []
class K: pass
class K3:
    def __setattr__(s, k, v): L.append(2)
o = K()
def fn(x):
    L.clear(); o.z = 1
    return x * len(L)
mutations = ['o.__class__ = K3']
native = None


# %% v17
L = []
class K:
    def __setitem__(s, k, v): L.append(1)
    def __delitem__(s, k): L.append(1)
    def __setattr__(s, k, v): L.append(1)
    def __delattr__(s, k): L.append(1)
class K3:
    def __setitem__(s, k, v): L.append(2)
    def __delitem__(s, k): L.append(2)
    def __setattr__(s, k, v): L.append(2)
    def __delattr__(s, k): L.append(2)
O = [K() for i in range(4)]
def fn(x):
    L.clear()
    O[0][1] = 2; del O[1][1]; O[2].z = 1; del O[3].z
    return x * sum(L), tuple(L)
mutations = []
native = None


# %% u2
class E1: pass
class E2: pass
class E3(E1): pass
def fn(x): return x if issubclass(E3, E1) else -x
mutations = ['E3.__bases__ = (E2,)', 'E3.__bases__ = (E2, E1)']
native = None


# %% u3
class G: pass
class G2: pass
class E1(G): pass
class E3(E1): pass
def fn(x): return x if issubclass(E3, G) else -x
mutations = ['E1.__bases__ = (G2,)']
native = None


# %% u7
class G: pass
class G2: pass
class E3(G2): pass
def fn(x): return x if issubclass(E3, G) else -x
mutations = ['E3.__bases__ = (G,)']
native = None


# %% t7
class A: pass
class B(A): pass
T = (A,)
def fn(x): return x if issubclass(B, T) else -x
mutations = ['T = (int,)', 'T = (int, (A,))', 'B.__bases__ = (type("Q", (), {}),)']
native = None


# %% x14
class G: pass
class A: pass
class B(G): pass
q = [A]
def fn(x): return x if issubclass(q[0], G) else -x
mutations = ['q[0] = B', 'B.__bases__ = (A,)']
native = None


# %% u20
class M(type):
    def make(c, x): return x + 1
class M2(type):
    def make(c, x): return x * 10
class K(metaclass=M): pass
def fn(x): return K.make(x)
mutations = ['K.__class__ = M2']
native = None


# %% m20
class M1(type):
    def __call__(c, x): return x + 1
class M2(type):
    def __call__(c, x): return x * 10
class K(metaclass=M1): pass
def fn(x): return K(x)
mutations = ['K.__class__ = M2']
native = None


# %% t18
class M(type):
    def __call__(c, *a): return types.SimpleNamespace(v=5, k=1)
class M2(type): pass
class K(metaclass=M):
    k = 1
    def __init__(s, v): s.v = v
def fn(x):
    o = K(2); return x * o.v + o.k
mutations = ['K.__class__ = M2', 'K.__class__ = M']
native = None


# %% u23
class M(type):
    def __call__(c, *a):
        o = type.__call__(c, *a); o.k = 3; return o
class M2(type): pass
class K(metaclass=M):
    k = 1
    def __init__(s, v): s.v = v
def fn(x): o = K(2); return x * o.v + o.k
mutations = ['K.__class__ = M2']
native = None


# %% t19
class M(type):
    def __call__(c, x): return x + 1
class M2(type):
    def __call__(c, x): return x - 1
    k = property(lambda c: 50)
class K(metaclass=M): k = 2
def fn(x): return x * K.k + len(type(K).__name__)
mutations = ['K.__class__ = M2']
native = None


# %% u22
class M(type): w = 1
class M2(type): w = 10
class K(metaclass=M): pass
def fn(x): return x * type(K).w
mutations = ['K.__class__ = M2']
native = None


# %% u18
class M(type): pass
class M2(type):
    def __getattr__(c, n): return 5
class K(metaclass=M): pass
def fn(x): return x * getattr(K, "zz", 1)
mutations = ['K.__class__ = M2']
native = None


# %% u19
class M(type):
    def __eq__(c, o): return True
    __hash__ = type.__hash__
class M2(type): pass
class K(metaclass=M): pass
def fn(x): return x if K == 3 else -x
mutations = ['K.__class__ = M2']
native = None


# %% u21
class M(type):
    def __add__(c, x): return x + 1
    def __bool__(c): return True
class M2(type):
    def __add__(c, x): return x * 10
    def __bool__(c): return False
class K(metaclass=M): pass
def fn(x): return K + x if K else x - 1
mutations = ['K.__class__ = M2']
native = None


# %% t20
class M(type):
    def __len__(c): return 1
    def __iter__(c): return iter([1])
    def __getitem__(c, k): return 1
    def __contains__(c, k): return True
    def __instancecheck__(c, o): return True
class M2(type):
    def __len__(c): return 2
    def __iter__(c): return iter([2])
    def __getitem__(c, k): return 2
    def __contains__(c, k): return False
    def __instancecheck__(c, o): return False
class K1(metaclass=M): pass
class K2(metaclass=M): pass
class K3(metaclass=M): pass
class K4(metaclass=M): pass
class K5(metaclass=M): pass
def fn(x): return x * len(K1) + sum(K2) + K3[0] + (1 in K4) + isinstance(3, K5)
mutations = ['K1.__class__ = M2', 'K2.__class__ = M2', 'K3.__class__ = M2', 'K4.__class__ = M2', 'K5.__class__ = M2']
native = None


# %% u17
class M(type): pass
class M2(type):
    def __subclasscheck__(c, o): return True
    def __instancecheck__(c, o): return True
class K(metaclass=M): pass
def fn(x): return x if issubclass(int, K) else -x
mutations = ['K.__class__ = M2']
native = None


# %% w21
class M(type): pass
class P(metaclass=M): pass
def fn(x): return x * (5 if P else 1)
mutations = ['M.__bool__ = lambda c: False']
native = None


# %% w22
class M(type): pass
class P(metaclass=M): pass
def fn(x): return x * (5 if P else 1)
mutations = ['M.__len__ = lambda c: 0']
native = None


# %% w23
class M(type): pass
class P(metaclass=M): pass
def fn(x): return x * (5 if P == 3 else 1)
mutations = ['M.__eq__ = lambda c, o: True; M.__hash__ = type.__hash__']
native = None


# %% w24
class M(type): pass
class P(metaclass=M): k = 1
def fn(x): return x * P.k
mutations = ['M.__getattribute__ = lambda c, n: 7 if n == "k" else type.__getattribute__(c, n)']
native = None


# %% w27
class M(type): pass
class P(metaclass=M): pass
class Q(metaclass=M): pass
D = {P: 1.}
def fn(x): return x * D.get(Q, 5.)
mutations = ['M.__hash__ = lambda c: type.__hash__(P); M.__eq__ = lambda c, o: True']
native = None


# %% u12
class B: z = 2
def fn(x):
    class K(B): pass
    return x * K.z
mutations = ['B.__init_subclass__ = classmethod(lambda cls: setattr(cls, "z", 100))']
native = None


# %% u11
class B:
    def __init_subclass__(cls, **k): cls.z = 2
def fn(x):
    class K(B): pass
    return x * K.z
mutations = ['B.__init_subclass__ = classmethod(lambda cls: setattr(cls, "z", 100))', 'B.z = 5; del B.__init_subclass__']
native = None


# %% t16
class B1: 
    k = 1
    def __init_subclass__(cls): cls.z = cls.k + 1
class B2: 
    k = 10; z = 0
base = [B1]
def fn(x):
    class K(base[0]): j = base[0].k
    return x * K.k + K.z + K.j
mutations = ['base[0] = B2', 'base[0] = B1; B1.k = 4', 'B1.__init_subclass__ = classmethod(lambda cls: setattr(cls, "z", 100))']
native = None


# %% u13
class M(type):
    def __new__(m, n, b, d): c = super().__new__(m, n, b, d); c.z = 2; return c
class B(metaclass=M): pass
def fn(x):
    class K(B): pass
    return x * K.z
mutations = ['def nn(m, n, b, d): c = type.__new__(m, n, b, d); c.z = 30; return c\nM.__new__ = nn', 'M.__init__ = lambda c, *a: setattr(c, "z", 7)',
             'M.__prepare__ = classmethod(lambda m, *a: {"w": 1})', 'M.z = property(lambda c: 55)']
native = None


# %% q13
class M(type): pass
class M2(type):
    def __init__(c, *a): super().__init__(*a); c.q = 9
class B(metaclass=M): q = 1
def fn(x):
    class K(B): pass
    return x * K.q
mutations = ['B.__class__ = M2']
native = None


# %% q14
class D:
    n = 1
    def __get__(s, i, o): return s.n
d = D()
def fn(x):
    class K: z = d
    return x * K.z
mutations = ['D.__set_name__ = lambda s, o, n: setattr(s, "n", 9)']
native = None


# %% u10
class D:
    def __set_name__(s, o, n): o.q = 3
class D2:
    def __set_name__(s, o, n): o.q = 30
d = D()
def fn(x):
    class K: z = d
    return x * K.q
mutations = ['D.__set_name__ = lambda s, o, n: setattr(o, "q", 9)', 'd.__class__ = D2']
native = None


# %% v18
class S:
    def __len__(s): return 2
    def __getitem__(s, i): return [3, 4][i]
o = S()
def fn(x):
    match o:
        case [a, b]: return x * a + b
        case _: return x
mutations = ['collections.abc.Sequence.register(S)']
native = None


# %% v19
class S:
    def get(s, k, d=None): return 5
o = S()
def fn(x):
    match o:
        case {"a": v}: return x * v
        case _: return x
mutations = ['collections.abc.MutableMapping.register(S)']
native = None


# %% classes_made_in_the_call_have_bases_from_before
class A:
    z = 2


class A2:
    z = 5


class B(A):
    def go(self):
        return self.z

    def __eq__(self, other):
        return False


class C:
    z = 3


def fn(x):
    class K(B, C):
        pass
    return x * K().go() * K.z + (K() == 2)
mutations = ["B.__bases__ = (A2,)", "B.z = 9", "del B.z", "A2.z = 11", "B.__eq__ = lambda self, other: True", "B.go = lambda self: 4", "C.z = 8"]


# %% metaclasses_of_classes_made_in_the_call
class Meta(type):
    scale = 2

    def __call__(cls, *args):
        return super().__call__(*args)


class Base(metaclass=Meta):
    q = 1


def fn(x):
    class K(Base):
        pass
    return x * K.scale + K().q
mutations = ["Meta.scale = 3", "Base.q = 7"]


# %% modules_of_classes_made_in_the_call
class Layer(torch.nn.Module):
    k = 2.0

    def forward(self, x):
        return x * self.k


def fn(x):
    class Wide(Layer):
        pass
    return Wide()(x)
mutations = ["Layer.k = 5.0", "Layer.forward = lambda self, x: x + 1"]
