# SPDX-License-Identifier: Apache-2.0
"""Trees of torch.nn modules and what people do to them."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
        self.k, self.unread = 2.0, 0
    def forward(self, x):
        return self.b(torch.relu(self.a(x))) * self.k


def inputs():
    return (torch.arange(4.0).expand(2, 4).contiguous(),)


# %% weights_written
fn = Net().eval()
mutations = ["fn.a.weight.data.mul_(2)", "fn.a.weight = nn.Parameter(torch.ones(4, 4))", "fn.a.weight.data = torch.zeros(4, 4)",
             "fn.load_state_dict({k: v + 1 for k, v in fn.state_dict().items()})"]
needless = ["fn.unread = 1", "fn.a.unread = 1"]

# %% attribute_of_the_module
fn = Net().eval()
mutations = ["fn.k = 3.0", "fn.k = torch.tensor(4.0)", "del fn.k; Net.k = 5.0"]

# %% submodule_replaced
fn = Net().eval()
mutations = ["fn.a = nn.Identity()", "fn.b = fn.a", "fn.a = nn.Linear(4, 4)", "fn._modules['b'] = nn.Tanh()"]

# %% bias_removed
fn = Net().eval()
mutations = ["fn.a.bias = None", "fn.b.register_parameter('bias', None)"]

# %% tied_and_untied
fn = Net().eval()
fn.b.weight = fn.a.weight
mutations = ["fn.a.weight.data.mul_(2)", "fn.b.weight = nn.Parameter(fn.a.weight.detach() * 3)", "fn.a.weight.data.zero_()", "fn.b.weight = fn.a.weight"]

# %% tied_by_a_view
class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.w = nn.Parameter(torch.randn(4, 4))
        self.t = self.w.data.t()
    def forward(self, x): return x @ self.w @ self.t
fn = Tied()
mutations = ["fn.w.data.mul_(2)", "fn.t = torch.eye(4)", "fn.w.data = torch.ones(4, 4)"]

# %% training_and_eval
class Drop(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
    def forward(self, x): return self.norm(x) * (2 if self.training else 3)
fn = Drop().eval()
native = None
mutations = ["fn.train()", "fn.eval()", "fn.norm.train()"]

# %% buffer
class Buffered(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.full((4,), 2.0))
        self.register_buffer("off", None)
    def forward(self, x):
        return x * self.scale if self.off is None else x * self.scale + self.off
fn = Buffered()
mutations = ["fn.scale.add_(1)", "fn.scale = torch.ones(4)", "fn.off = torch.ones(4)", "fn.off = None"]

# %% buffer_that_counts
class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
    def forward(self, x):
        self.steps += 1
        return x * self.steps
fn = Counting()
native = None
mutations = ["fn.steps.fill_(10)", "fn.steps = torch.tensor(50)"]

# %% module_list
class Stack(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
    def forward(self, x):
        for i, layer in enumerate(self.layers):
            x = torch.tanh(layer(x)) + i
        return x + len(self.layers)
fn = Stack()
mutations = ["fn.layers[1] = nn.Identity()", "fn.layers.append(nn.Linear(4, 4))", "del fn.layers[0]", "fn.layers = fn.layers[:1]"]

# %% module_list_slices
class Stack(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.ReLU(), nn.Tanh(), nn.Sigmoid()])
        self.depth = 2
    def forward(self, x):
        for layer in self.layers[:self.depth]:
            x = layer(x)
        return self.layers[-1](x)
fn = Stack()
mutations = ["fn.depth = 1", "fn.layers[2] = nn.Softplus()", "fn.depth = 3"]

# %% module_dict
class Pick(nn.Module):
    def __init__(self):
        super().__init__()
        self.acts = nn.ModuleDict({"relu": nn.ReLU(), "tanh": nn.Tanh()})
        self.name = "relu"
    def forward(self, x):
        y = self.acts[self.name](x - 1)
        return y + len(self.acts) + ("gelu" in self.acts)
fn = Pick()
mutations = ["fn.name = 'tanh'", "fn.acts['tanh'] = nn.Sigmoid()", "fn.acts['gelu'] = nn.GELU()"]

# %% parameter_list_and_dict
class Params(nn.Module):
    def __init__(self):
        super().__init__()
        self.ws = nn.ParameterList([torch.full((4,), 2.0), torch.full((4,), 3.0)])
        self.table = nn.ParameterDict({"b": torch.ones(4)})
    def forward(self, x):
        for w in self.ws:
            x = x * w
        return x + self.table["b"]
fn = Params()
mutations = ["fn.ws[0].data.add_(1)", "fn.ws.append(nn.Parameter(torch.ones(4) * 5))", "fn.table['b'] = nn.Parameter(torch.zeros(4))", "fn.ws[1] = fn.ws[0]"]

# %% sequential
torch.manual_seed(0)
fn = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)).eval()
mutations = ["fn[1] = nn.Tanh()", "fn.append(nn.Softmax(-1))", "fn.pop(1)", "fn[0].weight.data.zero_()"]

# %% forward_hooks
fn = Net().eval()
mutations = ["h = fn.a.register_forward_hook(lambda m, i, o: o * 2)", "h.remove()", "h = fn.register_forward_hook(lambda m, i, o: o + 1)",
             "h2 = fn.b.register_forward_pre_hook(lambda m, i: (i[0] * 3,))", "h.remove(); h2.remove()"]

# %% hooks_over_state
fn = Net().eval()
gain = 2.0
fn.a.register_forward_hook(lambda m, i, o: o * gain)
mutations = ["gain = 3.0"]

# %% hooks_that_collect
fn = Net().eval()
seen = []
native = None
fn.a.register_forward_hook(lambda m, i, o: seen.append(o))
mutations = ["seen.clear()"]

# %% global_hooks
fn = Net().eval()
native = None
mutations = ["h = torch.nn.modules.module.register_module_forward_hook(lambda m, i, o: o + 1)", "h.remove()"]

# %% patched_forward
fn = Net().eval()
mutations = ["fn.a.forward = lambda x: x * 5", "del fn.a.forward", "keep = Net.forward; Net.forward = lambda self, x: self.a(x)", "Net.forward = keep",
             "import types; fn.b.forward = types.MethodType(lambda self, x: F.linear(x, self.weight), fn.b)"]

# %% forward_with_keywords
class Keyed(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = 2.0
    def forward(self, x, *, mask=None, factor=1.0):
        y = x * self.scale * factor
        return y if mask is None else y.masked_fill(mask, 0.0)
fn = Keyed()
named = {}
def keywords():
    return dict(named)
mutations = ["named['factor'] = 3.0", "named['mask'] = torch.ones(2, 4, dtype=torch.bool)", "named.clear()", "named['mask'] = None"]

# %% shared_submodule
class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        one = nn.Linear(4, 4)
        self.first, self.second = one, one
    def forward(self, x): return self.second(torch.relu(self.first(x)))
fn = Shared()
mutations = ["fn.second = nn.Linear(4, 4)", "fn.first.weight.data.mul_(2)", "fn.second = fn.first"]

# %% deep_copy_of_the_module
fn = Net().eval()
other = copy.deepcopy(fn)
mutations = ["other.a.weight.data.zero_()", "fn.a = other.a", "fn.b.weight = other.b.weight"]

# %% dtype_change
fn = Net().eval()
dtype = torch.float32
def inputs():
    return (torch.arange(4.0, dtype=dtype).expand(2, 4).contiguous(),)
mutations = ["fn.double(); dtype = torch.float64", "fn.float(); dtype = torch.float32"]

# %% method_of_a_module
class Coder(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.up, self.scale = nn.Linear(4, 8), 2.0
    def encode(self, x): return self.up(x) * self.scale
coder = Coder()
fn = coder.encode
mutations = ["coder.scale = 3.0", "coder.up.bias = None", "coder.up = nn.Linear(4, 2)"]

# %% function_over_a_global_module
net = Net().eval()
def fn(x):
    return net(x) + net.k
mutations = ["net.k = 3.0", "net.a.weight.data.zero_()", "net = Net().eval(); net.k = 1.0", "net.b = nn.Identity()"]

# %% module_in_a_closure
def make(net):
    def fn(x):
        return net(x)
    return fn
net = Net().eval()
fn = make(net)
mutations = ["net.k = 3.0", "fn.__closure__[0].cell_contents = nn.ReLU()"]

# %% module_in_a_plain_list
class Hidden(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = [nn.Linear(4, 4), nn.ReLU()]
    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
torch.manual_seed(0)
fn = Hidden()
mutations = ["fn.layers[0].weight.data.mul_(2)", "fn.layers.append(nn.Tanh())", "fn.layers[1] = nn.Sigmoid()", "fn.layers[0] = nn.Linear(4, 4)"]

# %% module_walks_itself
class Walk(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
    def forward(self, x):
        for name, child in self.named_children():
            x = child(x) + len(name)
        return x + sum(p.sum() for p in self.parameters())
fn = Walk()
native = None
mutations = ["fn.c = nn.ReLU()", "fn.a.weight.data.zero_()", "fn.a.bias = None", "del fn.b"]

# %% module_with_getattr
class Wrapper(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner
    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.inner, name)
    def forward(self, x): return self.inner(x) * self.k
fn = Wrapper(Net().eval())
mutations = ["fn.inner.k = 3.0", "fn.k = 4.0", "del fn.k"]

# %% module_property
class Prop(nn.Module):
    def __init__(self):
        super().__init__()
        self.base = 2.0
        self.w = nn.Parameter(torch.ones(4))
    @property
    def gain(self): return self.base * 2
    @property
    def dtype(self): return next(self.parameters()).dtype
    def forward(self, x): return x.to(self.dtype) * self.gain * self.w
fn = Prop()
mutations = ["fn.base = 3.0", "fn.w.data.add_(1)", "Prop.gain = property(lambda self: 10.0)"]
native = None

# %% config_object
class Config:
    def __init__(self, **kw): self.__dict__.update(kw)
class Model(nn.Module):
    def __init__(self, config):
        super().__init__()
        torch.manual_seed(0)
        self.config = config
        self.up = nn.Linear(4, 8)
    def forward(self, x, return_dict=None):
        return_dict = return_dict if return_dict is not None else self.config.return_dict
        y = {"gelu": F.gelu, "relu": F.relu}[self.config.act](self.up(x)) * self.config.inner["scale"]
        return {"y": y} if return_dict else (y,)
fn = Model(Config(act="gelu", return_dict=True, inner={"scale": 2.0}, unread=1))
mutations = ["fn.config.act = 'relu'", "fn.config.return_dict = False", "fn.config.inner['scale'] = 3.0", "fn.config = Config(act='relu', return_dict=True, inner={'scale': 1.0})"]
needless = ["fn.config.unread = 2"]

# %% lazy_module
native = None
torch.manual_seed(0)
fn = nn.LazyLinear(3)
mutations = ["fn.weight.data.zero_()"]

# %% embedding_and_norms
torch.manual_seed(0)
class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.norm = nn.Embedding(8, 4), nn.LayerNorm(4)
    def forward(self, i): return self.norm(self.table(i))
fn = Small()
def inputs():
    return (torch.tensor([[1, 2], [3, 0]]),)
mutations = ["fn.norm.eps = 1.0", "fn.table.weight.data.mul_(2)", "fn.norm.elementwise_affine = False", "fn.norm.weight = None; fn.norm.bias = None"]

# %% attention_with_cache
class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.q, self.k, self.v = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)
        self.cache = None
    def forward(self, x):
        k, v = self.k(x), self.v(x)
        if self.cache is not None:
            k, v = torch.cat([self.cache[0], k]), torch.cat([self.cache[1], v])
        self.cache = (k, v)
        return torch.softmax(self.q(x) @ k.t(), -1) @ v
fn = Attention()
native = None
mutations = ["fn.cache = None", "fn.cache = tuple(c * 2 for c in fn.cache)"]

# %% weight_replaced_in_the_call
class Writes(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))
    def forward(self, x):
        self.mean = self.mean * 0.5 + x.mean(0)
        return x - self.mean
fn = Writes()
native = None
mutations = ["fn.mean.zero_()", "fn.mean = torch.ones(4)"]

# %% weight_norm
torch.manual_seed(0)
fn = torch.nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))
native = None
mutations = ["fn.parametrizations.weight.original0.data.mul_(2)", "fn.bias.data.add_(1)"]

# %% deleted_submodule
class Maybe(nn.Module):
    def __init__(self):
        super().__init__()
        self.act = nn.ReLU()
    def forward(self, x):
        return self.act(x - 1) if hasattr(self, "act") else x
fn = Maybe()
mutations = ["del fn.act", "fn.act = nn.Tanh()", "fn.act = None; Maybe.forward = lambda self, x: x * (self.act is None)"]

# %% class_attribute_of_a_module
class Const(nn.Module):
    scale = 2.0
    def forward(self, x): return x * self.scale
fn = Const()
mutations = ["Const.scale = 3.0", "fn.scale = 4.0"]

# %% frozen_and_thawed
fn = Net().eval()
grad = "inference_mode"
mutations = ["fn.requires_grad_(False)", "fn.a.weight.data.mul_(2)", "fn.requires_grad_(True)"]

# %% grad_mode_on
fn = Net().eval()
grad = "enable_grad"
native = None
mutations = ["fn.requires_grad_(False)", "fn.k = 3.0"]


# %% gradients_turned_off_by_the_method_itself
grad = "enable_grad"
class Quiet(Net):
    @torch.no_grad()
    def forward(self, x): return super().forward(x), self.a.weight[:2], x[:1]
fn = Quiet()
mutations = ["fn.a.weight.requires_grad_(False)", "fn.a.weight.requires_grad_()", "fn.k = 3.0",
             "kept = step(torch.ones(2, 4)); seen = [(t.requires_grad, t.is_leaf, t._version) for t in kept]"]


# %% gradients_turned_off_for_some_weights
grad = "enable_grad"
fixed, free = nn.Linear(4, 4), torch.ones(4)
def fn(x):
    with torch.no_grad(): y = fixed(x)
    return y * free
mutations = ["free.requires_grad_()", "seen = [step(torch.ones(2, 4)).requires_grad]", "free.requires_grad_(False)",
             "seen = [step(torch.ones(2, 4)).requires_grad]"]


# %% gradients_turned_off_to_change_a_weight
grad = "enable_grad"
w = torch.ones(4, requires_grad=True)
def fn(x):
    with torch.no_grad(): w.mul_(0.9)
    return x + 1
mutations = ["seen = w.grad_fn, w.requires_grad, w._version", "w = torch.ones(4)", "w.requires_grad_()"]


# %% gradients_turned_off_and_on_again
grad = "enable_grad"
w = torch.ones(4, requires_grad=True)
on = False
def fn(x):
    with torch.no_grad():
        y = x * w
        with torch.set_grad_enabled(on): z = x * w
    return y, z
mutations = ["on = True", "w.requires_grad_(False)", "on = False"]


# %% a_view_of_a_weight_made_without_gradients
grad = "enable_grad"
w = torch.ones(4, requires_grad=True)
def fn(x):
    with torch.no_grad(): v = w[:2]
    return v, x * 2
mutations = ["v, _ = step(torch.ones(2, 4))\nv.mul_(2)"]
native = None


# %% inference_mode_of_the_method_itself
grad = "enable_grad"
class Quick(Net):
    @torch.inference_mode()
    def forward(self, x): return super().forward(x), self.a.weight[:2], x[:1], torch.is_inference_mode_enabled()
fn = Quick()
mutations = ["seen = [(t.is_inference(), t.requires_grad, t.is_leaf) for t in step(*inputs())[:3]]", "fn.k = 3.0",
             "fn.a.weight.requires_grad_(False)", "with torch.inference_mode(): seen = [t.is_inference() for t in step(*inputs())[:3]]"]


# %% inference_mode_for_a_part
grad = "enable_grad"
w = nn.Linear(4, 4)
inner = True
def fn(x):
    with torch.inference_mode(inner): y = w(x)
    return y * 2
mutations = ["seen = step(*inputs()).is_inference()", "inner = False", "seen = step(*inputs()).requires_grad", "inner = True"]


# %% inference_mode_for_some_results
def fn(x):
    with torch.inference_mode(): y = x * 2
    return y, x * 3
mutations = ["seen = [t.is_inference() for t in step(*inputs())]"]
native = False


# %% inference_mode_turned_off
grad = "inference_mode"
def fn(x):
    with torch.inference_mode(False): return x * 2, torch.is_inference_mode_enabled()
mutations = ["seen = [t.is_inference() for t in step(*inputs())[:1]]"]
native = False


# %% inference_mode_that_is_left_on
class Guard:
    def __enter__(self): self.mode = torch._C._InferenceMode(True); self.mode.__enter__()
    def __exit__(self, *args): self.mode.__exit__(*args)
guard = Guard()
def fn(x):
    with guard: y = x * 2
    return y
mutations = ["seen = step(*inputs()).is_inference(), torch.is_inference_mode_enabled()"]
native = None


# %% writes_in_an_inference_mode_of_its_own
w = torch.ones(4)
@torch.inference_mode()
def fn(x):
    w.mul_(2)
    return x.add_(w)
mutations = ["seen = w.is_inference(), step(*inputs()).is_inference()", "w = torch.ones(4)"]
