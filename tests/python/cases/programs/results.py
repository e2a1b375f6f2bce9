# SPDX-License-Identifier: Apache-2.0
"""What a call returns: structures, classes, identities, views."""
import collections
import dataclasses
import enum
import types
import typing

import torch


def inputs():
    return (torch.arange(4.0),)


# %% tuple_and_nested
def fn(x):
    return x, (x + 1, [x * 2, {"k": x - 1}]), None, 3, "text", 2.5, True

# %% list_of_results
ks = [1.0, 2.0]
def fn(x):
    return [x * k for k in ks]
mutations = ["ks.append(3.0)", "ks.clear()"]

# %% dict_of_results
names = ["a", "b"]
def fn(x):
    return {name: x * i for i, name in enumerate(names)}
mutations = ["names.append('c')", "names.reverse()"]

# %% ordered_dict_result
def fn(x):
    return collections.OrderedDict(b=x + 1, a=x)

# %% defaultdict_result
native = None
def fn(x):
    out = collections.defaultdict(list)
    out["a"].append(x + 1)
    return out

# %% counter_and_set_results
native = None
def fn(x):
    return collections.Counter("aab"), {1, 2}, frozenset({"a"}), range(3), slice(1, 2), b"ab"

# %% deque_result
native = None
def fn(x):
    return collections.deque([x, x + 1], maxlen=5)

# %% namedtuple_result
Pair = collections.namedtuple("Pair", "left right")
def fn(x):
    return Pair(x + 1, right=(x * 2,))

# %% typed_namedtuple_result
class Pair(typing.NamedTuple):
    left: torch.Tensor
    n: int = 3
def fn(x):
    return Pair(x + 1)

# %% dataclass_result
@dataclasses.dataclass
class Out:
    y: torch.Tensor
    n: int = 3
    more: list = dataclasses.field(default_factory=list)
def fn(x):
    return Out(x + 1, more=[x])

# %% frozen_dataclass_result
@dataclasses.dataclass(frozen=True)
class Out:
    y: torch.Tensor
def fn(x):
    return Out(x + 1)

# %% dataclass_with_slots_result
@dataclasses.dataclass(slots=True)
class Out:
    y: torch.Tensor
    n: int = 1
def fn(x):
    return Out(x + 1, 5)

# %% dataclass_with_post_init
@dataclasses.dataclass
class Out:
    y: torch.Tensor
    twice: object = None
    def __post_init__(self):
        if self.twice is None:
            self.twice = self.y * 2
def fn(x):
    return Out(x + 1)

# %% dataclass_that_counts_itself
made = 0
native = None
@dataclasses.dataclass
class Out:
    y: torch.Tensor
    def __post_init__(self):
        global made
        made += 1
        self.number = made
def fn(x):
    return Out(x + 1)
mutations = ["made = 100"]

# %% own_class_result
class Out:
    def __init__(self, y, k):
        self.y = y * k
        self.k = k
def fn(x):
    return Out(x, 2.0)

# %% own_class_with_slots_result
class Out:
    __slots__ = ("y", "rest")
    def __init__(self, y):
        self.y, self.rest = y + 1, [y]
def fn(x):
    return Out(x)

# %% own_class_kept_by_itself
native = None
class Out:
    made = []
    def __init__(self, y):
        self.y = y
        Out.made.append(self)
def fn(x):
    return Out(x + 1)
mutations = ["Out.made.clear()"]

# %% own_class_in_a_circle
native = None
class Node:
    def __init__(self, y): self.y, self.next = y, None
def fn(x):
    a, b = Node(x + 1), Node(x + 2)
    a.next, b.next = b, a
    return a

# %% model_output
from transformers.utils import ModelOutput
@dataclasses.dataclass
class Out(ModelOutput):
    y: "torch.Tensor | None" = None
    z: "torch.Tensor | None" = None
def fn(x):
    return Out(y=x + 1)

# %% simple_namespace_result
native = None
def fn(x):
    return types.SimpleNamespace(y=x + 1, n=3)

# %% enum_and_type_results
class Mode(enum.Enum):
    A = 1
native = None
def fn(x):
    return Mode.A, torch.float32, x.shape, x.dtype, int, x.device

