# SPDX-License-Identifier: Apache-2.0
"""Random tensor programs (tests/fuzz/tensors), native against eager: a fixed list of seeds, and every program that once failed."""

import pathlib
import subprocess
import sys

import pytest

from conftest import ROOT

FUZZER = ROOT / "tests" / "fuzz" / "tensors"
CASES = sorted((pathlib.Path(__file__).parents[1] / "cases" / "tensors").glob("*.py"))
PARTS, PROGRAMS = 4, 35   # of each part


def run(*args):
    done = subprocess.run([sys.executable, str(FUZZER), *map(str, args)], capture_output=True, text=True)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("part", range(PARTS))
def test_random_programs(part):
    run("--programs", PROGRAMS, "--seed", part * PROGRAMS, "--no-keep")


def test_programs_that_once_failed():
    assert CASES
    run(*CASES)
