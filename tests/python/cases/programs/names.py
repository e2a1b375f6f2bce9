# SPDX-License-Identifier: Apache-2.0
"""Globals, closures, defaults: names and what they stand for."""
import functools
import math

import torch


def inputs():
    return (torch.arange(4.0),)


# %% global_number
SCALE, UNREAD = 2.0, 1
def fn(x):
    return x * SCALE
mutations = ["SCALE = 3.0", "SCALE = 3", "SCALE = True"]
needless = ["UNREAD = 2", "NEW = 1", "SCALE = 2.0"]

# %% global_flag
FAST = True
def fn(x):
    return x.relu() if FAST else x - 1
mutations = ["FAST = False", "FAST = None", "FAST = [0]"]

# %% global_none
BIAS = None
def fn(x):
    return x if BIAS is None else x + BIAS
mutations = ["BIAS = torch.ones(4)", "BIAS = 2", "BIAS = None"]

# %% global_text
MODE = "add"
def fn(x):
    if MODE == "add":
        return x + 1
    return x * 2 if MODE.startswith("mul") else x
mutations = ["MODE = 'multiply'", "MODE = 'none'", "MODE = 'ADD'.lower()"]

# %% global_function
def helper(x):
    return x + 1
def fn(x):
    return helper(x) * 2
mutations = ["def helper(x):\n    return x - 1", "helper = torch.relu"]
needless = ["def other(x):\n    return x"]

# %% global_function_in_function
def inner(x):
    return x + 1
def middle(x):
    return inner(x) * 3
def fn(x):
    return middle(x)
mutations = ["inner = lambda x: x - 5", "middle = inner"]

# %% global_deleted
SCALE = 2.0
def fn(x):
    try:
        return x * SCALE
    except NameError:
        return x - 7
mutations = ["del SCALE", "SCALE = 4.0"]

# %% global_shadows_a_builtin
def fn(x):
    return x * len([1, 2, 3])
mutations = ["len = lambda v: 10", "del len"]

# %% global_appears
def fn(x):
    return x * globals().get("GAIN", 1.0)
mutations = ["GAIN = 5.0", "GAIN = 6.0"]

# %% global_of_another_module
import types
settings = types.ModuleType("settings")
settings.scale = 2.0
def fn(x):
    return x * settings.scale
mutations = ["settings.scale = 3.0", "settings = types.SimpleNamespace(scale=9.0)"]
needless = ["settings.unread = 1"]

# %% global_chain_of_attributes
class A: pass
A.b = A(); A.b.c = A(); A.b.c.d = 2.0
def fn(x):
    return x + A.b.c.d
mutations = ["A.b.c.d = 5.0", "A.b.c = A(); A.b.c.d = 6.0", "A.b = type('B', (), {'c': type('C', (), {'d': 1.0})})"]

# %% global_lambda
activation = lambda x: x * 2
def fn(x):
    return activation(x) + 1
mutations = ["activation = lambda x: x * 3", "activation = torch.neg"]

# %% global_constants_of_math
def fn(x):
    return x * math.pi + math.floor(math.e)
mutations = ["math = type('M', (), {'pi': 3.0, 'e': 1.0, 'floor': int})"]

# %% global_integer_as_float
N = 2
def fn(x):
    return x // N, x / N, N / 4
mutations = ["N = 2.0", "N = 4", "N = -2"]

# %% global_big_and_small_integers
BIG = 10 ** 12
def fn(x):
    return x * (BIG % 1000 + 1), BIG
mutations = ["BIG += 5", "BIG = -BIG"]

# %% global_negative_zero_and_nan
Z = 0.0
def fn(x):
    return x * 0 + math.copysign(1.0, Z)
mutations = ["Z = -0.0", "Z = float('nan')", "Z = 0.0"]

# %% global_tuple_of_sizes
SHAPE = (2, 2)
def fn(x):
    return x.reshape(SHAPE).sum(0)
mutations = ["SHAPE = (4, 1)", "SHAPE = [1, 4]"]

# %% closure_number
def make(k):
    def fn(x):
        return x * k
    def set_k(value):
        nonlocal k
        k = value
    return fn, set_k
fn, set_k = make(2.0)
mutations = ["set_k(3.0)", "set_k(torch.tensor(4.0))"]

# %% closure_function
def make(act):
    def fn(x):
        return act(x - 1)
    return fn
