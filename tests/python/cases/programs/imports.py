# SPDX-License-Identifier: Apache-2.0
"""Imports that succeed and fail, what sys.modules holds, and filters of warnings."""
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


# %% sm7
import sys
def fn(x):
    try: import p2opt7
    except ImportError: return x
    return x * p2opt7.k


def inputs():
    return (torch.arange(3.0),)
mutations = ['q = types.ModuleType("p2opt7"); q.k = 11; sys.modules["p2opt7"] = q']
native = None

# %% sm4
import sys
sys.modules["p2never4"] = math
def fn(x): return x * (2 if "p2never4" in sys.modules else 3)


def inputs():
    return (torch.arange(3.0),)
mutations = ['sys.modules.pop("p2never4", None)']
native = None

# %% sm6
import importlib, sys
sys.modules["p2m6"] = types.ModuleType("p2m6"); sys.modules["p2m6"].k = 2
def fn(x): return x * importlib.import_module("p2m6").k


def inputs():
    return (torch.arange(3.0),)
mutations = ['q = types.ModuleType("p2m6"); q.k = 11; sys.modules["p2m6"] = q']
native = None

# %% u8
import sys
for n in ("p2u8", "p2u8.sub"): sys.modules[n] = types.ModuleType(n)
sys.modules["p2u8"].__path__ = []; sys.modules["p2u8"].sub = sys.modules["p2u8.sub"]; sys.modules["p2u8.sub"].k = 2
def fn(x):
    from p2u8 import sub
    return x * sub.k


def inputs():
    return (torch.arange(3.0),)
mutations = ['q = types.ModuleType("p2u8.sub"); q.k = 11; sys.modules["p2u8"].sub = q']
native = None

# %% u9
import sys
for n in ("p2u9", "p2u9.sub"): sys.modules[n] = types.ModuleType(n)
sys.modules["p2u9"].__path__ = []; sys.modules["p2u9"].sub = sys.modules["p2u9.sub"]; sys.modules["p2u9.sub"].k = 2
def fn(x):
    import p2u9.sub as s
    return x * s.k


def inputs():
    return (torch.arange(3.0),)
mutations = ['q = types.ModuleType("p2u9.sub"); q.k = 11; sys.modules["p2u9"].sub = q']
native = None

# %% sm9
import sys
sys.modules["p2m9"] = types.ModuleType("p2m9"); sys.modules["p2m9"].k = 2
def fn(x): return x * __import__("p2m9").k


def inputs():
    return (torch.arange(3.0),)
mutations = ['q = types.ModuleType("p2m9"); q.k = 11; sys.modules["p2m9"] = q']
native = None

# %% sm10
import sys
for n in ("p2pk", "p2pk.sub"): sys.modules[n] = types.ModuleType(n)
sys.modules["p2pk"].__path__ = []; sys.modules["p2pk"].sub = sys.modules["p2pk.sub"]; sys.modules["p2pk.sub"].k = 2
def fn(x):
    import p2pk.sub as s
    from p2pk import sub
    return x * s.k + sub.k


def inputs():
    return (torch.arange(3.0),)
mutations = ['sys.modules["p2pk.sub"].k = 5', 'q = types.ModuleType("p2pk.sub"); q.k = 11; sys.modules["p2pk"].sub = q', 'sys.modules["p2pk.sub"] = q; q.k = 13']
native = None

# %% sm1
import sys
def fn(x): return x * (2 if "p2never1" in sys.modules else 3)


def inputs():
    return (torch.arange(3.0),)
mutations = ['sys.modules["p2never1"] = math', 'sys.modules.pop("p2never1", None)']
native = None

# %% sm3
import sys
def fn(x): return x * (2 if sys.modules.get("p2never3") else 3)


def inputs():
    return (torch.arange(3.0),)
mutations = ['sys.modules["p2never3"] = math', 'sys.modules.pop("p2never3", None)']
native = None

# %% sm5
import sys
sys.modules["p2m5"] = types.ModuleType("p2m5"); sys.modules["p2m5"].k = 2
def fn(x): return x * sys.modules["p2m5"].k


def inputs():
    return (torch.arange(3.0),)
mutations = ['q = types.ModuleType("p2m5"); q.k = 11; sys.modules["p2m5"] = q']
native = None

# %% w1
import warnings
def fn(x):
    try: warnings.warn("zz", UserWarning)
    except UserWarning: return x * 5
    return x


def inputs():
    return (torch.arange(3.0),)
mutations = ['warnings.simplefilter("error", UserWarning)', 'warnings.simplefilter("ignore", UserWarning)']
native = None

# %% w3
import warnings
def fn(x):
    try: warnings.warn("depr", DeprecationWarning)
    except DeprecationWarning: return x * 5
    return x


def inputs():
    return (torch.arange(3.0),)
mutations = ['warnings.filterwarnings("error", message="depr")', 'warnings.filters[:] = []; warnings._filters_mutated()']
native = None

# %% warn
import warnings
def g():
    warnings.warn("zz", UserWarning)
    return 1
def fn(x):
    try: return x * g()
    except UserWarning: return x * 5


def inputs():
    return (torch.arange(3.0),)
mutations = ['warnings.simplefilter("error", UserWarning)', 'warnings.simplefilter("ignore", UserWarning)', 'warnings.resetwarnings()']
native = None
