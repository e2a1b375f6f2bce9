# SPDX-License-Identifier: Apache-2.0
"""Tensors that are reached in other ways than as arguments or parameters."""
import collections
import dataclasses
import types

import numpy as np
import torch


def inputs():
    return (torch.arange(4.0),)


# %% tensor_global
w = torch.tensor([1.0, 2.0, 3.0, 4.0])
def fn(x):
    return x * w
mutations = ["w.add_(1)", "w = torch.ones(4)", "w = torch.ones(1)", "w = torch.arange(4)", "w = w.double()"]
needless = ["w.unread = 1"]

# %% tensor_closure
def make(w):
    def fn(x):
        return x * w
    return fn
w = torch.full((4,), 2.0)
fn = make(w)
mutations = ["w.mul_(3)", "fn.__closure__[0].cell_contents = torch.ones(4)", "w.data = torch.full((4,), 7.0)"]

# %% tensor_in_a_dict
table = {"w": torch.full((4,), 2.0)}
def fn(x):
    return x * table["w"]
mutations = ["table['w'].add_(1)", "table['w'] = torch.ones(4)", "table['w'] = table['w'][:1]"]

# %% tensors_in_a_list
ws = [torch.full((4,), 2.0), torch.full((4,), 3.0)]
def fn(x):
    for w in ws:
        x = x * w + 1
    return x
mutations = ["ws[0].add_(1)", "ws.reverse()", "ws.append(torch.ones(4))", "ws[0] = ws[1]"]

# %% tensor_attribute
class Box:
    def __init__(self): self.w = torch.full((4,), 2.0)
box = Box()
def fn(x):
    return x * box.w
mutations = ["box.w.add_(1)", "box.w = torch.ones(4)", "Box.w = torch.zeros(4); del box.w"]

# %% tensor_slot
class Box:
    __slots__ = ("w",)
box = Box()
box.w = torch.full((4,), 2.0)
def fn(x):
    return x * box.w
mutations = ["box.w.add_(1)", "box.w = torch.ones(4)"]

# %% tensor_class_attribute
class Box:
    w = torch.full((4,), 2.0)
def fn(x):
    return x * Box.w
mutations = ["Box.w.add_(1)", "Box.w = torch.ones(4)"]

# %% tensor_default_argument
def helper(x, w=torch.full((4,), 2.0)):
    return x * w
def fn(x):
    return helper(x)
mutations = ["helper.__defaults__[0].add_(1)", "helper.__defaults__ = (torch.ones(4),)"]

# %% tensor_in_a_namedtuple
Pair = collections.namedtuple("Pair", "w b")
pair = Pair(torch.full((4,), 2.0), torch.ones(4))
def fn(x):
    return x * pair.w + pair.b
mutations = ["pair.w.add_(1)", "pair = Pair(pair.b, pair.w)"]

# %% tensor_in_a_dataclass
@dataclasses.dataclass
class Weights:
    w: torch.Tensor
    b: "torch.Tensor | None" = None
ws = Weights(torch.full((4,), 2.0))
def fn(x):
    y = x * ws.w
    return y if ws.b is None else y + ws.b
mutations = ["ws.b = torch.ones(4)", "ws.w = ws.b", "ws.b = None"]

# %% tensor_in_a_deque
ws = collections.deque([torch.full((4,), 2.0)], maxlen=2)
def fn(x):
    for w in ws:
        x = x * w
    return x
mutations = ["ws.append(torch.full((4,), 3.0))", "ws[0].add_(1)", "ws.append(torch.ones(4))"]

# %% tensor_in_a_partial
import functools
w = torch.full((4,), 2.0)
add = functools.partial(torch.add, w)
def fn(x):
    return add(x)
mutations = ["w.add_(1)", "add = functools.partial(torch.add, torch.ones(4))"]

# %% scalar_tensor_global
k = torch.tensor(2.0)
def fn(x):
    return x * k
mutations = ["k.fill_(3.0)", "k = torch.tensor(4.0)", "k = torch.tensor(5)", "k = 6.0"]

# %% scalar_tensor_in_a_module
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.k = torch.tensor(2.0)
    def forward(self, x): return x * self.k
fn = Net()
mutations = ["fn.k.fill_(3.0)", "fn.k = torch.tensor(4.0)"]

