# SPDX-License-Identifier: Apache-2.0
"""What a warm process pays before it trusts a stored variant: keys.py MODEL; prints one JSON line.

The entry key and the check of the dependency record, each first and again (median of 20).
"""

import json
import sys
import time

import torch
from models import MODELS

import ingot
from ingot.trace import dependencies, keys, paths


def timed(run) -> "tuple[float, float]":
    times = []
    for _ in range(21):
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    return times[0], sorted(times[1:])[10]


def main() -> None:
    model, args = MODELS[sys.argv[1]]()
    step = ingot.compile(model, wait=True)
    # The very first time in this process is the one that a start pays: counted by the engine itself.
    with torch.no_grad():
        step(*args)
    engine = step._engine
    entry = next(iter(engine._entries.values()))
    record, roots = entry.variants[0].record, paths.Roots(model, ())
    key = timed(lambda: keys.entry_key(model, args, {}, (), engine.config))
    check = timed(lambda: dependencies.first_mismatch(record, roots))
    assert dependencies.first_mismatch(record, roots) is None
    print(json.dumps({"key_s": key[1], "check_s": check[1], "first_check_s": ingot.stats()["seconds"].get("check", 0.0), "items": len(record)}))


if __name__ == "__main__":
    main()
