# SPDX-License-Identifier: Apache-2.0
"""State that whoever calls changes between calls: numbers and tensors are fetched, switches have a variant each, and what serves no
call is not recorded for ever."""

import contextlib
import enum
import functools
import types

import pytest
import torch

CALLS = 24


class Net(torch.nn.Module):
    scale = 1

    def __init__(self):
        super().__init__()
        self.step, self.rate, self.mode, self.pair, self.extra = 0, 0.5, "a", (1, 2), None
        self.table, self.slot = {"k": 1}, types.SimpleNamespace(v=1)
        self.tensor, self.tensors = torch.ones(3), [torch.ones(3)]
        self.register_buffer("buffer", torch.ones(3))

    def forward(self, x):
        y = x * self.tensor + self.buffer + self.tensors[0] + self.step * self.rate + self.table["k"] + self.slot.v
        y = y * type(self).scale + len(self.mode) + self.pair[0]
        return y if self.extra is None else y + self.extra




CHANGES = {
    "an integer": lambda net, i: setattr(net, "step", 3 * i),
    "a float": lambda net, i: setattr(net, "rate", i / 4),
    "an integer below zero": lambda net, i: setattr(net, "step", -i),
    "a large integer": lambda net, i: setattr(net, "step", (1 << 40) + i),
    "an integer of a class": lambda net, i: setattr(Net, "scale", i + 2),
    "an item": lambda net, i: net.table.update(k=i + 5),
    "an attribute of an object": lambda net, i: setattr(net.slot, "v", i + 2),
    "a tensor": lambda net, i: setattr(net, "tensor", torch.randn(3)),
    "a buffer": lambda net, i: setattr(net, "buffer", torch.randn(3)),
    "a tensor in a list": lambda net, i: net.tensors.__setitem__(0, torch.randn(3)),
    "two numbers and a tensor": lambda net, i: (setattr(net, "step", i + 2), setattr(net, "rate", i / 2), setattr(net, "tensor", torch.randn(3))),
}


@contextlib.contextmanager
def counted(ingot):
    before, seen = ingot.stats(), {}
    yield seen
    seen.update({name: value - before.get(name, 0) for name, value in ingot.stats().items() if isinstance(value, int)})


def run(step, net, change, calls=CALLS):
    with torch.no_grad():
        for i in range(calls):
            change(net, i)
            x = torch.randn(3)
            torch.testing.assert_close(step(x), net(x))


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_is_another_in_every_call_is_fetched(ingot, change):
    net = Net()
    step = ingot.compile(net, wait=True)
    try:
        run(step, net, change)
        with counted(ingot) as seen:
            run(step, net, lambda net, i: change(net, i + CALLS))
    finally:
        Net.scale = 1
    assert (seen["captures"], seen["native_calls"], seen["dependency_misses"]) == (0, CALLS, 0), step.report()


@pytest.mark.parametrize("change", [lambda net, i: setattr(net, "mode", "a" * (i % 3)), lambda net, i: setattr(net, "extra", torch.ones(3) if i % 2 else None),
                                    lambda net, i: net.train(i % 2 == 0)], ids=["a text", "a tensor or none", "train and eval"])
def test_the_sides_of_a_switch_stay_bound(ingot, change):
    """No side is looked up or checked anew when its state returns."""
    net = Net()
    step = ingot.compile(net, wait=True)
    run(step, net, change)
    with counted(ingot) as seen:
        run(step, net, change)
        looked = step.why_miss()
        run(step, net, change)
    assert (seen["captures"], seen["native_calls"], seen["dependency_misses"]) == (0, 2 * CALLS, 0), looked


def test_what_serves_no_call_is_recorded_a_few_times(ingot):
    """A text cannot be fetched: each call would be recorded, and no later one be like it."""
    net, modes = Net(), ["a" * (100 + i) for i in range(CALLS)]
    step = ingot.compile(net, wait=True, config={"recordings_in_vain_max": 6})
    with counted(ingot) as seen:
        run(step, net, lambda net, i: setattr(net, "mode", modes[i]))
    assert seen["captures"] == 6
    assert "6 recordings in a row have served no call" in step.report()
    net.mode = modes[5]  # What there is goes on serving.
    with counted(ingot) as seen:
        run(step, net, lambda net, i: None, 4)
    assert seen["captures"] == 0 and seen["native_calls"] == 4


class Named(Net):
    """Of another test's it is known that its calls keep changing."""