# %% same_tensor_twice
def fn(x):
    y = x + 1
    return y, y, [y]

# %% same_list_twice
def fn(x):
    ys = [x + 1]
    return ys, ys

# %% argument_returned
def fn(x):
    return x, x + 1

# %% argument_returned_after_a_no_op
def fn(x):
    return x.contiguous(), x.to(torch.float32), x.reshape(4)

# %% argument_container_returned
def fn(x, options):
    return x + 1, options
def inputs():
    return torch.arange(4.0), {"a": [1]}

# %% view_of_an_argument
def fn(x):
    return x[1:], x.reshape(2, 2), x.unsqueeze(0), x.view(2, 2).t()

# %% view_of_a_result
def fn(x):
    y = x + 1
    return y, y[1:], y.reshape(2, 2)

# %% view_of_a_weight
w = torch.arange(8.0)
def fn(x):
    return w[:4], x * w[4:]
mutations = ["w.add_(1)", "w = torch.zeros(8)"]

# %% weight_returned
w = torch.arange(4.0)
def fn(x):
    return w, x * w
mutations = ["w.add_(1)", "w = torch.ones(4)"]

# %% parameter_returned
w = torch.nn.Parameter(torch.arange(4.0))
def fn(x):
    return w, w.t(), x * w
mutations = ["w.data.add_(1)"]

# %% parameter_detached_and_returned
w = torch.nn.Parameter(torch.arange(4.0))
def fn(x):
    return w.detach().view(2, 2), x * w
mutations = ["w.data.add_(1)", "w.requires_grad_(False)"]

# %% view_of_a_frozen_parameter
w = torch.nn.Parameter(torch.arange(4.0), requires_grad=False)
def fn(x):
    return w.view(2, 2), w, x * w
mutations = ["w.requires_grad_(True)", "w.requires_grad_(False)"]

# %% view_of_an_argument_that_requires_grad
grads = False
def inputs():
    return (torch.arange(4.0, requires_grad=grads),)
def fn(x):
    return x.view(2, 2), x * 2
mutations = ["grads = True", "grads = False"]

# %% global_list_returned
ks = [1, 2]
native = None
def fn(x):
    return ks, x + 1
mutations = ["ks.append(3)", "ks = [4]"]

# %% global_object_returned
class Box: pass
box = Box()
native = None
def fn(x):
    return box, x + 1
mutations = ["box.k = 3", "box = Box()"]

# %% global_number_returned
k = 3
def fn(x):
    return k, x + 1, str(k)
mutations = ["k = 4", "k = 4.0", "k = 10 ** 30"]

# %% constant_returned
def fn(x):
    return 3
native = None

# %% nothing_returned
def fn(x):
    x * 2
native = None

# %% function_returned
k = 2.0
native = None
def fn(x):
    def later(y):
        return y * x
    return x * k, later
mutations = ["k = 3.0"]

# %% numbers_of_tensors
native = None
def fn(x):
    return x.sum().item(), float(x.max()), int(x[1]), x.tolist(), bool(x.any())
top = 3.0
def inputs():
    return (torch.tensor([0.0, 1.0, top]),)
mutations = ["top = 7.0", "top = -1.0"]

# %% sizes_of_tensors
size = 4
def fn(x):
    return x.shape, x.shape[0], x.numel() * 2, list(x.shape), x.unsqueeze(1).shape
def inputs():
    return (torch.arange(float(size)),)
mutations = ["size = 6", "size = 1"]

# %% numpy_result
native = None
def fn(x):
    return (x * 2).numpy()

# %% tensor_with_attributes
native = None
def fn(x):
    y = x * 2
    y.label = "scaled"
    return y

# %% exception_as_a_value
native = None
def fn(x):
    return ValueError("kept"), x + 1

# %% iterator_result
native = None
def fn(x):
    return iter([x, x + 1])

# %% string_of_a_tensor
native = None
top = 3.0
def fn(x):
    return f"{x.max().item():.1f}", str(x.shape), repr(x.dtype)
def inputs():
    return (torch.tensor([0.0, top]),)
mutations = ["top = 4.0"]

