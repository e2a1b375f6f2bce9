# SPDX-License-Identifier: Apache-2.0
"""One fact, and another way to it than the one that is watched: native code that walks all the way through its operands, the order that a set
has from those it was made of, the class of what `super` is given, what a program makes of classes that are made in C. In this process, and
in another one of the same store that finds the other state from its first call."""

import copy
import json
import os
import subprocess
import sys
import types
import weakref

import numpy as np
import pytest
import torch

ARRAY = np.ones((1, 2))
TABLE = np.arange(18.0).reshape(9, 2)


def _walked(use, of=lambda: [[1.0, 2.0]], to=lambda held: held[0].__setitem__(0, 5.0)):
    """A list from before in another, of which an element changes."""
    held = of()
    return (lambda x: x * use(held)), (lambda: to(held))


def _assigned(how):
    def use(held):
        made = ARRAY.copy()
        how(made, held)
        return float(made[0, 0])

    return _walked(use)


def _index(use):
    return _walked(use, lambda: [[1]], lambda held: held[0].__setitem__(0, 3))


WALKED = {
    "array + list": lambda: _walked(lambda held: float((ARRAY + held)[0, 0])),
    "list + array": lambda: _walked(lambda held: float((held + ARRAY)[0, 0])),
    "list - array": lambda: _walked(lambda held: float((held - ARRAY)[0, 0])),
    "array * list": lambda: _walked(lambda held: float((ARRAY * held)[0, 0])),
    "array // list": lambda: _walked(lambda held: float((ARRAY // held)[0, 0])),
    "array ** list": lambda: _walked(lambda held: float(((ARRAY + 1) ** held)[0, 0])),
    "array @ list": lambda: _walked(lambda held: float((ARRAY @ [held[0], held[0]])[0, 0])),
    "a number of numpy's + list": lambda: _walked(lambda held: float((np.float64(1) + held)[0, 0])),
    "array - a tuple of the run's": lambda: _walked(lambda held: float((ARRAY - (held[0],))[0, 0])),
    "bytes % list": lambda: _walked(lambda held: len(b"%a" % (held,)), lambda: [[1]], lambda held: held[0].append(2)),
    "bytearray % list": lambda: _walked(lambda held: len(bytearray(b"%a") % (held,)), lambda: [[1]], lambda held: held[0].append(2)),
    "array[list, 0]": lambda: _index(lambda held: float(TABLE[held[0], 0][0])),
    "array[(list,)]": lambda: _index(lambda held: float(TABLE[(held[0],)][0, 0])),
    "array[[[list]]]": lambda: _index(lambda held: float(TABLE[[held[0]]][0, 0, 0])),
    "array[..., list]": lambda: _walked(lambda held: float(TABLE[..., held[0]][1, 0]), lambda: [[0]], lambda held: held[0].__setitem__(0, 1)),
    "array[...] = list": lambda: _assigned(lambda made, held: made.__setitem__(..., held)),
    "array[:] = list, as a statement": lambda: _assigned(_fills),
    "array.flat = [list]": lambda: _assigned(lambda made, held: setattr(made, "flat", [held])),
    "array.real = [list]": lambda: _assigned(lambda made, held: setattr(made, "real", [held[0]])),
}


def _fills(made, held):
    made[:] = held


def _first(make):
    """What comes first of a set that is made of one from before."""
    state = {"set": {0, 8}, "frozen": frozenset([0, 8])}

    def change():
        state["set"].clear()
        state["set"].update([8, 0])
        state["frozen"] = frozenset([8, 0])

    return (lambda x: x * (1 + next(iter(make(state))))), change


def _in_place(how):
    def make(state):
        made = set()
        made = how(made, state["set"]) or made
        return made

    return lambda: _first(make)


def _union_in_place(made, other):
    made |= other
    return made


ORDERS = {
    "|": lambda: _first(lambda state: state["set"] | set()),
    "&": lambda: _first(lambda state: state["set"] & {0, 8, 9}),
    "-": lambda: _first(lambda state: state["set"] - {1}),
    "^": lambda: _first(lambda state: state["set"] ^ {1, 2, 3, 4, 5, 6, 7} - {1, 2, 3, 4, 5, 6, 7}),
    "frozen |": lambda: _first(lambda state: state["frozen"] | frozenset()),
    "union": lambda: _first(lambda state: state["set"].union()),
    "copy": lambda: _first(lambda state: state["set"].copy()),
    "copy.copy": lambda: _first(lambda state: copy.copy(state["set"])),
    "set.union": lambda: _first(lambda state: set.union(state["set"], state["set"])),
    "difference": lambda: _first(lambda state: state["set"].difference([3])),
    "update": _in_place(lambda made, other: made.update(other)),
    "|=": _in_place(_union_in_place),
    "keys | set": lambda: _first(lambda state: {}.keys() | state["set"]),
    "pop of a copy": lambda: _first(lambda state: [state["set"].copy().pop()]),
    "a list of it": lambda: _first(lambda state: list(state["set"] | set())),
    "a dict of it": lambda: _first(lambda state: dict.fromkeys(state["set"] | set())),
    "itself": lambda: _first(lambda state: state["set"]),
    "a set of it": lambda: _first(lambda state: set(state["set"])),
}


class Base:
    pass


class First(Base):
    k = 2


class Second(Base):
    k = 3


class OfFirst(Base):
    pass


class Left(OfFirst, First):
    pass


class Right(OfFirst, Second):
    pass


def _super(use):
    held = types.SimpleNamespace(one=Left())
    return (lambda x: x * use(held.one)), (lambda: setattr(held.one, "__class__", Right))


SUPERS = {
    "an attribute": lambda: _super(lambda one: super(OfFirst, one).k),
    "getattr": lambda: _super(lambda one: getattr(super(OfFirst, one), "k")),
    "its class": lambda: _super(lambda one: super(OfFirst, one).__self_class__.k),
}


def _module(use, change):
    """A module whose class is a program's own."""

    def make():
        kind = type("Kind", (types.ModuleType,), {})
        kind.__module__ = __name__
        made = types.ModuleType("a_module_of_tests")
        made.K = 2
        sys.modules["a_module_of_tests"] = made
        held = types.SimpleNamespace(module=made, kind=kind)
        globals()["Kind"] = kind
        return (lambda x: x * use(held.module, held.kind)), (lambda: change(held.module, held.kind))

    return make


def _becomes(module, kind):
    module.__class__ = kind


def _gets(name, value):
    def change(module, kind):
        setattr(kind, name, value)
        module.__class__ = kind

    return change


MODULES = {
    "isinstance": _module(lambda module, kind: 2 if isinstance(module, kind) else 3, _becomes),
    "type": _module(lambda module, kind: 2 if type(module) is kind else 3, _becomes),
    "callable": _module(lambda module, kind: 2 if callable(module) else 3, _gets("__call__", lambda self: 1)),
    "truth": _module(lambda module, kind: 2 if module else 3, _gets("__len__", lambda self: 0)),
    "bool": _module(lambda module, kind: 2 if bool(module) else 3, _gets("__bool__", lambda self: False)),
    "any": _module(lambda module, kind: 2 if any([module]) else 3, _gets("__bool__", lambda self: False)),
    "equality": _module(lambda module, kind: 2 if module == 3 else 3, _gets("__eq__", lambda self, other: True)),
    "membership": _module(lambda module, kind: 2 if module in [3] else 3, _gets("__eq__", lambda self, other: True)),
    "attributes": _module(lambda module, kind: module.K, _gets("__getattribute__", lambda self, name: 5)),
}


class Property(property):
    pass


class Reference(weakref.ref):
    pass


class Target:
    pass


class my_lru_cache_wrapper:
    pass


class ellipsis:
    pass


class Net(torch.nn.Module):
    def forward(self, x):
        return x * 2


def _of_class(make, name, value, use=lambda one: 2 if one else 3):
    def case():
        one = make()
        kind = type(one)
        for entry in ("__bool__", "__len__", "__call__"):
            if entry in vars(kind):
                delattr(kind, entry)
        held = types.SimpleNamespace(one=one)
        return (lambda x: x * use(held.one)), (lambda: setattr(kind, name, value))

    return case


def _compiled():
    import ingot

    if "__len__" in vars(Net):
        del Net.__len__
    held = types.SimpleNamespace(one=ingot.compile(Net()))
    return (lambda x: x * (2 if held.one else 3)), (lambda: setattr(Net, "__len__", lambda self: 0))


PARTS = {
    "the truth of a property": _of_class(Property, "__bool__", lambda self: False),
    "the length of a property": _of_class(Property, "__len__", lambda self: 0),
    "the truth of a weak reference": _of_class(lambda: Reference(Target), "__bool__", lambda self: False),
    "the call of a weak reference": _of_class(lambda: Reference(Target), "__call__", lambda self: None, lambda one: 2 if one() is Target else 3),
    "a name of functools'": _of_class(my_lru_cache_wrapper, "__bool__", lambda self: False),
    "a name of Python's": _of_class(ellipsis, "__bool__", lambda self: False),
    "a compiled module": _compiled,
}

CASES = {f"{kind}: {name}": case for kind, cases in
         (("walked", WALKED), ("order", ORDERS), ("super", SUPERS), ("module", MODULES), ("part", PARTS)) for name, case in cases.items()}


def run(name, changed_first):
    """Answers of compiled and plain code, before and after the change."""
    import ingot

    function, change = CASES[name]()
    step = ingot.compile(function, wait=True, config=ingot.Config(agree="off"))
    x = torch.ones(1)
    found = []
    try:
        with torch.no_grad():
            if changed_first:
                change()
            for _ in range(3):
                found.append((step(x).item(), function(x).item()))
            if not changed_first:
                change()
                found.append((step(x).item(), function(x).item()))
    finally:
        sys.modules.pop("a_module_of_tests", None)  # Others walk through all modules, and this one may answer anything.
    return found


@pytest.mark.parametrize("name", CASES)
def test_a_fact_is_watched_whatever_way_leads_to_it(ingot, name):
    found = run(name, changed_first=False)
    assert found[0] != found[-1], "the change changes nothing: the case tells nothing"
    assert all(native == eager for native, eager in found), found


CHILD = """
import json, sys
sys.path[:0] = [{folder!r}, {folder!r}.rpartition("/")[0]]
import test_second_ways as cases
print(json.dumps({{name: cases.run(name, True) for name in cases.CASES}}))
"""


def test_another_process_finds_the_other_state(ingot):
    done = subprocess.run([sys.executable, "-c", CHILD.format(folder=os.path.dirname(__file__))], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for name, found in json.loads(done.stdout.splitlines()[-1]).items():
        assert all(native == eager for native, eager in found), (name, found)


def test_what_has_an_address_in_bytes_is_no_constant(ingot):
    held = types.SimpleNamespace(one=Target())
    step = ingot.compile(lambda x: x * sum(b"%a" % held.one), wait=True)
    before = ingot.stats()["native_calls"]
    with torch.no_grad():
        for _ in range(3):
            step(torch.ones(1))
    assert ingot.stats()["native_calls"] == before


def test_a_set_is_given_out_in_the_order_that_it_is_made_in(ingot):
    held = types.SimpleNamespace(set={0, 8})

    def gives(x):
        return x + 1, held.set | set()

    step = ingot.compile(gives, wait=True, config=ingot.Config(agree="off"))
    with torch.no_grad():
        for _ in range(3):
            step(torch.ones(1))
        held.set.clear()
        held.set.update([8, 0])
        for _ in range(2):
            assert list(step(torch.ones(1))[1]) == list(gives(torch.ones(1))[1]) == [8, 0]
