# SPDX-License-Identifier: Apache-2.0
"""Calls with objects that a variant was not bound to, as each generation brings a new cache: only what is read of them is looked at
again, and what the process has is still watched."""

import gc
import weakref

import pytest
import torch


class Cache:
    def __init__(self, shared=None):
        self.ready, self.rows, self.shared = False, None, shared


class Step(torch.nn.Module):
    """The first call with a cache is not like those after it."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.linear, self.scale, self.table, self.sub = torch.nn.Linear(4, 4), 2.0, {"shift": 1.0}, torch.nn.ReLU()

    def forward(self, x, cache):
        if not cache.ready:
            cache.rows, cache.ready = x.repeat(3, 1), True
        cache.rows = torch.cat([cache.rows, self.linear(x) * self.scale + self.table["shift"]])
        return self.sub(cache.rows).sum(0)


def steps(model, inputs, cache=None):
    cache = cache or Cache()
    with torch.no_grad():
        return [model(x, cache) for x in inputs] + [cache.rows]


def native(ingot, run):
    before = ingot.stats()
    result = run()
    after = ingot.stats()
    return result, after["native_calls"] - before["native_calls"], after["captures"] - before["captures"]


@pytest.fixture
def warm(ingot):
    """(compiled, plain, inputs) after which a generation with a new cache is native throughout."""
    plain, inputs = Step().eval(), torch.randn(6, 1, 4)
    compiled = ingot.compile(plain)
    for _ in range(3):
        steps(compiled, inputs)
        assert compiled.wait(60)
    found, served, captures = native(ingot, lambda: steps(compiled, inputs))
    torch.testing.assert_close(found, steps(plain, inputs))
    assert (served, captures) == (len(inputs), 0), compiled.why_miss()
    return compiled, plain, inputs


def test_the_second_call_is_recorded_while_the_first_is_compiled(ingot):
    plain, inputs = Step().eval(), torch.randn(6, 1, 4)
    plain.linear = torch.nn.Linear(4, 4)
    compiled = ingot.compile(plain)
    found, served, captures = native(ingot, lambda: steps(compiled, inputs))
    torch.testing.assert_close(found, steps(plain, inputs))
    assert captures == 2 and ingot.stats().get("pending_calls", 0) + served == len(inputs) - 2
    assert compiled.wait(60)
    found, served, captures = native(ingot, lambda: steps(compiled, inputs))
    torch.testing.assert_close(found, steps(plain, inputs))
    assert (served, captures) == (len(inputs), 0), compiled.why_miss()


CHANGES = {
    "attribute": lambda model: setattr(model, "scale", 3.0),
    "item": lambda model: model.table.update(shift=-1.0),
    "weight": lambda model: model.linear.weight.mul_(2),
    "parameter": lambda model: setattr(model.linear, "weight", torch.nn.Parameter(torch.ones(4, 4))),
    "module": lambda model: setattr(model, "sub", torch.nn.Tanh()),
    "hook": lambda model: model.sub.register_forward_hook(lambda module, args, result: result * 2),
    "class": lambda model: setattr(Step, "forward", lambda self, x, cache: x.sum(0)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_changes_in_the_process_between_two_caches_is_seen(warm, change, monkeypatch):
    compiled, plain, inputs = warm
    monkeypatch.setattr(Step, "forward", Step.forward)
    before, cache = steps(plain, inputs), Cache()
    steps(compiled, inputs[:3], cache)
    with torch.no_grad():
        CHANGES[change](plain)
    torch.testing.assert_close(steps(compiled, inputs), steps(plain, inputs))
    assert steps(plain, inputs)[-2].tolist() != before[-2].tolist()
    # The older cache, half filled, goes on from what it holds.
    held = Cache()
    held.ready, held.rows = True, cache.rows.clone()
    torch.testing.assert_close(steps(compiled, inputs, cache), steps(plain, inputs, held))


def test_a_state_that_returns_is_native_again(ingot, warm):
    compiled, plain, inputs = warm
    plain.scale = 5.0
    for _ in range(3):
        torch.testing.assert_close(steps(compiled, inputs), steps(plain, inputs))
        assert compiled.wait(60)
    plain.scale = 2.0
    found, served, captures = native(ingot, lambda: steps(compiled, inputs))
    torch.testing.assert_close(found, steps(plain, inputs))
    assert (served, captures) == (len(inputs), 0), compiled.why_miss()


class Meets(torch.nn.Module):
    """Asks whether the cache's list is one that it holds itself, by native code."""

    def __init__(self):
        super().__init__()
        self.own = [1.0, 2.0]

    def forward(self, x, cache):
        self.own[0] = 4.0
        return x * cache.shared[0] + self.own[0]


def test_an_object_of_a_cache_that_the_module_holds_too_is_told_from_another(ingot):
    compiled, plain = ingot.compile(Meets()), Meets()
    for _ in range(4):
        for _ in range(3):
            x = torch.randn(3)
            torch.testing.assert_close(compiled(x, Cache([1.0, 2.0])), plain(x, Cache([1.0, 2.0])))
            compiled.wait(60)
        compiled.own[0] = plain.own[0] = 1.0
        torch.testing.assert_close(compiled(x, Cache(compiled.own)), plain(x, Cache(plain.own)))
        compiled.wait(60)


def test_nothing_keeps_a_model_that_has_served_many_caches(ingot):
    model, inputs = Step().eval(), torch.randn(6, 1, 4)
    compiled = ingot.compile(model)
    for _ in range(5):
        steps(compiled, inputs)
        compiled.wait(60)
    gone = weakref.ref(model)
    del model, compiled
    gc.collect()
    assert gone() is None


def test_a_program_that_calls_is_seen_to(ingot):
    from ingot import _native

    seen = []

    def slow(x):
        seen.append(_native.pause_s())
        return x + 1

    compiled = ingot.compile(slow)
    compiled(torch.ones(2))
    assert seen[0] == 0.0
    assert _native.pause_s() >= 0.0
    before = _native.pause_s()
    while _native.pause_s() == before:
        pass
    assert _native.pause_s() > before
