# SPDX-License-Identifier: Apache-2.0
"""What classes bring of their own, what objects hold, and what a call does to both: small programs of which each was answered wrongly once, those of
tests/fuzz/classes for some seconds, and that they cost no native call where nothing is unusual."""

import inspect
import pathlib
import re
import subprocess
import sys

import pytest
import torch

import fuzzers

FUZZER = pathlib.Path(__file__).parents[2] / "fuzz" / "classes"
PRELUDE = """
import abc, array, cmath, collections, contextlib, contextvars, copy, dataclasses, enum, functools, itertools, math, operator, sys, threading, types, typing
import weakref, numpy as np, torch, torch.nn as nn, torch.nn.functional as F
from collections import *
"""


fuzzer = fuzzers.load("classes")
FOUND = dict(block.split("\n", 1) for block in re.split(r"^### ", (FUZZER / "found.txt").read_text(), flags=re.M)[1:])


def _arguments(side, i):
    if "args" in side.scope:
        return side.scope["args"](i)
    given = eval(side.scope.get("calls", [("", "None")] * 8)[i][1], side.scope)
    return (torch.full((3,), i + 1.0), given)[:len(inspect.signature(side.scope["f"]).parameters)]


def _outcome(call, arguments):
    try:
        return call(*arguments)
    except Exception as e:
        return type(e).__name__, re.sub(r"0x\w+", "0x", str(e))[:60]


@pytest.mark.parametrize("name", FOUND)
def test_found(ingot, tmp_path, name):
    path = tmp_path / f"found_{abs(hash(name))}.py"
    path.write_text(PRELUDE + FOUND[name])
    sides = fuzzer.sides.Side(path.read_text(), path), fuzzer.sides.Side(path.read_text(), path)
    sides[1].call = ingot.compile(sides[1].scope["f"], wait=True)
    for i in range(len(sides[0].scope.get("calls", range(6)))):
        seen = []
        for side in sides:
            side.change(side.scope["calls"][i][0] if "calls" in side.scope else "")
            if "prep" in side.scope:
                side.scope["prep"](i)
            arguments, look = _arguments(side, i), fuzzer.sides.Look(path.stem)
            outcome = look.at(_outcome(side.call, arguments))
            names = [one for one in side.scope if not one.startswith("__") and one not in ("calls", "args", "prep", "state", "f")]
            seen.append([outcome, look.at(list(arguments)), *((one, look.at(side.scope[one])) for one in names)])
        assert seen[0] == seen[1], f"call {i}\n{sides[1].call.report()}"


def test_generated():
    done = subprocess.run([sys.executable, str(FUZZER), "8"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert ", 0 wrong, " in done.stdout
