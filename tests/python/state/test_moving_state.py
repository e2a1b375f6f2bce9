# SPDX-License-Identifier: Apache-2.0
"""State that every call reads and changes: counters are sizes to a recording, and tensors are fetched where they lie."""

import copy
import json
import os
import pathlib
import subprocess
import sys
import types

import pytest
import torch

CALLS = 14


class Held:
    pass


class Slots:
    __slots__ = ("steps", "state")


class Attributes:
    """Each keeps a number and a tensor somewhere else; ``step`` reads and changes both."""

    def __init__(self):
        self.steps, self.state = 0, torch.zeros(4)

    def step(self, x):
        self.state = torch.tanh(self.state + x * (self.steps + 1))
        self.steps += 2
        return self.state, self.steps

    def seen(self):
        return self.steps, self.state


class Buffers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.steps = 0
        self.register_buffer("state", torch.zeros(4))

    def step(self, x):
        self.state = self.state * 0.5 + x[: 1 + self.steps % 3].sum()
        self.steps += x.shape[0]
        return self.state.clone(), torch.arange(self.steps, self.steps + 3)

    def seen(self):
        return self.steps, self.state


class Items(Attributes):
    def __init__(self):
        self.lists, self.dicts = [0, torch.zeros(4)], {"steps": 3, "state": torch.ones(4)}

    def step(self, x):
        self.lists[1] = self.lists[1] + x * self.lists[0]
        self.dicts["state"] = self.dicts["state"] - self.lists[1].mean() / (self.dicts["steps"] + 1)
        self.lists[0] += 1
        self.dicts["steps"] += self.lists[0]
        return self.lists[1] + self.dicts["state"], self.dicts["steps"]

    def seen(self):
        return self.lists, self.dicts


class InSlots(Attributes):
    def __init__(self):
        self.held = Slots()
        self.held.steps, self.held.state = 0, torch.zeros(4)

    def step(self, x):
        self.held.state = self.held.state + x + self.held.steps
        self.held.steps += 1
        return self.held.state * 2

    def seen(self):
        return self.held.steps, self.held.state


class Closures(Attributes):
    def __init__(self):
        steps, state = 5, torch.zeros(4)

        def step(x):
            nonlocal steps, state
            state = state + x.sum() * steps
            steps += 1
            return state

        self.step, self.seen = step, lambda: (steps, state)

    def __deepcopy__(self, memo):
        return type(self)()


class Decides(Attributes):
    """What the number decides is part of the range."""

    def step(self, x):
        self.steps += 1
        if self.steps > 6:
            self.state = self.state - x
            return self.state
        self.state = self.state + x
        return self.state * 2


class Down(Attributes):
    """A size until it is below zero, then a number."""

    def __init__(self):
        self.steps, self.state = 6, torch.zeros(4)

    def step(self, x):
        self.steps -= 1
        return x * self.steps + self.steps // 4 - self.steps % 3


class Signs(Attributes):
    """Goes from one to the other and back."""

    def step(self, x):
        self.steps = (self.steps + 1) % 4 - 2
        return x * self.steps if self.steps < 0 else x + self.steps


class OnClass(Attributes):
    """The class counts: the step reads it by the class and by an instance of another that inherits it."""

    count = 0

    def __deepcopy__(self, memo):
        return OnOtherClass()

    def step(self, x):
        kind = type(self)
        kind.count += 1
        kind.latest = x * self.count
        return x + kind.count

    def seen(self):
        return type(self).count, type(self).latest


class OnOtherClass(OnClass):
    count = 0


class Large(Attributes):
    def __init__(self):
        self.steps, self.state = 1 << 40, torch.zeros(4)

    def step(self, x):
        self.steps += 1
        return x + self.steps % 7


class Others(Attributes):
    """The number ends up in a text, a fraction, a key and a truth."""

    def step(self, x):
        self.steps += 1
        self.text = f"step {self.steps}"
        self.fraction = self.steps / 4
        self.table = {self.steps: 1}
        return x * self.fraction if self.steps & 1 else x + len(self.table)

    def seen(self):
        return self.steps, self.text, self.fraction, self.table


class Twice(Attributes):
    """Read again behind the write, and written with what it held before."""

    def step(self, x):
        before = self.steps
        self.steps = before + 3
        now = self.steps
        self.steps = 3 if before == 0 else before + 1
        return x * now + self.steps

    def seen(self):
        return (self.steps,)


