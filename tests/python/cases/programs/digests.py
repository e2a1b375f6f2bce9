# SPDX-License-Identifier: Apache-2.0
"""Values that a lossy encoding would take for others, and facts of tensors, code, classes and C objects that programs can read."""
import array
import collections
import contextvars
import dataclasses
import functools
import math
import types

import torch


def inputs():
    return (torch.arange(4.0),)


# %% text_with_a_lone_surrogate
S = "\udc80"
def fn(x):
    return x * 2 if S == "\udc80" else x * 3
mutations = ["S = ''", "S = '\\udc81'"]

# %% text_argument_with_a_lone_surrogate
S = "\udc80"
def keywords(): return {"s": S}
def fn(x, s):
    return x * 2 if s == "\udc80" else x * 3
mutations = ["S = ''", "S = '\\udc81'"]

# %% keyword_with_a_lone_surrogate
S = "\udc80"
def keywords(): return {S: 1.0}
def fn(x, **more):
    return x * 2 if "\udc80" in more else x * 3
mutations = ["S = ''", "S = '\\udc81'"]

# %% key_of_an_argument_with_a_lone_surrogate
S = "\udc80"
def keywords(): return {"d": {S: 1.0}}
def fn(x, d):
    return x * 2 if "\udc80" in d else x * 3
mutations = ["S = ''", "S = '\\udc81'"]

# %% attribute_with_a_lone_surrogate
class Box: pass
box = Box()
box.s = "\udc80"
def fn(x):
    return x * len(box.s) + (x if box.s == "\udc80" else x * 3)
mutations = ["box.s = 'a'", "box.s = '\\udc81'"]

# %% name_with_a_lone_surrogate
class Box: pass
box = Box()
setattr(box, "\udc80", 2.0)
def fn(x):
    return x * getattr(box, "\udc80", 7.0) + getattr(box, "", 1.0)
mutations = ["setattr(box, '', 9.0)", "delattr(box, '\\udc80')"]

# %% key_with_a_lone_surrogate
D = {"\udc80": 2.0, "": 3.0}
def fn(x):
    return x * D["\udc80"] + D[""]
mutations = ["D[''] = 5.0", "D['\\udc80'] = 7.0"]

# %% keys_with_a_lone_surrogate
D = {"\udc80": 2.0}
def fn(x):
    for k in D:
        x = x * 2 if k == "\udc80" else x * 3
    return x
mutations = ["D = {'\\udc81': 2.0}"]

# %% member_with_a_lone_surrogate
D = {"\udc80", "a"}
def fn(x):
    return x * 2 if "\udc80" in D else x * 3
mutations = ["D = {'\\udc81', 'a'}"]

# %% default_with_a_lone_surrogate
def g(x, s="\udc80"):
    return x * 2 if s == "\udc80" else x * 3
def fn(x):
    return g(x)
mutations = ["g.__defaults__ = ('\\udc81',)"]

# %% constant_with_a_lone_surrogate
def g(x):
    return x * len({"\udc80": 2}) if "\udc80" == S else x * 3
S = "\udc80"
def fn(x):
    return g(x)
mutations = ["g.__code__ = g.__code__.replace(co_consts=tuple('\\udc81' if c == '\\udc80' else c for c in g.__code__.co_consts))"]

# %% subclass_of_text_with_a_lone_surrogate
class Text(str): pass
S = Text("\udc80")
def fn(x):
    return x * 2 if S == "\udc80" else x * 3
mutations = ["S = Text('\\udc81')"]

# %% context_with_a_lone_surrogate
V = contextvars.ContextVar("V")
V.set("\udc80")
def fn(x):
    return x * 2 if V.get() == "\udc80" else x * 3
mutations = ["V.set('\\udc81')"]

# %% docstring_that_is_a_number
def h(): pass
h.__doc__ = 2.0
def fn(x):
    return x * h.__doc__
mutations = ["h.__doc__ = 5.0"]

