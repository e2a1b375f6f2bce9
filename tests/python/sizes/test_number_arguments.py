# SPDX-License-Identifier: Apache-2.0
"""Numbers among the arguments: those that differ from call to call are inputs, those that decide what a call does are not."""

import contextlib
import json
import math
import os
import pathlib
import types
import subprocess
import sys

import pytest
import torch

from ingot.trace import recording
from recorded import parts  # noqa: F401  (a fixture)
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


def squared(x, t):
    return x * t + t ** 2 - 3 * t ** -0.5


def whole_power(x, n):
    return x + (n % 7) ** 3


def by_functions(x, t):
    return x * math.exp(-t) + math.log(t) * math.cos(t) - math.sin(t)


def asked_of_a_power(x, t):
    return x * 2 if t ** 3 < 1.5 else x + math.exp(t)


STEPS = {
    "a power": (squared, [(0.25 + i / 3,) for i in range(10)], 2),
    "a power of integers": (whole_power, [(i,) for i in range(2, 12)], 3),
    "functions of it": (by_functions, [(0.25 + i / 3,) for i in range(10)], 2),
    "what is asked of a power": (asked_of_a_power, [(0.5 + i % 4 / 4,) for i in range(12)], 6),
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
sys.path[:0] = [{here!r}, {here!r}.rpartition("/")[0]]
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
    # Of each type a function of its own: where one number is refused, the argument is none that varies from then on.
    function = types.FunctionType(function.__code__, function.__globals__)
    function.__qualname__ = f"of_{dtype}"
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


OPERATORS = ("+", "-", "*", "/", "//", "%", "**", "<<", ">>", "&", "|", "^", "@")
COMPARISONS = ("<", "<=", "==", "!=", ">", ">=")
SIDES = [*(f"{a} {op} {b}" for op in OPERATORS + COMPARISONS for a, b in (("x", "k"), ("k", "x"))), *(f"{a} {op}= {b}" for op in OPERATORS for a, b in (("x", "k"), ("k", "x")))]


def of_text(text):
    """A function of x and k: an expression, or a statement that changes its left side."""
    scope = {}
    body = f"x, k = x.clone(), k\n    {text}\n    return {text[0]}" if text.split()[1] not in OPERATORS + COMPARISONS else f"return {text}"
    exec(f"def f(x, k):\n    {body}\n", globals(), scope)
    return scope["f"]


NUMBERS = {"float": (2.5, 0.5, 1.5), "size": (2, 3, 5), "integer": (-2, -3, -5)}
MIRRORED = {"gt": "lt", "ge": "le"}
"""Comparisons with their operands exchanged say the same of all numbers, NaN included."""


@contextlib.contextmanager
def recordings():
    """What is recorded meanwhile."""
    found, finish = [], recording.Recording.finish
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recording.Recording, "finish", lambda self, result: found.append(finish(self, result)) or found[-1])
        yield found


def operators_on_tensors(parts, captured):
    """The names of operators that take more than the number of an argument."""
    decoded = parts.decode(captured.recording)
    of_number = {source["value"] for source in decoded["sources"] if source["name"] == "k"}
    names = []
    for step in decoded["steps"]:
        operands = [arg[1] for arg in step["args"] if isinstance(arg, tuple) and arg[0] == "value"]
        if operands and set(operands) <= of_number:
            of_number.update(result[1] for result in step["results"] if isinstance(result, tuple))
            continue
        name = step["op"].removeprefix("aten::").split(".")[0]
        names.append(MIRRORED.get(name, name))
    return names


@pytest.mark.parametrize("numbers", NUMBERS.values(), ids=NUMBERS)
@pytest.mark.parametrize("text", SIDES)
@torch.no_grad()
def test_numbers_that_vary_take_the_operators_of_those_that_do_not(ingot, parts, text, numbers):
    function = of_text(text)
    x = torch.arange(1, 7) if type(numbers[0]) is int else torch.arange(1.0, 7.0)
    try:
        function(x, numbers[0])
    except (TypeError, RuntimeError):
        return  # Python has no such operator.
    step = ingot.compile(lambda x, k: function(x, k), wait=True)
    with recordings() as found:
        for k in numbers:
            same(step(x, k), function(x, k))
    assert len(found) > 1
    first, *others = (operators_on_tensors(parts, captured) for captured in found)
    assert first and all(names == first for names in others), step.report()


