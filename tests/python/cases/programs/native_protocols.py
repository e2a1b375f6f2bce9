# SPDX-License-Identifier: Apache-2.0
"""Special methods and classes that change, and the values that callbacks and generators hand to native code."""
import collections
import functools

import torch


def inputs():
    return (torch.arange(3.0),)


# %% class_assign_method
class A:
    k = 2
    def m(s): return s.k
class B:
    k = 3
    def m(s): return s.k * 10
o = A()
def fn(x): return x * o.m() + o.k
mutations = ['o.__class__ = B']
native = None


# %% class_assign_len
class A:
    def __len__(s): return 2
class B:
    def __len__(s): return 3
o = A()
def fn(x): return x * len(o) + (1 if o else 0)
mutations = ['o.__class__ = B']
native = None


# %% class_assign_type
class A: pass
class B: pass
o = A()
def fn(x): return x * (2 if type(o) is A else 3) + len(type(o).__name__) + (1 if o.__class__ is A else 0)
mutations = ['o.__class__ = B']
native = None


# %% class_assign_module
class A(torch.nn.Module):
    def forward(s, x): return x * 2
class B(torch.nn.Module):
    def forward(s, x): return x * 3
o = A()
def fn(x): return o(x)
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
mutations = ['A.__contains__ = None']
native = None


# %% dunder_added_base
class Z: pass
class A(Z): pass
o = A()
def fn(x): return x * (2 if o else 3) + (1 if o == 5 else 2)
mutations = ['Z.__bool__ = lambda s: False', 'Z.__eq__ = lambda s, o: True']
native = None


# %% eq_added
class A: pass
o = A(); l = [o]
def fn(x): return x * (2 if 5 in l else 3) + l.count(5)
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
mutations = ['o.names.append("b")']
native = None


# %% instancecheck_list
class M(type):
    items = []
    def __instancecheck__(cls, o): return cls.items
class A(metaclass=M): pass
def fn(x): return x * (2 if isinstance(5, A) else 3)
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
mutations = ['c.errs.clear()']
native = None


# %% lt_returns_list
class K:
    def __init__(s, v): s.v = v
    def __lt__(s, o): return s.v
a, b = K([1]), K([])
def fn(x): return x * len(sorted([a, b])[0].v)
mutations = ['a.v.clear(); b.v.append(1); b.v.append(1)']
native = None


# %% key_tuple_of_lists
class R:
    def __init__(s, v): s.v = v
rs = [R([2, 5]), R([1, 9])]
def fn(x): return x * max(rs, key=lambda r: (0, r.v)).v[1]
mutations = ['rs[1].v[0] = 9']
native = None


# %% reduce_lists
rows = {"a": [1], "b": [2]}
def fn(x): return x * sum(functools.reduce(lambda acc, k: acc + rows[k], ["a", "b"], []))
mutations = ['rows["a"].append(5)']
native = None


# %% join_names
class N:
    def __init__(s): s.parts = ["a", "b"]
n = N()
def fn(x): return x * len("".join(p for p in n.parts)) + len(",".join(n.parts)) + len("%s-%s" % tuple(n.parts))
mutations = ['n.parts.append("cc"); n.parts.pop(0)', 'n.parts[0] = "long"']
native = None


# %% yield_from
class N:
    def __init__(s): s.rows = [[1], [3]]
    def walk(s): yield from s.rows
n = N()
def fn(x): return x * max(n.walk())[0] + len(list(n.walk())) + sum(sum(n.walk(), []))
mutations = ['n.rows[0][0] = 7', 'n.rows.append([9])']
native = None


# %% map_lambda_rows
n = {"rows": [[1], [3]]}
def fn(x): return x * max(map(lambda i: n["rows"][i], [0, 1]))[0]
mutations = ['n["rows"][0][0] = 7']
native = None


# %% filter_lambda
n = {"rows": [[1], []]}
def fn(x): return x * len(list(filter(lambda i: n["rows"][i], [0, 1])))
mutations = ['n["rows"][1].append(7)']
native = None


# %% any_gen
n = {"rows": [[], []]}
def fn(x): return x * (2 if any(n["rows"][i] for i in (0, 1)) else 3)
mutations = ['n["rows"][1].append(7)']
native = None


# %% dict_comp_items
n = {"a": {"w": 1}, "b": {"w": 2}}
def fn(x): return x * sum(v["w"] for v in n.values()) + sum({k: v["w"] for k, v in n.items()}.values())
mutations = ['n["a"]["w"] = 7', 'n["c"] = {"w": 3}']
native = None


# %% max_dict_values_dicts
n = {"a": (1, {"w": 1}), "b": (1, {"w": 1})}
def fn(x): return x * (2 if n["a"] == n["b"] else 3)
mutations = ['n["a"][1]["w"] = 7']
native = None


# %% torch_tensor_from_view
n = {"a": [1., 2.], "b": [3., 4.]}
def fn(x): return x.sum() + torch.tensor(list(n.values()))
mutations = ['n["a"][0] = 9.']
native = None


# %% torch_stack_list_attr
class H:
    def __init__(s): s.scales = [1., 2., 3.]
h = H()
def fn(x): return x * torch.tensor(h.scales) + torch.as_tensor(h.scales).sum()
mutations = ['h.scales[0] = 9.']
native = None


# %% torch_tensor_seq_object
class H:
    def __init__(s): s.v = [1., 2., 3.]
    def __len__(s): return len(s.v)
    def __getitem__(s, i): return s.v[i]
h = H()
def fn(x): return x * torch.tensor(h)
mutations = ['h.v[0] = 9.']
native = None


# %% reshape_list
h = {"shape": [3, 1]}
def fn(x): return x.reshape(h["shape"]).sum(0) + x.view(*h["shape"])
mutations = ['h["shape"][:] = [1, 3]']
native = None


# %% deque_list_max
d = collections.deque([[1], [3]])
def fn(x): return x * max(d)[0] + sorted(d)[0][0]
mutations = ['d[0][0] = 7']
native = None


# %% set_of_tuples_objects
class K:
    def __init__(s, v): s.v = v
    def __eq__(s, o): return s.v == o.v
    def __hash__(s): return 1
k = K([1]); st = frozenset([k])
def fn(x): return x * (2 if st == frozenset([K([1])]) else 3)
mutations = ['k.v[0] = 5']
native = None


# %% slots_objs
class S:
    __slots__ = ("v",)
    def __init__(s, v): s.v = v
    def __eq__(s, o): return s.v == o.v
l = [S([1]), S([2])]
def fn(x): return x * l.index(S([2])) + (2 if S([1]) in l else 3)
mutations = ['l[1].v[0] = 1; l[0].v[0] = 2']
native = None


# %% exception_attr
class MyErr(Exception):
    def __init__(s, code): super().__init__("m"); s.code = code
e = MyErr(3)
def fn(x): return x * e.code + len(e.args)
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
mutations = ['cfg["v"] = 300', 'cfg["v"] = 0']
native = None
