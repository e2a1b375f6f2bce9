# SPDX-License-Identifier: Apache-2.0
"""Modules that keep numbers and tensors in places of every sort, change them in each call, and are changed between calls.

Tensors hold small integers, or those over a power of two: every sum is exact, so that what decides decides alike.
"""

import random

PRELUDE = """
import dataclasses
import functools
import sys
import types

import numpy
import torch

R = numpy.float64(0.5)
numpy.set_printoptions(legacy=False)
numpy.seterr(all="ignore")

N = {start[0]}

def small(t):
    return torch.remainder(t, 8) - 3

@functools.lru_cache(maxsize=2)
def kept(n):
    return n * 2 + N % 5 + W.item()

W = torch.tensor(2)

class Kind:
    n = {start[1]}

# Its class says what is equal: a look-up that finds nothing sees no more of a key than its hash.
@dataclasses.dataclass(frozen=True)
class Key:
    n: int

class Slots:
    __slots__ = ("n", "t")

class Cache:
    def __init__(self):
        self.n, self.kept, self.ready = 0, None, False

# Getters made in C, by super() and under another name.
class Plain:
    pass

class Held(Plain):
    attributes = vars(Plain)["__dict__"]

    def __init__(self, n):
        self.n = n

    def by_super(self):
        return super().__dict__["n"]

class Whole(int):
    def by_super(self):
        return super().real

# What one fact has a second way to: an object's class by super(), a module's by what a class gives it.
class Trunk:
    pass

class One:
    n = 1

class Two:
    n = 2

class OfOne(Trunk, One):
    pass

class OfTwo(Trunk, Two):
    pass

class Loaded(types.ModuleType):
    def __len__(self):
        return 0

MODULE = sys.modules["fuzzed_module"] = types.ModuleType("fuzzed_module")

LIST, NAN, OTHER = [1, 2], float("nan"), float("nan")

class Base(torch.nn.Module):
    c = {start[2]}

    def __init__(self):
        super().__init__()
        self.a, self.b, self.f, self.unrelated = {start[3]}, {start[4]}, 0.5, 0
        self.items, self.table = [{start[5]}, 2.0, torch.zeros(4)], {{"k": {start[6]}, "t": torch.ones(4)}}
        self.keyed, self.keys = {{Key(1): 2, Key(2): 5}}, {{Key(0), Key(2)}}
        self.held, self.whole, self.window = Held({start[6]}), Whole(3), numpy.arange(8.0)[:2]
        self.given, self.nan = LIST, NAN
        self.rows, self.index, self.order, self.heir = [[1.0, 2.0]], [1], {{0, 8}}, OfOne()
        self.slots = Slots()
        self.slots.n, self.slots.t = {start[7]}, torch.ones(4)
        self.register_buffer("t", torch.zeros(4))
"""
STARTS = ["0", "1", "2", "3", "7", "-1", "-2", "-6", "1 << 31", "-(1 << 40)"]
INTS = ["self.a", "self.b", "self.items[0]", "self.table['k']", "self.slots.n", "type(self).c", "Kind.n", "N", "cache.n"]
# Of facts that the record knows by another way.
SECOND_WAYS = ["y = small(y + float((numpy.ones((1, 2)) + self.rows)[0, 0]))", "y = small(y + float(numpy.arange(18.0).reshape(9, 2)[self.index, 0][0]))",
               "y = y + next(iter(self.order | set()))", "y = y + [*self.order.copy()][0]", "y = y + super(Trunk, self.heir).n", "y = y * 2 if MODULE else y + 1",
               "y = y * 2 if isinstance(MODULE, Loaded) else y - 1"]
TENSORS = ["self.t", "self.items[2]", "self.table['t']", "self.slots.t", "y[0]"]


