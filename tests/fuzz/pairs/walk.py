# SPDX-License-Identifier: Apache-2.0
"""Every pair of lowering classes through every kind of view, in f32 and in another type: all pairs once, then all of them another way."""

import math
import random
import typing

import classes
import links
import programs

KINDS = (*links.KINDS, "other")
STRIDE = 1_000_003   # a prime


class Place(typing.NamedTuple):
    producer: int
    consumer: int
    kind: int
    second_type: bool


class Walk:
    """``count`` places; behind them come triples, without end."""

    def __init__(self) -> None:
        self.table = classes.of_table()
        self.names = list(self.table)
        # What reads no tensor consumes nothing.
        self.consumers = [i for i, name in enumerate(self.names) if "Tensor" in name]
        self.pairs = len(self.names) * len(self.consumers)
        self.count = self.pairs * len(KINDS) * 2
        assert math.gcd(STRIDE, self.pairs) == 1   # each pair once a round
        self._maker = programs.Maker()

    def classes(self) -> str:
        """Each class with its rules, and in how many ways each is called."""
        return "\n".join(f"{name}: " + ", ".join(f"{rule} ({len(self._maker.calls[rule])})" for rule in rules) for name, rules in self.table.items())

    def at(self, place: int) -> Place:
        """A round of the walk has every pair once, in an order whose beginnings are samples; no two rounds have it in the same way."""
        turn, number = divmod(place, self.pairs)
        pair = number * STRIDE % self.pairs
        producer, consumer = divmod(pair, len(self.consumers))
        second_type, kind = divmod((turn + producer + consumer) % (2 * len(KINDS)), len(KINDS))
        return Place(producer, self.consumers[consumer], kind, bool(second_type))

    def program(self, place: int) -> "programs.Program | None":
        if place >= self.count:
            return self._triple(place)
        producer, consumer, kind, second_type = self.at(place)
        # The rules of a class in turn: over the other classes, and over the rounds.
        turn = place // self.pairs + producer + consumer
        first, second = (members[turn % len(members):] + members[:turn % len(members)] for members in (self._members(producer), self._members(consumer)))
        # A way that eager takes nothing through says nothing of the pair: the next one that it does.
        for step in range(len(KINDS)):
            made = self._maker.pair(first, KINDS[(kind + step) % len(KINDS)], second, second_type, f"{place}")
            if made:
                return made
        return None

    def _members(self, number: int) -> "list[classes.Rule]":
        return self.table[self.names[number]]

    def _triple(self, place: int) -> "programs.Program | None":
        pick = random.Random(place)
        for _ in range(programs.TRIES_MAX):
            made = self._maker.begun(pick, self._members(pick.randrange(len(self.names))), pick.random() < 0.4)
            for _ in range(2):
                made = made and self._maker.followed(pick, made, pick.choice(KINDS), self._members(pick.choice(self.consumers)))
            if made:
                return made
        return None
