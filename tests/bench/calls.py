# SPDX-License-Identifier: Apache-2.0
"""Steady calls of one model, ways interleaved in one process: calls.py MODEL SECONDS WAY...; prints one JSON line.

WAY: eager, ingot, rounding (ingot with numerics="eager"), inductor, memory (an operator with
the same traffic that only moves bytes).
"""

import json
import sys
import time

import torch
from models import MODELS

import ingot


def memory(args):
    """Reads the inputs once and writes one result of their size, with memory that is already there."""
    out = torch.empty_like(args[0])
    if len(args) > 1:
        return lambda *_: torch.add(args[0], args[1], out=out)
    return lambda *_: out.copy_(args[0])


def main() -> None:
    name, seconds, *ways = sys.argv[1:]
    model, args = MODELS[name]()
    makers = {"eager": lambda: model, "ingot": lambda: ingot.compile(model, wait=True), "inductor": lambda: torch.compile(model),
              "rounding": lambda: ingot.compile(model, wait=True, config=ingot.Config(numerics="eager")),
              "memory": lambda: memory(args)}
    with torch.no_grad():
        runs = {way: makers[way]() for way in ways}
        for run in runs.values():
            for _ in range(3):
                run(*args)
        began = time.perf_counter()
        model(*args)
        # Batches of calls long enough for the clock, short enough to alternate often.
        batch = max(1, int(0.005 / max(time.perf_counter() - began, 1e-6)))
        times = {way: [] for way in runs}
        end = time.perf_counter() + float(seconds)
        while time.perf_counter() < end:
            for way, run in runs.items():
                began = time.perf_counter()
                for _ in range(batch):
                    run(*args)
                times[way].append((time.perf_counter() - began) / batch)
    print(json.dumps({way: {"median_s": sorted(t)[len(t) // 2], "min_s": min(t)} for way, t in times.items()}))


if __name__ == "__main__":
    main()
