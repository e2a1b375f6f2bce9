# SPDX-License-Identifier: Apache-2.0
"""Programs in which values leave the graph and differ in each call, between two blocks that could be native.

usage: tests/bench/escapes.py [--rounds N] [--flat] [NAME ...]      (default: all; --flat: in plain functions without modules)
Prints wrong answers, seconds as multiples of eager's for the first and the last round of 100 calls, and the native share of the last.
"""

import argparse
import random
import sys
import time
import typing

import ingot
import torch
import torch.nn.functional as F

WIDTH, EXPERTS = 32, 4
_TABLES = [torch.full((WIDTH,), float(i)) for i in range(16)]
_LINES: "list[str]" = []


class Layer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = torch.nn.Linear(WIDTH, 2 * WIDTH), torch.nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return typing.cast(torch.Tensor, self.down(F.silu(self.up(x))))


class Routed(torch.nn.Module):
    """A mixture of experts as it is written without batched products."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = torch.nn.Linear(WIDTH, EXPERTS, bias=False)
        self.experts = torch.nn.ModuleList(Layer() for _ in range(EXPERTS))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.reshape(-1, WIDTH)
        weights, chosen = torch.topk(F.softmax(self.gate(rows), -1), 2, -1)
        out, mask = torch.zeros_like(rows), F.one_hot(chosen, EXPERTS).permute(2, 1, 0)
        for expert in (mask.sum((-1, -2)) > 0).nonzero().flatten().tolist():
            place, row = torch.where(mask[expert])
            out.index_add_(0, row, self.experts[expert](rows[row]) * weights[row, place, None])
        return out.reshape(x.shape)


class Net(torch.nn.Module):
    def __init__(self, between: "typing.Callable[[torch.Tensor], torch.Tensor]") -> None:
        super().__init__()
        self.before, self.between, self.after = Layer(), between, Layer()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.before(x)
        x = x + self.between(x)
        return x + typing.cast(torch.Tensor, self.after(x))


def flat(between: "typing.Callable[[torch.Tensor], torch.Tensor]") -> "typing.Callable[[torch.Tensor], torch.Tensor]":
    """What Net computes, as one function that calls no module."""
    up, down = torch.randn(WIDTH, 2 * WIDTH) * 0.1, torch.randn(2 * WIDTH, WIDTH) * 0.1

    def step(x: torch.Tensor) -> torch.Tensor:
        for _ in range(2):
            x = x + F.silu(x @ up) @ down
        x = x + between(x)
        for _ in range(2):
            x = x + F.silu(x @ up) @ down
        return F.layer_norm(x, (WIDTH,))

    return step


def log(x: torch.Tensor) -> torch.Tensor:
    _LINES.append(f"{x.mean().item():.4f}")
    return x


def through_numpy(x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(x.numpy().cumsum(-1))


def counted_slice(x: torch.Tensor) -> torch.Tensor:
    return x[:, :1 + int((x.sum(-1) > 0).sum()) % 7].mean(1, keepdim=True).expand_as(x)


def through_a_list(x: torch.Tensor) -> torch.Tensor:
    return torch.tensor([float(i * i % 17) for i in x.argmax(-1).flatten().tolist()]).reshape(*x.shape[:-1], 1).expand_as(x)


def row_of_a_table(x: torch.Tensor) -> torch.Tensor:
    return _TABLES[int(x.abs().sum()) % 16].expand_as(x)


def dropped(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if random.random() < 0.5 else -x


def masked(x: torch.Tensor) -> torch.Tensor:
    rows = x.reshape(-1, WIDTH)
    return rows[rows[:, 0] > 0].sum(0).expand_as(x)


def distinct(x: torch.Tensor) -> torch.Tensor:
    values, counts = torch.unique((x * 3).round(), return_counts=True)
    return x * (counts.max() / counts.sum()) + values.mean()


ESCAPES: "dict[str, typing.Callable[[], typing.Callable[[torch.Tensor], torch.Tensor]]]" = {
    "experts": Routed, "log": lambda: log, "numpy": lambda: through_numpy, "slice": lambda: counted_slice, "list": lambda: through_a_list,
    "table": lambda: row_of_a_table, "random": lambda: dropped, "mask": lambda: masked, "unique": lambda: distinct}


def program(name: str, calls: int, is_flat: bool = False) -> "tuple[typing.Any, torch.Tensor]":
    """(the model or function, the inputs of so many calls)."""
    torch.manual_seed(0)
    between = ESCAPES[name]()
    return flat(between) if is_flat else Net(between).eval(), torch.randn(calls, 2, 8, WIDTH)


def run(fn: "typing.Callable[[torch.Tensor], torch.Tensor]", inputs: torch.Tensor) -> "tuple[float, list[torch.Tensor], list[str]]":
    """(seconds, the answer of each call, the lines they logged); equal functions give equal answers and lines."""
    random.seed(0)
    _LINES.clear()
    began = time.perf_counter()
    answers = [fn(x) for x in inputs]
    return time.perf_counter() - began, answers, list(_LINES)


def measure(name: str, rounds: int, is_flat: bool) -> str:
    model, inputs = program(name, 100, is_flat)
    step = ingot.compile(model)
    wrong, took, native = 0, [], 0
    with torch.no_grad():
        run(model, inputs)
        eager, expected, lines = run(model, inputs)
        for _ in range(rounds):
            before = ingot.stats()["native_calls"]
            seconds, found, said = run(step, inputs)
            native = ingot.stats()["native_calls"] - before
            took.append(seconds / eager)
            wrong += sum(not torch.allclose(a, b, rtol=1e-4, atol=1e-5) for a, b in zip(expected, found)) + (said != lines)
            step.wait()
    return f"{name:10} {wrong:5} {took[0]:6.2f} {took[-1]:6.2f} {native:6}%"


def main() -> None:
    parser = argparse.ArgumentParser(description=sys.modules[__name__].__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(ESCAPES))
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--flat", action="store_true")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in ESCAPES]
    if unknown:
        parser.error(f"no program is called {unknown[0]!r}; there are {', '.join(ESCAPES)}")
    print(f"{'program':10} {'wrong':>5} {'first':>6} {'last':>6} {'native':>7}")
    for name in options.names or ESCAPES:
        print(measure(name, options.rounds, options.flat), flush=True)


if __name__ == "__main__":
    main()
