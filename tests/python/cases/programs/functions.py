# SPDX-License-Identifier: Apache-2.0
"""Builtins and library functions between a program and its state."""
import functools
import itertools
import math
import operator
import string

import numpy as np
import torch


def inputs():
    return (torch.arange(4.0),)


# %% sorted_with_key
rows = [("b", 2.0), ("a", 3.0)]
def fn(x):
    for name, k in sorted(rows, key=lambda row: row[0]):
        x = (x + 1) * k
    return x
mutations = ["rows.append(('0', 5.0))", "rows[0] = ('A', 7.0)"]

# %% sorted_with_operator_keys
native = None  # native code looks attributes up
class Row:
    def __init__(self, rank, k): self.rank, self.k = rank, k
rows = [Row(2, 3.0), Row(1, 2.0)]
tables = [{"r": 2, "k": 3.0}, {"r": 1, "k": 2.0}]
def fn(x):
    for row in sorted(rows, key=operator.attrgetter("rank")):
        x = (x + 1) * row.k
    for table in sorted(tables, key=operator.itemgetter("r"), reverse=True):
        x = (x + 1) * table["k"]
    return x
mutations = ["rows[0].rank = 0", "rows[1].k = 5.0", "tables[1]['r'] = 9"]

# %% list_sort_in_the_call
rows = [3, 1, 2]
def fn(x):
    own = list(rows)
    own.sort(key=lambda r: -r)
    for r in own:
        x = x * r + 1
    return x
mutations = ["rows.append(0)", "rows[0] = 9"]

# %% min_max_with_key
rows = ["ccc", "a", "bb"]
def fn(x):
    return x * len(max(rows, key=len)) + len(min(rows, key=len)) + max(2, len(rows)) + max([], default=3)
mutations = ["rows.append('dddd')", "rows.remove('a')"]

# %% map_filter_zip_enumerate
ks, signs = [1.0, 2.0, 3.0], [1, -1, 1]
def fn(x):
    for i, (k, s) in enumerate(zip(ks, signs), start=1):
        x = x + k * s * i
    for k in map(lambda k: k * 2, filter(lambda k: k > 1, ks)):
        x = x * k
    for k in reversed(ks):
        x = x - k
    return x
mutations = ["ks[1] = 5.0", "signs[0] = -1", "ks.append(4.0)", "signs.append(2)"]

# %% any_all_sum_abs_round
ks = [1.0, -2.5]
def fn(x):
    return x + any(k > 5 for k in ks) + all(ks) + sum(ks, 10.0) + abs(ks[1]) + round(ks[1]) + divmod(7, int(ks[0]))[0] + pow(2, int(ks[0]))
mutations = ["ks.append(6.0)", "ks[0] = 3.0", "ks.append(0.0)"]

# %% any_of_a_list
ks = [0, 0]
def fn(x):
    return x + 1 if any(ks) else x - 1
mutations = ["ks[1] = 1", "ks.clear()"]

# %% reduce
ks = [1.0, 2.0, 3.0]
def fn(x):
    return functools.reduce(lambda acc, k: acc * k + 1, ks, x) + functools.reduce(operator.mul, ks)
mutations = ["ks[1] = 4.0", "ks.append(5.0)"]

# %% partial_global
def scale(x, k, b=0.0):
    return x * k + b
half = functools.partial(scale, k=0.5)
def fn(x):
    return half(x)
mutations = ["half = functools.partial(scale, k=2.0)",
             "half.keywords['k'] = 3.0", "half.keywords['b'] = 1.0", "scale = torch.add; half = functools.partial(lambda x, k: x - k, k=1)"]

# %% partial_of_positional
offset = [2.0]
def shift(o, x):
    return x + o[0]
shifted = functools.partial(shift, offset)
def fn(x):
    return shifted(x)
mutations = ["offset[0] = 5.0", "shifted = functools.partial(shift, [1.0])"]

# %% partial_as_entry
def scale(x, k, b=0.0):
    return x * k + b