# %% docstring_that_is_a_list
def h(): pass
h.__doc__ = [2.0]
def fn(x):
    return x * h.__doc__[0]
mutations = ["h.__doc__[0] = 5.0", "h.__doc__ = [7.0]"]

# %% docstring_that_is_a_tensor
def h(): pass
h.__doc__ = torch.ones(4)
def fn(x):
    return x * h.__doc__
mutations = ["h.__doc__.mul_(3)", "h.__doc__ = torch.full((4,), 5.0)"]

# %% module_of_a_function_that_is_a_number
def h(): pass
h.__module__ = 2.0
def fn(x):
    return x * h.__module__
mutations = ["h.__module__ = 5.0"]

# %% names_of_a_function
def h(): pass
def fn(x):
    return x * len(h.__name__) + len(h.__qualname__)
mutations = ["h.__name__ = 'longer'", "h.__qualname__ = '\\udc80\\udc80'", "h.__name__ = '\\udc80'", "h.__name__ = '\\udc81\\udc81\\udc81'"]

# %% name_of_a_function_with_a_lone_surrogate
def h(): pass
h.__name__ = "\udc80"
def fn(x):
    return x * 2 if h.__name__ == "\udc80" else x * 3
mutations = ["h.__name__ = '\\udc81'"]

# %% name_of_a_class
class Box: pass
def fn(x):
    return x * 2 if Box.__qualname__ == "Box" else x * 3
mutations = ["Box.__qualname__ = '\\udc80'", "Box.__name__ = 'Bag'"]

# %% bytes_that_are_no_text
D = {b"\x80": 2.0, b"\xc3\xa9": 3.0}
def fn(x):
    return x * D[b"\x80"] + D[b"\xc3\xa9"]
mutations = ["D[b'\\xc3\\xa9'] = 4.0", "D[b'\\x80'] = 5.0"]

# %% docstring_of_an_inner_function
def fn(x):
    def inner():
        "ab"
    return x * len(inner.__doc__)
mutations = ["fn.__code__ = fn.__code__.replace(co_consts=tuple(c.replace(co_consts=('abcd',) + c.co_consts[1:])"
             " if isinstance(c, types.CodeType) else c for c in fn.__code__.co_consts))"]

# %% sizes_of_a_sparse_tensor
w = torch.sparse_coo_tensor([[0]], [1.0], (4,))
def fn(x):
    return x * w.shape[0] + len(w) + w.size(0) + w.numel() + w.dim() + w.ndim
mutations = ["w = torch.sparse_coo_tensor([[0], [0]], [1.0], (4, 1))", "w = torch.sparse_coo_tensor([[0]], [1.0], (7,))"]

# %% sparse_buffer
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("adjacent", torch.sparse_coo_tensor([[0]], [1.0], (4,)))
    def forward(self, x): return x * self.adjacent.shape[0]
net = Net()
def fn(x): return net(x)
mutations = ["net.adjacent.sparse_resize_((5,), 1, 0)", "net.adjacent = torch.sparse_coo_tensor([[0]], [1.0], (7,))"]

# %% sizes_of_compressed_rows
w = torch.eye(4).to_sparse_csr()
def fn(x):
    return x * w.shape[0] + w.numel()
mutations = ["w = torch.eye(7).to_sparse_csr()"]

# %% sizes_of_a_blocked_tensor
w = torch.ones(4, 4).to_mkldnn()
def fn(x):
    return x * w.shape[0] + w.numel()
mutations = ["w = torch.ones(7, 2).to_mkldnn()"]

# %% whether_it_is_conjugated
w = torch.ones(4, dtype=torch.complex64)
def fn(x):
    return x * 2 if w.is_conj() else x * 3
mutations = ["w.data = w.data.conj()", "w = torch.ones(4, dtype=torch.complex64)", "w = torch.ones(4, dtype=torch.complex64).conj()"]

# %% whether_it_is_negated
w = torch.ones(4)
def fn(x):
    return x * 2 if w.is_neg() else x * 3
mutations = ["w = torch.ones(4, dtype=torch.complex64).conj().imag"]

