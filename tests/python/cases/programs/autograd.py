# SPDX-License-Identifier: Apache-2.0
"""Functions of autograd that change later, and the modes of autograd."""
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


# %% m1_af_static
class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x*2
def fn(x): return F.apply(x)


def inputs():
    return (torch.arange(3.0),)
mutations = ['F.forward = staticmethod(lambda ctx, x: x-1)']
native = None

# %% m1_af_base
class B(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x*2
class F(B): pass
def fn(x): return F.apply(x)


def inputs():
    return (torch.arange(3.0),)
mutations = ['F.forward = staticmethod(lambda ctx, x: x-1)', 'del F.forward', 'B.forward = staticmethod(lambda ctx, x: x-3)']
native = None

# %% m1_af_code
class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, k=2): return x*k
def fn(x): return F.apply(x)


def inputs():
    return (torch.arange(3.0),)
mutations = ['F.forward.__defaults__ = (5,)', 'F.forward.__code__ = (lambda ctx, x, k=2: x-k).__code__', 'F.apply = classmethod(lambda c, x: x+100)']
native = None

# %% m1_af_setup
class F(torch.autograd.Function):
    @staticmethod
    def forward(x): return x*2
    @staticmethod
    def setup_context(ctx, i, o): ctx.z = 1
log = []
def fn(x): return F.apply(x), len(log)


def inputs():
    return (torch.arange(3.0),)
mutations = ['F.setup_context = staticmethod(lambda ctx,i,o: log.append(1))', 'F.forward = staticmethod(lambda x: x-1)']
native = None

# %% m2_af_setf
class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x*2
def g(ctx, x): return x-1
def fn(x): return F.apply(x)


def inputs():
    return (torch.arange(3.0),)
mutations = ['type.__setattr__(F, "forward", g)']
native = None

# %% m2_af_gmeta
class F(torch.autograd.Function):
    generate_vmap_rule = False
    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        ctx.mark_dirty
        return x*2, x
    @staticmethod
    def backward(ctx, g, h): return g
def fn(x): return F.apply(x)[0] + x


def inputs():
    return (torch.arange(3.0),)
mutations = ['F.forward = staticmethod(lambda ctx, x: (x-1, x))']
native = None

# %% n2_autofn
class F(torch.autograd.Function):
    scale = 2
    @staticmethod
    def forward(ctx, x): ctx.k = 1; return x*F.scale
    @staticmethod
    def backward(ctx, g): return g
def fn(x): return F.apply(x)


def inputs():
    return (torch.arange(3.0),)
mutations = ['F.scale = 3', 'F.forward = staticmethod(lambda ctx, x: x-1)']
native = None

# %% m5_inf_c
def fn(x): return x*2 + (10 if torch.is_grad_enabled() else 0)
class C: pass


def inputs():
    return (torch.arange(3.0),)
mutations = ['if __name__.endswith("_a") : pass; globals()["i"] = torch.inference_mode(); i.__enter__()', 'torch.set_grad_enabled(True)']
native = None

# %% m6_infwith
def fn(x):
    with torch.no_grad(): y = x*2
    return y + (10 if torch.is_grad_enabled() else 0)
F = fn


def inputs():
    return (torch.arange(3.0),)
mutations = ['g0 = torch.is_grad_enabled(); globals()["i"] = torch.inference_mode(); i.__enter__(); torch.set_grad_enabled(False)', 'torch.set_grad_enabled(True)']
native = None