@torch.no_grad()
def test_a_number_divided_by_a_tensor_is_a_product_with_its_reciprocal(ingot):
    """As eager computes it: the reciprocal of a small number is infinite where the quotient is not."""
    step, x = ingot.compile(lambda x, k: k / x, wait=True), torch.tensor([1e-40, 3.0])
    with counted(ingot) as seen:
        for k in (2.5, 0.5, 1e-10, 0.0, 7.0):
            torch.testing.assert_close(step(x, k), k / x, rtol=0, atol=0, equal_nan=True)
    assert seen["native_calls"] >= 3, step.report()


def outcome(function, *arguments):
    try:
        return str(function(*arguments))
    except (OverflowError, RuntimeError, TypeError, ValueError) as e:
        return type(e).__name__


BEYOND = {
    "a factor": lambda x, k: x * (k * k * k), "a term": lambda x, k: x.long() + (k + 9223372036854775000), "of a size": lambda x, k: x * (x.shape[0] * k * 10**12),
    "a filled tensor": lambda x, k: torch.full((2,), k * 10**15), "a shift": lambda x, k: torch.roll(x, k * k * k), "an end": lambda x, k: torch.arange(k * k * k, k * k * k + 3),
    "a bound": lambda x, k: torch.clamp(x, max=k * k * k * k), "memory": lambda x, k: torch.empty(0, k, k, k), "a slice": lambda x, k: x[: k * k * k] + x[-k * k * k:],
    "a remainder": lambda x, k: x * (k * 10**15 % 1000007),
    "a quotient": lambda x, k: x * (k * k * k * k // (k + 1)), "the larger": lambda x, k: x * max(k * k * k, 5),
    "a float": lambda x, k: x.double() * float(k * k * k), "a ratio": lambda x, k: x.double() * (k * k * k / 7), "returned": lambda x, k: (x, k * 10**15, k * k * k * k),
    "compared": lambda x, k: x * 2 if k * k * k * k > 5 else x * 3, "vanishing": lambda x, k: x * ((k - k) * (1 << 62) * 8 + k),
    "strides": lambda x, k: x.as_strided((2,), ((k * k * k) % 2,)),
    "a size below": lambda x, k: x.new_zeros(k * k * k - k * k * k + 2),
}


@pytest.mark.parametrize("function", BEYOND.values(), ids=BEYOND)
@torch.no_grad()
def test_integers_have_no_end(ingot, function):
    """Python's have none: what a program computes in 64 bits is served as long as it is the same."""
    step = ingot.compile(lambda x, k: function(x, k), wait=True)
    with counted(ingot) as seen:
        for k in (1, 2, 3, 5, 9, 1000, 2_097_151, 2_097_152, 3_000_000, (1 << 31) - 3, (1 << 31) - 2, 0, 4, 1 << 31, (1 << 51) + 1, (1 << 62) + 1, 1 << 63, 1 << 64, -3, 6, 7):
            x = torch.arange(1.0, 7.0)
            assert outcome(step, x, k) == outcome(function, x, k), (k, step.report())
    # Of a sum beyond 2^53, and of a stride that another call may not have, each is a variant of its own.
    assert seen["native_calls"] >= (0 if function in (BEYOND["a term"], BEYOND["strides"]) else 2), step.report()


@pytest.mark.parametrize("text, good, bad, error", [
    ("x * t ** -1", [2.0, 3.0, 0.5], 0.0, ZeroDivisionError), ("x * t ** 2", [2.0, 3.0, 0.5], 1e200, OverflowError),
    ("x * math.exp(t)", [2.0, 3.0, 0.5], 1e3, OverflowError), ("x * math.log(t)", [2.0, 3.0, 0.5], 0.0, ValueError),
    ("x * math.sin(t)", [2.0, 3.0, 0.5], math.inf, ValueError),
])
def test_functions_of_numbers_raise_what_they_raise(ingot, text, good, bad, error):
    plain = eval(f"lambda x, t: {text}", {"math": math})
    plain.__qualname__ = f"raising {text}"
    step, x = ingot.compile(plain, wait=True), torch.ones(3)
    for t in [*good, *good]:
        torch.testing.assert_close(step(x, t), plain(x, t))
    served = ingot.stats()["native_calls"]
    torch.testing.assert_close(step(x, 1.25), plain(x, 1.25))
    assert ingot.stats()["native_calls"] > served
    with pytest.raises(error):
        step(x, bad)
    torch.testing.assert_close(step(x, 1.75), plain(x, 1.75))


def test_a_root_of_what_is_below_zero_is_complex(ingot):
    def rooted(x, t):
        return x * t ** 0.5

    step, x = ingot.compile(rooted, wait=True), torch.ones(3)
    for t in (2.0, 3.0, 0.5, 4.0, -4.0, 9.0, -1.0):
        found, wanted = step(x, t), rooted(x, t)
        assert found.dtype == wanted.dtype
        torch.testing.assert_close(found, wanted)
