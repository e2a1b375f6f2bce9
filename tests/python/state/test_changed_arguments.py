# SPDX-License-Identifier: Apache-2.0
"""Calls that change the containers they are given, or give them back: what eager leaves in them, and native once that is known."""

import collections
import dataclasses
import os
import pathlib
import subprocess
import sys

import pytest
import torch

W = [torch.linspace(-1, 1, 64).reshape(8, 8).sin() * (i + 1) for i in range(3)]


def attend(q, k, v):
    return torch.softmax(q @ k.T, -1) @ v


def in_a_dict(x, cache):
    cache["k"] = torch.cat([cache["k"], x @ W[0]])
    cache["n"] += x.shape[0]
    return attend(x @ W[2], cache["k"], cache["k"]) * cache["n"]


def in_an_empty_dict(x, cache):
    k = x @ W[0]
    if "k" in cache:
        k = torch.cat([cache["k"], k])
    cache["k"] = k
    return attend(x @ W[2], k, k)


def in_a_list_of_tuples(x, past):
    for i, (k, v) in enumerate(past):
        past[i] = (torch.cat([k, x @ W[0]]), torch.cat([v, x @ W[1]]))
    return attend(x @ W[2], *past[0]), past


def in_lists(x, past):
    past["k"].append(x @ W[0])
    past["v"].extend([x @ W[1]])
    return attend(x @ W[2], torch.cat(past["k"]), torch.cat(past["v"]))


@dataclasses.dataclass
class State:
    k: torch.Tensor
    n: int = 0

    def take(self, x):
        self.k = torch.cat([self.k, x])
        self.n += 1


def in_a_dataclass(x, state):
    state.take(x @ W[0])
    return attend(x @ W[2], state.k, state.k) + state.n


def by_name(x, *, cache):
    cache["last"], before = x * 2, cache.get("last")
    return x if before is None else x + before.sum()


def attributes_besides(x, state):
    state.extra = x.sum()
    return x * 2, vars(state)["extra"]


def given_back(x, cache):
    return {"y": x * 2, "cache": cache}


def both_change(x, pair):
    one, other = pair
    one["a"] = x * 2
    other.append(one["a"] + 1)
    return one["a"]


PROGRAMS = {
    in_a_dict: lambda: {"k": torch.zeros(2, 8), "n": 0}, in_an_empty_dict: dict,
    in_a_list_of_tuples: lambda: [(torch.zeros(2, 8), torch.ones(2, 8)) for _ in range(2)],
    in_lists: lambda: {"k": [torch.zeros(2, 8)], "v": [torch.ones(2, 8)]}, in_a_dataclass: lambda: State(torch.zeros(2, 8)), by_name: dict,
    attributes_besides: lambda: State(torch.zeros(2, 8)), given_back: lambda: {"k": torch.zeros(2, 8)}, both_change: lambda: ({}, [])}
GROWING = (in_lists, both_change)
"""Of these every call finds another length, which is a part of what it does."""


def call(function, x, given):
    return function(x, cache=given) if function.__name__ == "by_name" else function(x, given)