# %% whether_it_is_zero_throughout
w = [torch.zeros(4)]
def fn(x):
    return x * 2 if w[0]._is_zerotensor() else x * 3
mutations = ["w[0] = torch._efficientzerotensor((4,))"]

# %% whether_it_is_coalesced
w = torch.sparse_coo_tensor([[0, 0]], [1.0, 2.0], (4,))
def fn(x):
    return x * 2 if w.is_coalesced() else x * 3
native = None
mutations = ["w = w.coalesce()"]

# %% what_made_it
p = torch.nn.Parameter(torch.ones(4))
w = p * 2
def fn(x):
    return x * len(type(w.grad_fn).__name__)
native = False
mutations = ["w = p + 2"]

# %% whether_anything_made_it
w = torch.ones(4, requires_grad=True)
def fn(x):
    return x * 2 if w.is_leaf else x * 3
mutations = ["w = torch.enable_grad()(lambda: w * 2)()"]

# %% attribute_that_looks_like_a_mark
x = torch.arange(4.0)
def inputs(): return (x,)
def fn(x):
    return x * 2 if getattr(x, "use_dynamo_path", False) else x * 3
mutations = ["x.use_dynamo_path = True"]

# %% attribute_that_is_a_mark
x = torch.arange(4.0)
def inputs(): return (x,)
def fn(x):
    return x * 2 if getattr(x, "_dynamo_dynamic_indices", None) else x * 3
native = False
mutations = ["x._dynamo_dynamic_indices = {0}"]

# %% dataclass_attribute_that_looks_like_a_mark
@dataclasses.dataclass
class Options:
    k: float = 2.0
options = Options()
def keywords(): return {"options": options}
def fn(x, options):
    return x * options.k if getattr(options, "_ingot_fast", False) else x * 3
native = None
mutations = ["options._ingot_fast = True"]

# %% docstring_among_the_constants
def h(): "ab"
def fn(x):
    return x * len(h.__code__.co_consts[0])
native = None
mutations = ["h.__code__ = h.__code__.replace(co_consts=('abcd', *h.__code__.co_consts[1:]))"]

# %% docstring_of_a_constant
def h():
    def inner(): "ab"
def fn(x):
    return x * len(h.__code__.co_consts[1].co_consts[0])
native = None
mutations = ["h.__code__ = h.__code__.replace(co_consts=(None, h.__code__.co_consts[1].replace(co_consts=('abcd', None)), *h.__code__.co_consts[2:]))"]

# %% names_of_code
def h(): "ab"
def fn(x):
    return x * len(h.__code__.co_name) + len(h.__code__.co_qualname)
native = None
mutations = ["h.__code__ = h.__code__.replace(co_name='longer')", "h.__code__ = h.__code__.replace(co_qualname='longer')"]

# %% stack_of_code
def h(): "ab"
def fn(x):
    return x * h.__code__.co_stacksize
native = None
mutations = ["h.__code__ = h.__code__.replace(co_stacksize=9)"]

# %% what_code_is_equal_to
def h(): "ab"
def g(): "ab"
g.__code__ = h.__code__
def fn(x):
    return x * 2 if h.__code__ == g.__code__ else x * 3
native = None
mutations = ["h.__code__ = h.__code__.replace(co_name='other')"]

# %% code_among_keys
def h(): "ab"
D = {h.__code__: 2.0}
def fn(x):
    return x * D.get(h.__code__, 5.0)
native = None
mutations = ["h.__code__ = h.__code__.replace(co_name='other')"]

# %% counts_of_code
def h(a, b=1): return a
def fn(x):
    return x * h.__code__.co_argcount + len(h.__code__.co_varnames) + h.__code__.co_nlocals
mutations = ["h.__code__ = (lambda a, b, c: a).__code__"]

# %% static_method_made_anew
class P:
    k = staticmethod(lambda: 2.0)
p = P()
def fn(x):
    return x * p.k() + P.k()
mutations = ["P.__dict__['k'].__init__(lambda: 7.0)"]