fn = functools.partial(scale, k=2.0)
mutations = ["fn.keywords['k'] = 3.0"]

# %% partial_of_a_builtin
clamp = functools.partial(torch.clamp, min=1.0)
def fn(x):
    return clamp(x)
mutations = ["clamp.keywords['min'] = 2.0", "clamp = functools.partial(torch.clamp, max=0.5)"]

# %% partialmethod
class Box:
    def scale(self, x, k): return x * k + self.b
    twice = functools.partialmethod(scale, k=2.0)
    b = 1.0
box = Box()
def fn(x):
    return box.twice(x)
mutations = ["box.b = 3.0", "Box.twice = functools.partialmethod(Box.scale, k=7.0)"]

# %% operator_functions
k = 2.0
def fn(x):
    return operator.add(operator.mul(x, k), operator.neg(k)) + operator.truediv(x, k) + operator.getitem([1, 2, 3], int(k))
mutations = ["k = 1.0"]

# %% operator_getters
native = None  # native code looks attributes up
import types
config = types.SimpleNamespace(a=types.SimpleNamespace(b=2.0))
table = {"k": 3.0}
get_b, get_k, call = operator.attrgetter("a.b"), operator.itemgetter("k"), operator.methodcaller("get", "k", 0.0)
def fn(x):
    return x * get_b(config) + get_k(table) + call(table)
mutations = ["config.a.b = 5.0", "table['k'] = 7.0", "get_k = operator.itemgetter('j'); table['j'] = 1.0"]

# %% cached_function
BASE = 2.0
@functools.lru_cache(maxsize=None)
def scale(n):
    return n * 1.5
scale(2)  # a call that would have it run is eager
def fn(x):
    return x * scale(2)
mutations = ["scale = functools.lru_cache(lambda n: n * 4.0)"]

# %% cached_function_over_state
BASE = 2.0
@functools.lru_cache(maxsize=None)
def scale(n):
    return n * BASE
scale(2)
def fn(x):
    return x * scale(2)
mutations = ["BASE = 5.0", "scale.cache_clear()"]
native = None

# %% cached_tensor
@functools.lru_cache(maxsize=None)
def table(n):
    return torch.arange(float(n))
def fn(x):
    return x + table(4)
mutations = ["table(4).add_(1)", "table.cache_clear()"]
native = None

# %% single_dispatch
@functools.singledispatch
def area(v): return 1.0
@area.register
def _(v: int): return 2.0
value = "a"
def fn(x):
    return x * area(value)
mutations = ["value = 3", "area.register(str, lambda v: 9.0); value = 'a'"]
native = None

# %% format_and_fstrings
name, n = "layer", 3
def fn(x):
    key = f"{name}_{n:03d}" + "{}-{x}".format(n, x=name) + "%s:%d" % (name, n)
    return x * len(key), key
mutations = ["name = 'block'", "n = 12345", "n = 4"]

# %% string_methods
text = " Alpha,Beta "
def fn(x):
    parts = [p.strip().lower() for p in text.split(",")]
    return x * len("".join(parts)) + text.find("B") + text.isupper(), "-".join(parts).title()
mutations = ["text = 'GAMMA,'", "text = ' a , b , c '"]

# %% string_templates
template = string.Template("$a-b")
def fn(x):
    return x * len(template.substitute(a="long"))
mutations = ["template = string.Template('$a')"]
native = None

# %% regular_expressions
import re
pattern = re.compile(r"layer\.(\d+)")
name = "layer.3"
def fn(x):
    m = pattern.match(name)
    return x * int(m.group(1)) if m else x
mutations = ["name = 'layer.7'", "name = 'other'", "pattern = re.compile('o'); name = 'x'"]
native = None

# %% math_functions
a = 2.0
def fn(x):
    return x * math.sqrt(a) + math.log2(a) + math.gcd(4, int(a)) + math.isclose(a, 2.0) + math.prod([a, a])
