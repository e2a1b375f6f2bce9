# SPDX-License-Identifier: Apache-2.0
"""A slice of the walk over pairs of lowering classes (tests/fuzz/pairs): programs of two rules and of three, native against eager."""

import re
import subprocess
import sys

import pytest

from conftest import BIN, ROOT

FUZZER = ROOT / "tests" / "fuzz" / "pairs"
PARTS, PROGRAMS, TRIPLES = 2, 150, 40   # programs of each part


def run(*args):
    done = subprocess.run([sys.executable, str(FUZZER), *map(str, args)], capture_output=True, text=True)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_rule_is_in_a_class_and_has_a_call():
    listed = subprocess.run([str(BIN.parent / "tools" / "ingot-opt"), "--rules"], check=True, capture_output=True, text=True).stdout.split()
    calls = dict(re.findall(r"((?:aten|quantized_decomposed)\.[\w.]+)(?: in place)? \((\d+)\)", run("--classes")))
    assert set(listed) - set(calls) == set()
    assert [op for op, count in calls.items() if count == "0"] == []


@pytest.mark.parametrize("part", range(PARTS))
def test_pairs(part):
    run("--programs", PROGRAMS, "--seed", part * PROGRAMS)


def test_triples():
    run("--triples", TRIPLES)
