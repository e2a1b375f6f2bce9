# SPDX-License-Identifier: Apache-2.0
"""What native code finds in classes and containers and calls or takes over: bound to something, cached, abstract, limited."""
import collections
import copy
import dataclasses
import functools
import types

import torch


def inputs():
    return (torch.arange(3.0),)


# %% own_length_of_a_list
l = [1.0, 2.0]
def fn(x):
    todo = list(l)
    while todo:
        x = x + todo.pop()
    return x
mutations = ["l = type('Own', (list,), {'__len__': lambda self: 1})(l)", 'l[1] = -l[1]']
native = None


# %% own_length_in_a_comprehension
a, b = object(), object()
l = [a, b]
def fn(x): return x * len({o: 1 for o in l})
mutations = ["l = type('Own', (list,), {'__len__': lambda self: 1})(l)", 'del l[1]']
native = None


# %% abstract_through_type_call
class O:
    def __init__(self, v): self.v = v
def fn(x): return type.__call__(O, x * 2).v
mutations = ['O.__abstractmethods__ = frozenset({"a"})']
native = None


# %% abstract_class
class O:  # Python 3.13 looks at the flag in the first calls only where there is an __init__.
    pass
def fn(x):
    o = O(); o.v = x * 2
    return o.v
mutations = ['O.__abstractmethods__ = frozenset({"a"})']
native = None


# %% abstract_in_map
class O:
    def __init__(self, v): self.v = v
def fn(x): return list(map(O, [x * 2]))[0].v
mutations = ['O.__abstractmethods__ = frozenset({"a"})']
native = None


# %% abstract_allocated
class O:
    def __init__(self, v): self.v = v
def fn(x):
    o = object.__new__(O)
    return x * 2
mutations = ['O.__abstractmethods__ = frozenset({"a"})']
native = None


# %% class_that_calls_itself
class C:
    def __call__(self): return 2.0
p2 = C()
def fn(x): return x * p2()
mutations = ['C.__call__ = p2']
native = None


# %% getattribute_later
class E1:
    def __init__(self, v): self.v = v
class E2:
    def __init__(self, v): self.v = v
count = [0]
p3 = E1(E2(torch.nn.Linear(3, 3)))
def cnt(self, name):
    count[0] += 1
    return 2.0
def fn(x):
    return x * p3.v.v
p3.v.v = 2.0
mutations = ['def sc():\n    pass', 'E2.__getattribute__ = cnt']
native = None


# %% cached_function_in_map
@functools.lru_cache(None)
def w(i): return i * k
k = 1; L = [1, 2]
def fn(x): return x * sum(map(w, L))
mutations = ['k = 2; w.cache_clear()']
native = None


# %% copy_of_a_dataclass
@dataclasses.dataclass
class Cfg: scale: float = 2.0
copy.copy(Cfg()); cfg = Cfg()
def fn(x): return x * copy.copy(cfg).scale
mutations = ['cfg.scale = 4.0', 'cfg.other = 4.0', 'Cfg.__getstate__ = lambda self: {"scale": 5.0}']
native = None


# %% copy_of_slots
class Cfg:
    __slots__ = ("scale",)
copy.copy(Cfg()); cfg = Cfg(); cfg.scale = 2.0
def fn(x): return x * copy.copy(cfg).scale
mutations = ['cfg.scale = 4.0']
native = None


# %% copy_of_a_list_subclass
class C(list): pass
c = C([1, 2]); c.k = 3; copy.copy(c)
def fn(x):
    d = copy.copy(c)
    return x * sum(d) * d.k
mutations = ['c.k = 4', 'c.append(3)']
native = None


# %% reduce_ex
class C: pass
c = C(); c.k = 3; copy.copy(c)
def fn(x): return x * c.__reduce_ex__(4)[2]["k"]
mutations = ['c.k = 4']
native = None


# %% factory_that_is_a_partial
dd = collections.defaultdict(functools.partial(dict, a=1))
def fn(x): return x * collections.defaultdict(dd.default_factory)["z"]["a"]
mutations = ['dd.default_factory = functools.partial(dict, a=2)']
native = None


# %% length_bound_to_a_dict
d = {"a": 1}
class V: __len__ = d.__len__
def fn(x): return x * len(V())
mutations = ['d["b"] = 1']
native = None