class Rings(Attributes):
    """A position that wraps, and a window of what it has met."""

    def __init__(self):
        self.position, self.ring = 0, torch.zeros(8)

    def step(self, x):
        at = self.position % 8
        self.ring = torch.cat([self.ring[:at], x[:1], self.ring[at + 1:]])
        self.position += 1
        return self.ring.sum() + max(self.position - 8, 0), min(self.position, 8)

    def seen(self):
        return self.position, self.ring


MACHINES = [Attributes, Buffers, Items, InSlots, Closures, Decides, Down, Signs, OnClass, Large, Others, Twice, Rings]
NATIVE = {Attributes, Buffers, Items, InSlots, Closures, Decides, Down, Signs, OnClass, Large}


def same(found, expected):
    """Equal, and of the same types."""
    assert type(found) is type(expected)
    if isinstance(expected, torch.Tensor):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    elif isinstance(expected, (tuple, list)):
        assert len(found) == len(expected)
        for one, other in zip(found, expected):
            same(one, other)
    elif isinstance(expected, dict):
        same(list(found.items()), list(expected.items()))
    else:
        assert found == expected


def plain(value):
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, (tuple, list)):
        return [plain(one) for one in value]
    return type(value).__name__, value


@pytest.mark.parametrize("kind", MACHINES, ids=lambda kind: kind.__name__)
def test_state_is_eagers_after_every_call(ingot, kind):
    torch.manual_seed(0)
    machine = kind()
    twin = copy.deepcopy(machine)
    step = ingot.compile(machine.step, wait=True)
    with torch.no_grad():
        for call in range(CALLS):
            x = torch.randn(4)
            before = ingot.stats()["native_calls"]
            found, expected = step(x), twin.step(x)
            same(found, expected)
            same(machine.seen(), twin.seen())
        if kind in NATIVE:
            assert ingot.stats()["native_calls"] == before + 1, step.report()


def test_a_number_stays_pythons_own_where_the_run_left_it(ingot):
    held = Held()
    held.steps, held.moves = 7, 0

    def function(x):
        held.moves += 1
        return x * held.steps + held.moves

    step = ingot.compile(function, wait=True)
    with torch.no_grad():
        for call in range(4):
            step(torch.ones(3))
            held.steps += 1     # by the program, between calls
            step(torch.ones(3))
    assert held.steps is 11 and held.moves == 8  # noqa: F632


def test_a_run_that_raises_puts_numbers_back(ingot):
    held = Held()
    held.steps = 3

    def function(x):
        at = held.steps
        if x.shape[0] == 2:
            raise KeyError("two")
        held.steps = at + 1
        return x + at

    step = ingot.compile(function, wait=True)
    with torch.no_grad():
        for size in (4, 4, 4, 2, 5, 2):
            if size == 2:
                with pytest.raises(KeyError):
                    step(torch.ones(2))
            else:
                step(torch.ones(size))
    assert held.steps is 7  # noqa: F632


class Pair:
    pass


def both(pair, x):
    return pair.one * 2 + pair.other + x


def test_two_places_that_held_one_tensor_may_hold_two(ingot):
    """Found by reading: the graph had one input for both."""
    step, pair, x = ingot.compile(both, wait=True), Pair(), torch.ones(4)
    with torch.no_grad():
        pair.one = pair.other = torch.ones(4)
        for other in (None, torch.full((4,), 5.0), None, torch.full((4,), 7.0)):
            pair.other = pair.one if other is None else other
            for _ in range(3):
                torch.testing.assert_close(step(pair, x), both(pair, x))


def sizes_of(x, n):
    return x.shape, x.shape[0] * 2 + x.shape[1], [x.numel(), {"n": x.shape[1] - 1}], x.sum(0)


def test_sizes_are_returned_by_one_template(ingot, tmp_path):
    step = ingot.compile(sizes_of, wait=True)
    with torch.no_grad():
        for rows, columns in ((5, 3), (7, 4), (12, 31), (2, 9)):
            x = torch.randn(rows, columns)
            before = ingot.stats()["native_calls"]
            found, expected = step(x, 3), sizes_of(x, 3)
            assert found[:3] == expected[:3] and type(found[0]) is torch.Size and type(found[1]) is int
            torch.testing.assert_close(found[3], expected[3])
        assert ingot.stats()["native_calls"] == before + 1
    assert len(step.variants) == 1
    step.export(tmp_path / "sizes.ingot")
    x = torch.randn(6, 8)
    same(ingot.load(tmp_path / "sizes.ingot")(x, 3), sizes_of(x, 3))


