# SPDX-License-Identifier: Apache-2.0
"""Programs of products, what comes before and what follows, natively against float64: tests/fuzz/products [COUNT] [--first N].

Every program is a list of steps over tensors, made from its seed; small sizes of every kind, operands that are transposed, sliced,
expanded or of few bits. A result may be as far from the exact one as eager's, and a few digits more.
"""

import argparse
import random
import sys
import typing

import torch

import ingot

F = torch.nn.functional
SIZES = (1, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 48, 64, 65, 70)
# Several pieces of a depth and of the rows of a task, and what is left over of each.
MANY = (96, 130, 257, 300, 520)
TYPES = (torch.float32, torch.float32, torch.bfloat16, torch.float16, torch.float64)
Step = typing.Callable[..., torch.Tensor]


def integers(x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """A product of integers; what x is rounded to is far from where it would fall to either side."""
    levels = (x.detach() * 4).round().clamp(-4, 4).to(torch.int8)
    sums = torch._int_mm(levels.reshape(-1, x.shape[-1]), weight.t()).reshape(*x.shape[:-1], -1)
    return sums.to(x.dtype) * (scale / 256)


class Program:
    """Steps that each add one tensor to a list that begins with the arguments."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.pick = random.Random(seed)
        self.dtype = self.pick.choice(TYPES)
        self.generator = torch.Generator().manual_seed(seed)
        self.arguments: "list[torch.Tensor]" = []
        self.steps: "list[tuple[str, Step, tuple[tuple[str, int], ...]]]" = []
        batch = [self.pick.choice((1, 2, 3))] if self.pick.random() < 0.5 else []
        m, k, n = (self.pick.choice(MANY if self.pick.random() < 0.2 else SIZES) for _ in range(3))
        x = self.argument([*batch, m, k])
        shape = [*batch, m, n]
        y = self.product(x, batch, k, n)
        for _ in range(self.pick.randrange(5)):
            y = self.follow(y, shape, x, batch, k, n)
        if self.pick.random() < 0.3:   # A second one behind it.
            p = self.pick.choice(SIZES)
            y = self.product(y, batch, n, p)
            shape = [*batch, m, p]
            for _ in range(self.pick.randrange(3)):
                y = self.follow(y, shape, x, batch, k, p)
        self.result = self.shape_of(y, shape)

    # Tensors are named by their position among arguments ("a", i) or steps ("s", i).

    def values(self, sizes: "list[int]") -> torch.Tensor:
        return (torch.rand(sizes, generator=self.generator, dtype=torch.float64) * 2 - 1).to(self.dtype)

    def argument(self, sizes: "list[int]", plain: bool = False) -> "tuple[str, int]":
        layout = "plain" if plain else self.pick.choice(("plain", "plain", "transposed", "sliced", "offset"))
        if layout == "transposed" and len(sizes) >= 2:
            tensor = self.values([*sizes[:-2], sizes[-1], sizes[-2]]).transpose(-1, -2)
        elif layout == "sliced":
            tensor = self.values([*sizes[:-1], sizes[-1] + 3])[..., 1:-2]
        elif layout == "offset" and sizes:
            tensor = self.values([sizes[0] + 1, *sizes[1:]])[1:]
        else:
            tensor = self.values(sizes)
        self.arguments.append(tensor)
        return ("a", len(self.arguments) - 1)

    def add(self, text: str, step: "typing.Callable[..., torch.Tensor]", *operands: "tuple[str, int]") -> "tuple[str, int]":
        self.steps.append((f"{text} {operands}", step, operands))
        return ("s", len(self.steps) - 1)

    def product(self, x: "tuple[str, int]", batch: "list[int]", k: int, n: int) -> "tuple[str, int]":
        kind = self.pick.choice(("linear", "linear", "bias", "mm", "batched", "int8", "int8", "einsum", "groups", "groups", "halves", "halves", "integers"))
        if kind == "batched" and batch:
            return self.add("matmul", torch.matmul, x, self.argument([*batch, k, n]))
        if kind == "mm":
            return self.add("matmul", torch.matmul, x, self.argument([k, n]))
        if kind == "einsum":
            return self.add("einsum", lambda a, w: torch.einsum("...k,nk->...n", a, w), x, self.argument([n, k]))
        if kind == "int8":
            self.arguments.append(torch.randint(-127, 128, (n, k), generator=self.generator, dtype=torch.int8))
            weight, scale = ("a", len(self.arguments) - 1), self.scales([n, 1])
            if self.pick.random() < 0.5:
                return self.add("int8", lambda a, w, s: F.linear(a, w.to(a.dtype) * s), x, weight, scale)
            return self.add("int8 then scale", lambda a, w, s: F.linear(a, w.to(a.dtype)) * s.squeeze(1), x, weight, scale)
        if kind in ("groups", "halves"):
            return self.grouped(x, kind, k, n)
        # What is computed may be rounded to either side; of a depth of 1, PyTorch 2.13 reads other memory than the operands'.
        if kind == "integers" and x[0] == "a" and k > 1:
            weight, scale = self.integers([n, k], torch.int8), self.argument([n], plain=True)
            return self.add("integers", integers, x, weight, scale)
        if kind == "bias":
            return self.add("linear", F.linear, x, self.argument([n, k]), self.argument([n], plain=True))
        return self.add("linear", F.linear, x, self.argument([n, k]))

    def integers(self, sizes: "list[int]", dtype: torch.dtype) -> "tuple[str, int]":
        self.arguments.append(torch.randint(*((-127, 128) if dtype == torch.int8 else (0, 256)), sizes, generator=self.generator, dtype=dtype))
        return ("a", len(self.arguments) - 1)

    def scales(self, sizes: "list[int]") -> "tuple[str, int]":
        """Those of weights of few bits, which become numbers of the size that others have: a softmax of thousands tells nothing."""
        scale = self.argument(sizes, plain=True)
        self.arguments[scale[1]] /= 64
        return scale

    def grouped(self, x: "tuple[str, int]", kind: str, k: int, n: int) -> "tuple[str, int]":
        """Weights of 8 bits, or of 4 in the halves of bytes, with a scale and maybe a zero point for each group along the depth."""
        halves = kind == "halves"
        if halves and k % 2:
            return self.add("linear", F.linear, x, self.argument([n, k]))
        sizes = [size for size in range(2 if halves else 1, k + 1) if k % size == 0 and not (halves and size % 2)]
        size = self.pick.choice(sizes)
        groups, neighbours, zeros, rounds = k // size, self.pick.random() < 0.5, self.pick.random() < 0.5, self.pick.random() < 0.5
        weight = self.integers([n, groups, size // 2] if halves else [n, groups, size], torch.uint8 if halves else torch.int8)
        operands = [x, weight, self.scales([n, groups, 1])]
        if zeros:
            operands.append(self.integers([n, groups, 1], torch.int8))

        def step(a, w, s, *z):
            if halves:
                w = torch.stack((w & 15, w >> 4), -1 if neighbours else -2).flatten(-2)
            # The exact answer is that of a weight which nothing rounds.
            wide = w.to(a.dtype) if rounds else w.double()
            wide = wide - (z[0].to(wide.dtype) if z else 8)
            return F.linear(a, (wide * (s if rounds else s.double())).reshape(n, k).to(a.dtype))

        return self.add(f"{kind} of {size}{', neighbours' * neighbours}{', zeros' * zeros}", step, *operands)

    def follow(self, y, shape, x, batch, k, n) -> "tuple[str, int]":
        kind = self.pick.choice(("silu", "gelu", "relu", "row", "column", "residual", "twice", "gate", "scale", "softmax", "norm", "sum"))
        if kind in ("silu", "gelu", "relu"):
            return self.add(kind, getattr(F, kind), y)
        if kind == "row":
            return self.add("+ row", torch.add, y, self.argument([shape[-1]]))
        if kind == "column":
            return self.add("* column", torch.mul, y, self.argument([*shape[:-1], 1]))
        if kind == "residual":
            return self.add("+", torch.add, y, self.argument(shape))
        if kind == "twice":
            return self.add("y * y", lambda a: a * a * 0.25, y)
        if kind == "gate":
            return self.add("gate", lambda a, b: F.silu(a) * b, y, self.product(x, batch, k, n))
        if kind == "scale":
            return self.add("* 0.5", lambda a: a * 0.5, y)
        if kind == "softmax":
            return self.add("softmax", lambda a: F.softmax(a, -1), y)
        if kind == "norm":
            return self.add("norm", lambda a: F.layer_norm(a, a.shape[-1:]), y) if shape[-1] > 4 else y
        return self.add("- mean", lambda a: a - a.mean(-1, keepdim=True), y)

    def shape_of(self, y, shape) -> "tuple[str, int]":
        kind = self.pick.choice(("same", "same", "transposed", "flat", "heads"))
        if kind == "transposed":
            return self.add("transposed", lambda a: a.transpose(-1, -2).contiguous(), y)
        if kind == "flat":
            return self.add("flat", lambda a: a.reshape(-1), y)
        if kind == "heads" and shape[-1] % 2 == 0:
            return self.add("heads", lambda a: a.reshape(*shape[:-1], 2, -1).transpose(-2, -3).contiguous(), y)
        return y

    def function(self) -> "typing.Callable[..., torch.Tensor]":
        steps, result, seed = self.steps, self.result, self.seed

        def program(*arguments):
            made: "list[torch.Tensor]" = []
            for _, step, operands in steps:
                values = [arguments[at] if kind == "a" else made[at] for kind, at in operands]
                made.append(step(*values))
            return arguments[result[1]] if result[0] == "a" else made[result[1]], seed

        return program

    def text(self) -> str:
        lines = [f"seed {self.seed} {self.dtype}"]
        lines += [f"  a{i}: {list(a.shape)} strides {list(a.stride())} {a.dtype}" for i, a in enumerate(self.arguments)]
        lines += [f"  s{i}: {text}" for i, (text, _, _) in enumerate(self.steps)] + [f"  returns {self.result}"]
        return "\n".join(lines)


def wrong(program: Program) -> "tuple[str, int]":
    """What is wrong with the native answers, and how many steps are left to ATen."""
    function = program.function()
    step = ingot.compile(function, wait=True, on_unsupported="error", dynamic=False if program.seed % 2 else None)
    with torch.no_grad():
        step(*program.arguments)
        before = ingot.stats()["native_calls"]
        got = step(*program.arguments)[0]
        if ingot.stats()["native_calls"] != before + 1:
            return "not served: " + step.report(), 0
        want = function(*program.arguments)[0]
        exact = function(*(a.double() if a.is_floating_point() else a for a in program.arguments))[0]
    aten = step.variants[-1]["aten_steps"]
    if got.shape != want.shape or got.dtype != want.dtype or got.stride() != want.stride():
        return f"{got.dtype} {list(got.shape)} {list(got.stride())}, eager has {want.dtype} {list(want.shape)} {list(want.stride())}", aten
    error, eager = (got.double() - exact).abs(), (want.double() - exact).abs()
    known = eager[want.isfinite() & exact.isfinite()]
    # Nothing is wider than float64: there eager's answer is the exact one.
    digits = 1 << 14 if got.dtype == torch.float64 else 32
    slack = digits * torch.finfo(got.dtype).eps * exact.abs().max() + known.max() if known.numel() else 0
    # Where eager overflows on the way, native code may not (docs/numerics.md).
    bad = ~(error <= 2 * eager + slack) & want.isfinite()
    if not bad.any():
        return "", aten
    at = tuple(bad.nonzero()[0].tolist())
    return f"{int(bad.sum())} of {bad.numel()} elements, first at {list(at)}: {got[at].item()}, eager {want[at].item()}, exact {exact[at].item()}", aten


def run(first: int, count: int) -> "tuple[list[str], int]":
    """Descriptions of the programs that were answered wrongly, and how many ran without ATen."""
    found, native = [], 0
    for seed in range(first, first + count):
        program = Program(seed)
        try:
            said, aten = wrong(program)
        except Exception as error:  # Whatever it is, the program says how to get there.
            said, aten = f"{type(error).__name__}: {error}", 0
        native += not said and aten == 0
        if said:
            found.append(f"{program.text()}\n  {said}")
    return found, native


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="tests/fuzz/products", description=__doc__)
    parser.add_argument("count", type=int, nargs="?", default=200)
    parser.add_argument("--first", type=int, default=0)
    given = parser.parse_args()
    failures, without_aten = run(given.first, given.count)
    print("\n".join(failures))
    print(f"{given.count} programs, {len(failures)} wrong, {without_aten} without ATen")
    sys.exit(bool(failures))
