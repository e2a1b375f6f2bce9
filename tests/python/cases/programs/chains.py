# SPDX-License-Identifier: Apache-2.0
"""Native code that hands what it gets to native code."""
import array
import collections
import contextvars
import copy
import dataclasses
import datetime
import enum
import fractions
import functools
import importlib
import itertools
import math
import operator
import re
import sys
import types
import warnings
import weakref

import torch


# %% map_filter
class A:
    def __init__(s, v): s.v = v
    def __bool__(s): return s.v > 1
l = [A(1), A(2)]
def fn(x): return x * len(list(filter(None, l)))


def inputs():
    return (torch.arange(3.0),)
mutations = ['l[0].v = 5']
native = None

# %% chain
l = [[1], [2, 3]]
def fn(x): return x * sum(itertools.chain.from_iterable(l))


def inputs():
    return (torch.arange(3.0),)
mutations = ['l[0].append(7)', 'l[1][0] = 100']
native = None

# %% starmap
l = [(1, [2]), (3, [4])]
def fn(x): return x * len("".join(map(str, itertools.starmap(max, [([1], l[0][1]), (l[1][1], [0])]))))


def inputs():
    return (torch.arange(3.0),)
mutations = ['l[0][1].append(55)']
native = None

# %% sorted_getter
class A:
    def __init__(s, v): s.v = v
l = [A([3]), A([1, 2])]
def fn(x): return x * sum(sorted(l, key=operator.attrgetter("v"))[0].v)


def inputs():
    return (torch.arange(3.0),)
mutations = ['l[0].v[0] = 0', 'l[1].v.insert(0, -4)']
native = None

# %% max_item
l = [{"k": [1]}, {"k": [2]}]
def fn(x): return x * max(map(operator.itemgetter("k"), l))[0]


def inputs():
    return (torch.arange(3.0),)
mutations = ['l[0]["k"][0] = 9']
native = None

# %% getter_multi
class A: pass
o = A(); o.a = [1]; o.b = {"z": 2}
g = operator.attrgetter("a", "b")
def fn(x): return x * len(str(list(map(g, [o]))))


def inputs():
    return (torch.arange(3.0),)
mutations = ['o.a.append(100000)', 'o.b["q"] = 5']
native = None

# %% zip_dict
k = ["a", "b"]; v = [[1], [2]]
def fn(x): return x * len(str(dict(zip(k, v))))


def inputs():
    return (torch.arange(3.0),)
mutations = ['v[0].append(33)', 'k[0] = "longer"']
native = None

# %% enumerate_rev
v = [[1], [2]]
def fn(x): return x * len(repr(list(enumerate(reversed(v)))))


def inputs():
    return (torch.arange(3.0),)
mutations = ['v[0].append(33)']
native = None

# %% accumulate
v = [[1], [2]]
def fn(x): return x * sum(list(itertools.accumulate(v, operator.add))[-1])


def inputs():
    return (torch.arange(3.0),)
mutations = ['v[0].append(33)']
native = None

# %% groupby
class A:
    def __init__(s, v): s.v = v
l = [A([1]), A([1]), A([2])]
def fn(x): return x * len([k for k, g in itertools.groupby(l, operator.attrgetter("v"))])


def inputs():
    return (torch.arange(3.0),)
mutations = ['l[1].v[0] = 2']
native = None

# %% reduce_get
d = {"a": {"b": [1, 2]}}
def fn(x): return x * len(functools.reduce(operator.getitem, ["a", "b"], d))


def inputs():
    return (torch.arange(3.0),)
mutations = ['d["a"]["b"].append(1)']
native = None

# %% heap
import heapq
l = [[3, "a"], [1, "b"]]
def fn(x): return x * heapq.nsmallest(1, l)[0][0]


def inputs():
    return (torch.arange(3.0),)
mutations = ['l[0][0] = -5']
native = None

# %% bis
import bisect
l = [[1], [3], [5]]
def fn(x): return x * bisect.bisect(l, [3])


def inputs():
    return (torch.arange(3.0),)
mutations = ['l[1][0] = 4']
native = None

# %% fmt_nested
class C:
    def __init__(s): s.v = [1]
    def __format__(s, sp): return str(s.v) + sp
c = C()
def fn(x): return x * len(f"{c:>4}{c!r:.3}".replace(hex(id(c)), ""))


def inputs():
    return (torch.arange(3.0),)
mutations = ['c.v.append(2)']
native = None

# %% any_gen
v = [[0], [0]]
def fn(x): return x * (2 if any(map(any, v)) else 3)


def inputs():
    return (torch.arange(3.0),)
mutations = ['v[1][0] = 1']
native = None

# %% min_default
v = []
def fn(x): return x * min(map(len, v), default=7)


def inputs():
    return (torch.arange(3.0),)
mutations = ['v.append("ab")']
native = None

# %% counter
v = ["a", "b", "a"]
def fn(x): return x * collections.Counter(v).most_common(1)[0][1]


def inputs():
    return (torch.arange(3.0),)
mutations = ['v.append("a")']
native = None

# %% chainmap
a, b = {"k": 1}, {"k": 2, "j": 3}
m = collections.ChainMap(a, b)
def fn(x): return x * m["k"] + m["j"]


def inputs():
    return (torch.arange(3.0),)
mutations = ['del a["k"]', 'm.maps.insert(0, {"j": 50})']
native = None


# %% keywords_of_a_partial_that_native_code_calls
scaled = functools.partial(max, 1.0, key=None)


def fn(x):
    return x * list(map(scaled, [2.0, 0.5]))[0]


def inputs():
    return (torch.arange(3.0),)
mutations = ["scaled.keywords['key'] = lambda v: -v", "scaled.keywords['key'] = None"]
native = None