fn = make(torch.relu)
mutations = ["fn.__closure__[0].cell_contents = torch.neg", "fn.__closure__[0].cell_contents = lambda x: x * 7"]

# %% closure_of_a_closure
def outer(a):
    def middle(b):
        def fn(x):
            return x * a + b
        return fn
    return middle(3.0)
fn = outer(2.0)
mutations = ["[c for n, c in zip(fn.__code__.co_freevars, fn.__closure__) if n == 'a'][0].cell_contents = 5.0"]

# %% closure_dict
def make():
    options = {"k": 2.0, "unread": 0}
    def fn(x):
        return x * options["k"]
    return fn, options
fn, options = make()
mutations = ["options['k'] = 5.0", "del options['k']; options['k'] = 6.0"]
needless = ["options['unread'] = 3", "options['more'] = 1"]

# %% closure_shared_by_two
def make():
    k = 1.0
    def read():
        return k
    def write(v):
        nonlocal k
        k = v
    def fn(x):
        return x + read()
    return fn, write
fn, write = make()
mutations = ["write(4.0)", "write(-4.0)"]

# %% closure_helper_made_in_the_call
K = 3.0
def fn(x):
    def scaled(y, k=K):
        return y * k
    return scaled(x) + scaled(x, 2)
mutations = ["K = 4.0"]

# %% two_lambdas_of_one_line
ops = (lambda x: x + 1, lambda x: x * 5)
pick = 0
def fn(x):
    return ops[pick](x)
mutations = ["pick = 1", "pick = -2"]

# %% lambdas_of_a_factory
def scale(k):
    return lambda x: x * k
stages = [scale(2.0), scale(3.0)]
def fn(x):
    for stage in stages:
        x = stage(x)
    return x
mutations = ["stages.append(scale(5.0))", "stages[0] = scale(7.0)", "stages.reverse()"]

# %% default_argument
def fn(x, k=2.0):
    return x * k
mutations = ["fn.__defaults__ = (3.0,)"]

# %% default_of_a_helper
def helper(x, k=2.0, *, b=1.0):
    return x * k + b
def fn(x):
    return helper(x)
mutations = ["helper.__defaults__ = (3.0,)", "helper.__kwdefaults__ = {'b': 9.0}", "helper.__kwdefaults__['b'] = 4.0"]

# %% default_list_as_memory
def helper(x, seen=[1.0, 2.0]):
    return x * sum(seen)
def fn(x):
    return helper(x)
mutations = ["helper.__defaults__[0].append(5.0)", "helper.__defaults__[0][0] = 0.0"]

# %% replaced_code
def helper(x):
    return x + 1
def fn(x):
    return helper(x)
mutations = ["helper.__code__ = (lambda x: x * 9).__code__"]

# %% function_attribute
def fn(x):
    return x * fn.scale
fn.scale = 2.0
mutations = ["fn.scale = 5.0"]
needless = ["fn.unread = 1"]

# %% function_attribute_of_a_helper
def helper(x):
    return x * helper.k
helper.k = 2.0
def fn(x):
    return helper(x)
mutations = ["helper.k = 6.0", "helper.__dict__['k'] = 7.0"]

# %% names_of_functions
def helper(x):
    return x
def fn(x):
    return x * len(helper.__name__), helper.__qualname__, helper.__doc__
mutations = ["helper.__name__ = 'longer_name'", "helper.__doc__ = 'Says more.'"]

# %% recursion
DEPTH = 3
def again(x, n):
    return x if n == 0 else again(x * 2 + 1, n - 1)
def fn(x):
    return again(x, DEPTH)
mutations = ["DEPTH = 5", "DEPTH = 0"]

# %% import_inside
def fn(x):
    import math as m
    from operator import mul
    return mul(x, m.sqrt(4.0))
mutations = ["import math as m2"]

# %% import_inside_of_own_module
import sys, types
sys.modules["own_settings"] = types.ModuleType("own_settings")
sys.modules["own_settings"].K = 2.0
def fn(x):
    from own_settings import K
    import own_settings
    return x * K + own_settings.K
mutations = ["sys.modules['own_settings'].K = 3.0", "m = types.ModuleType('own_settings'); m.K = 8.0; sys.modules['own_settings'] = m"]