mutations = ["a = 4.0", "a = 16"]

# %% isinstance_and_issubclass
class A: pass
class B(A): pass
value = B()
def fn(x):
    return x * (2 if isinstance(value, A) else 3) + issubclass(type(value), B) + callable(value)
mutations = ["value = A()", "value = 3", "value = torch.relu"]

# %% constructors_of_values
n = "3"
def fn(x):
    return x * int(n) + float(n) + len(str(n)) + bool(n) + len(list(n)) + len(tuple(n)) + sum(map(int, set(n)))
mutations = ["n = '12'", "n = '7'"]

# %% itertools_in_the_call
ks = [1.0, 2.0, 3.0]
def fn(x):
    for a, b in itertools.product(ks, repeat=2):
        x = x + a * b
    for a in itertools.chain(ks, [5.0]):
        x = x + a
    for a in itertools.islice(itertools.cycle(ks), 5):
        x = x - a
    for key, group in itertools.groupby(ks, key=lambda k: k > 1):
        x = x + len(list(group)) * key
    return x + sum(itertools.accumulate(ks)) + len(list(itertools.combinations(ks, 2))) + sum(itertools.starmap(operator.mul, zip(ks, ks)))
mutations = ["ks.append(4.0)", "ks[0] = 7.0"]
native = None

# %% itertools_count_in_the_call
start = 1
def fn(x):
    for i, n in zip(range(3), itertools.count(start)):
        x = x * n + i
    return x
mutations = ["start = 4"]
native = None

# %% numpy_scalars
k, n = np.float64(2.0), np.int64(3)
def fn(x):
    return x * k + n + float(k) * int(n) + k.item()
mutations = ["k = np.float64(4.0)", "n = np.int64(5)", "k = np.float32(2.0)"]

# %% numpy_array_reads
ks = np.array([1.0, 2.0, 3.0])
def fn(x):
    return x * float(ks[1]) + len(ks) + float(ks.sum()) + ks.shape[0]
mutations = ["ks[1] = 5.0", "ks += 1", "ks = np.array([0.0, 1.0])"]
native = None

# %% numpy_array_as_a_tensor
ks = np.array([1.0, 2.0, 3.0, 4.0], dtype=np.float32)
def fn(x):
    return x * torch.from_numpy(ks)
mutations = ["ks[1] = 5.0", "ks = np.ones(4, dtype=np.float32)"]
native = None

# %% numpy_memory_shared_with_a_tensor
ks = np.array([1.0, 2.0, 3.0, 4.0], dtype=np.float32)
t = torch.from_numpy(ks)
def fn(x):
    return x * t
mutations = ["ks[1] = 5.0", "ks.fill(2.0)"]

# %% numpy_in_the_call
ks = [1.0, 2.0, 3.0, 4.0]
def fn(x):
    return x * torch.as_tensor(np.asarray(ks, dtype=np.float32))
mutations = ["ks[1] = 5.0"]
native = None

# %% types_from_names
dtype_name = "float64"
def fn(x):
    return x.to(getattr(torch, dtype_name))
mutations = ["dtype_name = 'int32'", "dtype_name = 'float32'"]

# %% default_dtype
def fn(x):
    return torch.zeros(2), x * torch.tensor([0.5, 1.0, 2.0, 3.0]).to(x.dtype)
mutations = ["torch.set_default_dtype(torch.float64)", "torch.set_default_dtype(torch.float32)"]

# %% grad_mode_read
def fn(x):
    return x + 1 if torch.is_grad_enabled() else x - 1
mutations = ["torch.set_grad_enabled(True)", "torch.set_grad_enabled(False)"]

# %% copies_in_the_call
import copy
state = {"a": [1.0, 2.0]}
def fn(x):
    own = copy.deepcopy(state)
    own["a"].append(3.0)
    flat = copy.copy(state["a"])
    return x * sum(own["a"]) + len(flat)
mutations = ["state['a'][0] = 5.0", "state['a'].append(1.0)"]
native = None

