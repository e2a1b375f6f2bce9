# SPDX-License-Identifier: Apache-2.0
"""Operators that write their arguments and are not PyTorch's, of every form that a schema has, and programs that use them."""

import torch
import torch.nn.functional as F

LOG: "list[object]" = []   # what operators do besides


@torch.library.custom_op("writing::norm_into", mutates_args=("out",))
def norm_into(out: torch.Tensor, x: torch.Tensor, eps: float) -> None:
    out.copy_(x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps))


@torch.library.custom_op("writing::silu_and_mul", mutates_args=("out",))
def silu_and_mul(out: torch.Tensor, x: torch.Tensor) -> None:
    half = x.shape[-1] // 2
    torch.mul(F.silu(x[..., :half]), x[..., half:], out=out)


@torch.library.custom_op("writing::store", mutates_args=("k_cache", "v_cache"))
def store(k: torch.Tensor, v: torch.Tensor, k_cache: torch.Tensor, v_cache: torch.Tensor, slots: torch.Tensor) -> None:
    k_cache[slots] = k
    v_cache[slots] = v


@torch.library.custom_op("writing::double", mutates_args=("x",))
def double(x: torch.Tensor) -> None:
    x.mul_(2)


@torch.library.custom_op("writing::add_to", mutates_args=("x",))
def add_to(x: torch.Tensor, y: torch.Tensor) -> None:
    for i in range(x.shape[0]):   # row by row: what lies in `x` and `y` at once is seen after it is written
        x[i] += y[i]


@torch.library.custom_op("writing::shift", mutates_args=("x", "y"))
def shift(x: torch.Tensor, y: torch.Tensor) -> None:
    x.add_(1)
    y.mul_(3)
    x.sub_(0.5)


@torch.library.custom_op("writing::maybe", mutates_args=("scale",))
def maybe(x: torch.Tensor, scale: "torch.Tensor | None") -> torch.Tensor:
    if scale is None:
        return x * 1
    scale.add_(1)
    return x * scale


@torch.library.custom_op("writing::fill_all", mutates_args=("outs",))
def fill_all(outs: "list[torch.Tensor]", x: torch.Tensor) -> None:
    for i, out in enumerate(outs):
        out.copy_(x + i)


@torch.library.custom_op("writing::scaled", mutates_args=("amax",))
def scaled(x: torch.Tensor, amax: torch.Tensor) -> "tuple[torch.Tensor, torch.Tensor]":
    amax.copy_(torch.maximum(amax, x.abs().amax()))
    return x / amax, x.sum(-1)


@torch.library.custom_op("writing::tell", mutates_args=("x",))
def tell(x: torch.Tensor, word: str) -> None:
    LOG.append((word, x.sum().item()))
    x.add_(1)


@torch.library.custom_op("writing::note", mutates_args=())
def note(x: torch.Tensor) -> torch.Tensor:
    LOG.append(("note", x.sum().item()))
    return x + 1


@torch.library.custom_op("writing::picky", mutates_args=("x",))
def picky(x: torch.Tensor, limit: float) -> None:
    LOG.append("picky")
    x[0] = -1
    if x.max().item() > limit:
        raise ArithmeticError(f"more than {limit}")
    x[-1] = -2


_library = torch.library.Library("writing_plain", "DEF")
_library.define("scale_(Tensor(a!) self, float by) -> Tensor(a!)")
_library.define("swap(Tensor(a!) x, Tensor(b!) y) -> (Tensor(a!), Tensor(b!))")
_library.define("both(Tensor(a!) out, Tensor x) -> (Tensor(a!), Tensor)")
_library.define("wrong(Tensor(a!) out, Tensor x) -> Tensor")
_library.define("counted(Tensor(a!) out, Tensor x) -> (Tensor, int)")


def _scale(x, by):
    x.mul_(by)
    return x


def _swap(x, y):
    kept = x.clone()
    x.copy_(y)
    y.copy_(kept)
    return x, y


def _both(out, x):
    out.copy_(x)
    return out, x * 2


def _wrong(out, x):
    out.copy_(x)
    return out.view(-1)


def _counted(out, x):
    out.add_(1)
    return x + 1, out.shape[0]


for _name, _function in (("scale_", _scale), ("swap", _swap), ("both", _both), ("wrong", _wrong), ("counted", _counted)):
    _library.impl(_name, _function, "CompositeExplicitAutograd")

ops, plain = torch.ops.writing, torch.ops.writing_plain


