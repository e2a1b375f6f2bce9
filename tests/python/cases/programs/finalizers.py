# SPDX-License-Identifier: Apache-2.0
"""Objects that go during a call, and what their finalizers see and do."""
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


# %% z1
log = []; flag = [0]
class K:
    def __del__(s): log.append(1)
def fn(x):
    k = K(); del k
    return x * (len(log) if flag[0] else 1)


def inputs():
    return (torch.arange(3.0),)
mutations = ['pass', 'flag[0] = 1']
native = None

# %% d4
log = []
class K: pass
def fn(x):
    k = K()
    r = weakref.ref(k, lambda _: log.append(1))
    del k
    return x * len(log)


def inputs():
    return (torch.arange(3.0),)
mutations = ['pass']
native = None

# %% del_added
class K: pass
log = []
def fn(x):
    k = K(); del k
    return x + len(log)


def inputs():
    return (torch.arange(3.0),)
mutations = ['K.__del__ = lambda s: log.append(1)']
native = None

# %% d8
log = []
class K:
    def __del__(s): log.append(1)
st = [K()]
def fn(x):
    if st: st.pop()
    return x + len(log)


def inputs():
    return (torch.arange(3.0),)
mutations = ['st.append(K())', 'st.append(K())']
native = None

# %% d10
st = {"open": 0}
class Res:
    def __init__(s): st["open"] += 1
    def __del__(s): st["open"] -= 1
def fn(x):
    r = Res()
    return x * st["open"]


def inputs():
    return (torch.arange(3.0),)
mutations = ['st["open"] = 5']
native = None

# %% d1
log = []
class K:
    def __del__(s): log.append(1)
def fn(x):
    k = K(); del k
    return x, len(log)


def inputs():
    return (torch.arange(3.0),)
mutations = ['pass']
native = None

# %% v22
log = []
def gen():
    yield 1
class K:
    def __del__(s): log.append("x")
def fn(x):
    l = [K(), K()]
    l.clear()
    return x * len(log)


def inputs():
    return (torch.arange(3.0),)
mutations = ['log.clear()']
native = None

# %% d7
log = []
class K:
    def __del__(s): log.append(1)
holder = {"k": None}
def fn(x):
    holder["k"] = K()
    return x + len(log)


def inputs():
    return (torch.arange(3.0),)
mutations = ['holder["k"] = None', 'log.clear()']
native = None

# %% d12
class K: pass
log = []
keep = [K()]
def fn(x):
    keep[0] = K()
    return x + len(log)


def inputs():
    return (torch.arange(3.0),)
mutations = ['K.__del__ = lambda s: log.append(1)']
native = None

# %% d2
st = {"n": 0}
class K:
    def __init__(s, v): s.v = v
    def __del__(s): st["n"] += s.v
def fn(x):
    K(2)
    return x * 2


def inputs():
    return (torch.arange(3.0),)
mutations = ['x = torch.tensor(float(st["n"]))']
native = None

# %% d5
st = {"s": 1.}
class K:
    def __enter__(s): return s
    def __exit__(s, *a): pass
    def __del__(s): st["s"] = 2.
def fn(x):
    with K(): y = x + 1
    return y * st["s"]


def inputs():
    return (torch.arange(3.0),)
mutations = ['st["s"] = 1.']
native = None

# %% d9
log = []
class K:
    def __del__(s): log.append(1)
def fn(x):
    k = K()
    y = x * 2
    del k
    return y


def inputs():
    return (torch.arange(3.0),)
mutations = ['log.append(5)']
native = None

# %% v17
class K:
    def __del__(s): st["n"] += 1
st = {"n": 0}
def fn(x):
    k = K()
    return x * 2


def inputs():
    return (torch.arange(3.0),)
mutations = ['st["n"] += 100', 'st["seen"] = st["n"]']
native = None