def test_recordings_that_serve_a_call_are_not_in_vain(ingot):
    net = Named()
    step = ingot.compile(net, wait=True, config={"recordings_in_vain_max": 4})
    with counted(ingot) as seen:
        run(step, net, lambda net, i: setattr(net, "mode", "b" * (200 + i // 2)))
    assert seen["captures"] == seen["native_calls"] == CALLS // 2


def test_a_new_entry_key_does_not_start_the_count_anew(ingot):
    """What a cell holds is in the key where it is a text: each is another entry."""
    text = "a"

    def labelled(x):
        return x * len(text) + 1

    step = ingot.compile(labelled, wait=True, config={"recordings_in_vain_max": 5})
    with counted(ingot) as seen, torch.no_grad():
        for i in range(12):
            text = "b" * i
            x = torch.randn(3)
            torch.testing.assert_close(step(x), labelled(x))
    assert seen["captures"] == 5


def test_prepared_sizes_wait_for_their_calls(ingot):
    """Recordings made ahead are not in vain for having served nothing yet."""

    def takes_root(x):
        return x * int(x.numel() ** 0.5)

    step = ingot.compile(takes_root, config={"recordings_in_vain_max": 3})
    for n in range(2, 8):
        step.prepare(torch.randn(n))
    with counted(ingot) as seen, torch.no_grad():
        for n in range(2, 8):
            x = torch.randn(n)
            torch.testing.assert_close(step(x), takes_root(x))
    assert (seen["captures"], seen["native_calls"]) == (0, 6)


def test_a_call_that_must_be_bound_anew_each_time_runs_eagerly_where_that_is_faster(ingot):
    net = Net()
    # A store that knows several such values, as beside other tests: in an empty one there is one recording more.
    run(ingot.compile(net, wait=True), net, lambda net, i: setattr(net, "slot", types.SimpleNamespace(v=i + 100)), 4)
    step = ingot.compile(net, wait=True)
    with counted(ingot) as seen:
        run(step, net, lambda net, i: setattr(net, "slot", types.SimpleNamespace(v=i + 2)), 90)
    assert seen["captures"] <= 3 and seen["refused_bound-anew"] > 0, step.why_miss()
    run(step, net, lambda net, i: None, 300)  # Every 256th looks whether the state lasts.
    with counted(ingot) as seen:
        run(step, net, lambda net, i: None, 20)
    assert seen["native_calls"] == 20


@pytest.mark.parametrize("setting", [{"on_unsupported": "error"}, {"require_cached": True}], ids=str)
def test_who_wants_no_eager_answer_is_bound_anew_each_time(ingot, setting):
    net = Net()
    run(ingot.compile(net, wait=True), net, lambda net, i: setattr(net, "slot", types.SimpleNamespace(v=7)), 2)
    step = ingot.compile(net, wait=True, config=setting)
    with counted(ingot) as seen:
        run(step, net, lambda net, i: setattr(net, "slot", types.SimpleNamespace(v=7)), 90)
    assert seen["native_calls"] >= 89 and seen.get("refused_bound-anew", 0) == 0


def test_structures_beyond_the_limit_ask_for_nothing(ingot):
    step = ingot.compile(lambda x, *, name: x * len(name), config={"shapes_max": 2})
    with torch.no_grad():
        for i in range(12):
            step(torch.ones(2), name="a" * i)
        step.wait()
        with counted(ingot) as seen:
            for i in range(12, 40):
                assert torch.equal(step(torch.ones(2), name="a" * i), torch.full((2,), float(i)))
    assert seen["entry_misses"] == seen["captures"] == 0
    assert "shapes" in step.why_miss()


def test_sizes_that_are_recorded_one_by_one_have_a_limit(ingot):
    """Where memory is read and written at once, nobody follows sizes: each position is a recording of its own."""

    def count(histogram, at):
        histogram[at] += 1
        return histogram.sum()

    step = ingot.compile(count, wait=True, config={"sizes_max": 8, "recordings_in_vain_max": 100})
    histogram, expected = torch.zeros(100), torch.zeros(100)
    with counted(ingot) as seen, torch.no_grad():
        for at in range(2, 40):
            assert torch.equal(step(histogram, at), count(expected, at))
            assert torch.equal(histogram, expected)
    assert seen["captures"] <= 12 and "sizes, each recorded by itself" in step.report()


def test_what_has_no_functional_form_runs_in_its_place(ingot):
    def fills(x):
        y = x.fill_diagonal_(2) * 2
        y[:, 1:].fill_diagonal_(3, wrap=True)
        x.view(-1)[:4].view(2, 2).fill_diagonal_(-1)
        return y, x.fill_diagonal_(0.5), y.sum()

    step = ingot.compile(fills, wait=True)
    with counted(ingot) as seen, torch.no_grad():
        for rows, columns in ((3, 3), (3, 3), (9, 4), (7, 4), (3, 5), (3, 3)):
            x, expected = torch.ones(rows, columns), torch.ones(rows, columns)
            for found, wanted in zip(step(x), fills(expected)):
                assert torch.equal(found, wanted)
            assert torch.equal(x, expected)
    assert seen["native_calls"] >= 3, step.why_miss()


def test_what_has_no_functional_form_is_refused_by_name(ingot):
    def turns(x):
        y = x * 2
        y.t_()
        return y + 1

    step = ingot.compile(turns)
    for _ in range(3):
        torch.testing.assert_close(step(torch.ones(3, 4)), turns(torch.ones(3, 4)))
        step.wait()
    assert "t_" in step.report() + step.why_miss() and "registered" not in step.report()


TENSORS = [torch.tensor([float(10 ** i)]) for i in range(3)]
ASKS = {
    "members of a set": lambda x, held: x + held.a + held.b + len({held.a, held.b}),
    "a key": lambda x, held: x + held.a * (2 if held.a in {held.b: 1} else 3),
    "keys": lambda x, held: x + len(dict.fromkeys([held.a, held.b])),
    "each once": lambda x, held: sum({id(t): t for t in (held.a, held.b)}.values(), x),
    "one object": lambda x, held: x + (held.a if held.a is held.b else held.b * 5),
    "an argument": lambda x, held: x * (2 if x is held.a else 3),
    "an argument in a set": lambda x, held: x * len({x, held.a}),
}


@pytest.mark.parametrize("function", ASKS.values(), ids=ASKS)
def test_which_tensors_are_one_object_may_change_between_calls(ingot, function):
    held = types.SimpleNamespace()
    step = ingot.compile(function)
    with torch.no_grad():
        for a, b in [(0, 1), (0, 1), (0, 1), (0, 0), (0, 0), (1, 1), (0, 1), (2, 2)]:
            held.a, held.b = TENSORS[a], TENSORS[b]
            for x in (torch.ones(1), held.a):
                assert torch.equal(step(x, held), function(x, held)), (a, b)
                step.wait()


class Mode(enum.Enum):
    RELU = 1
    GELU = 2
    SILU = 3


def by_mode(x, mode):
    if mode == Mode.RELU:
        return x.relu()
    return x * 2 if mode is Mode.GELU else x * 3


MODES = {
    "compared": by_mode,
    "among": lambda x, mode: x * (1 if mode in (Mode.RELU, Mode.SILU) else 5),
    "a key": lambda x, mode: x * {Mode.RELU: 2, Mode.GELU: 3, Mode.SILU: 4}[mode],
    "got": lambda x, mode: x * {Mode.RELU: 2, Mode.GELU: 3}.get(mode, 7),
    "a member": lambda x, mode: x * (2 if mode in {Mode.RELU, Mode.GELU} else 3),
    "counted": lambda x, mode: x * ([Mode.RELU, mode].count(Mode.RELU) + len({mode, Mode.SILU})),
}


@pytest.mark.parametrize("function", MODES.values(), ids=MODES)
def test_arguments_that_are_told_apart_by_their_address(ingot, function):
    step = ingot.compile(function)
    with torch.no_grad():
        for _ in range(3):
            for mode in Mode:
                x = torch.randn(3)
                assert torch.equal(step(x, mode), function(x, mode)), mode
                step.wait()


PAIRS = {
    "members": lambda x, held: x * len({held.a, held.b}),
    "a key": lambda x, held: x * {held.a: 2, (1, 2): 3}.get(held.b, 5),
    "a display": lambda x, held: x * len({held.a: 1, held.b: 2}),
}


@pytest.mark.parametrize("function", PAIRS.values(), ids=PAIRS)
def test_tuples_are_members_by_what_they_hold(ingot, function):
    held = types.SimpleNamespace()
    step = ingot.compile(function)
    with torch.no_grad():
        for a, b in [((1, 2), (1, 3)), ((1, 2), (1, 3)), ((1, 3), (1, 3)), ((1, 2), (1, 2)), (("a", 1), ("a", 1)), ((1, 2), (1, 3))]:
            held.a, held.b = a, b
            for _ in range(2):
                x = torch.randn(3)
                assert torch.equal(step(x, held), function(x, held)), (a, b)
                step.wait()


RATES = {"rate": 2.0}


def by_rate(key, scale):
    return RATES["rate"] * scale


CACHES = {"of any size": functools.lru_cache(maxsize=None), "of some": functools.lru_cache(maxsize=3), "of one": functools.lru_cache(maxsize=1),
          "by type": functools.lru_cache(typed=True), "of none": functools.lru_cache(maxsize=0)}


@pytest.mark.parametrize("cache", CACHES.values(), ids=CACHES)
def test_a_cached_function_runs_when_the_program_calls_it(ingot, cache):
    """Not earlier, by somebody who only wants to know whether its answer is still the same: what it reads may change until then."""
    def step_of(cached):
        def step(x):
            if x.shape[0] != 3:
                return x * 2
            before, RATES["rate"] = RATES["rate"], RATES["rate"] + 5  # Which is seen by the function alone.
            y = x * cached("rate", 2)
            RATES["rate"] = before
            return y
        return step

    ours, twin = cache(by_rate), cache(by_rate)
    step, plain = ingot.compile(step_of(ours), wait=True), step_of(twin)
    try:
        for change in (None, 3.0, "clear", 4.0, "clear", "other size", 6.0, None, "others", 7.0):
            for cached in (ours, twin):
                if change == "clear":
                    cached.cache_clear()
                elif change == "others":
                    [cached("rate", n) for n in range(3, 6)]
            if isinstance(change, float):
                RATES["rate"] = change
            for n in (4,) if change == "other size" else (3, 3):
                assert torch.equal(step(torch.ones(n)), plain(torch.ones(n))), change
    finally:
        RATES["rate"] = 2.0