# %% result_type_by_state
kind = "tuple"
def fn(x):
    y = x + 1
    return {"tuple": (y, 1), "list": [y, 1], "dict": {"y": y}}[kind]
mutations = ["kind = 'list'", "kind = 'dict'"]

# %% list_subclass_result
class Rows(list): pass
native = None
def fn(x):
    rows = Rows([x, x + 1])
    rows.label = "rows"
    return rows

# %% dict_subclass_result
class Table(dict):
    __getattr__ = dict.__getitem__
native = None
def fn(x):
    return Table(y=x + 1)

# %% scalar_tensors
def fn(x):
    return x.sum(), x[0], torch.tensor(3.0), x.mean() * 2

# %% empty_tensors
def fn(x):
    return x[4:], x[:0].sum(), torch.empty(0, 3), x.reshape(4, 1)[:, :0]

# %% aliases_of_one_storage
def fn(x):
    y = torch.zeros(8)
    y[:4] = x
    return y[:4], y[4:], y

# %% detached_argument_returned
grads = False
def inputs():
    return (torch.arange(4.0, requires_grad=grads),)
def fn(x):
    y = x.detach()
    return y, x.detach().view(2, 2), y, x.data
mutations = ["grads = True", "grads = False"]

# %% tensor_of_a_list_that_contains_itself
native = None
loop = []
loop.append(loop)
def fn(x):
    try:
        return x + torch.tensor(loop)
    except ValueError as error:
        return x, str(error)


# %% results_that_share_memory_are_written_later
grad = "enable_grad"
p = torch.nn.Parameter(torch.ones(2))


def fn(x):
    y = x * 2
    return y[:2], y[2:], y, y.detach()
mutations = ["kept = step(torch.arange(4.0)); kept[0].mul_(p); seen = [(t.requires_grad, t._version) for t in kept]"]


# %% parts_of_what_is_not_returned_are_written_later
grad = "enable_grad"
p = torch.nn.Parameter(torch.ones(2))


def fn(x):
    y = x * 2
    return {"first": y[:2], "second": y[1:3]}
mutations = ["kept = step(torch.arange(4.0)); kept['first'].mul_(p); seen = [(t.requires_grad, t._version) for t in kept.values()]"]


# %% views_of_arguments_and_globals_are_written_later
grad = "enable_grad"
p = torch.nn.Parameter(torch.ones(2))
w = torch.arange(4.0)


def fn(x):
    return x[:2], w[2:], x, w.detach()
mutations = ["x = torch.arange(4.0); kept = step(x); kept[0].mul_(p); kept[1].mul_(p); seen = [(t.requires_grad, t._version) for t in (x, w, *kept)]",
             "w = torch.ones(4)"]


# %% an_argument_saved_for_backward_is_written_through_a_result
grad = "enable_grad"
p = torch.nn.Parameter(torch.ones(4))


def fn(x):
    return x[:2]
mutations = ["""x = torch.ones(4)
loss = (x * p).sum()
step(x).add_(1)
try:
    loss.backward()
except RuntimeError as e:
    said = type(e).__name__"""]


# %% classes_that_change_names
class Plain:
    def __init__(self, y):
        self.y = y


class Other(Plain):
    pass


def fn(x):
    return Plain(x * 2)
mutations = ["Plain, Other = Other, Plain", "Plain, Other = Other, Plain"]


# %% objects_that_extensions_make
class Guard:
    def __init__(self, made): self.made = made
kept = Guard(None)
def fn(x):
    kept.made = torch._C._InferenceMode(False)
    return x * 2
mutations = ["seen = type(kept.made).__name__"]
native = False


# %% result_whose_class_sees_every_read
asked = []
class E:
    def __init__(self, v): self.v = v
    def __getattribute__(self, name):
        asked.append(name)
        return object.__getattribute__(self, name)
def fn(x): return E(x * 2)
native = None


# %% object_that_is_written_and_sees_every_read
asked = []
class E:
    v = None
    def __getattribute__(self, name):
        asked.append(name)
        return object.__getattribute__(self, name)
e = E()
def fn(x):
    e.v = x * 2
    return x + 1
native = None