# %% missing_bound_to_a_dict
d1 = {1: 2}
class K(dict): __missing__ = d1.get
k = K()
def fn(x): return x * k[1]
mutations = ['d1[1] = 9']
native = None


# %% factory_bound_to_a_list
l1 = [3]
fac = l1.__len__
def fn(x): return x * collections.defaultdict(fac)["z"]
mutations = ['l1.append(4)']
native = None


# %% getattr_bound_to_a_dict
d1 = {"q": 2}
class K: __getattr__ = functools.partial(d1.get)
k = K()
def fn(x): return x * k.q
mutations = ['d1["q"] = 9']
native = None


# %% call_bound_to_a_dict
d1 = {"q": 2}
class K: __call__ = d1.get
k = K()
def fn(x): return x * sum(map(k, ["q"]))
mutations = ['d1["q"] = 9']
native = None


# %% class_getitem_bound_to_a_dict
d1 = {"q": 2}
class K: __class_getitem__ = d1.get
def fn(x): return x * K["q"]
mutations = ['d1["q"] = 9']
native = None


# %% enter_bound_to_a_list
d1 = [2]
class K:
    __enter__ = functools.partial(d1.__getitem__, 0)
    def __exit__(s, *a): pass
k = K()
def fn(x):
    with k as v: return x * v
mutations = ['d1[0] = 9']
native = None


# %% new_that_is_a_partial
d1 = [2]
class K:
    __new__ = functools.partial(lambda c, *a: d1[0])
def fn(x): return x * K()
mutations = ['d1[0] = 9']
native = None


# %% metaclass_call_bound_to_a_list
d1 = [2]
class M(type):
    __call__ = functools.partial(d1.__getitem__, 0)
class K(metaclass=M): pass
def fn(x): return x * K()
mutations = ['d1[0] = 9']
native = None


# %% maxlen
dq = collections.deque([1], maxlen=3)
def fn(x): return x * dq.maxlen
mutations = ['dq = collections.deque([1], maxlen=5)']
native = None


# %% maxlen_of_a_product
dq = collections.deque([1], maxlen=3)
def fn(x): return x * len(dq * 4)
mutations = ['dq = collections.deque([1], maxlen=5)']
native = None


# %% maxlen_when_extended
dq = collections.deque([1], maxlen=3)
def fn(x):
    dq.clear(); dq.extend([1,2,3,4]); return x * len(dq)
mutations = ['dq = collections.deque([1], maxlen=5)']
native = None


# %% default_factory
dd = collections.defaultdict(int)
def fn(x): return x * (2 if dd.default_factory is int else 3)
mutations = ['dd.default_factory = float', 'dd.default_factory = None']
native = None


# %% memoryview_strides
b = bytearray(b"\1\2\3\4")
mv = memoryview(b)[:2]
def fn(x): return x * mv.strides[0] + len(mv.obj) + mv.readonly
mutations = ['mv = memoryview(b"\\1.\\2.")[::2]']
native = None


# %% array_flags
import numpy as np
a = np.ones((2,2))
def fn(x): return x * a.strides[0] + a.flags.writeable + (a.base is None)
mutations = ['a.flags.writeable = False', 'a = np.asfortranarray(np.ones((2,2)))']
native = None


# %% generic_alias
class C: k = 1
A = types.GenericAlias(C, (int,))
def fn(x): return x * A.k
mutations = ['C.k = 4']
native = None


# %% registered_with_a_later_heir
import collections.abc as cabc
class A: pass
def fn(x): return x * (2 if isinstance(A(), cabc.Mapping) else 3)
mutations = ['class J(cabc.MutableMapping): pass\nJ.register(A)']
native = None


# %% registered_with_an_heir_of_sequence
import collections.abc as cabc
class MySeq(cabc.Sequence):
    def __len__(s): return 0
    def __getitem__(s, i): return 0
class A:
    def __len__(s): return 2
    def __getitem__(s, i): return i + 1
a = A()
def fn(x):
    match a:
        case [p, q]: return x * p + q
        case _: return x
mutations = ['MySeq.register(A)']
native = None


# %% subclasshook_later
import abc
class I(abc.ABC): pass
class A: pass
I.register(A)
def fn(x): return x * (2 if isinstance(A(), I) else 3)
mutations = ['I.__subclasshook__ = classmethod(lambda c, o: False)']
native = None


