# SPDX-License-Identifier: Apache-2.0
"""Numbers among the arguments: those that differ from call to call are inputs, those that decide what a call does are not."""

import json
import os
import pathlib
import subprocess
import sys

import pytest
import torch

from test_one_recording import counted

CACHE = torch.zeros(40, 64)


def positions(x, start):
    return x + torch.arange(start, start + x.shape[0]).float()[:, None]


def tempered(x, t, *, top=3):
    return torch.softmax(x / t, -1) * top


def written(x, p):
    CACHE[:, p] = x[:, 0]
    return CACHE[:, :p + 1].sum(1)


def returned(x, n):
    return x * n, n + 1, n


def branching(x, n):
    return x * 2 if n < 3 else x + n


def signed(x, n):
    return x + n


def looping(x, k):
    for _ in range(k):
        x = torch.tanh(x * 2)
    return x


def looked_up(x, n):
    return x + {1: 2, 2: 3}.get(n, 7)


def said(x, t):
    return x * t, f"{t:.2f}"


STEPS = {
    "a position": (positions, [(i,) for i in range(10)], 2),
    "a temperature": (tempered, [(0.5 + i / 4,) for i in range(10)], 2),
    "where a cache is written": (written, [(i,) for i in range(10)], 2),
    "returned": (returned, [(3 * i,) for i in range(10)], 3),
    "a branch": (branching, [(i,) for i in range(10)], 3),
    "below zero and above": (signed, [(i - 5,) for i in range(10)], 3),
    "how often": (looping, [(i % 3,) for i in range(12)], 3),
    "a key": (looked_up, [(i % 3,) for i in range(12)], 3),
    "a text": (said, [(i % 3 / 2,) for i in range(12)], 3),
}


def same(found, expected):
    assert type(found) is type(expected)
    if isinstance(expected, torch.Tensor):
        torch.testing.assert_close(found, expected)
    elif isinstance(expected, tuple):
        assert len(found) == len(expected)
        for one, other in zip(found, expected):
            same(one, other)
    else:
        assert found == expected


@pytest.mark.parametrize("function, calls, captures", STEPS.values(), ids=STEPS)
@torch.no_grad()
def test_numbers_that_vary_are_served_by_one_variant(ingot, function, calls, captures):
    step, before = ingot.compile(function, wait=True), ingot.stats()["captures"]
    for numbers in calls:
        x = torch.randn(40, 50)
        same(step(x, *numbers), function(x, *numbers))
    native = ingot.stats()["native_calls"]
    for numbers in calls[-4:]:
        x = torch.randn(40, 50)
        same(step(x, *numbers), function(x, *numbers))
    assert ingot.stats()["native_calls"] == native + 4, step.report()
    assert ingot.stats()["captures"] - before <= captures, step.report()


@torch.no_grad()
def test_a_number_by_name_and_one_of_another_kind(ingot):
    step = ingot.compile(tempered, wait=True)
    x = torch.randn(40, 50)
    for t, top in ((0.5, 3), (1.5, 4), (2, 5), (2.5, -1), (True, 3), (float("inf"), 2.5), (3, 1 << 60), (0.25, 7)):
        for _ in range(2):
            same(step(x, t, top=top), tempered(x, t, top=top))


@torch.no_grad()
def test_many_values_do_not_exhaust_the_structures(ingot):
    step, before = ingot.compile(positions, wait=True, config=ingot.Config(shapes_max=4)), ingot.stats()["fallbacks"]
    for start in range(40):
        x = torch.randn(3, 2)
        same(step(x, start), positions(x, start))
    assert ingot.stats()["fallbacks"] == before, step.report()


@torch.no_grad()
def test_a_file_says_that_it_cannot_hold_them(ingot, tmp_path):
    step = ingot.compile(positions, wait=True)
    for start in (1, 2, 3):
        step(torch.randn(3, 2), start)
    with pytest.raises(ingot.Unsupported, match="'start' is a number that differs from call to call"):
        step.export(tmp_path / "positions.ingot")


PROGRAM = """
import json, sys, torch, ingot
sys.path.insert(0, {here!r})
import test_number_arguments as t
step = ingot.compile(t.positions, wait=True)
with torch.no_grad():
    found = [step(torch.ones(3, 1), i).flatten().tolist() for i in range(8)]
print(json.dumps([found, ingot.stats()["native_calls"], ingot.stats().get("captures", 0)]))
"""


def test_the_next_process_knows_it(ingot, tmp_path):
    program = PROGRAM.format(here=str(pathlib.Path(__file__).parent))
    environment = {**os.environ, "INGOT_STORE_DIR": str(tmp_path / "store")}
    ran = [json.loads(subprocess.run([sys.executable, "-c", program], env=environment, check=True, capture_output=True, text=True).stdout)
           for _ in range(2)]
    assert ran[0][0] == ran[1][0]
    assert ran[1][1:] == [8, 0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("function", [lambda x, k: x.masked_fill(x > 0, k), lambda x, k: torch.where(x > 0, k, x), lambda x, k: x.clone().fill_(k * 2.0), lambda x, k: x * k,
                                      lambda x, k: torch.add(x, x, alpha=k)])
def test_numbers_that_do_not_fit_the_element_type(ingot, function, dtype):
    """Some operators refuse them; others give infinities."""
    x, step = torch.ones(2, 2, dtype=dtype), ingot.compile(function, wait=True)
    with torch.no_grad(), counted(ingot) as seen:
        for k in (0.5, 1.5, -2.0, 0.25, 1e300, 3.5e38, 7e4, float("inf"), float("nan"), -1e300, 1.0, 3.0):
            found = []
            for call in (function, step):
                try:
                    found.append(str(call(x, k)))
                except RuntimeError as e:
                    found.append(str(e))
            assert found[0] == found[1], (k, step.report())
    assert "alpha" in str(function.__code__.co_consts) or seen["native_calls"] >= 2, step.report()