# %% class_method_made_anew
class P:
    k = classmethod(lambda cls: 2.0)
p = P()
def fn(x):
    return x * p.k()
mutations = ["P.__dict__['k'].__init__(lambda cls: 7.0)"]

# %% property_made_anew
class P:
    k = property(lambda self: 2.0)
p = P()
def fn(x):
    return x * p.k
mutations = ["P.__dict__['k'].__init__(lambda self: 7.0)"]

# %% property_that_sets_made_anew
class P:
    k = property(lambda self: 2.0, lambda self, v: self.__dict__.__setitem__("a", v))
p = P()
p.a = p.b = 0.0
def fn(x):
    p.k = x + 1
    return x * 2
native = None
mutations = ["P.__dict__['k'].__init__(lambda self: 2.0, lambda self, v: self.__dict__.__setitem__('b', v))"]

# %% partial_with_another_state
p = functools.partial(torch.mul, 2.0)
def fn(x):
    return p(x)
mutations = ["p.__setstate__((torch.mul, (7.0,), {}, {}))"]

# %% default_factory_made_anew
D = collections.defaultdict(lambda: 2.0)
def fn(x):
    return x * D["a"] if "a" in D else x * D.default_factory()
native = None
mutations = ["D.__init__(lambda: 7.0)"]

# %% deque_made_anew
D = collections.deque([2.0], maxlen=3)
def fn(x):
    return x * D[0] + D.maxlen
native = None
mutations = ["D.__init__([2.0], 5)", "D.__init__([7.0])"]

# %% slice_that_holds_a_list
S = slice([1, 2], None)
def fn(x):
    return x * len(S.start)
native = None
mutations = ["S.start.append(3)"]

# %% context_that_holds_an_object
V = contextvars.ContextVar("V")
V.set(lambda: 1)
V.get().k = 2.0
def fn(x):
    return x * V.get().k
native = None
mutations = ["V.get().k = 5.0"]

# %% context_that_holds_a_deque
V = contextvars.ContextVar("V")
V.set(collections.deque([2.0]))
def fn(x):
    return x * V.get()[0]
native = None
mutations = ["V.get()[0] = 5.0"]

# %% context_that_holds_a_frozen_set
V = contextvars.ContextVar("V")
V.set({1})
def fn(x):
    return x * 2 if type(V.get()) is set else x * 3
native = None
mutations = ["V.set(frozenset({1}))"]

# %% bases_of_one_name
def make():
    class B: pass
    return B
B1, B2 = make(), make()
class D(B1): pass
d = D()
def fn(x):
    return x * 2 if isinstance(d, B1) else x * 3
native = None
mutations = ["D.__bases__ = (B2,)"]

# %% registered_classes_of_one_name
import abc
class A(abc.ABC): pass
def make():
    class B: pass
    return B
B1, B2 = make(), make()
A.register(B1)
b = B2()
def fn(x):
    return x * 2 if isinstance(b, A) else x * 3
native = None
mutations = ["A.register(B2)"]

# %% numbers_that_look_alike
N = float("nan")
K = 0.0
def keywords(): return {"n": N, "k": K}
def fn(x, n, k):
    return x * math.copysign(1.0, n) + math.copysign(2.0, k)
native = None
mutations = ["K = -0.0", "N = -N"]

# %% large_numbers
N = 10 ** 5000
def keywords(): return {"n": N}
def fn(x, n):
    return x * (n % 7)
mutations = ["N = 10 ** 5000 + 1"]

# %% complex_numbers_that_look_alike
C = complex(float("nan"), 0.0)
def fn(x):
    return x * math.copysign(1.0, C.real)
mutations = ["C = complex(-float('nan'), 0.0)"]

# %% attributes_of_functions_made_in_c
h = array.array("d", [1.0]).tolist
def fn(x):
    return x * len(math.sqrt.__module__) + len(math.sqrt.__doc__) + len(h.__name__)
native = None
mutations = ["math.sqrt.__module__ = 'x'"]