def contents(value):
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, dict):
        return {k: contents(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [*map(contents, value)]
    return contents(vars(value)) if isinstance(value, State) else value


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda function: function.__name__)
def test_what_is_left_in_them(ingot, function):
    step, served = ingot.compile(function, wait=True), []
    for _ in range(3):  # A new one each time, as each conversation has.
        plain, given = PROGRAMS[function](), PROGRAMS[function]()
        for i in range(8):
            x = torch.linspace(0, 1, 8 * (1 + i % 2)).reshape(-1, 8)
            before = ingot.stats()["native_calls"]
            wanted, found = call(function, x, plain), call(step, x, given)
            torch.testing.assert_close(contents(found), contents(wanted), rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(contents(given), contents(plain), rtol=1e-4, atol=1e-5)
            served.append(ingot.stats()["native_calls"] > before)
    if function not in GROWING:
        assert sum(served[16:]) >= 7, step.report()


def test_what_is_given_back_is_what_was_given(ingot):
    step, cache = ingot.compile(given_back, wait=True), {"k": torch.zeros(2, 8)}
    for _ in range(4):
        assert step(torch.ones(1, 8), cache)["cache"] is cache
    other = dict(cache)
    assert step(torch.ones(1, 8), other)["cache"] is other
    assert ingot.stats()["native_calls"] >= 3


def test_two_arguments_that_are_one(ingot):
    def move(x, source, target):
        target["a"] = x + source["a"]
        source["a"] = x * 3
        return target["a"].clone()

    step = ingot.compile(move, wait=True)
    for one in (False, False, False, True, True, False, True):
        plain = [{"a": torch.ones(3)}, {"a": torch.zeros(3)}]
        given = [{"a": torch.ones(3)}, {"a": torch.zeros(3)}]
        wanted = move(torch.ones(3), plain[0], plain[0 if one else 1])
        assert step(torch.ones(3), given[0], given[0 if one else 1]).equal(wanted)
        assert contents(plain) == contents(given)


CACHE = {"a": torch.ones(3)}


def also_global(x, cache):
    cache["a"] = x + CACHE["a"]
    return cache["a"] * 2


def test_an_argument_that_the_function_finds_by_itself_too(ingot):
    step = ingot.compile(also_global, wait=True)
    for i in range(8):
        CACHE["a"] = torch.ones(3)
        given = CACHE if i % 3 else {"a": torch.zeros(3)}
        wanted = also_global(torch.ones(3), given)
        kept, CACHE["a"] = CACHE["a"], torch.ones(3)
        again = given if given is CACHE else {"a": torch.zeros(3)}
        assert step(torch.ones(3), again).equal(wanted)
        assert again["a"].equal(given["a"]) and CACHE["a"].equal(kept)


def test_a_named_tuple_with_attributes(ingot):
    class Pair(collections.namedtuple("Pair", "m n")):
        pass

    def read(x, pair):
        return x * pair.m * getattr(pair, "scale", 1.0)

    step = ingot.compile(read, wait=True)
    for scale in (None, None, None, 2.0, 2.0, 3.0, None):
        pair = Pair(torch.ones(3), 2)
        if scale is not None:
            pair.scale = scale
        assert step(torch.ones(3), pair).equal(read(torch.ones(3), pair))


SECOND = """
import sys
sys.path[:0] = [{here!r}, {here!r}.rpartition("/")[0]]
import torch, ingot
from test_changed_arguments import in_a_dict
step = ingot.compile(in_a_dict, wait=True)
cache, plain = {{"k": torch.zeros(2, 8), "n": 0}}, {{"k": torch.zeros(2, 8), "n": 0}}
for _ in range(6):
    assert torch.allclose(step(torch.ones(2, 8), cache), in_a_dict(torch.ones(2, 8), plain), atol=1e-5)
stats = ingot.stats()
print(stats["native_calls"], stats["captures"])
"""


def test_the_next_process_knows(store, tmp_path):
    counts = []
    for _ in range(3):
        done = store.parents.run(SECOND.format(here=os.path.dirname(__file__)), env=store.env)
        assert done.returncode == 0, done.stderr
        counts.append(tuple(map(int, done.stdout.split())))
    assert counts[-1] == (6, 0), counts


def test_generated_aliases():
    fuzzer = pathlib.Path(__file__).parents[2] / "fuzz" / "aliases"
    done = subprocess.run([sys.executable, str(fuzzer), "6"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert ", 0 wrong, " in done.stdout and " 0 native calls" not in done.stdout


def test_a_tensor_with_attributes_of_its_own_is_an_argument_as_any_and_told_by_their_names(ingot):
    def f(w):
        return w.to(torch.float32).abs() + hasattr(w, "left_out")

    def marked(**attributes):
        w = torch.nn.Parameter(-torch.ones(3), requires_grad=False)
        vars(w).update(attributes)
        return w

    step = ingot.compile(f, wait=True)
    before = ingot.stats()["native_calls"]
    for _ in range(3):
        assert torch.equal(step(marked(_is_initialized=True)), torch.ones(3))
    assert ingot.stats()["native_calls"] - before == 2
    assert torch.equal(step(marked(_is_initialized=True, left_out=1)), torch.full((3,), 2.0))
    assert torch.equal(step(marked(_is_initialized=True, to=lambda dtype: torch.zeros(3))), torch.zeros(3))
    assert torch.equal(step(marked()), torch.ones(3))
    assert torch.equal(step(marked(_is_initialized=True)), torch.ones(3)) and ingot.stats()["native_calls"] - before == 3
