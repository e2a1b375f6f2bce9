# SPDX-License-Identifier: Apache-2.0
"""What Python reads without an instruction that says so: hashes that a dict keeps, what functions and frames of the run's own lead
to, which of equal constants a compiler has kept. In this process and in another one of the same store."""

import collections
import dataclasses
import enum
import fractions
import importlib.util
import itertools
import operator
import os
import pathlib
import sys
import uuid

import pytest
import torch
from conftest import Store


@dataclasses.dataclass(frozen=True)
class Heads:
    count: int


class Named:
    def __init__(self, number):
        self.number = number

    def __hash__(self):
        return hash(self.number)

    def __eq__(self, other):
        return isinstance(other, Named) and self.number == other.number


class Mode(enum.Enum):
    ONE, TWO, FOUR = 1, 2, 4


class Text(str):
    pass


KEYS = {
    "a frozen dataclass": Heads,
    "a class with __hash__": Named,
    "a tuple of them": lambda number: (Named(number), 3),
    "a path": lambda number: pathlib.PurePosixPath(str(number)),
    "a fraction": lambda number: fractions.Fraction(number, 7),
    "a UUID": lambda number: uuid.UUID(int=number),
    "a text of another class": lambda number: Text(number),
    "an enum member": Mode,
}
LOOKS = {
    "get": lambda x: x * TABLE.get(KEY, 1.0),
    "in": lambda x: x * 3 if KEY in TABLE else x,
    "keys": lambda x: x * 3 if KEY in TABLE.keys() else x,
    "[]": lambda x: x * _item(),
    "a display": lambda x: x * len({**TABLE, KEY: 5.0}),
    "|": lambda x: x * len(TABLE | {KEY: 5.0}),
    "==": lambda x: x * 3 if TABLE == {KEY: 0.25, FOUR: 0.5} else x,
}
TABLE = KEY = FOUR = None


def _item():
    try:
        return TABLE[KEY]
    except KeyError:
        return 1.0


@pytest.mark.parametrize("key, look", itertools.product(KEYS, LOOKS))
def test_a_key_that_is_not_found_is_looked_for_again(ingot, monkeypatch, key, look):
    """A miss by hash asks no key anything: only the hashes that the dict keeps say that it is one."""
    module, make = sys.modules[__name__], KEYS[key]
    monkeypatch.setattr(module, "FOUR", make(4))
    monkeypatch.setattr(module, "KEY", make(2))
    function, x = LOOKS[look], torch.ones(3)
    step = ingot.compile(function, wait=True, config=ingot.Config(agree="off"))
    with torch.no_grad():
        for there in (1, 2, 1):
            monkeypatch.setattr(module, "TABLE", {make(there): 0.25, module.FOUR: 0.5})
            for _ in range(3):
                assert torch.equal(step(x), function(x)), there


def test_a_member_that_is_not_found_is_looked_for_again(ingot, monkeypatch):
    """It lies where its hash was when it came."""
    def f(x):
        return x * 3 if Named(2) in TABLE else x

    module, x = sys.modules[__name__], torch.ones(3)
    step = ingot.compile(f, wait=True, config=ingot.Config(agree="off"))
    with torch.no_grad():
        member = Named(1)
        stale = {member}
        member.number = 2
        for table in (stale, {Named(2)}, stale, {Named(1)}):
            monkeypatch.setattr(module, "TABLE", table)
            for _ in range(3):
                assert torch.equal(step(x), f(x))


NUMBER = 3


def of_a_lambda(x):
    return x * (lambda: 0).__globals__["NUMBER"]


def of_an_inner_class(x):
    class Inner:
        def method(self):
            return 0

    return x * Inner.method.__globals__["NUMBER"]


def of_a_closure():
    number = 3

    def f(x):
        return x * (lambda: number).__closure__[0].cell_contents

    def change(value):
        nonlocal number
        number = value

    return f, change


def of_a_traceback(x):
    try:
        raise ValueError
    except ValueError as error:
        return x * error.__traceback__.tb_frame.f_globals["NUMBER"]


def of_a_generator(x):
    return x * (i for i in range(3)).gi_frame.f_globals["NUMBER"]


def _set_number(value):
    globals()["NUMBER"] = value


def writes_through_a_lambda(x):
    (lambda: 0).__globals__["NUMBER"] = 9
    return x * 2