PROGRAM = """
import json, sys, torch, ingot
sys.path[:0] = [{here!r}, {here!r}.rpartition("/")[0]]
import test_moving_state as t
machine = t.Attributes()
step = ingot.compile(machine.step, wait=True)
with torch.no_grad():
    found = [step(torch.full((4,), float(i))) for i in range(10)]
print(json.dumps([[t.plain(one) for one in found], ingot.stats()["native_calls"], ingot.stats().get("captures", 0)]))
"""


def test_the_next_process_starts_with_it(ingot, tmp_path):
    program = PROGRAM.format(here=str(pathlib.Path(__file__).parent))
    environment = {**os.environ, "INGOT_STORE_DIR": str(tmp_path / "store")}
    ran = [json.loads(subprocess.run([sys.executable, "-c", program], env=environment, check=True, capture_output=True, text=True).stdout)
           for _ in range(2)]
    assert ran[0][0] == ran[1][0]
    assert ran[1][1:] == [10, 0]


class Appears:
    """What calls fetch is gone, or of another kind, in some states."""

    def __init__(self):
        self.count, self.state = 0, None

    def step(self, x):
        self.count = self.count + 3 if self.count < 9 else -2
        self.state = x * 2 if self.state is None else self.state + x
        if self.count == 6:
            self.state = None
        return x + self.count


def test_what_is_fetched_may_be_gone_or_of_another_kind(ingot, caplog):
    eager, held = Appears(), Appears()
    compiled = ingot.compile(held.step)
    with torch.no_grad():
        for _ in range(40):
            x = torch.randn(4)
            assert torch.equal(eager.step(x), compiled(x))
            assert (eager.count, eager.state is None) == (held.count, held.state is None)
            compiled.wait(60)
    assert not [r for r in caplog.records if r.exc_info], caplog.text


class Tables(torch.nn.Module):
    """Angles of as many positions as the longest input had."""

    def __init__(self):
        super().__init__()
        self.sine, self.known = None, 0

    def forward(self, x):
        n = x.shape[1]
        if n > self.known:
            self.sine, self.known = torch.outer(torch.arange(n) * 1.0, torch.ones(4)).sin(), n
        return x + self.sine[:n]


def test_tables_that_have_grown_are_served(ingot):
    step, model = ingot.compile(Tables(), wait=True), Tables()
    with torch.no_grad():
        for n in [3, 5, 7, 9, 12] + [4, 6, 8] * 6:
            x = torch.randn(2, n, 4)
            torch.testing.assert_close(step(x), model(x))
        before = ingot.stats()["native_calls"]
        for n in (3, 10, 11):
            step(torch.randn(2, n, 4))
    assert ingot.stats()["native_calls"] - before == 3, step.report()


@pytest.mark.parametrize("seed", (1, 3))
def test_generated_histories(seed):
    """Those of tests/fuzz/state whose tensors part and meet again; the first is taken by another process as well."""
    fuzzer = pathlib.Path(__file__).parents[2] / "fuzz" / "state"
    done = subprocess.run([sys.executable, str(fuzzer), "--seed", str(seed)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_tuple_that_is_given_on_is_the_one_of_the_call(ingot):
    """Its place holds another in each call, and its tensors are fetched: what another place gets is the tuple itself."""
    class Net:
        def __init__(self):
            self.cell, self.before = types.SimpleNamespace(state=(torch.zeros(1, 4), torch.ones(1, 4))), None

        def __call__(self, x):
            self.before = self.cell.state
            h, c = self.cell.state
            self.cell.state = (c, h)
            return x + h, self.before

    nets, x = (Net(), Net()), torch.ones(1, 4)
    step, native = ingot.compile(nets[0], wait=True, config=ingot.Config(agree="off")), ingot.stats()["native_calls"]
    with torch.no_grad():
        for i in range(8):
            if i == 5:
                for net in nets:
                    net.cell.state = (torch.full((1, 4), 3.0), torch.full((1, 4), 4.0))
            held = [net.cell.state for net in nets]
            (found, given), (wanted, _) = step(x), nets[1](x)
            assert torch.equal(found, wanted) and given is held[0] and nets[0].before is held[0] and nets[1].before is held[1]
    assert ingot.stats()["native_calls"] > native