# %% abstract_caught
import abc
class I(abc.ABC): v = 1
def fn(x):
    try: return x * I().v
    except TypeError: return x + 100
mutations = ['I.__abstractmethods__ = frozenset(["g"])']
native = None


# %% union_and_metaclass
class Meta(type): pass
class C(metaclass=Meta): pass
class A: pass
a = A(); U = C | int
def fn(x): return x * (2 if isinstance(a, U) else 3)
mutations = ['Meta.__instancecheck__ = lambda c, o: True']
native = None


# %% init_subclass_of_type_call
class B: z = 1
def fn(x): return x * type("K", (B,), {}).z
mutations = ['B.__init_subclass__ = classmethod(lambda c: setattr(c, "z", 1000))']
native = None


# %% init_subclass_of_new_class
class Meta(type): pass
class B(metaclass=Meta): z = 1
def fn(x): return x * types.new_class("K", (B,)).z
mutations = ['B.__init_subclass__ = classmethod(lambda c: setattr(c, "z", 1000))']
native = None


# %% set_name_of_type_call
class D: pass
def fn(x): return x + getattr(type("K", (), {"d": D()}), "n", 0)
mutations = ['D.__set_name__ = lambda s, o, n: setattr(o, "n", 50)']
native = None


# %% prepare_later
class Meta(type): pass
def fn(x):
    class K(metaclass=Meta): pass
    return x + getattr(K, "b", 0)
mutations = ['Meta.__prepare__ = classmethod(lambda m, n, b, **k: {"b": 5})']
native = None


# %% mro_later
class Zed: a = 4
class Y: a = 3
class Meta(type): pass
def fn(x):
    class K(Y, metaclass=Meta): pass
    return x + K.a
mutations = ['Meta.mro = lambda c: [c, Zed, object]']
native = None


# %% send_later
class It:
    def __iter__(s): return s
    def __next__(s): return 1
def g(): yield from It()
def fn(x):
    o = g(); a = next(o)
    try: return x * o.send(4)
    except AttributeError: return x * 50
mutations = ['It.send = lambda s, v: 70']
native = None


# %% keys_of_what_is_merged
class O:
    def __iter__(s): return iter([("a", 1)])
    def __getitem__(s, k): return 5
o = O()
def fn(x):
    d = {}; d |= o
    return x * d["a"]
mutations = ['O.keys = lambda s: ["a"]']
native = None


# %% keys_of_a_dict
class D(dict):
    def __iter__(s): return iter(["a"])
d = D(a=1, b=2)
def h(**k): return len(k)
def fn(x): return x * len(dict(d)) + len({**d}) + h(**d)
mutations = ['D.keys = lambda s: ["a", "b"]', 'D.keys = lambda s: []']
native = None


# %% get_of_a_counter
class C(collections.Counter): pass
def fn(x): return x * C("aab")["a"]
mutations = ['C.get = lambda s, k, d=None: 5']
native = None



# %% class_of_an_argument_that_another_class_comes_to_hold
@dataclasses.dataclass
class P:
    v: object
    w: object = None
    def __post_init__(self): self.w = self.v
@dataclasses.dataclass
class Q:
    v: object
    w: object = None
    def __post_init__(self): self.w = self.v
def of(v):
    class Meta(type):
        def __getattr__(cls, name): return cls.table[0]
    class Of(metaclass=Meta): table = [v]
    return Of
p, q = P([1.0, 2.0]), Q(of(set()))
def fn(x, q): return x + len(q.w.v) + p.w[0]
def inputs(): return torch.ones(2), q
mutations = ['P.w = q.v', 'P.w = None']
native = None


# %% backward_class_of_a_function
class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x * 2
def fn(x): return F.apply(x)
mutations = ['kept = F._backward_cls; F._backward_cls = property(lambda self: 2.0)', 'F._backward_cls = kept']
native = None


# %% slots_that_copy_knows
class C: __slots__ = ("v",)
copy.copy(C()); c = C(); c.v = 2.0
def fn(x): return x * copy.copy(c).v
mutations = ['C.__slotnames__[0] = torch.ones(4)', 'C.__slotnames__[0] = "v"']
native = None