@pytest.mark.parametrize("function", [of_a_lambda, of_an_inner_class, of_a_closure, of_a_traceback, of_a_generator])
def test_what_the_runs_own_objects_lead_to_is_seen(ingot, function):
    f, change = function() if function is of_a_closure else (function, _set_number)
    step, x = ingot.compile(f, wait=True, config=ingot.Config(agree="off")), torch.ones(3)
    with torch.no_grad():
        for number in (3, 5, 3):
            change(number)
            for _ in range(3):
                assert torch.equal(step(x), x * number)


def test_what_is_written_through_the_runs_own_objects_is_written(ingot):
    step, x = ingot.compile(writes_through_a_lambda, wait=True, config=ingot.Config(agree="off")), torch.ones(3)
    with torch.no_grad():
        for _ in range(4):
            _set_number(3)
            step(x)
            assert NUMBER == 9
    _set_number(3)


PAIR = ("a", "b")


def test_a_constant_is_not_held_against_another_object(ingot, monkeypatch):
    """Compilers keep one of equal constants; what a place holds later is another object."""
    def f(x):
        pair = ("a", "b")
        return x * 2 if pair is PAIR else x * 3

    module = sys.modules[__name__]
    monkeypatch.setattr(module, "PAIR", next(c for c in f.__code__.co_consts if c == ("a", "b")))
    step, x = ingot.compile(f, wait=True, config=ingot.Config(agree="off")), torch.ones(3)
    with torch.no_grad():
        for _ in range(3):
            assert torch.equal(step(x), x * 2)
        monkeypatch.setattr(module, "PAIR", tuple(["a", "b"]))
        for _ in range(3):
            assert torch.equal(step(x), x * 3)


CHILD = """
import sys, torch, ingot
sys.path[:0] = [{folder!r}, {folder!r}.rpartition("/")[0]]
import test_unseen_reads as module
there, expected = int(sys.argv[1]), float(sys.argv[2])
module.KEY, module.TABLE = module.Heads(2), {{module.Heads(there): 0.25}}
step = ingot.compile(module.LOOKS["get"], wait=True, config=ingot.Config(agree="off"))
with torch.no_grad():
    for _ in range(2):
        assert step(torch.ones(3))[0] == expected
print("native", ingot.stats()["native_calls"])
"""


def test_another_process_looks_for_a_key_again(ingot):
    folder = str(pathlib.Path(__file__).parent)
    said = []
    for there, expected in ((1, 1.0), (1, 1.0), (2, 0.25), (1, 1.0)):
        done = Store.parents.run(CHILD.format(folder=folder), str(there), str(expected), env=os.environ)
        assert done.returncode == 0, done.stderr[-2000:]
        said.append(done.stdout.strip())
    assert said[1] == said[3] == "native 2", said


GIVEN, ROW, EMPTY, NAN = [1, 2], (1, 2), {}, float("nan")


@dataclasses.dataclass
class Options:
    scale: float = 1.0


OPTIONS = Options()


def _left(numbers, one):
    try:
        numbers.remove(one)
    except ValueError:
        pass
    return len(numbers)


def _counted(one):
    counts = collections.Counter()
    counts[one] += 2
    return counts


