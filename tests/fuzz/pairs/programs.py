# SPDX-License-Identifier: Apache-2.0
"""Programs of two rules or three, each of which takes what the one before gives, through a view."""

import dataclasses
import random
import typing

import torch

import calls
import links
from calls import Call, Inputs

ROWS = 5
SIZES = (3, 33, 1)   # small, one more than a tile, one
TRIES_MIN = 8        # for a pair through one kind of view
TRIES_MAX = 40       # for a triple
NUMEL_MAX = 20_000
REFUSALS = (Exception,)   # whatever eager says


@dataclasses.dataclass(frozen=True)
class Link:
    """How a value reaches the next call: a view, what makes it fit, a cast where the call does not take its type, and its place there."""

    view: str
    fit: str
    cast: str
    field: str

    def text(self) -> str:
        parts = [text for text in (self.view, self.fit) if text != "v"]
        return f"{' then '.join(parts) or 'v'}{f'.to({self.cast})' if self.cast else ''} as {self.field}"

    def function(self) -> "typing.Callable[[torch.Tensor], torch.Tensor]":
        view, fit, cast = links.compiled(self.view), links.compiled(self.fit), getattr(torch, self.cast) if self.cast else None

        def run(value: torch.Tensor) -> torch.Tensor:
            value = fit(view(value))
            return value if cast is None else value.to(cast)

        return run


def part(result: typing.Any, at: int) -> typing.Any:
    return result[at % len(result)] if isinstance(result, (list, tuple)) and result else result


def values(dtype: torch.dtype, sizes: "typing.Sequence[int]", generator: torch.Generator, kind: str) -> torch.Tensor:
    """``real`` numbers, ``whole`` ones, whose sums are exact, or ``special`` ones among real ones."""
    if dtype == torch.bool:
        return torch.rand(sizes, generator=generator) < 0.5
    if not dtype.is_floating_point:
        low = 0 if dtype == torch.uint8 else -9
        return torch.randint(low, 10, sizes, generator=generator).to(dtype)
    if kind == "whole":
        return torch.randint(-3, 4, sizes, generator=generator).to(dtype)
    x = torch.rand(sizes, generator=generator, dtype=torch.float64) * 4 - 2
    if kind == "special":
        table = torch.tensor((float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1.0, -1.0, torch.finfo(dtype).tiny), dtype=torch.float64)
        x = torch.where(torch.rand(sizes, generator=generator) < 0.2, table[torch.randint(len(table), sizes, generator=generator)], x)
    return x.to(dtype)


def operands(sizes: "typing.Sequence[int]", dtype: torch.dtype, generator: torch.Generator, kind: str) -> Inputs:
    """What a call may take beside a value of these sizes, and one like it."""
    last, first = list(sizes[-1:]), max([1, *sizes[:1]])
    x, y, tame = (values(dtype, sizes, generator, kind) for _ in range(3))
    if not dtype.is_floating_point and dtype != torch.bool:
        y = torch.where((y == 0) | (y == -1), 2, y).to(dtype)   # torch cannot divide by those
    if kind == "special":
        tame = values(dtype, sizes, generator, "real")
    pick = torch.randint(max([1, *last]), sizes, generator=generator)
    return Inputs(x, y, tame, torch.rand(sizes, generator=generator) < 0.5, values(dtype, last, generator, kind), values(dtype, [], generator, kind),
                  pick, torch.randperm(first, generator=generator)[:3])


