# SPDX-License-Identifier: Apache-2.0
"""Code cut between its statements: whatever the places, the pieces one after the other do what the whole does."""

import random
import types

import fuzzers
import pytest
import torch

from ingot.breaks import cutting

generate = fuzzers.load("pieces", "generate")


def driven(function, breaks, cuttable):
    """A function that runs the pieces, those at ``breaks`` with the iterators of their loops."""

    def made(code):
        return types.FunctionType(code, function.__globals__, function.__name__, None, function.__closure__)

    def run(*args, **kwargs):
        first = made(cuttable.piece(None, cuttable.places if cutting.BEGIN in breaks else breaks))
        first.__defaults__, first.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
        given, steps = first(*args, **kwargs), 0
        iterators = given[0] if len(given) > 1 else ()
        while len(given) > 1:
            _, at, *values = given
            place, keeps = cuttable.places[at], at in breaks
            values = values[:len(place.needed)]
            numbers = [] if keeps else [n for n, v in zip(place.needed, values) if type(v) in (int, float)]
            state = types.SimpleNamespace(**{n: v for n, v in zip(place.needed, values) if n in numbers})
            rest = [v for n, v in zip(place.needed, values) if n not in numbers]
            code = cuttable.piece(place, cuttable.places if keeps else breaks, None, numbers, keeps)
            given = made(code)(*([state] if numbers else []), *rest, *(iterators if keeps else ()))
            if len(given) > 1:
                iterators = given[0] if keeps else iterators[:len(given[0])]
            steps += 1
        run.steps = steps
        return given[0]

    return run


def check(function, calls, cuts=60):
    """Cuts before randomly chosen instructions; returns the most pieces of one run."""
    cuttable, most = cutting.Cuttable(function.__code__), 0
    for seed in range(cuts):
        chosen = random.Random(seed)
        count = len(cuttable._instructions)
        try:
            breaks = cuttable.breaks(chosen.sample(range(count), chosen.randint(1, min(6, count))))
        except cutting.NotCuttable:
            continue  # Handlers of exceptions follow no place.
        run = driven(function, breaks, cuttable)
        for args, kwargs in calls:
            assert run(*args, **kwargs) == function(*args, **kwargs), (seed, breaks)
            most = max(most, run.steps)
    return most


def everything(x, n=3, *more, k=2, **kw):
    total = 0
    for i in range(n):
        y = x * i
        if i % 2:
            total = total + y
        else:
            for j in (1, 2):
                total = total - j * k
                if total > 50:
                    break
            else:
                total += 1
        try:
            z = 1 // (i - 1)
        except ZeroDivisionError:
            z = 5
        total += z
    w = [total + q for q in range(2)]
    while n > 0:
        n -= 1
        if n == 1:
            continue
        total += sum(w)
    with open("/dev/null"):
        total += 1
    for m in more:
        if m > 90:
            return total, m
        total += m
    else:
        total *= 2
    a, b = total, kw.get("b", 4)
    return (a if a > b else b), w


def test_loops_branches_exceptions_and_arguments():
    calls = [((2,), {}), ((2, 5, 1, 2), {"b": 9}), ((1, 0), {"k": 7}), ((3, 4, 1, 99, 2), {})]
    assert check(everything, calls) > 10


def closed_over(value):
    count = [0]

    def function(x):
        count[0] += 1
        y = x + value
        z = [y * i for i in range(3)]
        del x
        for v in z:
            y += v
        return y, len(z)

    return function


def test_closures_comprehensions_and_deleted_names():
    assert check(closed_over(4), [((2,), {}), ((5,), {})]) > 4


@pytest.mark.parametrize("seed", range(24))
def test_generated_programs(seed):
    scope = generate.load(generate.Writer(seed).text, f"cut_{seed}")
    target = scope["make"]()
    function = target.forward.__func__ if isinstance(target, torch.nn.Module) else target
    cuttable = cutting.Cuttable(function.__code__)
    first = (target,) if isinstance(target, torch.nn.Module) else ()
    for cut in range(12):
        chosen = random.Random(cut)
        try:
            breaks = cuttable.breaks(chosen.sample(range(len(cuttable._instructions)), 4))
        except cutting.NotCuttable:
            continue
        run, x = driven(function, breaks, cuttable), torch.randint(-4, 5, (3 + cut % 3, 8)).float()
        seen = []
        for called in (function, run):
            if first:
                target.seen = 0
            result, lines, raised = generate.outcome(scope, lambda x: called(*first, x), x, cut)
            seen.append((str(result), lines, raised, getattr(target, "seen", None)))
        assert seen[0] == seen[1], (cut, breaks)


def generator(x):
    yield x


def sees(x):
    return locals()


async def later(x):
    return x


class Child(dict):
    def method(self, x):
        return super().get(x)


def shares(x):
    y = x + 1
    return lambda: y


def holds(x):
    return any(x == v for v in (1, 2))


@pytest.mark.parametrize("function", [generator, later, Child.method, shares, holds, sees])
def test_what_is_not_understood_is_not_cut(function):
    with pytest.raises(cutting.NotCuttable):
        cutting.Cuttable(function.__code__)


def nested(x):
    for i in range(3):
        for j in range(x):
            x = x + i * j
    return x


def test_no_piece_comes_to_a_loop_whose_iterator_it_has_not():
    cuttable = cutting.Cuttable(nested.__code__)
    inside = [place for place in cuttable.places.values() if place.loops]
    assert len(inside) > 3
    for place in inside:
        with pytest.raises(cutting.NotCuttable, match="has begun before"):
            cuttable.piece(place, ())
        breaks = cuttable.breaks([place.at])
        reached = set().union(*map(cuttable.next_places, breaks)) - breaks
        assert reached and all(cuttable.piece(cuttable.places[at], breaks) for at in reached)


def test_a_name_that_may_not_be_there_is_no_place_to_cut():
    def maybe(x):
        if x > 1:
            y = 2
        x = x + 1
        return x if x < 2 else y

    places = cutting.Cuttable(maybe.__code__).places.values()
    assert len(places) >= 2 and not any("y" in place.needed for place in places)
    check(maybe, [((3,), {}), ((0,), {})])
