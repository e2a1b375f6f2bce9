# SPDX-License-Identifier: Apache-2.0
"""Functions that write to an object in one place and read one in another, beside eager, where both are one object in some calls and two in others;
and, of odd seeds, functions whose results may share memory (results.py).

usage: tests/fuzz/aliases [SECONDS] [--seed N]
"""

import pathlib
import random
import sys
import tempfile
import typing

import torch

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
import results
import seeds
import sides

PLACES = {
    "a global": ("globals().__setitem__('G{i}', {v})", "G{i}"), "an attribute": ("H[{i}].q = {v}", "H[{i}].q"), "an item": ("D[{i}] = {v}", "D[{i}]"),
    "a list's": ("LISTS[{i}][0] = {v}", "LISTS[{i}][0]"), "a class's": ("CLASSES[{i}].q = {v}", "CLASSES[{i}].q"), "its object's": ("module.q{i} = {v}", "self.q{i}"),
    "a closure's": ("CELLS[{i}]({v})", "cell{i}"), "a default's": ("set_default({i}, {v})", "default{i}"), "a list argument's": ("LIST[{i}] = {v}", "a[{i}]"),
    "an object argument's": ("OBJECT.q{i} = {v}", "b.q{i}"), "a dict argument's": ("DICT['q{i}'] = {v}", "c['q{i}']"), "an argument": ("NAMED['named{i}'] = {v}", "named{i}")}
"""How an object comes there, and how the function finds it."""
KINDS = {
    "[1, 2]": (["{o}.append(5)", "{o}[0] = 9", "{o}.pop()", "{o}.clear()"], ["len({o})", "{o}[0] if {o} else 0", "list({o})", "1 in {o}", "x * len({o})"]),
    "{'u': 1}": (["{o}['u'] = 9", "{o}['v'] = 2", "{o}.pop('u', None)", "{o}.clear()"], ["len({o})", "{o}.get('u')", "list({o})", "'v' in {o}", "x * len({o})"]),
    "{1, 2}": (["{o}.add(5)", "{o}.discard(1)", "{o}.clear()"], ["len({o})", "1 in {o}", "sorted({o})"]),
    "Held()": (["{o}.u = 9", "{o}.v = 2", "del {o}.u", "vars({o})['u'] = 4"], ["hasattr({o}, 'v')", "getattr({o}, 'u', 7)", "vars({o}).get('u')", "x * getattr({o}, 'u', 3)"]),
    "torch.ones(3)": (["{o}.add_(1)", "{o}.mul_(2)", "{o}.tag = 4"], ["{o} * 1", "({o} + x).sum()", "getattr({o}, 'tag', 0)"])}
"""Writes and reads of what is made so."""
SEQUENCES = [[0, 0, 0, 1, 0, 1], [1, 1, 1, 0, 1, 0], [0, 0, 1, 1, 0, 0], [0, 0, 0, 0, 1, 1]]
"""Whether both places have one object, call by call."""
TEXT = """
import torch

class Held:
    def __init__(self):
        self.u = 1

class Empty:
    pass

G0 = G1 = 0
H, D, LISTS, CLASSES = [Empty(), Empty()], {{}}, [[0], [0]], [type("A", (), {{}}), type("B", (), {{}})]
LIST, OBJECT, DICT, NAMED = [0, 0], Empty(), {{}}, {{}}

def make():
    cell0 = cell1 = None
    class Module:
        def f(self, x, a, b, c, named0=None, named1=None, default0=None, default1=None):
            cell0, cell1
            {write}
            return x * 2, {read}
    def set_0(v):
        nonlocal cell0
        cell0 = v
    def set_1(v):
        nonlocal cell1
        cell1 = v
    return Module(), [set_0, set_1]

module, CELLS = make()
f = module.f

def set_default(i, v):
    values = list(type(module).f.__defaults__)
    values[2 + i] = v
    type(module).f.__defaults__ = tuple(values)

def put(is_one):
    first = {new}
    second = first if is_one else {new}
    {put_first}
    {put_second}
    return list(LIST), dict(DICT), dict(NAMED)
"""


def _call(side: sides.Side, name: str, is_one: bool) -> "list[typing.Any]":
    """What the call gives, and all that it can have changed."""
    scope = side.scope
    given, entries, named = scope["put"](is_one)
    try:
        found: typing.Any = side.call(torch.ones(3), given, scope["OBJECT"], entries, **named)
    except Exception as e:
        found = type(e).__name__
    look = sides.Look(name)
    return [look.at(one) for one in (found, given, entries, named, vars(scope["OBJECT"]), *map(vars, scope["H"]), scope["G0"], scope["G1"], scope["D"], scope["LISTS"],
                                     [kind.__dict__.get("q") for kind in scope["CLASSES"]], vars(scope["module"]), list(type(scope["module"]).f.__defaults__))]


def check(seed: int) -> "tuple[str, int, int]":
    """(what is wrong, or nothing; calls; how many of them native code served)."""
    if seed % 2 == 1:
        with torch.no_grad():
            return results.check(seed)
    import ingot

    pick, before = random.Random(seed), ingot.stats()["native_calls"]
    new = pick.choice(list(KINDS))
    first, second, sequence = pick.choice(list(PLACES)), pick.choice(list(PLACES)), pick.choice(SEQUENCES)
    writes, reads = KINDS[new]
    text = TEXT.format(new=new, write=pick.choice(writes).format(o=PLACES[first][1].format(i=0)), read=pick.choice(reads).format(o=PLACES[second][1].format(i=1)),
                       put_first=PLACES[first][0].format(i=0, v="first"), put_second=PLACES[second][0].format(i=1, v="second"))
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        path = pathlib.Path(folder, f"aliases_{seed}.py")
        path.write_text(text)
        plain, side = sides.Side(text, path), sides.Side(text, path)
        side.call = ingot.compile(side.scope["f"], wait=True)
        for call, is_one in enumerate(sequence):
            wanted, found = _call(plain, path.stem, bool(is_one)), _call(side, path.stem, bool(is_one))
            if wanted != found:
                said = next(f"  {a}\n  where this was found\n  {b}" for a, b in zip(wanted, found) if a != b)
                return f"{first}, {second}, {sequence}, call {call + 1}\n{said}\n{text}", call + 1, ingot.stats()["native_calls"] - before
    return "", len(sequence), ingot.stats()["native_calls"] - before


if __name__ == "__main__":
    seeds.run(check, __doc__)