# %% context_that_holds_a_list_that_grows
V = contextvars.ContextVar("V")
held = [1.0]
V.set(held)
def fn(x):
    V.get().append(2.0)
    return x * 2
native = None
mutations = ["held.clear()"]

# %% context_that_holds_a_tuple
V = contextvars.ContextVar("V")
V.set((2.0, "a"))
def fn(x):
    return x * V.get()[0]
mutations = ["V.set((5.0, 'a'))"]

# %% what_code_is
def h(): "ab"
def g(): "ab"
g.__code__ = h.__code__
def fn(x):
    return x * 2 if h.__code__ is g.__code__ else x * 3
native = None
mutations = ["h.__code__ = h.__code__.replace(co_name='other')"]

# %% functions_of_one_name_in_a_set
def make():
    def f(): return 2.0
    return f
f1, f2 = make(), make()
D = {f1}
h = f1
def fn(x):
    return x * 2 if h in D else x * 3
native = False
mutations = ["h = f2", "D = {f2}"]

# %% classes_of_one_name_in_a_set
def make():
    class B: pass
    return B
A, B = make(), make()
D = {A}
o = A()
def fn(x):
    return x * 2 if type(o) in D else x * 3
native = False
mutations = ["D = {B}"]

# %% functions_of_one_name_in_a_frozen_set
def make():
    def f(): return 2.0
    return f
f1, f2 = make(), make()
f1.k, f2.k = 2.0, 5.0
D = frozenset({f1})
def fn(x):
    for one in D:
        x = x * one.k
    return x
native = False
mutations = ["f1.k = 7.0", "D = frozenset({f2})"]

# %% attribute_of_a_function_in_a_set
def h(): return 2.0
h.k = 2.0
D = {h}
def fn(x):
    for one in D:
        x = x * one.k
    return x
mutations = ["h.k = 9.0"]

# %% function_in_a_set_made_anew
def h(): return 2.0
D = {h}
def fn(x):
    return x * 2 if h in D else x * 3
mutations = ["exec('def h(): return 2.0', globals())"]

# %% keys_with_lone_surrogates_inside
D = {(1, "\udc80"): 3.0, frozenset({"\udc80"}): 4.0}
def fn(x):
    for k in D:
        x = x * 2 if "\udc80" in k else x * 3
    return x
mutations = ["D = {(1, '\\udc81'): 3.0, frozenset({'\\udc81'}): 4.0}"]

# %% context_set_in_run
V = contextvars.ContextVar('V')
V.set([2.0])
def fn(x):
    t = V.set([3.0])
    y = x * V.get()[0]
    V.reset(t)
    return y * V.get()[0]
mutations = ["V.set([7.0])", "V.get()[0] = 9.0"]

# %% context_tensor
V = contextvars.ContextVar('V')
w = torch.ones(4)
V.set(w)
def fn(x): return x * V.get()
mutations = ["w.mul_(3)", "V.set(torch.ones(4) * 7)", "V.set(torch.ones(1) * 7)"]

# %% moving_sparse
class O: pass
o = O(); o.w = torch.eye(4).to_sparse()
def fn(x):
    return x * o.w.shape[0]
def step2(n): o.w = torch.eye(n).to_sparse()
mutations = ["step2(5)", "step2(6)", "step2(7)", "step2(4)"]

# %% moving_conj
class O: pass
o = O(); o.w = torch.ones(4, dtype=torch.complex64)
def fn(x): return x * (2 if o.w.is_conj() else 3)
mutations = ["o.w = torch.ones(4, dtype=torch.complex64)", "o.w = torch.ones(4, dtype=torch.complex64)", "o.w = o.w.conj()", "o.w = torch.ones(4, dtype=torch.complex64)"]

# %% moving_leaf
class O: pass
o = O(); o.w = torch.ones(4)
def fn(x): return x * (2 if o.w.is_leaf else 3) * (2 if o.w.requires_grad else 5)
mutations = ["o.w = torch.ones(4)", "o.w = torch.ones(4, requires_grad=True)", "o.w = torch.enable_grad()(lambda: torch.ones(4, requires_grad=True) * 2)()"]

