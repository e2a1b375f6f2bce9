# SPDX-License-Identifier: Apache-2.0
"""Arguments that are not tensors, or hold them."""
import collections
import dataclasses
import enum
import types

import torch


# %% object_attributes
class Options:
    def __init__(self): self.k, self.names, self.unread = 2.0, ["a"], 0
options = Options()
def fn(x, o):
    return x * o.k + len(o.names)
def inputs():
    return torch.arange(4.0), options
mutations = ["options.k = 3.0", "options.names.append('b')", "options = Options(); options.k = 5.0"]
needless = ["options.unread = 1"]

# %% object_methods
class Options:
    k = 2.0
    def scale(self, x): return x * self.k
options = Options()
def fn(x, o):
    return o.scale(x)
def inputs():
    return torch.arange(4.0), options
mutations = ["options.k = 3.0", "Options.k = 1.0; del options.k", "Options.scale = lambda self, x: x - 1"]

# %% object_of_another_class
class A: k = 2.0
class B: k = 3.0
kind = A
def fn(x, o):
    return x * o.k
def inputs():
    return torch.arange(4.0), kind()
mutations = ["kind = B", "kind = A"]

# %% object_with_tensors
class Batch:
    def __init__(self, x, mask): self.x, self.mask = x, mask
ones = True
def fn(b):
    y = b.x * 2
    return y if b.mask is None else y * b.mask
def inputs():
    return (Batch(torch.arange(4.0), torch.ones(4) if ones else None),)
native = None
mutations = ["ones = False", "ones = True"]

# %% object_with_a_longer_list
class Options:
    def __init__(self, n): self.ks = [1.0] * n
n = 2
def fn(x, o):
    for k in o.ks:
        x = x + k
    return x
def inputs():
    return torch.arange(4.0), Options(n)
mutations = ["n = 3", "n = 0", "n = 2"]

# %% slots_object
class Options:
    __slots__ = ("k",)
    def __init__(self, k): self.k = k
k = 2.0
def fn(x, o):
    return x * o.k
def inputs():
    return torch.arange(4.0), Options(k)
mutations = ["k = 3.0"]

# %% dataclass_argument
@dataclasses.dataclass
class Batch:
    x: torch.Tensor
    k: float = 2.0
k = 2.0
def fn(b):
    return b.x * b.k
def inputs():
    return (Batch(torch.arange(4.0), k),)
mutations = ["k = 3.0", "k = 4"]
native = None

# %% namedtuple_argument
Batch = collections.namedtuple("Batch", "x k")
k = 2.0
def fn(b):
    x, k = b
    return b.x * k
def inputs():
    return (Batch(torch.arange(4.0), k),)
mutations = ["k = 3.0"]

# %% dict_argument
more = {}
def fn(batch):
    x = batch["x"] * batch.get("k", 2.0)
    for name in sorted(batch):
        x = x + len(name)
    return x
def inputs():
    return ({"x": torch.arange(4.0), **more},)
mutations = ["more['k'] = 3.0", "more['k'] = 4.0", "more['long_name'] = torch.ones(1)", "more.clear()"]

# %% dict_argument_in_another_order
turned = False
def fn(batch):
    a, b = batch.values()
    return a * 2 + b
def inputs():
    pairs = [("a", torch.ones(4)), ("b", torch.arange(4.0))]
    return (dict(pairs[::-1] if turned else pairs),)
mutations = ["turned = True", "turned = False"]

# %% list_argument
n = 2
def fn(xs):
    return sum(xs) * len(xs)
def inputs():
    return ([torch.arange(4.0) + i for i in range(n)],)
mutations = ["n = 3", "n = 1", "n = 2"]

# %% nested_structure_argument
k = 2.0
def fn(batch):
    (a, b), table = batch
    return a * table["k"][0] + b
def inputs():
    return (((torch.arange(4.0), torch.ones(4)), {"k": [k, None]}),)
mutations = ["k = 3.0", "k = torch.full((4,), 2.0)"]

# %% scalars
k, flag, name, none = 2.0, True, "a", None
def fn(x, k, flag, name, none):
    y = x * k if flag else x + k
    return y + len(name) + (none is None)
def inputs():
    return torch.arange(4.0), k, flag, name, none
mutations = ["k = 3.0", "k = 3", "flag = False", "flag = 0", "name = 'abc'", "none = 1"]

# %% keyword_arguments
named = {"k": 2.0}
def fn(x, k=1.0, *, b=None, **rest):
    y = x * k
    return (y if b is None else y + b), sorted(rest)
def inputs():
    return (torch.arange(4.0),)
def keywords():
    return dict(named)
mutations = ["named['b'] = torch.ones(4)", "named['c'] = 1", "named.clear()"]

# %% function_argument
act = torch.relu
def fn(x, act):
    return act(x - 1)
def inputs():
    return torch.arange(4.0), act
native = None
mutations = ["act = torch.neg", "act = lambda v: v * 2", "k = 5; act = lambda v: v * k", "k = 6"]

# %% module_argument
torch.manual_seed(0)
net = torch.nn.Linear(4, 4)
def fn(x, net):
    return net(x)