HELD_AGAINST = {
    "a list": (lambda x, one: x * 2 if one is GIVEN else x * 3, lambda: GIVEN, lambda: [1, 2]),
    "a dict": (lambda x, one: x * 2 if one is EMPTY else x * 3, lambda: EMPTY, dict),
    "a dataclass": (lambda x, one: x * 2 if one is OPTIONS else x * 3, lambda: OPTIONS, Options),
    "a list in a list": (lambda x, one: x * 2 if any(one[0] is other for other in (GIVEN, EMPTY)) else x * 3, lambda: [GIVEN], lambda: [[1, 2]]),
    "a default": (lambda x, one, other=GIVEN: x * 2 if one is other else x * 3, lambda: GIVEN, lambda: [1, 2]),
    "a NaN in a list": (lambda x, one: x * 2 if one in [NAN] else x * 3, lambda: NAN, lambda: float("nan")),
    "a NaN among keys": (lambda x, one: x * {NAN: 2}.get(one, 3), lambda: NAN, lambda: float("nan")),
    **{f"a NaN by {name}": (look, lambda: NAN, lambda: float("nan")) for name, look in {
        "count": lambda x, one: x * [NAN, NAN].count(one),
        "index": lambda x, one: x * [NAN, 3.0, one].index(one),
        "a tuple's count": lambda x, one: x * (NAN, NAN).count(one),
        "countOf": lambda x, one: x * operator.countOf([NAN, NAN], one),
        "a deque's count": lambda x, one: x * collections.deque([NAN, NAN]).count(one),
        "remove": lambda x, one: x * _left([3.0, NAN], one),
        "a list's ==": lambda x, one: x * 2 if [NAN] == [one] else x,
        "a tuple's <": lambda x, one: x * 2 if (NAN, 1) < (one, 2) else x,
        "sorted": lambda x, one: x * sorted([(NAN, 2), (one, 1)])[0][1],
        "a set": lambda x, one: x * len({NAN, one}),
        "sets": lambda x, one: x * len({NAN} & {one}),
        "a dict's ==": lambda x, one: x * 2 if {1: NAN} == {1: one} else x,
        "a display of a dict": lambda x, one: x * len({NAN: 1, one: 2}),
        "a subscript": lambda x, one: x * _counted(one)[NAN],
    }.items()},
}


@pytest.mark.parametrize("case", HELD_AGAINST)
@pytest.mark.parametrize("first", [0, 1], ids=["one object first", "two objects first"])
def test_an_argument_that_is_one_with_what_is_outside_is_told_from_its_equals(ingot, case, first):
    function, *makes = HELD_AGAINST[case]
    if first:
        makes.reverse()
    step, x = ingot.compile(function, wait=True, config=ingot.Config(agree="off")), torch.ones(3)
    with torch.no_grad():
        for _ in range(2):
            for make in makes:
                given = [make() for _ in range(3)]
                for one in given:
                    assert torch.equal(step(x, one), function(x, one))


LARGE, FLOAT, SMALL = int("1000"), float("2.5"), 3


@pytest.mark.parametrize("look", {
    "a large integer": (lambda x, one: x * 2 if one is LARGE else x * 3, [1001, LARGE, 1002, LARGE, 1000]),
    "a float": (lambda x, one: x * 2 if one is FLOAT else x * 3, [1.5, FLOAT, 3.5, FLOAT]),
    "a small integer": (lambda x, one: x * 2 if one is SMALL else x * 3, [4, 3, 5, 3, 3]),
    "among several": (lambda x, one: x * 2 if any(one is other for other in (FLOAT, LARGE)) else x * 3, [1.5, FLOAT, 3.5, FLOAT]),
    "by a function": (lambda x, one: x * 2 if operator.is_(one, LARGE) else x * 3, [1001, LARGE, 1002, LARGE]),
    "none": (lambda x, one: x * 3 if one is None else x * one, [1.5, 2.5, 3.5, None, 4.5]),
}.items(), ids=lambda item: item[0])
def test_a_recorded_call_has_the_numbers_of_its_caller(ingot, look):
    """By address too, though others stand for them while they are followed."""
    function, numbers = look[1]
    step, x = ingot.compile(function, wait=True, config=ingot.Config(agree="off")), torch.ones(3)
    with torch.no_grad():
        for one in numbers * 2:
            assert torch.equal(step(x, one), function(x, one)), one


def test_a_recorded_call_has_the_numbers_of_its_state(ingot):
    state, x = {"at": 7}, torch.ones(3)
    step = ingot.compile(lambda x: x * 2 if state["at"] is LARGE else x * 3, wait=True, config=ingot.Config(agree="off"))
    with torch.no_grad():
        for at in (7, 1001, LARGE, 1002, LARGE, 1003, LARGE):
            state["at"] = at
            assert step(x)[0] == (2 if at is LARGE else 3), at


SPEC = importlib.util.find_spec("json")


def test_what_a_spec_says_of_a_module_is_seen(ingot, monkeypatch):
    def located(x):
        return x * 2 if SPEC.has_location else x + 1

    step, x = ingot.compile(located, wait=True), torch.full((3,), 5.0)
    before = ingot.stats()["native_calls"]
    for _ in range(3):
        assert torch.equal(step(x), x * 2)
    assert ingot.stats()["native_calls"] == before + 2
    monkeypatch.setattr(SPEC, "has_location", False)
    assert torch.equal(step(x), x + 1)