# %% property_of_metaclass
class M(type):
    @property
    def k(cls): return 2.0
class A(metaclass=M): pass
def fn(x): return x * A.k
mutations = ["M.__dict__['k'].__init__(lambda cls: 7.0)"]

# %% static_of_partial
class A:
    k = staticmethod(functools.partial(torch.mul, 2.0))
def fn(x): return A.k(x)
mutations = ["A.__dict__['k'].__init__(functools.partial(torch.mul, 7.0))"]

# %% called_inner_doc
def h():
    def g(): "ab"
    return g
def fn(x): return x * len(h().__doc__)
mutations = ["h.__code__ = h.__code__.replace(co_consts=tuple(c.replace(co_consts=('abcd',) + c.co_consts[1:])"
             " if isinstance(c, types.CodeType) else c for c in h.__code__.co_consts))"]

# %% member_made_by_a_library
import ipaddress
S = {ipaddress.ip_address("1.2.3.4")}
ip = ipaddress.ip_address("1.2.3.5")
def fn(x): return x * 2 if ip in S else x * 3
mutations = ["S = {ipaddress.ip_address('1.2.3.5')}"]
native = False

# %% member_that_holds_what_a_library_made
import ipaddress
class K:
    def __init__(self, v): self.v = v
    def __hash__(self): return hash(self.v)
    def __eq__(self, other): return self.v == other.v
S = {K(ipaddress.ip_address("1.2.3.4"))}
k = K(ipaddress.ip_address("1.2.3.5"))
def fn(x): return x * 2 if k in S else x * 3
mutations = ["S = {K(ipaddress.ip_address('1.2.3.5'))}"]
native = False

# %% key_that_holds_what_a_library_made
import ipaddress
D = {(ipaddress.ip_address("1.2.3.4"), 0): 3}
k = ipaddress.ip_address("1.2.3.5"), 0
def fn(x): return x * D.get(k, 2)
mutations = ["D = {(ipaddress.ip_address('1.2.3.5'), 0): 3}"]
native = False

# %% member_made_by_a_library_of_a_set_that_the_run_fills
import ipaddress
S = {ipaddress.ip_address("1.2.3.4")}
def fn(x):
    S.add(1)
    return x * 2 if ipaddress.ip_address("1.2.3.5") in S else x * 3
mutations = ["S = {ipaddress.ip_address('1.2.3.5')}"]
native = False

# %% sets_in_sets
def deep(k):
    for _ in range(30): k = frozenset([k])
    return k
D = deep(3.0)
def fn(x):
    t = D
    while isinstance(t, frozenset): t = next(iter(t))
    return x * t
mutations = ["D = deep(5.0)"]
native = False

# %% key_that_is_nested
def deep(k):
    for _ in range(30): k = k,
    return k
D = {deep(3.0): 1}
def fn(x):
    for t in D:
        while isinstance(t, tuple): t = t[0]
        x = x * t
    return x
mutations = ["D = {deep(5.0): 1}"]
native = False

# %% argument_with_a_key_that_is_nested
def deep(k):
    for _ in range(30): k = k,
    return k
k = 3.0
def keywords(): return {"d": {deep(k): 1}}
def fn(x, d):
    for t in d:
        while isinstance(t, tuple): t = t[0]
        x = x * t
    return x
mutations = ["k = 5.0"]
native = False

# %% constant_that_is_nested
def made(k):
    names = {}
    exec("def g(x):\n    t = %s\n    while isinstance(t, tuple): t = t[0]\n    return x * t\n" % ("(" * 28 + str(k) + ",)" * 28), globals(), names)
    return names["g"]
g = made(3.0)
def fn(x): return g(x)
mutations = ["g.__code__ = made(5.0).__code__", "g.__code__ = made(5.0).__code__", "g.__code__ = made(7.0).__code__"]
native = None
