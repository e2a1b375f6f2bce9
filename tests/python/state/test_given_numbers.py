# SPDX-License-Identifier: Apache-2.0
"""Integers that native code takes from special methods of a program's classes: sizes stay sizes where the length is asked, and are a part of what
a call does elsewhere; cached functions and tables that are filled."""

import functools

import pytest
import torch


class Boxes:
    def __init__(self, t):
        self.t = t

    def __len__(self):
        return self.t.shape[0]

    def __getitem__(self, i):
        if i >= len(self):
            raise IndexError(i)
        return self.t[i]


class Index:
    def __init__(self, x):
        self.x = x

    def __index__(self):
        return self.x.shape[0]

    def __hash__(self):
        return self.x.shape[0]

    def __eq__(self, other):
        return True


class Nested:
    def __init__(self, inner):
        self.inner = inner

    def __len__(self):
        return len(self.inner) + 1


FOLLOWED = {
    "the mean": lambda b: b.t.sum() / len(b),
    "a slice": lambda b: torch.cat([b.t, b.t])[:len(b)],
    "padding": lambda b: torch.nn.functional.pad(b.t, (0, 9 - len(b))),
    "a length of a length": lambda b: b.t * len(Nested(Nested(b))),
    "the truth": lambda b: b.t * 2 if b else b.t,
    "arithmetic": lambda b: b.t * (len(b) * 2 + 1),
    "by a name": lambda b: b.t * getattr(b, "__len__")()}
FIXED = {
    "a branch": lambda b: b.t * 2 if len(b) > 4 else b.t,
    "rows": lambda b: torch.stack([b[i] * 2 for i in range(len(b))]),
    "all of them": lambda b: torch.stack(list(b)),
    "an operator": lambda b: torch.zeros(Index(b.t)),
    "an index": lambda b: torch.arange(20)[Index(b.t)] * b.t,
    "an item": lambda b: b.t * list(range(20))[Index(b.t)],
    "a slice of a list": lambda b: b.t * len(list(range(20))[:Index(b.t)]),
    "a repetition": lambda b: b.t * len([0] * Index(b.t)),
    "a hash": lambda b: b.t * hash(Index(b.t)),
    "a key": lambda b: b.t * {3: 1, 4: 2, 5: 3}.get(Index(b.t), 0),
    "a display": lambda b: b.t * len({Index(b.t), 3}),
    "an argument": lambda b: b.t.expand(2, Index(b.t))}


@pytest.mark.parametrize("name", FOLLOWED)
def test_a_length_is_a_size(ingot, name):
    step = ingot.compile(FOLLOWED[name], wait=True)
    for n in (4, 3, 5, 6, 8, 7, 2, 9):
        assert torch.allclose(step(Boxes(torch.ones(n))), FOLLOWED[name](Boxes(torch.ones(n)))), n
    assert ingot.stats()["native_calls"] >= 6, step.report()


@pytest.mark.parametrize("name", FIXED)
def test_others_are_what_they_were(ingot, name):
    step = ingot.compile(FIXED[name], wait=True)
    for n in (4, 4, 3, 5, 6, 4, 3):
        wanted, found = FIXED[name](Boxes(torch.ones(n))), step(Boxes(torch.ones(n)))
        assert found.shape == wanted.shape and torch.equal(found, wanted), n
    assert ingot.stats()["native_calls"] > 0


def test_a_cache_whose_length_is_its_position(ingot):
    class Cache:
        def __init__(self):
            self.k, self.seen = None, 0

        def __len__(self):
            return self.seen

    def step(x, cache):
        pos = len(cache)
        x = x + torch.arange(pos, pos + x.size(0))[:, None]
        cache.k = x if cache.k is None else torch.cat([cache.k, x])
        cache.seen = len(cache) + x.size(0)
        return x

    compiled = ingot.compile(step, wait=True)
    for _ in range(3):
        plain, cache = Cache(), Cache()
        for n in (3, 1, 1, 1, 1, 1):
            assert torch.equal(compiled(torch.zeros(n, 1), cache), step(torch.zeros(n, 1), plain))
        assert torch.equal(cache.k, plain.k) and cache.seen == plain.seen
    assert ingot.stats()["native_calls"] >= 8


@functools.lru_cache(maxsize=None)
def mask(n):
    return torch.triu(torch.full((n, n), float("-inf")), 1)


@functools.lru_cache(maxsize=None)
def rotation(n):
    t = torch.arange(n).float()
    return t.cos(), t.sin()


def test_cached_tensors(ingot):
    def masked(x):
        c, s = rotation(x.shape[0])
        return (x @ x.T + mask(x.shape[0])) * c + s

    step = ingot.compile(masked, wait=True)
    for i in range(30):
        x = torch.linspace(-1, 1, (3 + i % 2) * 4).reshape(-1, 4)
        torch.testing.assert_close(step(x), masked(x))
    assert ingot.stats()["native_calls"] >= 8


def test_a_cached_tensor_that_a_call_changes(ingot):
    @functools.lru_cache(maxsize=None)
    def kept(n):
        return torch.zeros(n)

    @functools.lru_cache(maxsize=None)
    def plain(n):
        return torch.zeros(n)

    def add(x, of):
        return of(x.shape[0]).add_(x) * 2

    step = ingot.compile(lambda x: add(x, kept), wait=True)
    for i in range(8):
        assert torch.equal(step(torch.full((3,), float(i))), add(torch.full((3,), float(i)), plain))
    assert torch.equal(kept(3), plain(3))


def test_a_table_under_tuples(ingot):
    class Table(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.kept = {}

        def forward(self, x):
            key = tuple(x.shape)
            if key not in self.kept:
                self.kept[key] = torch.arange(x.numel()).reshape(key).float()
            return x + self.kept[key]

    plain, table = Table(), Table()
    step = ingot.compile(table, wait=True)
    for i in range(30):
        x = torch.ones(2 + i % 2, 3)
        assert torch.equal(step(x), plain(x))
    assert list(table.kept) == list(plain.kept)
    assert ingot.stats()["native_calls"] >= 8
