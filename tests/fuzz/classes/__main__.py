# SPDX-License-Identifier: Apache-2.0
"""Modules whose classes have special methods of every sort: what each call gives and leaves behind, beside eager.

usage: tests/fuzz/classes [SECONDS] [--seed N] [--self]     (--self: eager beside eager)
"""

import faulthandler
import itertools
import pathlib
import sys
import tempfile

import torch

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
import generate
import methods
import seeds
import sides

CALLS = 8
METHODS_EVERY = 4
"""Of so many programs one calls methods of builtin classes."""


class Seen:
    """Programs that native code has served, and whether there is any."""

    programs = reached = 0
    itself = False


def check(seed: int) -> "tuple[str, int, int]":
    """(what is wrong, or nothing; calls; how many of them native code served)."""
    import ingot

    before = ingot.stats()["native_calls"]
    program = methods.Writer(seed, CALLS) if seed % METHODS_EVERY == 0 else generate.Writer(seed, CALLS)
    looks_always = seed % 3 > 0  # To look at attributes can move them into a dict.
    Seen.programs += 1
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        path = pathlib.Path(folder, f"classes_{seed}.py")
        path.write_text(program.text)
        try:
            plain, side = sides.Side(program.text, path), sides.Side(program.text, path)
        except Exception:  # Its classes make no objects.
            return "", 0, 0
        if not Seen.itself:
            side.call = ingot.compile(side.scope["f"], wait=True)
        done: "list[str]" = []
        for call, (change, argument) in enumerate(zip(program.changes, program.arguments)):
            raised = plain.change(change), side.change(change)
            x = torch.arange(8.0).reshape(2, 4) if call % 4 < 3 else torch.ones(3, 4)
            looks = looks_always or call == CALLS - 1
            served = ingot.stats()["native_calls"]
            wanted, found = plain.step(x.clone(), argument, looks), side.step(x.clone(), argument, looks)
            done.append(f"{change}; f(x, {argument})" + " (native)" * (ingot.stats()["native_calls"] > served))
            differing = [(a, b) for a, b in itertools.zip_longest(wanted, found) if a != b]
            if differing or raised[0] != raised[1]:
                said = "\n".join(f"  {a}\n  where this was found\n  {b}" for a, b in differing[:2])
                Seen.reached += ingot.stats()["native_calls"] > before
                return "\n".join([f"call {call + 1}", said, str(raised), *done, program.text.removeprefix(generate.PRELUDE), ""]), call + 1, ingot.stats()["native_calls"] - before
    Seen.reached += ingot.stats()["native_calls"] > before
    return "", CALLS, ingot.stats()["native_calls"] - before


if __name__ == "__main__":
    if "--self" in sys.argv:
        sys.argv.remove("--self")
        Seen.itself = True
    faulthandler.enable()  # A crash tells the seed by the name of the program's file.
    try:
        seeds.run(check, __doc__)
    finally:
        print(f"{Seen.reached} of {Seen.programs} programs reached native code")