class Program:
    """Calls, and the links between them. ``shapes``: sizes and type of what each call takes, by the size of the first one's rows."""

    def __init__(self, first: Call, dtype: str, turn: int) -> None:
        self.calls, self.links, self.dtype, self.turn = [first], list["Link"](), dtype, turn
        self.shapes: "dict[int, list[tuple[list[int], torch.dtype]]]" = {n: [([ROWS, n], getattr(torch, dtype))] for n in SIZES}

    def text(self) -> str:
        return str(self.calls[0]) + "".join(f" | {link.text()} | {call}" for link, call in zip(self.links, self.calls[1:])) + f" | {self.dtype} {self.turn}"

    def inputs(self, n: int, seed: int, kind: str) -> "list[torch.Tensor]":
        """Every tensor that the calls read and no call gives."""
        generator = torch.Generator().manual_seed(seed)
        found = []
        for k, call in enumerate(self.calls):
            given = operands(*self.shapes[n][k], generator, kind)
            found += [getattr(given, field) for field in call.uses if k == 0 or field != self.links[k - 1].field]
        return found

    def function(self) -> "typing.Callable[..., typing.Any]":
        steps = [(call.run, call.uses, link.function() if link else None, link.field if link else "")
                 for call, link in zip(self.calls, [None, *self.links])]
        turn, last = self.turn, len(steps) - 1

        def program(*tensors: torch.Tensor) -> typing.Any:
            value, at = None, 0
            for k, (run, uses, link, field) in enumerate(steps):
                given = dict.fromkeys(Inputs._fields)
                for name in uses:
                    if link is not None and name == field:
                        given[name] = link(value)
                    else:
                        given[name] = tensors[at]
                        at += 1
                value = run(Inputs(**given))
                if k < last:
                    value = part(value, turn)
            return value

        return program

    def given(self) -> "dict[int, torch.Tensor]":
        """What it gives at each of its sizes; nothing where that is no tensor that a call could take."""
        function, found = self.function(), {}
        for n in self.shapes:
            value = _eager(lambda n=n: part(function(*self.inputs(n, 1, "whole")), self.turn))
            if value is not None:
                found[n] = value
        return found

    def extended(self, given: "dict[int, torch.Tensor]", link: Link, call: Call) -> "Program | None":
        """With one more call, at the sizes at which eager takes it; None where that is none. ``given``: its own values."""
        more = Program(self.calls[0], self.dtype, self.turn)
        more.calls, more.links, more.shapes = [*self.calls, call], [*self.links, link], {}
        reaches = link.function()
        for n, before in given.items():
            value = _eager(lambda before=before: reaches(before))
            if value is None:
                continue
            beside = operands(value.shape, value.dtype, torch.Generator().manual_seed(n), "whole")._replace(**{link.field: value})
            if _eager(lambda beside=beside: part(call.run(beside), self.turn)) is not None:
                more.shapes[n] = [*self.shapes[n], (list(value.shape), value.dtype)]
        return more if more.shapes else None


def _eager(run: "typing.Callable[[], typing.Any]") -> "torch.Tensor | None":
    """What eager gives, if that is a tensor with elements, and few."""
    try:
        value = run()
    except REFUSALS:
        return None
    return value if isinstance(value, torch.Tensor) and 0 < value.numel() <= NUMEL_MAX and not value.is_complex() else None


class Maker:
    """Makes programs of rules; the same ones for the same seed."""

    def __init__(self) -> None:
        self.calls = calls.by_rule()

    def pair(self, producers: "typing.Sequence[typing.Any]", kind: str, consumers: "typing.Sequence[typing.Any]", second_type: bool, seed: str) -> "Program | None":
        """A program of one of the producers and one of the consumers, the first ones that eager takes, or None."""
        pick = random.Random(seed)
        for number in range(max(TRIES_MIN, 2 * len(producers), 2 * len(consumers))):
            begun = self.begun(pick, [producers[number % len(producers)]], second_type)
            made = begun and self.followed(pick, begun, kind, [consumers[number % len(consumers)]])
            if made:
                return made
        return None

    def begun(self, pick: random.Random, producers: "typing.Sequence[typing.Any]", second_type: bool) -> "Program | None":
        first = pick.choice(self.calls[pick.choice(producers)] or [None])
        if first is None:
            return None
        types = [dtype for dtype in first.types if (dtype != "float32") == second_type and "float8" not in dtype]
        return Program(first, pick.choice(types or [first.types[0]]), pick.randrange(6))

    def followed(self, pick: random.Random, begun: Program, kind: str, consumers: "typing.Sequence[typing.Any]") -> "Program | None":
        call = pick.choice(self.calls[pick.choice(consumers)] or [None])
        if call is None or not call.uses:
            return None
        others = [field for field in call.uses if field not in ("x", "tame")]
        if kind == "other" and not others:
            return None
        field = pick.choice(others) if kind == "other" else "x" if "x" in call.uses else call.uses[0]
        given = begun.given()
        if not given:
            return None
        views = list(links.KINDS["none" if kind == "other" else kind])
        pick.shuffle(views)
        cast = self._cast(pick, next(iter(given.values())).dtype, call, field, begun.dtype)
        for fit in links.FITS:
            for view in views:
                made = begun.extended(given, Link(view, fit, cast, field), call)
                if made is not None:
                    return made
        return None

    @staticmethod
    def _cast(pick: random.Random, dtype: torch.dtype, call: Call, field: str, wanted: str) -> str:
        if field in ("mask", "pick", "rows"):
            return {"mask": "bool", "pick": "int64", "rows": "int64"}[field] if dtype != (torch.bool if field == "mask" else torch.int64) else ""
        if str(dtype).partition(".")[2] in call.types:
            return ""
        return wanted if wanted in call.types else pick.choice(call.types)
