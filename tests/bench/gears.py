# SPDX-License-Identifier: Apache-2.0
"""Gears: gears.py cold COUNT (MiniLM from nothing to all gears native) or gears.py dispatch SECONDS; prints one JSON line."""

import json
import sys
import time

import torch
from models import MODELS, Tiny

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


def dispatch(seconds: float) -> "dict[str, float]":
    """One call among 2 and among 100 gears, alternating."""
    steps = {}
    for count in (2, 100):
        step, args = ingot.compile(Tiny().eval()), [torch.randn(4, 16), torch.randn(4, 16)]
        for t in args:
            ingot.set_dim_gears(t, {0: [4 + i for i in range(count)]})
        step.prepare(*args)
        steps[count] = step
    args = [torch.randn(4, 16), torch.randn(4, 16)]
    times = {count: [] for count in steps}
    end = time.perf_counter() + seconds
    with torch.no_grad():
        while time.perf_counter() < end:
            for count, step in steps.items():
                began = time.perf_counter()
                for _ in range(2000):
                    step(*args)
                times[count].append((time.perf_counter() - began) / 2000)
    return {f"among_{count}_s": sorted(found)[len(found) // 2] for count, found in times.items()}


if __name__ == "__main__":
    print(json.dumps(cold(int(sys.argv[2])) if sys.argv[1] == "cold" else dispatch(float(sys.argv[2]))))