# %% scalar_tensor_of_another_module
class Inner(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("k", torch.tensor(2.0))
class Net(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.others = [inner]
    def forward(self, x): return x * self.others[0].k
inner = Inner()
fn = Net(inner)
mutations = ["inner.k.fill_(3.0)", "inner.k = torch.tensor(4.0)"]

# %% scalar_tensor_item
k = torch.tensor(2.0)
def fn(x):
    return x * k.item() + float(k) + int(k)
mutations = ["k.fill_(3.0)", "k = torch.tensor(4.0)"]

# %% scalar_tensor_branch
k = torch.tensor(2.0)
def fn(x):
    return x * 2 if k > 1 else x * 3
mutations = ["k.fill_(0.0)", "k = torch.tensor(4.0)"]

# %% scalar_tensor_as_a_size
n = torch.tensor(2)
native = None
def fn(x):
    return x[:n] * n
mutations = ["n.fill_(3)", "n = torch.tensor(1)"]

# %% tensor_to_list
w = torch.tensor([1.0, 2.0])
native = None
def fn(x):
    for k in w.tolist():
        x = x * k + 1
    return x
mutations = ["w[1] = 5.0", "w = torch.tensor([3.0])"]

# %% tensor_to_numpy
w = torch.tensor([1.0, 2.0])
native = None
def fn(x):
    return x * float(w.numpy()[1])
mutations = ["w[1] = 5.0"]

# %% tensor_shape_and_properties
w = torch.ones(2, 3)
def fn(x):
    return x * w.shape[0] + w.ndim + w.numel() + w.size(1) + (w.dtype == torch.float32) + w.is_contiguous() + w.stride(0)
mutations = ["w = torch.ones(3, 2)", "w = torch.ones(2, 3).t()", "w = w.double()", "w = torch.ones(6)"]

# %% tensor_identity
a = torch.ones(4)
b = a
def fn(x):
    return x * 2 if a is b else x * 3
mutations = ["b = torch.ones(4)", "a = b"]

# %% tensor_views_of_one_storage
whole = torch.arange(8.0)
left, right = whole[:4], whole[4:]
def fn(x):
    return x * left + right
mutations = ["whole.add_(1)", "left = whole[2:6]", "right = left"]

# %% tensor_strides
w = torch.arange(16.0).reshape(4, 4)
def fn(x):
    return x @ w
mutations = ["w = w.t()", "w = w.contiguous()", "w = w[::1, :2]"]

# %% tensor_indexing_with_state
i, table = 1, torch.arange(12.0).reshape(3, 4)
def fn(x):
    return x + table[i] + table[i, 1:3].sum() + table[..., -1].sum()
mutations = ["i = 2", "i = -1", "i = torch.tensor(0)", "i = slice(0, 1)"]

# %% tensor_made_from_state
values = [1.0, 2.0, 3.0, 4.0]
def fn(x):
    return x * torch.tensor(values)
mutations = ["values[1] = 7.0", "values = (1, 2, 3, 4)", "values = [2.0]"]

# %% tensor_made_in_the_call
k = 2.0
def fn(x):
    return x * torch.full((4,), k) + torch.arange(4) + torch.zeros_like(x) + x.new_tensor([k]) + torch.eye(4)[1]
mutations = ["k = 3.0", "k = 4"]

# %% tensor_attributes
w = torch.ones(4)
w.scale = 2.0
def fn(x):
    return x * w * w.scale
mutations = ["w.scale = 3.0"]

# %% parameter_global
w = torch.nn.Parameter(torch.full((4,), 2.0))
def fn(x):
    return x * w
mutations = ["w.data.add_(1)", "w.data = torch.ones(4)", "w = torch.nn.Parameter(torch.zeros(4))", "w.requires_grad_(False)"]

# %% requires_grad_is_read
w = torch.ones(4)
def fn(x):
    return x * 2 if w.requires_grad else x * 3
mutations = ["w.requires_grad_()", "w.requires_grad_(False)"]

# %% tensor_subclass
class Named(torch.Tensor): pass
w = torch.full((4,), 2.0).as_subclass(Named)
native = None
def fn(x):
    return x * w
mutations = ["w = torch.full((4,), 3.0).as_subclass(Named)", "w = torch.ones(4)"]

# %% tensor_dict_by_device_and_dtype
masks = {}
def mask(n):
    if n not in masks:
        masks[n] = torch.tril(torch.ones(n, n))
    return masks[n]
native = None
size = 4
def fn(x):
    return x @ mask(x.shape[0])
def inputs():
    return (torch.arange(float(size)),)
mutations = ["size = 5", "masks.clear()", "size = 4", "masks[4] = torch.ones(4, 4)"]

# %% tensor_dict_filled_before
masks = {4: torch.tril(torch.ones(4, 4))}
def fn(x):
    if x.shape[0] not in masks:
        masks[x.shape[0]] = torch.ones(x.shape[0], x.shape[0])
    return x @ masks[x.shape[0]]
mutations = ["masks[4].add_(1)", "masks[4] = torch.ones(4, 4)"]

# %% sparse_and_other_layouts
w = torch.eye(4).to_sparse()
native = None
def fn(x):
    return torch.sparse.mm(w, x.unsqueeze(1))
mutations = ["w = (torch.eye(4) * 2).to_sparse()"]

# %% complex_and_integers
w = torch.tensor([1 + 1j, 2, 3, 4])
native = None
def fn(x):
    return (x * w).real, (x.to(torch.int64) << 2) | 1
mutations = ["w.mul_(2)"]

# %% same_tensor_twice
a = torch.full((4,), 2.0)
b = a
def fn(x):
    return x * a + b
mutations = ["b = torch.ones(4)", "a = b", "a.add_(1)"]

# %% tensor_swapped_storage
w = torch.full((4,), 2.0)
def fn(x):
    return x * w
mutations = ["w.set_(torch.full((4,), 5.0))", "w.data = torch.full((4,), 6.0)", "w.copy_(torch.zeros(4))"]

# %% bool_tensor_mask
mask = torch.tensor([True, False, True, False])
def fn(x):
    return torch.where(mask, x, -x) + x.masked_fill(~mask, 9.0)
mutations = ["mask[1] = True", "mask = ~mask"]

# %% tensor_from_shared_numpy_written_between
memory = np.ones(4, dtype=np.float32)
w = torch.from_numpy(memory)
class Box: pass
box = Box()
box.w = w
def fn(x):
    return x * box.w + w
mutations = ["memory[:] = 5.0", "box.w = torch.from_numpy(memory.copy()); memory[:] = 0.0"]

# %% rotary_cache
class Rotary:
    def __init__(self): self.cos, self.length = torch.cos(torch.arange(8.0)), 8
    def get(self, n):
        if n > self.length:
            self.length = n
            self.cos = torch.cos(torch.arange(float(n)))
        return self.cos[:n]
rotary, size = Rotary(), 4
native = None
def fn(x):
    return x * rotary.get(x.shape[0])
def inputs():
    return (torch.arange(float(size)),)
mutations = ["rotary.cos.neg_()", "size = 6", "size = 12", "rotary.cos = rotary.cos * 2", "size = 4"]


# %% a_norm_too_steep_to_compare
# What rounds otherwise is far apart after this norm, and right; no digit of an argument shows it, so that the code may not be served.
native = None
norm = torch.nn.LayerNorm(4)


def fn(x):
    return norm(torch.tanh(x + 7.0) * 30).norm()


def inputs():
    return (torch.arange(4.0) / 100,)
mutations = ["norm.eps = 1e-9"]


# %% an_inference_tensor_is_written
total = torch.zeros(4)


def fn(x):
    total.add_(x)
    return total * 2
mutations = ["with torch.inference_mode():\n    total = torch.ones(4)", "total = torch.ones(4)"]


# %% views_of_inference_tensors
grad = "enable_grad"
w = torch.ones(4)


def fn(x):
    return w[:2], x[1:]
mutations = ["with torch.inference_mode():\n    w = torch.ones(4)", "seen = [t.is_inference() for t in step(torch.ones(4))]",
             "with torch.inference_mode():\n    made = torch.ones(4)\nseen = [t.is_inference() for t in step(made)]"]


# %% view_of_what_is_written
a = torch.ones(3); b = a[:]
def fn(x): a.add_(1); return x + b
mutations = ['b = torch.ones(3)', 'b = a[:]']
native = None


# %% data_of_what_is_written
a = torch.ones(3); b = torch.ones(3)
def fn(x): a.add_(1); return x + b
mutations = ['b.data = a', 'b.data = torch.ones(3)']
native = None


# %% part_of_what_is_written
a = torch.ones(4); b = torch.ones(3)
def fn(x): a.add_(1); return x + b
mutations = ['b = a[:3]', 'b = a[1:]']
native = None


# %% buffer_that_is_a_view_of_another
class M(torch.nn.Module):
    def __init__(s): super().__init__(); s.register_buffer("cache", torch.zeros(3)); s.register_buffer("v", s.cache[:])
    def forward(s, x): s.cache += 1; return x + s.v
fn = M()
mutations = ['f.v = torch.zeros(3)']
native = None



# %% made_of_a_class_of_its_own
class Sub(torch.Tensor): pass
def fn(x): return (x * 2).as_subclass(Sub)
native = False


# %% made_by_calling_a_class_of_its_own
class Sub(torch.Tensor): pass
def fn(x): return [Sub(x * 2)]
native = False


# %% made_by_the_constructor_of_tensors
class Sub(torch.Tensor): pass
def fn(x): return torch.Tensor.__new__(Sub, x * 2)
native = False


# %% place_of_a_view_in_its_memory
w = torch.arange(6.0)
def fn(x): return x * w[1:].storage_offset()
mutations = ["w = torch.arange(8.0)[2:]", "w = torch.arange(6.0)"]
native = False