def inputs():
    return torch.arange(4.0), net
native = None
mutations = ["net.weight.data.zero_()", "net = torch.nn.ReLU()", "net = torch.nn.Linear(4, 2)"]

# %% enum_argument
class Mode(enum.Enum):
    ADD = 1
    MUL = 2
mode = Mode.ADD
def fn(x, mode):
    return x + 1 if mode is Mode.ADD else x * 5
def inputs():
    return torch.arange(4.0), mode
native = None
mutations = ["mode = Mode.MUL", "mode = Mode.ADD"]

# %% namespace_argument
options = types.SimpleNamespace(k=2.0)
def fn(x, o):
    return x * o.k
def inputs():
    return torch.arange(4.0), options
mutations = ["options.k = 3.0", "options = types.SimpleNamespace(k=7.0)"]

# %% same_object_in_two_places
a = types.SimpleNamespace(k=2.0)
b = a
def fn(x, a, b):
    return x * a.k if a is b else x * b.k - 1
def inputs():
    return torch.arange(4.0), a, b
mutations = ["b = types.SimpleNamespace(k=2.0)", "b = a", "a.k = 9.0"]

# %% same_tensor_in_two_places
same = True
def fn(x, y):
    x.add_(1)
    return x * y
def inputs():
    x = torch.arange(4.0)
    return x, x if same else x.clone()
mutations = ["same = False", "same = True"]

# %% overlapping_tensors
native = None
shift = 0
def fn(x, y):
    x.mul_(2)
    return x + y
def inputs():
    whole = torch.arange(8.0)
    return whole[:4], whole[shift:shift + 4]
mutations = ["shift = 2", "shift = 4"]

# %% argument_is_a_weight
w = torch.full((4,), 2.0)
separate = False
def fn(x):
    x.add_(1)
    return x * w
def inputs():
    return (torch.full((4,), 2.0) if separate else w,)
native = None
mutations = ["separate = True", "separate = False"]

# %% tensor_sizes_and_ranks
shape = (4,)
def fn(x):
    return x.sum(-1) * x.dim() + x.shape[-1]
def inputs():
    return (torch.ones(shape),)
mutations = ["shape = (2, 4)", "shape = (0,)", "shape = (1,)", "shape = (2, 3, 4)", "shape = ()"]

# %% tensor_layouts
how = "plain"
def fn(x):
    return x * 2 + x.stride(0), x.is_contiguous()
def inputs():
    x = torch.arange(16.0).reshape(4, 4)
    return ({"plain": x, "turned": x.t(), "step": x[::2], "wide": x.expand(4, 4), "one": x[:1].expand(4, 4)}[how],)
mutations = ["how = 'turned'", "how = 'step'", "how = 'one'", "how = 'plain'"]

# %% tensor_dtypes
dtype = torch.float32
def fn(x):
    return x * 2 + 1, x.sum()
def inputs():
    return (torch.arange(4).to(dtype),)
mutations = ["dtype = torch.int32", "dtype = torch.float64", "dtype = torch.bool", "dtype = torch.bfloat16", "dtype = torch.uint8"]

# %% tensor_that_requires_grad
wants = False
native = None
def fn(x):
    return x * 2
def inputs():
    return (torch.ones(4, requires_grad=wants),)
mutations = ["wants = True", "wants = False"]

# %% optional_tensor
mask = None
def fn(x, mask=None):
    return x * 2 if mask is None else x * mask
def inputs():
    return (torch.arange(4.0), mask)
mutations = ["mask = torch.zeros(4)", "mask = None", "mask = 3.0"]

# %% config_shared_with_a_global
class Config: pass
config = Config()
config.k = 2.0
def fn(x, c):
    return x * c.k + config.k
given = config
def inputs():
    return torch.arange(4.0), given
mutations = ["config.k = 3.0", "given = Config(); given.k = 1.0"]

# %% lists_of_numbers
dims = [1, 0]
def fn(x, dims):
    return x.permute(dims) * len(dims)
def inputs():
    return torch.arange(6.0).reshape(2, 3), dims
mutations = ["dims = [0, 1]", "dims = (1, 0)", "dims = [1, -2]"]

# %% text_with_structure
spec = "a:2,b:3"
def fn(x, spec):
    for part in spec.split(","):
        name, n = part.split(":")
        x = x * int(n) + len(name)
    return x
def inputs():
    return torch.arange(4.0), spec
mutations = ["spec = 'abc:4'", "spec = 'a:2,b:3'"]

# %% iterator_argument
native = None
def fn(x, it):
    for k in it:
        x = x * k + 1
    return x
ks = [1.0, 2.0]
def inputs():
    return torch.arange(4.0), iter(ks)
mutations = ["ks.append(3.0)"]

# %% cache_object_of_a_model
class Cache:
    def __init__(self): self.keys = []
    def update(self, k):
        self.keys.append(k)
        return torch.stack(self.keys).sum(0)
cache = Cache()
native = None
def fn(x, cache):
    return cache.update(x) * 2
def inputs():
    return torch.arange(4.0), cache
mutations = ["cache = Cache()", "cache.keys.pop()"]
