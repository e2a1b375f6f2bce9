# SPDX-License-Identifier: Apache-2.0
"""Numbers inside of tuples among the arguments, which differ from call to call: whatever a program does with the tuple, it is the one that
the caller has, and holds what it held."""

import collections
import copy
import dataclasses
import functools
import json
import math
import operator
import pickle

import pytest
import torch
import torch.nn.functional as F

P = collections.namedtuple("P", "a b")
TABLE = {(1, 2): 10.0, (2, 3): 20.0, (3, 2): 5.0, (1.5, 2): 7.0}
SEEN = (2, 3)
KEPT: "dict[str, object]" = {}
memo = functools.lru_cache(maxsize=None)(lambda t: t[0] * 3.0)


@dataclasses.dataclass(frozen=True)
class Frozen:
    t: tuple


class Holder:
    pass


HOLDER = Holder()


def match(x, t):
    match t:
        case (2, b):
            return x * b
        case (a, 2):
            return x + a
        case _:
            return x


BODIES = {
    "items": lambda x, t: x * t[0] + t[1],
    "unpacked": lambda x, t: (lambda a, b: x * a + b)(*t),
    "spread": lambda x, t: x * [*t, 1][0],
    "key": lambda x, t: x * TABLE.get(t, 1.0),
    "key of a new dict": lambda x, t: x * {t: 3.0}.get((2, 3), 1.0),
    "part of a key": lambda x, t: x * TABLE.get((t[0], 2), 1.0),
    "member": lambda x, t: x * 2 if t in TABLE else x,
    "equal": lambda x, t: x * 2 if t == (2, 3) else x,
    "equal inside": lambda x, t: x * 2 if [t] == [(2, 3)] else x,
    "less": lambda x, t: x * 2 if t < (2, 9) else x,
    "holds": lambda x, t: x * (2 in t),
    "largest": lambda x, t: x * max(t) + min(t),
    "sum": lambda x, t: x * sum(t) + math.prod(t),
    "sorted": lambda x, t: x * sorted(t)[0],
    "text": lambda x, t: x * len(f"{t}") + sum(map(ord, str(t))),
    "hash": lambda x, t: x * (hash(t) % 7),
    "position": lambda x, t: x * t.index(t[1]) + t.count(2),
    "put together": lambda x, t: x * (t + (1,))[0] + (t * 2)[2] + t[::-1][0],
    "set": lambda x, t: x * len(set(t) & {2, 3}),
    "memo": lambda x, t: x * memo(t),
    "frozen dataclass": lambda x, t: x * (2 if Frozen(t) in {Frozen((2, 3)): 1} else 3),
    "json": lambda x, t: x * len(json.dumps(t)),
    "pickle": lambda x, t: x * len(pickle.dumps(t)),
    "deep copy": lambda x, t: x * copy.deepcopy([t])[0][0],
    "truth": lambda x, t: x * any(t) + all(i > 1 for i in t),
    "range": lambda x, t: x + len(range(int(t[0]), 10)),
    "same object": lambda x, t: x * 2 if t is SEEN else x,
    "given back": lambda x, t: (x * 2, t),
    "given back, one": lambda x, t: (x * 2, t[0]),
    "given back, new": lambda x, t: (x * 2, (t[1], t[0])),
    "kept": lambda x, t: (KEPT.__setitem__("k", t), x * 2)[1],
    "kept, one": lambda x, t: (setattr(HOLDER, "t", t[0]), x * 2)[1],
    "zip": lambda x, t: sum(x * a * b for a, b in zip(t, (1, 2))),
    "reduce": lambda x, t: x * functools.reduce(operator.mul, t) + operator.itemgetter(1)(t),
    "class": lambda x, t: x * isinstance(t[0], int),
    "named": lambda x, t: x * P(*t).a,
    "match": match,
    "sizes": lambda x, t: torch.zeros(tuple(abs(int(i)) for i in t)) + 1,
    "sizes of an operator": lambda x, t: F.interpolate(x[None, None], size=tuple(abs(int(i)) + 1 for i in t)),
    "padding": lambda x, t: F.pad(x, tuple(map(int, t))),
    "shifts": lambda x, t: x.roll(tuple(map(int, t)), (0, 1)),
    "power": lambda x, t: x.abs() ** t[0],
    "range of values": lambda x, t: x.clamp(*sorted(t)),
    "tensor": lambda x, t: torch.tensor(t).sum() + x,
    "filled": lambda x, t: torch.full((2, 2), t[0]) + x[:2, :2],
    "other branch": lambda x, t: torch.where(x > t[0], x, t[1]),
}
SEQUENCES = {
    "integers": [(1, 2), (2, 3), (3, 2), (2, 3), (1, 2), (5, 7), (1, 2), (9, 4), (2, 3), (0, 1), (-1, 2)],
    "floats": [(1.5, 2.5), (2.0, 3.0), (3.5, 2.0), (1.5, 2), (2, 3), (2.0, 3), (7.5, 1.25)],
}


