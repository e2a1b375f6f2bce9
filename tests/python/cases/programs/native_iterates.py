# SPDX-License-Identifier: Apache-2.0
"""What native code reads of what it walks over, and what callbacks give back to it."""
import functools
import itertools
import operator

import torch


def inputs():
    return (torch.arange(3.0),)


# %% sorted_values
d = {"a": [2, 5], "b": [1, 9]}
def fn(x): return x * sorted(d.values())[0][1] + max(d.items())[1][0]
mutations = ['d["a"][0] = 0', 'd["b"][0] = 7']
native = None


# %% sorted_key_returns_list
class R:
    def __init__(s, v): s.v = v
rs = [R([2, 5]), R([1, 9])]
def fn(x): return x * sorted(rs, key=lambda r: r.v)[0].v[1]
mutations = ['rs[0].v[0] = 0']
native = None


# %% min_gen_of_lists
rows = [[2, 5], [1, 9]]
def fn(x): return x * min(r for r in rows)[1] + x * max(reversed(rows))[1]
mutations = ['rows[0][0] = 0', 'rows[1][0] = 9']
native = None


# %% sum_lists
rows = [[2, 5], [1, 9]]
def fn(x): return x * sum(sum(rows, []))
mutations = ['rows[0][0] = 0', 'rows.append([1])']
native = None


# %% sum_gen_lists
class R:
    def __init__(s, v): s.v = v
rs = [R([2, 5]), R([1, 9])]
def fn(x): return x * sum(sum((r.v for r in rs), []))
mutations = ['rs[0].v[0] = 0']
native = None


# %% map_attrgetter
class R:
    def __init__(s, v): s.v = v
rs = [R(2), R(1)]
def fn(x): return x * sum(map(operator.attrgetter("v"), rs))
mutations = ['rs[0].v = 5']
native = None


# %% sorted_attrgetter
class R:
    def __init__(s, v): s.v = v
rs = [R(2), R(1)]
def fn(x): return x * sorted(rs, key=operator.attrgetter("v"))[0].v
mutations = ['rs[0].v = 0']
native = None


# %% map_getattr
class R:
    def __init__(s, v): s.v = v
rs = [R(2), R(1)]
def fn(x): return x * sum(map(getattr, rs, ["v", "v"]))
mutations = ['rs[0].v = 0']
native = None


# %% reduce_getattr
class R:
    def __init__(s, v): s.v = v
o = R(R(3))
def fn(x): return x * functools.reduce(getattr, ["v", "v"], o)
mutations = ['o.v.v = 0', 'o.v = R(7)']
native = None


# %% sorted_dict_get
d = {"a": 2, "b": 1}
def fn(x): return x * d[sorted(["a", "b"], key=d.get)[0]] + max(d, key=d.get).count("a")
mutations = ['d["a"] = 0']
native = None


# %% map_getitem
d = {"a": 2, "b": 1}
def fn(x): return x * sum(map(d.__getitem__, ["a", "b"]))
mutations = ['d["a"] = 0']
native = None


# %% filter_none
l = [[1], [], [2]]
def fn(x): return x * len(list(filter(None, l)))
mutations = ['l[1].append(1)', 'l[0].clear()']
native = None


# %% any_all
l = [[1], [], [2]]
def fn(x): return x * (2 if any(l) else 1) * (3 if all(l) else 1)
mutations = ['l[1].append(1)']
native = None


# %% bool_nested
l = [[1], [], [2]]
def fn(x): return x * len([1 for i in l if i]) * (2 if not l[1] else 1)
mutations = ['l[1].append(1)']
native = None


# %% zip_rows
rows = [[2, 5], [1, 9]]
def fn(x): return x * sum(a * b for a, b in zip(*rows))
mutations = ['rows[0][0] = 0', 'rows[0].append(1); rows[1].append(1)']
native = None


# %% chain_rows
rows = [[2, 5], [1, 9]]
def fn(x): return x * sum(itertools.chain(*rows)) + sum(itertools.chain.from_iterable(rows))
mutations = ['rows[0][0] = 0', 'rows[0].append(1)']
native = None


# %% accumulate
rows = [2, 5]
def fn(x): return x * list(itertools.accumulate(rows, operator.mul))[-1] + sum(itertools.starmap(operator.add, [rows]))
mutations = ['rows[0] = 3']
native = None


# %% getitem_seq
class Q:
    def __init__(s): s.r = [[3], [1]]
    def __getitem__(s, i): return s.r[i]
    def __len__(s): return len(s.r)
q = Q()
def fn(x): return x * sorted(q)[0][0] + (1 if [3] in q else 0) + sum(i[0] for i in q) + len(list(reversed(q)))
mutations = ['q.r[0][0] = 0', 'q.r.append([0])', 'Q.__getitem__ = lambda s, i: s.r[i] if i < 1 else [][1]']
native = None


# %% iter_obj
class Q:
    def __init__(s): s.r = [[3], [1]]
    def __iter__(s): return iter(s.r)
q = Q()
def fn(x): return x * sorted(q)[0][0] + (1 if [3] in q else 0) + sum(i[0] for i in q)
mutations = ['q.r[0][0] = 0', 'q.r.append([0])']
native = None


# %% contains_obj
class Q:
    def __init__(s): s.r = {1, 2}
    def __contains__(s, i): return i in s.r
q = Q()
def fn(x): return x * (2 if 1 in q else 3)
mutations = ['q.r.remove(1)']
native = None


# %% set_of_objects
class K:
    def __init__(s, v): s.v = v
    def __hash__(s): return hash(s.v)
    def __eq__(s, o): return s.v == o.v
k = K(1); st = {k}
def fn(x): return x * (2 if K(1) in st else 3)
mutations = ['k.v = 2']
native = False


# %% sorted_objs_lt
class K:
    def __init__(s, v): s.v = v
    def __lt__(s, o): return s.v < o.v
ks = [K([2]), K([1])]
def fn(x): return x * min(ks).v[0] + sorted(ks)[1].v[0]
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
mutations = ['ks[1].v = 5']
native = None
