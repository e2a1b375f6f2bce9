# SPDX-License-Identifier: Apache-2.0
"""Getters that are made in C, on every way that leads to one: by `super()`, under another name, of classes, of what libraries keep.
What they read has to be seen to change."""

import array
import collections
import datetime
import enum
import sys

import numpy as np
import pytest
import torch


class Base:
    pass


class Holder(Base):
    attributes = vars(Base)["__dict__"]

    def __init__(self, number):
        self.number = number

    def get(self):
        return super().__dict__["number"]

    def put(self):
        super().__dict__["number"] = 7


class Meta(type):
    number = property(lambda cls: super().__dict__["value"])
    names = type.__dict__["__name__"]

    def named(cls):
        return float(super().__name__)

    def told(cls):
        return float(super().__doc__)


class Failed(Exception):
    def get(self):
        return super().args[0]


class Whole(int):
    def get(self):
        return super().real


class Part(float):
    def get(self):
        return super().real


class Day(datetime.date):
    def get(self):
        return super().year


class Queue(collections.deque):
    def get(self):
        return super().maxlen


class Level(enum.IntEnum):
    ONE, TWO = 1, 2

    def get(self):
        return super().real


class Rows(np.ndarray):
    def get(self):
        return super().shape[0]


class Net(torch.nn.Module):
    def forward(self, x):
        return x * (2 if super().__dict__["training"] else 3)


def window(number):
    return np.arange(6.0 + number)[:2]


def more_of(number):
    held = Holder(1)
    held.__dict__.update({f"more{i}": i for i in range(number)})
    return held


CASES = {
    "super().__dict__": (Holder, lambda held: held.get()),
    "super().__dict__ of a class": (lambda number: Meta("Made", (), {"value": number}), lambda held: held.number),
    "super().__name__": (lambda number: Meta(str(number), (), {}), lambda held: held.named()),
    "super().__doc__": (lambda number: Meta("Made", (), {"__doc__": str(number)}), lambda held: held.told()),
    "super().args": (Failed, lambda held: held.get()),
    "super().real of an int": (Whole, lambda held: held.get()),
    "super().real of a float": (Part, lambda held: held.get()),
    "super().real of a member": (Level, lambda held: held.get()),
    "super().year": (lambda number: Day(number, 1, 1), lambda held: held.get()),
    "super().maxlen": (lambda number: Queue([], number), lambda held: held.get()),
    "super().shape": (lambda number: np.ones(number).view(Rows), lambda held: held.get()),
    "__dict__ under another name": (Holder, lambda held: held.attributes["number"]),
    "len of __dict__ under another name": (more_of, lambda held: len(held.attributes)),
    "__name__ under another name": (lambda number: Meta(str(number), (), {}), lambda held: float(held.names)),
    "base": (window, lambda held: len(held.base)),
    "base's item": (lambda number: np.full(4, float(number))[:2], lambda held: float(held.base[3])),
    "base's list": (lambda number: np.full(4, float(number))[:2], lambda held: held.base.tolist()[3]),
    "obj": (lambda number: memoryview(bytearray([7, 7, number]))[:2], lambda held: held.obj[2]),
    "len of obj": (lambda number: memoryview(bytearray(4 + number))[:2], lambda held: len(held.obj)),
    "obj of an array": (lambda number: memoryview(array.array("l", [7, 7, number]))[:2], lambda held: held.obj[2]),
    "an address": (lambda number: np.full(2, 1.0), lambda held: held.__array_interface__["data"][0] % 65536),
    "shape": (lambda number: np.ones((2, number)), lambda held: held.shape[1]),
    "T": (lambda number: np.ones((2, number)), lambda held: len(held.T)),
    "real": (lambda number: np.full(2, number + 1j), lambda held: float(held.real[1])),
    "dtype": (lambda number: np.ones(2, f"f{4 * number}"), lambda held: held.dtype.itemsize),
    "flat": (lambda number: np.full(2, float(number)), lambda held: float(held.flat[1])),
}


HELD = None


@pytest.mark.parametrize("case", CASES)
def test_what_a_getter_reads_is_seen_to_change(ingot, monkeypatch, case):
    make, look = CASES[case]

    def f(x):
        return x * look(HELD)

    x, kept = torch.ones(3), []
    step = ingot.compile(f, wait=True, config=ingot.Config(agree="off"))
    with torch.no_grad():
        for number in (1, 2, 1):
            kept.append(make(number))
            monkeypatch.setattr(sys.modules[__name__], "HELD", kept[-1])
            for _ in range(3):
                assert torch.equal(step(x), f(x)), step.why_miss()


def test_an_attribute_that_super_reads_is_seen_to_change(ingot):
    held, x = Holder(3), torch.ones(3)
    step = ingot.compile(lambda x: x * held.get() * held.attributes["number"], wait=True, config=ingot.Config(agree="off"))
    with torch.no_grad():
        for _ in range(3):
            assert step(x)[0] == 9
        held.number = 5
        for _ in range(3):
            assert step(x)[0] == 25


def test_what_is_written_by_a_getter_is_written(ingot):
    held, memory, x = Holder(3), np.ones((2, 2)), torch.ones(3)

    def by_super(x):
        held.put()
        return x * 2

    def by_a_view(x):
        memory.T[0, 1] += 1
        return x * 2

    def by_elements(x):
        memory.flat[0] += 1
        return x * 2

    with torch.no_grad():
        for function in (by_super, by_a_view, by_elements):
            step = ingot.compile(function, wait=True, config=ingot.Config(agree="off"))
            for i in range(4):
                held.number = i
                before = memory.copy()
                step(x)
                after, memory[:] = memory.copy(), before
                held_after, held.number = held.number, i
                function(x)
                assert np.array_equal(after, memory) and held_after == held.number, function.__name__


def test_modes_of_a_module_that_super_reads_are_seen_to_change(ingot):
    net, x = Net(), torch.ones(3)
    step = ingot.compile(net, wait=True, config=ingot.Config(agree="off"))
    with torch.no_grad():
        for _ in range(2):
            for train in (True, False):
                net.train(train)
                for _ in range(3):
                    assert step(x)[0] == (2 if train else 3)


def test_a_getter_is_asked_and_not_what_has_its_name(ingot):
    """A property of the program's under the name of the getter that super() finds runs as often as in eager: never here."""
    runs = []

    class Own(np.ndarray):
        base = property(lambda self: runs.append(1) or 5.0)

        def get(self):
            return super().base

    whole, x = np.arange(6.0), torch.ones(3)
    held = whole[:2].view(Own)
    step = ingot.compile(lambda x: x * len(held.get()), wait=True, config=ingot.Config(agree="off"))
    with torch.no_grad():
        for _ in range(4):
            assert torch.equal(step(x), x * len(held.get()))
    assert not runs
