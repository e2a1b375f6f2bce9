# SPDX-License-Identifier: Apache-2.0
"""Gears: gears.py cold COUNT (MiniLM from nothing to all gears native), gears.py dispatch SECONDS or gears.py special
SECONDS (code of its own for each gear against code for all); prints one JSON line."""

import itertools
import json
import sys
import time

import torch
from models import MODELS

import ingot


def cold(count: int) -> "dict[str, float]":
    model, args = MODELS["minilm"]()
    step = ingot.compile(model)
    if count > 1:
        for t in args:
            ingot.set_dim_gears(t, {1: [128 * (i + 1) // count for i in range(count)]})
    began = time.perf_counter()
    step.prepare(*args)
    spent = time.perf_counter() - began
    served = ingot.stats()["native_calls"]
    with torch.no_grad():
        for i in range(count):
            step(*(t[:, :128 * (i + 1) // count].contiguous() for t in args))
    assert ingot.stats()["native_calls"] == served + count, step.report()
    began = time.perf_counter()
    with torch.no_grad():
        for i in range(count):
            model(*(t[:, :128 * (i + 1) // count].contiguous() for t in args))
    return {"all_native_s": spent, "eager_s": time.perf_counter() - began}


class Beside(torch.nn.Module):
    """The same work in every gear."""

    def forward(self, x, y, geared):
        return torch.nn.functional.silu(x) * y


def dispatch(seconds: float) -> "dict[str, float]":
    """One call among 2 and among 100 gears: all in one gear, and each in another gear than the one before."""
    steps = {}
    x, y = torch.randn(4, 16), torch.randn(4, 16)
    for count in (2, 100):
        step, sizes = ingot.compile(Beside().eval()), [4 + i for i in range(count)]
        calls = [(x, y, torch.randn(size)) for size in sizes]
        ingot.set_dim_gears(calls[0][2], {0: sizes})
        step.prepare(*calls[0])
        steps[f"among_{count}_s"] = (step, calls[:1])
        steps[f"turning_{count}_s"] = (step, calls)
    times = {name: [] for name in steps}
    served, made = ingot.stats()["native_calls"], 0
    end = time.perf_counter() + seconds
    with torch.no_grad():
        while time.perf_counter() < end:
            for name, (step, calls) in steps.items():
                order = list(itertools.islice(itertools.cycle(calls), 2000))
                began = time.perf_counter()
                for args in order:
                    step(*args)
                times[name].append((time.perf_counter() - began) / len(order))
                made += len(order)
    assert ingot.stats()["native_calls"] == served + made
    return {name: sorted(found)[len(found) // 2] for name, found in times.items()}


SPECIAL = {
    "softmax": lambda x: torch.softmax(x, -1),
    "layer_norm": lambda x: torch.nn.functional.layer_norm(x, x.shape[-1:]),
    "silu*x": lambda x: torch.nn.functional.silu(x) * x,
    "sum of columns": lambda x: x.view(-1, 8, x.shape[-1]).sum(1),
}


def special(seconds: float) -> "dict[str, dict[int, float]]":
    """By function and gear of the last dim: the time of code for all sizes in parts of that of code for this gear, on 512 rows."""
    gears, found = [4, 8, 16, 24, 48, 96, 192, 512], {}
    with torch.no_grad():
        for name, fn in SPECIAL.items():
            steps = []
            for wanted in (True, False):
                step, x = ingot.compile(fn, config={"gears": {"specialize": wanted}}), torch.randn(512, gears[0])
                ingot.set_dim_gears(x, {1: gears})
                step.prepare(x)
                steps.append(step)
            found[name] = {size: _ratio(steps, torch.randn(512, size), seconds / len(SPECIAL) / len(gears)) for size in gears}
    return found


def _ratio(steps: "list[object]", x: torch.Tensor, seconds: float) -> float:
    """Least time of the second in parts of the first, in turn."""
    least = [1.0, 1.0]
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for i, step in enumerate(steps):
            began = time.perf_counter()
            for _ in range(50):
                step(x)
            least[i] = min(least[i], time.perf_counter() - began)
    return least[1] / least[0]


if __name__ == "__main__":
    measures = {"cold": lambda: cold(int(sys.argv[2])), "dispatch": lambda: dispatch(float(sys.argv[2])),
                "special": lambda: special(float(sys.argv[2]))}
    print(json.dumps(measures[sys.argv[1]]()))
