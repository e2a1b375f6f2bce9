# SPDX-License-Identifier: Apache-2.0
"""Generated programs beside their plain selves, one seed after the other."""

import argparse
import logging
import os
import sys
import tempfile
import time
import typing

import torch

Check = typing.Callable[[int], "tuple[str, int, int]"]
"""Of a seed: (what is wrong, or nothing; calls; how many native code served)."""


def differs(a: typing.Any, b: typing.Any) -> bool:
    """Whether two answers are not the same to the bit, types included."""
    if type(a) is not type(b):
        return True
    if isinstance(a, torch.Tensor):
        return a.shape != b.shape or a.dtype != b.dtype or not torch.equal(a, b)
    if isinstance(a, (tuple, list)):
        return len(a) != len(b) or any(differs(x, y) for x, y in zip(a, b))
    if isinstance(a, dict):
        return differs(list(a.items()), list(b.items()))
    return bool(a != b)


def run(check: Check, doc: "str | None") -> None:
    """For as many seconds as the command line says, from a seed that the time or it says, or one seed; ends the process with 1 where something is wrong."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seconds", nargs="?", type=float, default=60)
    parser.add_argument("--seed", type=int, help="this one alone")
    parser.add_argument("--first", type=int, default=int(time.time()), help="the first of as many as the time allows")
    options = parser.parse_args()
    logging.getLogger("ingot").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as store:
        os.environ["INGOT_STORE_DIR"] = store
        began, seed, programs, wrong, served, called = time.monotonic(), options.seed or options.first, 0, 0, 0, 0
        while time.monotonic() - began < options.seconds and (options.seed is None or programs == 0):
            what, calls, native = check(seed)
            programs, served, called = programs + 1, served + native, called + calls
            if what:
                wrong += 1
                print(f"seed {seed}: {what}", flush=True)
            seed += 1
        print(f"{programs} programs, {wrong} wrong, {served} native calls for {called}")
    sys.exit(wrong > 0)
