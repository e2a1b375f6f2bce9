# SPDX-License-Identifier: Apache-2.0
"""Programs whose state is tensors in containers and attributes that are the same, lie in each other's memory, part and meet again, and integers near 2**31, 2**53
and 2**63.

Tensors hold small integers: every sum is exact, so that what decides decides alike.
"""

import random

PRELUDE = """
import collections
import torch

Pair = collections.namedtuple("Pair", ("h", "c"))

def small(t):
    return torch.remainder(t, 8) - 3

def held(t):
    return torch.clamp(t, -99, 99)

class Cell:
    pass

class Base:
    def __init__(self):
        self.n = 0
        self.a, self.b, self.cells = Cell(), Cell(), [Cell()]
        self.reset(2)

    def reset(self, n):
        z = torch.zeros(n, 4)
        self.put((z, z.clone()), [z + 1, z + 2], z + 3, z + 4, n)

    def put(self, pair, items, one, other, k):
        self.a.state, self.b.state, self.items, self.table = pair, tuple(t + 1 for t in pair), items, {"one": one, "other": other}
        self.one, self.other, self.named, self.cells[0].state = one, other, Pair(*pair), (items[0], one)
        self.k = k
"""
NUMBERS = [0, 1, 2, 3, 7, -1, -2, (1 << 16) + 1, 1_000_003, 2_097_152, 3_000_000, (1 << 31) - 3, (1 << 31) - 2, (1 << 31) - 1, 1 << 31, -(1 << 31), (1 << 32) + 1, (1 << 51) - 1,
           1 << 51, (1 << 53) - 1, 1 << 53, (1 << 53) + 1, (1 << 62) + 1, (1 << 63) - 1, 1 << 63, -(1 << 63), 1 << 64]
PAIRS = ["self.a.state", "self.b.state", "self.named", "self.cells[0].state"]
LEAVES = ["self.one", "self.other", "self.items[0]", "self.items[1]", "self.table['one']", "self.table['other']", *(f"{pair}[{i}]" for pair in PAIRS for i in (0, 1))]
MADE = ["y", "y + 1", "small(y)", "x", "x * 2"]