class Writer:
    """One program; ``text`` defines ``Net`` and ``Cache``, ``changes`` are statements for between two calls (empty: none)."""

    def __init__(self, seed: int) -> None:
        self._random = pick = random.Random(seed)
        self._ints = pick.sample(INTS, pick.randint(1, 4))
        lines = ["def forward(self, x, cache, k, t=0.5):", "    global N", "    y = x", *("    " + line for line in self._block(2, pick.randint(3, 8))),
                 "    return y, " + pick.choice(["0", self._int(1), self._place()])]
        self.text = PRELUDE.format(start=[pick.choice(STARTS) for _ in range(8)]) + "class Net(Base):\n" + "\n".join("    " + line for line in lines) + "\n"
        self.k_from, self.gives_t = pick.choice([0, 0, 5]), pick.random() < 0.5
        """The number arguments of calls begin there below zero; whether there is one by name."""
        self.changes = [self._change() for _ in range(pick.randint(10, 20))]

    def _place(self) -> str:
        return self._random.choice(self._ints)

    def _int(self, depth: int) -> str:
        pick = self._random
        if depth == 0 or pick.random() < 0.3:
            return pick.choice([self._place(), self._place(), "x.shape[0]", "k", str(pick.randint(-3, 9))])
        a, b = self._int(depth - 1), self._int(depth - 1)
        return pick.choice([f"({a} + {b})", f"({a} - {b})", f"({a} * 2)", f"({a} // {pick.choice([2, 3, -2])})", f"({a} % {pick.choice([3, 5, 7, -4])})",
                            f"min({a}, {b})", f"max({a}, {b})", f"(-{a})", f"abs({a})", f"({a} if {b} > 2 else {pick.randint(-2, 3)})"])

    def _statement(self) -> "list[str]":
        pick, p, q = self._random, self._place(), self._place()
        if pick.random() < 0.2:
            return [pick.choice(SECOND_WAYS)]
        t, step = pick.choice(TENSORS), pick.choice([1, 1, 1, 2, -1, -1, -3])
        return [pick.choice([
            f"{p} += {step}", f"{p} += {step}", f"{p} = ({p} + {step}) % {pick.randint(2, 6)} - {pick.randint(0, 3)}", f"{p} = {self._int(2)}", f"{p}, {q} = {q}, {p}",
            f"{p} = {q}", f"y = y + {p}", f"y = small(y * ({p} % 5))", f"y = y - {self._int(2)} % 9", f"y = small(y[{p} % x.shape[0]] + y)",
            f"y = small(y[:1 + {p} % 3].sum(0) + y)", f"y = small(y + {t})", f"y = torch.where(y > {p}, y, x)", f"self.f = self.f / 2 + {p} % 4", "y = small(y * self.f)",
            "y = small(y * t)", "y = y + k", "self.f = t", f"y = small(y[:k % 4].sum(0) + {p})",
            f"{pick.choice(TENSORS[:4])} = small(y.sum(0))", f"{pick.choice(TENSORS[:4])} = small({t} + y[0])", "self.items[1] = self.items[1] * 0.5 + 1", "y = y + self.items[1]",
            "self.t.add_(y[0]).remainder_(16)", f"{p} = int(y.sum()) % 9 - 4", f"{p} = {p} + int(y[0, 0])",
            "cache.kept = small(y) if cache.kept is None else small(torch.cat([cache.kept, y])[-12:])", "cache.ready, cache.n = True, cache.n + x.shape[0]",
            f"y = small(y + cache.kept.sum(0)) if cache.ready and cache.kept is not None else y * 2", f"self.items.insert(0, self.items.pop(0) + {step})",
            f"self.table = {{**self.table, 'k': {self._int(1)}}}", f"y = small(y + len(range({p} % 4)))", "y = small(y + len(repr(R)))",
            "y = y + min(2, int(min(9.0, R / (R - R))))", f"y = small(y + kept({p} % 3))", "y = small(y * kept(1))", "y = y + kept(x.shape[0] % 2)",
            f"y = small(y * self.keyed.get(Key({p} % 4), 3))", f"y = y * 2 if Key({p} % 3) in self.keys else y - 1", f"y = y + len({{**self.keyed, Key({p} % 4): 1}})",
            "y = small(y + (lambda: 0).__globals__['N'])", "y = small(y + self.held.by_super())", "y = small(y + self.held.attributes['n'])",
            "self.held.attributes['n'] = N % 5", "y = y + self.whole.by_super()", "y = small(y + len(self.window.base))", "y = small(y + float(self.window.T[1]))",
            "y = y * 2 if self.given is LIST else y + 1", "y = y + [NAN, 2.0].count(self.nan)", f"y = y + len({{self.nan, NAN, {p} % 3}})",
            f"y = y * 2 if {p} is {q} else y - 1"])]

    def _block(self, depth: int, count: int) -> "list[str]":
        lines: "list[str]" = []
        for _ in range(count):
            if depth == 0 or self._random.random() < 0.75:
                lines += self._statement()
                continue
            head = self._random.choice([f"if {self._place()} > {self._random.randint(-2, 6)}:", f"if {self._int(1)} == {self._int(1)}:", f"if {self._place()} % 2:",
                                        "if y.sum() > 3:", "if not cache.ready:", "for i in range(2):"])
            lines += [head, *("    " + line for line in self._block(depth - 1, self._random.randint(1, 3)))]
        return lines

    def _change(self) -> str:
        pick, p = self._random, self._place().replace("self", "net")
        if pick.random() < 0.45:
            return ""
        if pick.random() < 0.3:
            return pick.choice([f"net.rows[0][0] = {pick.randint(0, 4)}.0", f"net.index[0] = {pick.randint(0, 8)}",
                                f"net.order.clear(); net.order.update({pick.choice(['[0, 8]', '[8, 0]'])})",
                                f"net.heir.__class__ = {pick.choice(['OfOne', 'OfTwo'])}", f"MODULE.__class__ = {pick.choice(['Loaded', 'types.ModuleType'])}"])
        return pick.choice(["cache = Cache()", "cache = Cache()", "other, cache = cache, other", f"{p} = {pick.choice(STARTS)}", f"{p} += 5", "net.unrelated += 1",
                            "net.items = list(net.items)", "net.table = dict(net.table)", "net.t = net.t + 1", "net.t = net.items[2] = net.t.clone()", "net.f = 2.0",
                            "kept.cache_clear()", "kept.cache_clear()", f"net.keyed = {{Key({pick.randint(0, 3)}): 4, Key({pick.randint(0, 3)}): 7}}",
                            f"net.keys = {{Key({pick.randint(0, 3)})}}", "W.add_(1)", "kept(7)",
                            f"net.held.n = {pick.randint(0, 3)}", f"net.held = Held({pick.randint(0, 3)})", f"net.whole = Whole({pick.randint(0, 5)})",
                            f"net.window = numpy.arange({pick.choice(['8.0', '6.0'])})[:2]", f"net.given = {pick.choice(['LIST', '[1, 2]'])}",
                            f"net.nan = {pick.choice(['NAN', 'OTHER'])}",
                            "cache.n = 0", "cache.kept = torch.ones(5, 4)", "net.slots.t = net.table['t']", "net.eval()", "Kind.other = 1", "Kind.n = Kind.n", f"{p} = True",
                            f"{p} = 1.5", "numpy.set_printoptions(legacy=pick)".replace("pick", pick.choice(["False", "'1.25'"])),
                            f"numpy.seterr(divide={pick.choice(['raise', 'ignore'])!r})"])
