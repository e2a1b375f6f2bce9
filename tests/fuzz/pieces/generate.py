# SPDX-License-Identifier: Apache-2.0
"""Functions and modules in which values leave the graph, in the middle of statements, loops and branches.

Every number is a small integer, or one over a power of two: sums are exact in any order, so that what decides decides alike.
"""

import random
import typing

import torch

WIDTH = 8

PRELUDE = """
import math, random
import numpy as np
import torch
W = (torch.arange(64) * 7 % 5 - 2.0).reshape(8, 8)
TABLE = [torch.full((8,), i / 4) for i in range(8)]
LINES = []

def small(t):
    return torch.remainder(t, 8) - 3

def distinct(t):
    return torch.unique(t)

def noisy(t):
    return small(t * 2) if random.random() < 0.5 else t - 1

class Block(torch.nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.inner, self.scale = torch.nn.Linear(8, 8), scale
        self.inner.weight.data = (torch.arange(64) * 5 % 7 - 3.0).reshape(8, 8)
        self.inner.bias.data = torch.arange(8) / 2

    def forward(self, t):
        return small(self.inner(t)) * self.scale
"""


class Writer:
    """One program; ``text`` defines ``make()``, which gives what is called."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._ints, self._floats, self._lists = ["2"], ["0.5"], ["[0, 3]"]
        self._kept: "list[str]" = []
        self._shares = self._random.random() < 0.1
        """Whether functions made in it share its variables: such a one is not cut."""
        self._names = 0
        self.is_module = self._random.random() < 0.5
        body = self._block(2, self._random.randint(5, 10), False)
        head = ["def forward(self, x, k=2):" if self.is_module else "def step(x, k=2):", "    y = small(x @ W)", "    count = 0"]
        lines = head + ["    " + line for line in body] + ["    return y, count" if self._random.random() < 0.5 else "    return y"]
        if self.is_module:
            lines = ["class Net(torch.nn.Module):", "    def __init__(self):", "        super().__init__()",
                     "        self.first, self.second, self.seen = Block(1.5), Block(0.5), 0", *("    " + line for line in lines),
                     "def make():", "    torch.manual_seed(0)", "    return Net().eval()"]
        else:
            lines += ["BLOCK = Block(1.0)", "def make():", "    return step"]
        self.text = PRELUDE + "\n".join(lines) + "\n"

    def _new(self, kind: str) -> str:
        self._names += 1
        return f"{kind}{self._names}"

    def _int(self) -> str:
        return self._random.choice(self._ints)

    def _tensor_line(self) -> str:
        block = self._random.choice(["self.first", "self.second"]) if self.is_module else "BLOCK"
        n, f = self._int(), self._random.choice(self._floats)
        if self._random.random() < 0.15:
            self._kept.append(self._new("t"))
            return f"{self._kept[-1]} = small(y @ W + {n})"
        if self._kept and self._random.random() < 0.2:  # Raises where nothing has made it.
            kept = self._random.choice(self._kept)
            # A comprehension puts the name back as it was, if it was.
            return self._random.choice([f"y = small(y + {kept})", f"y = small(y + len([{kept} for {kept} in (1, 2)]))"])
        return self._random.choice([
            "y = small(y @ W)", f"y = {block}(y)", f"y = small(y * {f} + 1)", "y = small(y - y.sum(-1, keepdim=True))",
            f"y = small(y[:, :1 + {n} % 8].sum(1, keepdim=True) + y)", f"y = y + TABLE[{n} % 8]", f"y = torch.cat([y, y[:1]])[:x.shape[0]]",
            f"y = y.roll({n} % 3, 0)", "y = small(torch.relu(y) + y.sum())", f"y = small(y + torch.arange(8) * {n})", f"y = torch.where(y > {f}, y, x)",
            f"y = small(y *\n{' ' * 140}{f} + {n})",  # Columns that a byte does not hold.
            "y = y.clone().add_(x)", "y = small(y).flip(0)", "y = y + torch.randint(0, 3, (1,))",
            f"scaled = [lambda v: v * k for _ in range(2)]; k = {n}; y = small(scaled[1](y))" if self._shares else "y = -y"])

    def _leaving_lines(self) -> "list[str]":
        """A value leaves."""
        kind = self._random.randrange(12)
        if kind == 0:
            name = self._new("n")
            line = f"{name} = int((y.sum(-1) > 0).sum())"
            self._ints.append(name)
        elif kind == 1:
            name = self._new("f")
            line = f"{name} = round(float(y.abs().sum()) / 3) % 4 / 2"
            self._floats.append(name)
        elif kind == 2:
            line = "LINES.append(f'{y.sum().item():.2f}')"
        elif kind == 3:
            name = self._new("l")
            line = f"{name} = y.argmax(-1).tolist()"
            self._lists.append(name)
        elif kind == 4:
            line = self._random.choice(["y = small(y + distinct(y).sum())", "y = noisy(y)", "y = small(torch.from_numpy(y.detach().numpy().cumsum(-1)))",
                                        "y = y[y[:, 0] > -9.0]", "y = y.index_add(0, (y[:, 1] > 0).nonzero().flatten(), y[y[:, 1] > 0])"])
        elif kind == 5:
            line = "y = y + 2 if random.random() < 0.5 else -y"
        elif kind == 6:
            line = "count += 1 if y.sum() > 4 else 0"
        elif kind == 7:
            line = f"count += int(y.argmax()) % {self._random.randint(2, 5)}"
        elif kind == 8:
            line = "a, (b, *rest) = int(y.max() * 2), [count, 1, 2]"
            return [line, "y = small(y + a * 0.5 + len(rest) * b)"]
        elif kind == 11:  # More variables than one instruction can name.
            names = [self._new("v") for _ in range(18)]
            uses = " + ".join(f"{a} * {b}" for a, b in zip(names, reversed(names)))
            return [f"{', '.join(names)} = TABLE * 2 + TABLE[:2]", "count += int(y.sum() > 0)", f"y = small(y + ({uses}))"]
        elif kind == 9 and self.is_module:
            line = "self.seen = self.seen + int(y[0, 0] > 0)"
        else:
            line = "y = small(y * (1 + math.floor(float(y[0, 0]))))"
        return [line]

    def _block(self, depth: int, count: int, in_loop: bool) -> "list[str]":
        lines: "list[str]" = []
        for _ in range(count):
            known = len(self._ints), len(self._floats), len(self._lists)
            what = self._random.random()
            if what < 0.3 or depth == 0 and what < 0.5:
                lines += self._leaving_lines()
                continue
            if what < 0.65 or depth == 0:
                lines.append(self._tensor_line())
                continue
            inner = self._block(depth - 1, self._random.randint(1, 3), True)
            head = self._random.choice([
                f"for i{depth} in range(1 + {self._int()} % 3):", f"for e in {self._random.choice(self._lists)}[:2]:", "if y.sum() > 0:", "if torch.rand(()) < 0.5:",
                f"if {self._int()} > 1:", "with torch.no_grad():", f"for i{depth}, row in enumerate(TABLE[:2]):", "try:", "while count < 3:"])
            if head == "while count < 3:":
                inner.append("count += 1")
            elif head.startswith("for") and self._random.random() < 0.3:
                inner.append(self._random.choice(["if y.sum() > 3: break", "if count > 2: continue", "y = y + 0.5"]))
            lines += [head, *("    " + line for line in inner)]
            if head == "try:":
                lines += ["except ZeroDivisionError:", *self._random.choice([["    y = small(y * 2)"], ["    for _ in range(2):", "        y = small(y + 1)"]])]
            elif self._random.random() < 0.2 and not head.startswith(("with", "if")):
                lines += ["else:", "    y = y - 0.5"]
            # Names that a branch makes may not be there behind it.
            self._ints, self._floats, self._lists = self._ints[:known[0]], self._floats[:known[1]], self._lists[:known[2]]
        return lines


def load(text: str, name: str) -> "dict[str, typing.Any]":
    """What a program defines; it has a file of its own in tracebacks."""
    scope: "dict[str, typing.Any]" = {"__name__": name}
    torch.manual_seed(0)
    exec(compile(text, f"{name}.py", "exec"), scope)
    return scope


def outcome(scope: "dict[str, typing.Any]", function: typing.Any, x: torch.Tensor, seed: int) -> "tuple[typing.Any, list[str], str]":
    """(the result, lines it has written and a number drawn behind it, the name of what it raised)."""
    random.seed(seed)
    torch.manual_seed(seed)
    scope["LINES"].clear()
    try:
        result, raised = function(x), ""
    except Exception as e:
        result, raised = None, type(e).__name__
    return result, [*scope["LINES"], str(torch.rand(()).item())], raised