class Writer:
    """One program; ``text`` defines ``Net``, ``changes`` are statements for between two calls (empty: none), ``sizes`` the rows of each call's tensor."""

    def __init__(self, seed: int) -> None:
        self._random = pick = random.Random(seed)
        self._pairs, self._leaves = pick.sample(PAIRS, 2), pick.sample(LEAVES, 4)
        self._integers = pick.random() < 0.5
        lines = ["y = x", *(line for _ in range(pick.randint(2, 6)) for line in self._statement())]
        returned = pick.choice(["y", "y, self.n", f"y, {self._leaf()}", f"y, {self._leaf()} is {self._leaf()}", f"(y, {pick.choice(self._pairs)})"])
        self.text = PRELUDE + "class Net(Base):\n    def __call__(self, x, k):\n" + "".join(f"        {line}\n" for line in [*lines, f"return {returned}"])
        self.changes = [self._change() for _ in range(pick.randint(12, 24))]
        self.sizes = [pick.choice([1, 2, 2, 3]) for _ in range(8)]
        self.numbers = [pick.choice(NUMBERS) if pick.random() < 0.4 else pick.randint(0, 5) for _ in range(7)] if self._integers else [2]

    def _leaf(self) -> str:
        return self._random.choice(self._leaves)

    def _int(self) -> str:
        p, n = self._random.choice(["k", "self.k", "self.n", "x.shape[0]"]), self._random.choice(["2", "3", "10**6", "10**9", "10**15", "10**18", str((1 << 31) - 1),
        str((1 << 62) + 3)])
        return self._random.choice([p, f"{p} * {p}", f"{p} * {p} * {p}", f"{p} * {n}", f"{p} + {n}", f"{p} - {n}", f"({p} * {n}) // 7", f"({p} * {n}) % 1000", f"-({p} * {n})",
                                    f"min({p} * {n}, 9)", f"max({p}, {n}) - {n}", f"({p} << 20)", f"{p} ** 3", f"({p} + 2) * ({p} - 2) * {n}"])

    def _statement(self) -> "list[str]":
        pick, pair, other, leaf, a, b = self._random, *self._random.sample(self._pairs, 2), self._leaf(), self._random.choice(MADE), self._random.choice(MADE)
        if self._integers and pick.random() < 0.6:
            n = self._int()
            return [pick.choice([f"y = held(y + ({n}))", f"y = held(y * ({n}))", f"y = held(y + torch.full((4,), {n}))", f"y = held(y.double() * ({n})).float()",
                                 f"y = held(y + torch.arange(({n}) % 5 + 4)[:4])", f"y = torch.where(y > ({n}), y, y + 1)", f"self.k = {n}", "self.n += 1",
                                 f"self.n = ({n}) % 1000",
                                 f"y = held(y + float({n}))", f"y = held(y * (({n}) / 4))", f"y = held(y[:, ({n}) % 4 :][:, :1] + x)", f"y = held(torch.clamp(y, max={n}))",
                                 f"y = y + (1 if ({n}) > {pick.choice(NUMBERS)} else 2)", f"y = held(y + torch.zeros(4).fill_({n}))", f"y = torch.roll(y, {n}, 1)",
                                 f"y = held(y.long() + ({n})).float()", f"y = y + torch.arange({n}, ({n}) + 4) % 3", f"y = held(y + x.new_zeros(({n}) % 7, 4).sum())",
                                 f"y = held(y.long() * ({n}) // 3).float()"])]
        return pick.choice([
            [f"h, c = {pair}", f"y = small(y + h - c * 2)", f"{pair} = ({a}, {b})"], [f"h, c = {pair}", f"{pair} = (small(h + y), small(c * 2 + y))", "y = small(h * 3 + c)"],
            [f"h, c = {pair}", f"{pair} = (h, h)", "y = small(y + h * 2 - c)"], [f"h, c = {pair}", f"{pair} = (c, h)", "y = small(y + h)"], [f"{pair} = {other}"],
            [f"{pair} = Pair({a}, {b})" if pair == "self.named" else f"{pair} = ({a}, {a}[:])"], [f"y = small(y + {leaf})"], [f"y = small(y * 2 - {leaf})"],
            [f"y = y * 2 if {leaf} is {self._leaf()} else y * 3"], [f"y = y + ({self._leaf()} is {pair}[0])"], [f"{pair}[0].add_(1).remainder_(5)"],
            [f"{pair}[1].mul_(2).remainder_(5)"],
            [f"{self._leaf() if '.state' not in leaf and 'named' not in leaf else 'self.one'} = {a}"], [f"{leaf}.add_(y).remainder_(4)"],
            ["self.one, self.other = self.other, self.one"],
            ["self.items.reverse()"], [f"self.items[0] = {leaf}"], [f"self.table['one'] = {leaf}"], [f"y = small(torch.stack([y, {leaf} + y]).sum(0))"],
            [f"y = small(y + len({{id(t) for t in {pair}}}))"], [f"y = y + {{{self._pairs[0]}[0]: 2}}.get({leaf}, 5)"], [f"y = y + sum(t is {leaf} for t in self.items)"],
        ])

    def _change(self) -> str:
        pick, n = self._random, self._random.choice([1, 2, 3])
        if pick.random() < 0.35:
            return ""
        z = f"torch.zeros({n}, 4)"
        return pick.choice([
            f"net.reset({n})", f"net.reset({n})", f"z = {z}; net.put((z, z), [z, z], z, z, {n})", f"z = {z}; net.put((z, z[:]), [z, z[:]], z, z.view({n}, 4), {n})",
            f"z, w = {z}, {z} + 1; net.put((z, w), [w, z], z, w, {n})", f"z, w = {z}, {z} + 1; net.put((z, w), [z, z], w, w, {n})", "net.b.state = net.a.state",
            "net.a.state = net.b.state",
            "net.named = Pair(*net.a.state)", "net.a.state = (net.a.state[0], net.a.state[0])", "net.a.state = tuple(t.clone() for t in net.a.state)", "net.one = net.other",
            "net.other = net.one[:]", "net.one, net.other = net.one.clone(), net.other.clone()", "net.items[0] = net.items[1]", "net.items = [t.clone() for t in net.items]",
            "net.table['one'] = net.one", "net.table = dict(one=net.one, other=net.one)", "net.a = net.b", "net.a = Cell(); net.a.state = (net.one, net.one)",
            "net.cells[0] = net.a",
            f"net.k = {pick.choice(NUMBERS)}", f"net.n = {pick.choice(NUMBERS)}", f"net.k = {pick.choice(NUMBERS)}", f"net.n = {pick.randint(0, 9)}",
        ])
