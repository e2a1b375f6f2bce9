# SPDX-License-Identifier: Apache-2.0
"""Programs in which values leave the graph, beside their plain selves: in parts and in pieces, call by call.

usage: tests/fuzz/pieces [SECONDS] [--seed N]
"""

import argparse
import logging
import os
import pathlib
import sys
import tempfile
import time
import types
import typing

import torch

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import generate  # noqa: E402

CALLS, ROUNDS = 12, 4


def differs(a: typing.Any, b: typing.Any) -> bool:
    if isinstance(a, torch.Tensor):
        return a.shape != b.shape or a.dtype != b.dtype or not torch.equal(a, b)
    if isinstance(a, (tuple, list)):
        return len(a) != len(b) or any(differs(x, y) for x, y in zip(a, b))
    return bool(a != b)


def check(seed: int) -> "tuple[str, int, int]":
    """(what is wrong, or nothing; calls; those of pieces and parts that native code served in the last round)."""
    import ingot

    text = generate.Writer(seed).text
    name = f"pieces_{seed}"
    plain_scope, scope = generate.load(text, name), generate.load(text, name)
    sys.modules[name] = types.ModuleType(name)
    vars(sys.modules[name]).update(scope)
    plain, step = plain_scope["make"](), ingot.compile(scope["make"]())
    torch.manual_seed(seed)
    native = 0
    with torch.no_grad():
        for turn in range(ROUNDS):
            before = ingot.stats()["native_calls"]
            for call in range(CALLS):
                x = torch.randint(-4, 5, (3 + call % 3, generate.WIDTH)).float()
                number = turn * CALLS + call
                wanted, found = generate.outcome(plain_scope, plain, x.clone(), number), generate.outcome(scope, step, x.clone(), number)
                if wanted[1:] != found[1:] or differs(wanted[0], found[0]):
                    return f"call {number}: {wanted} where {found} was given\n{text}\n{step.report()}", turn * CALLS + call, native
            step.wait(60)
            native = ingot.stats()["native_calls"] - before
    if getattr(plain, "seen", 0) != getattr(step, "seen", 0):
        return f"the state is {step.seen}, not {plain.seen}\n{text}", CALLS * ROUNDS, native
    return "", CALLS * ROUNDS, native


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seconds", nargs="?", type=float, default=60)
    parser.add_argument("--seed", type=int)
    options = parser.parse_args()
    logging.getLogger("ingot").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as store:
        os.environ["INGOT_STORE_DIR"] = store
        began, seed, programs, wrong, served = time.monotonic(), options.seed or int(time.time()), 0, 0, 0
        while time.monotonic() - began < options.seconds and (options.seed is None or programs == 0):
            what, _, native = check(seed)
            programs, served = programs + 1, served + native
            if what:
                wrong += 1
                print(f"seed {seed}: {what}", flush=True)
            seed += 1
        print(f"{programs} programs, {wrong} wrong, {served / max(1, programs * CALLS):.1f} native calls for each call")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