class Model(torch.nn.Module):
    """Buffers and weights are written, some through views."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.up = torch.nn.Linear(8, 8)
        self.register_buffer("cache", torch.zeros(2, 16, 8))
        self.register_buffer("seen", torch.zeros(()))
        self.scale = torch.nn.Parameter(torch.ones(8), requires_grad=False)

    def forward(self, x):
        k = self.up(x)
        ops.store(k, k * 2, self.cache[0], self.cache[1], torch.arange(x.shape[0]))
        ops.double(self.scale)
        y, _ = ops.scaled(x, self.seen)
        return self.cache.sum((0, 1)) * self.scale + y


def fresh(x):
    h = F.silu(x) * x
    out = torch.empty_like(h)
    ops.norm_into(out, h, 1e-6)
    return out + h


def gate(x):
    out = x.new_empty(x.shape[0], x.shape[1] // 2)
    ops.silu_and_mul(out, torch.relu(x) + 0.25)
    return out.sum(-1), out


def argument(x):
    ops.double(x)
    return x + 1


def view_of_what_was_written(x):
    part, flat = x[1:], x.view(-1)
    ops.double(x)
    return part * 2, flat.sum(), part


def base_of_a_written_view(x):
    ops.double(x[1])
    ops.double(x[:, 2:5])
    return x.sum(0), x


def own_base_of_a_written_view(x):
    made = x * 3
    kept = made.exp()
    ops.double(made[0])
    ops.double(made[:, ::2])
    return made + kept


def not_contiguous(x):
    ops.double(x.t())
    y = x.t() * 2
    ops.add_to(y.t(), x)
    return y, x.sum()


def expanded(x):
    y = x.sum(0, keepdim=True).expand(3, x.shape[1]).clone()
    ops.double(y)
    return y


def among_writes_of_aten(x):
    x.add_(1)
    ops.double(x)
    x[0].mul_(3)
    y = x * 2
    ops.add_to(x, y)
    x.sub_(0.5)
    return y, x.exp()


def caches(x, cache):
    k = x * 2
    keys, values = cache.unbind(0)
    ops.store(k, k + 1, keys, values, torch.arange(x.shape[0]) + 1)
    ops.store(k - 1, k, cache[0], cache[1], torch.arange(x.shape[0]))
    return keys.sum(), (values * 2)[: x.shape[0]]


def one_twice(x):
    ops.shift(x, x)
    y = x * 1
    ops.shift(y, y)
    return y


def overlapping(x):
    ops.shift(x[:-1], x[1:])
    y = x * 1
    ops.shift(y[1:], y[:-1])
    return y


def reads_what_it_writes(x):
    ops.add_to(x[1:], x[:-1])
    y = x + 0.5
    ops.add_to(y[1:], y[:-1])
    ops.add_to(y, y)
    return y


def optional(x, scale):
    return ops.maybe(x, None) + ops.maybe(x, scale) + scale


def lists(x):
    outs = [torch.empty_like(x), x.new_zeros(2, *x.shape)[1], torch.empty_like(x).t().contiguous().t()]
    ops.fill_all(outs, x.exp())
    return outs[0] + outs[1], outs[2]


def list_of_parts(x):
    ops.fill_all(list(x.chunk(2, 1)), x[:, : x.shape[1] // 2] * 2)
    return x + 1


def gives_back(x):
    y = plain.scale_(x, 2.0)
    z = plain.scale_(x.exp(), 0.5)
    z.add_(y)
    return y, z, y.sum()


def gives_both_back(x):
    a, b = x * 1, x * 2
    c, d = plain.swap(a, b)
    out = torch.empty_like(x)
    e, f = plain.both(out, c)
    e.add_(1)
    return c - b, d, out, f


def and_fresh(x, amax):
    y, s = ops.scaled(x, amax)
    z, _ = ops.scaled(y * 2, amax)
    return y, s, z + amax


def tells(x):
    y = x * 2
    ops.tell(y, "one")
    ops.tell(x, "two")
    z = ops.note(x)
    ops.note(x)
    ops.tell(y, "three")
    ops.tell(torch.zeros(3), "nobody reads it")
    return y + z


def raises(x, y):
    x.add_(1)
    ops.double(x)
    y.mul_(2)
    ops.picky(y, 100.0)
    x.add_(5)
    return x + y


def raises_in_a_copy(x, y):
    z = x + y
    x.add_(1)
    ops.picky(z, 100.0)
    x.add_(5)
    return x, z


def kept_and_written(x):
    before = x * 1
    old = x.view(-1)[:3] + 0
    ops.double(x)
    return before, old, x


def other_function(x):
    y = torch.ops.higher_order.auto_functionalized(ops.double.default, x=x)[1]
    return y + x


def _rows(n=4, m=6, seed=0):
    return torch.randn(n, m, generator=torch.Generator().manual_seed(seed + n))


def _one(n):
    return [_rows(n)]


# Name -> function, arguments of a size. Sizes are drawn by who runs them.
PROGRAMS = {
    **{function.__name__: (function, _one) for function in (
        fresh, gate, argument, view_of_what_was_written, base_of_a_written_view, own_base_of_a_written_view, not_contiguous, expanded,
        among_writes_of_aten, one_twice, overlapping, reads_what_it_writes, lists, list_of_parts, gives_back, gives_both_back, tells,
        kept_and_written)},
    "caches": (caches, lambda n: [_rows(n), torch.zeros(2, 16, 6)]),
    "optional": (optional, lambda n: [_rows(n), torch.ones(6)]),
    "and_fresh": (and_fresh, lambda n: [_rows(n), torch.zeros(())]),
    "raises": (raises, lambda n: [_rows(n), _rows(n) + (0 if n % 2 else 90)]),
    "raises_in_a_copy": (raises_in_a_copy, lambda n: [_rows(n), _rows(n) + (0 if n % 2 else 200)]),
    "column": (not_contiguous, lambda n: [_rows(6, n).t()]),
    "slices": (argument, lambda n: [_rows(n, 12)[:, ::2]]),
}