def outcome(function, x, t):
    KEPT.clear()
    vars(HOLDER).clear()
    before = [*map(id, t)]
    try:
        found = function(x, t)
    except Exception as e:
        found = type(e).__name__
    parts = found if type(found) is tuple else (found,)
    kept = [(name, value, type(value), value is t) for name, value in [*KEPT.items(), *vars(HOLDER).items()]]
    return parts, [part is t for part in parts], kept, [*map(id, t)] == before


def same(one, other):
    if isinstance(one, torch.Tensor):
        return isinstance(other, torch.Tensor) and one.dtype == other.dtype and one.shape == other.shape and torch.allclose(one, other, rtol=1e-5, equal_nan=True)
    return type(one) is type(other) and one == other


@pytest.mark.parametrize("kind", [tuple, P])
@pytest.mark.parametrize("numbers", SEQUENCES)
@pytest.mark.parametrize("body", BODIES)
@torch.no_grad()
def test_what_a_program_does_with_the_tuple(ingot, body, numbers, kind):
    function, random = BODIES[body], torch.Generator().manual_seed(0)
    step = ingot.compile(function)
    for numbers in SEQUENCES[numbers] * 2:
        x, t = torch.randn(4, 5, generator=random), kind(numbers) if kind is tuple else kind(*numbers)
        (wanted, *others), (found, *of_found) = outcome(function, x, t), outcome(step, x, t)
        assert len(wanted) == len(found) and all(map(same, wanted, found)), (numbers, wanted, found)
        assert others == of_found and others[-1], (numbers, others, of_found)
        step.wait()


@torch.no_grad()
def test_a_tuple_that_a_module_keeps_and_others_replace(ingot):
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.at = (0, 1.5)

        def forward(self, x):
            return x * self.at[0] + self.at[1]

    class Counts(Net):
        def forward(self, x):
            self.at = (self.at[0] + 1, self.at[1] * 0.5)
            return super().forward(x)

    for kind in (Net, Counts):
        plain, net, x = kind(), kind(), torch.randn(4, 5)
        step = ingot.compile(net)
        for number in range(14):
            if kind is Net:
                plain.at = net.at = (number, number / 4)
            assert torch.allclose(plain(x), step(x)) and plain.at == net.at and [*map(type, plain.at)] == [*map(type, net.at)]
            step.wait()


@torch.no_grad()
def test_one_recording_serves_them_all(ingot):
    step, x = ingot.compile(lambda x, t: x * t[0] + t[1]), torch.randn(4, 5)
    for number in range(20):
        t = (number / 4, 2.5)
        assert torch.allclose(step(x, t), x * t[0] + t[1])
        step.wait()
    assert ingot.stats()["captures"] == 2 and ingot.stats()["native_calls"] >= 12, step.report()