# %% json_and_hash_in_the_call
import json
state = {"a": [1.0, 2.0]}
def fn(x):
    return x * len(json.dumps(state, sort_keys=True))
mutations = ["state['long'] = 'text'", "state['a'] = None"]
native = None

# %% fractions_and_decimals
import fractions
ratio = fractions.Fraction(1, 2)
def fn(x):
    return x * float(ratio)
mutations = ["ratio = fractions.Fraction(3, 2)", "ratio = ratio / 3"]
native = None

# %% pathlib_names
import pathlib
path = pathlib.PurePosixPath("a/b.txt")
def fn(x):
    return x * len(path.parts) + len(path.suffix)
mutations = ["path = pathlib.PurePosixPath('c')"]
native = None

# %% slices_as_values
window = slice(1, 3)
def fn(x):
    return x[window] * (window.stop - window.start)
mutations = ["window = slice(0, 2)", "window = slice(2, 4)"]


# %% two_functions_share_a_variable
def make(rate):
    def down(x):
        return x - rate

    def scale(x):
        return x * rate

    def put(v):
        nonlocal rate
        rate = v
    return down, scale, put


down, scale, put = make(2.0)
other_down, other_scale, other_put = make(3.0)


def fn(x):
    return scale(down(x))

def inputs():
    return (torch.arange(3.0),)
mutations = ["scale = other_scale", "other_put(2.0)", "other_put(5.0)", "put(4.0)", "down = other_down", "scale.__closure__[0].cell_contents = 1.5"]


# %% one_writes_the_variable_that_another_reads
def make(rate):
    def scale(x):
        return x * rate

    def put(v):
        nonlocal rate
        rate = v
    return scale, put


scale, put = make(2.0)
other_scale, other_put = make(3.0)


def fn(x):
    put(4.0)
    return scale(x)

def inputs():
    return (torch.arange(3.0),)
mutations = ["scale = other_scale", "put = other_put", "scale, put = make(7.0)"]


# %% super_finds_its_class_in_a_variable
class A:
    def go(self, x):
        return x + 1


class B(A):
    def go(self, x):
        return super().go(x) * 2


class C(A):
    def go(self, x):
        return super().go(x) * 3


class D(B, C):
    pass


d = D()


def fn(x):
    return d.go(x)

def inputs():
    return (torch.arange(3.0),)
mutations = ["B.go.__closure__[0].cell_contents = C", "B.go.__closure__[0].cell_contents = B"]


# %% anything_may_be_cached
class Scaler:
    def scale(self, k, extra=1.0):
        return k * extra


get = functools.lru_cache(functools.partial(Scaler().scale, 3.0))


def fn(x):
    return x * get()

def inputs():
    return (torch.arange(3.0),)
mutations = ["get = functools.lru_cache(functools.partial(Scaler().scale, 4.0))", "get = functools.lru_cache(functools.partial(get))",
             "Scaler.scale = lambda self, k, extra=1.0: 9.0; get.cache_clear()"]
native = None


# %% recursion_that_does_not_end
def down(*args, **more):
    return down(*args, **more)


class Truth:
    def __bool__(self):
        return bool(self)


truth = Truth()


def fn(x):
    try:
        return x * (2 if truth else 3)
    except RecursionError:
        pass
    try:
        return down(x, k=1)
    except RecursionError:
        return x - 1

def inputs():
    return (torch.arange(3.0),)
mutations = ["Truth.__bool__ = lambda self: True", "Truth.__bool__ = lambda self: False", "down = lambda *args, **more: args[0] * 7"]
native = None

# %% keyword_default_deleted_of_a_function_in_pieces
import numpy
import torch
p1 = numpy.ones(4, dtype=numpy.float32)

def fn(x, *, p1=p1):
    h = x * 1.0
    return h + torch.from_numpy(numpy.asarray(p1, dtype=numpy.float32))[0]
native = None
mutations = ["kept = fn.__kwdefaults__", "del kept['p1']"]