# %% conditional_on_global_type
LIMIT = 3
def fn(x):
    if isinstance(LIMIT, int):
        return x.clamp(max=LIMIT)
    if isinstance(LIMIT, (list, tuple)):
        return x.clamp(LIMIT[0], LIMIT[1])
    return x
mutations = ["LIMIT = [1, 2]", "LIMIT = (0, 1)", "LIMIT = 'no'"]

# %% identity_of_sentinels
DEFAULT = object()
value = DEFAULT
def fn(x):
    return x if value is DEFAULT else x * value
mutations = ["value = 3.0", "value = 4.0", "value = DEFAULT"]

# %% identity_of_two_objects
a = [1.0]
b = a
def fn(x):
    return x * (2 if a is b else 3) * b[0]
mutations = ["b = [1.0]", "a = b"]

# %% walrus_and_chained_comparison
LOW, HIGH = 1, 5
def fn(x):
    if (n := x.shape[0]) and LOW < n <= HIGH:
        return x * n
    return x - n
mutations = ["HIGH = 3", "LOW, HIGH = 0, 100"]

# %% star_arguments
EXTRA, NAMED = (2.0, 3.0), {"c": 4.0}
def helper(x, a, b, c=1.0):
    return x * a + b - c
def fn(x):
    return helper(x, *EXTRA, **NAMED)
mutations = ["EXTRA = (5.0, 6.0)", "NAMED['c'] = 9.0", "NAMED = {}", "EXTRA = (1.0, 2.0, 3.0); NAMED = {}"]

# %% star_arguments_of_the_function
def fn(x, *rest, **named):
    for y in rest:
        x = x + y
    return x * named.get("k", 1.0), len(rest), sorted(named)
REST, NAMED = [1.0], {"k": 2.0}
def inputs():
    return (torch.arange(4.0), *REST)
def keywords():
    return dict(NAMED)
mutations = ["REST.append(3.0)", "NAMED['k'] = 5.0", "NAMED['other'] = 1", "REST.append(torch.ones(4))"]

# %% annotations_and_docstrings
def helper(x: "torch.Tensor") -> "torch.Tensor":
    """Says what it does."""
    return x + 1
def fn(x):
    return helper(x)
needless = ["helper.__doc__ = 'other words'", "helper.__annotations__['x'] = int"]
mutations = ["helper.__doc__ = None"]

# %% wrapped_functions
def loud(f):
    @functools.wraps(f)
    def wrapper(*args, **kwargs):
        return f(*args, **kwargs) * GAIN
    return wrapper
GAIN = 2.0
@loud
def helper(x, k=1.0):
    return x + k
def fn(x):
    return helper(x, k=2.0)
mutations = ["GAIN = 3.0", "helper = helper.__wrapped__"]

# %% decorated_entry
def twice(f):
    @functools.wraps(f)
    def wrapper(x):
        return f(f(x))
    return wrapper
K = 2.0
@twice
def fn(x):
    return x * K
mutations = ["K = 4.0"]

# %% decorator_with_arguments_and_state
calls = {"limit": 2}
def limited(key):
    def decorate(f):
        def wrapper(x):
            return f(x) if calls[key] > 1 else x
        return wrapper
    return decorate
@limited("limit")
def helper(x):
    return x * 10
def fn(x):
    return helper(x)
mutations = ["calls['limit'] = 0", "calls['limit'] = 5"]

# %% eval_of_a_text
EXPRESSION = "x * 2"
native = None
def fn(x):
    return eval(EXPRESSION)
mutations = ["EXPRESSION = 'x * 3'"]

# %% locals_and_vars
K = 2.0
native = None
def fn(x):
    k = K
    return x * locals()["k"]
mutations = ["K = 3.0"]


# %% name_of_a_receivers_class_goes_to_another
class Other: pass
class Owner:
    def __init__(self): self.k = 3.0
    def run(self, x): return x * self.k
owner = Owner()
fn = owner.run
def inputs():
    return (torch.arange(4.0),)
mutations = ["Owner = Other", "type(fn.__self__).k = property(lambda self: 5.0)"]
native = None


# %% name_of_an_arguments_class_goes_to_another
class Other: pass
class Owner:
    def __init__(self): self.k = 3.0
owner = Owner()
def fn(x, owner): return x * owner.k
def inputs():
    return torch.arange(4.0), owner
mutations = ["Owner = Other", "type(owner).k = property(lambda self: 5.0)"]
native = None
