# SPDX-License-Identifier: Apache-2.0
"""Functions that compute with sizes, and with integers and tensors that they keep, in Python: recorded at one size, run at others, held
against eager. What keeps nothing is run at all sizes once more, and is not recorded again.

usage: tests/fuzz/sizes [SECONDS] [--seed N]
"""

import argparse
import importlib
import logging
import pathlib
import random
import sys
import tempfile
import time
import typing

import torch

import ingot

SIZES = ((3, 5), (4, 4), (2, 7), (6, 3), (5, 8), (2, 2), (3, 9), (7, 5), (1, 4), (4, 1), (8, 16), (12, 6), (300, 2), (1, 70000))


class Writer:
    """One method: integers of sizes, tensors made with them, and in every other one state that it reads and changes."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._ints = ["x.shape[0]", "x.shape[1]", "x.size(-1)", "len(x)", "x.numel()"]
        self._lines: "list[str]" = []
        self._places = ["self.n", "self.items[0]", "self.table['m']", "self.slots.k"] if seed % 2 else []
        self._ints += self._places

    def _int(self) -> str:
        return self._random.choice(self._ints)

    def _small(self) -> str:
        return str(self._random.randint(1, 6))

    def _new_int(self) -> None:
        a, b, n = self._int(), self._random.choice([self._int(), self._small()]), self._small()
        f = self._random.choice(["0.5", "1.5", "0.25", "2.0", "0.7", "-0.5"])
        value = self._random.choice([
            f"{a} + {b}", f"{a} - {b}", f"{a} * {n}", f"{a} // {n}", f"{a} % {n}", f"-({a}) + 40", f"min({a}, {b})", f"max({a}, {b}, {n})",
            f"int({a})", f"sum(({a}, {b}))", f"({a}, {b})[0]", f"[v * {n} for v in x.shape][1]", f"tuple(reversed(x.shape))[0]",
            f"{{'k': {a}}}['k']", f"helper({a}, {b})", f"next(iter(x.shape))", f"x.shape[::-1][0]", f"[*x.shape, {n}][-2]", f"int({a} / {n})",
            f"len(range({a}))", f"len(str({a}))", f"{a} if {a} > {b} else {n}", f"abs({a} - {b})", f"divmod({a}, {n})[1]", f"y.shape[0]",
            f"Held({a}).value", f"(lambda v: v + {n})({a})", f"list(zip(x.shape, (1, 2)))[0][0]", f"list(enumerate((7, 8), {a}))[1][0]",
            f"x.stride(0)", f"x.shape.numel()", f"({a}) ** 2 % 50",
            f"int({a} * {f})", f"math.ceil({a} / {n})", f"math.floor({a} * {f} - {b} / 2)", f"math.trunc(({a} - {b}) / {n})",
            f"int(({a} / {n} + {f}) * 2)", f"{a} >> 1", f"({a} << 2) - {b}", f"int(min({a} / {n}, {b} * {f}))", f"{a} if {a} / {n} > {f} else {b}",
            f"round({a} / {n})", f"int({a} ** 0.5)" if "-" not in a else "3", f"len({{{a}, {b}}})", f"bool({a} - {b}) + 1", f"y.t().shape[0]",
        ])
        name = f"i{len(self._lines)}"
        self._lines.append(f"{name} = {value}")
        self._ints.append(name)

    def _new_state(self) -> None:
        place, a, n = self._random.choice(self._places), self._int(), self._small()
        self._lines.append(self._random.choice([
            f"{place} += {n}", f"{place} = {a}", f"{place} = {place} + {a}", f"{place} -= {n}", f"{place} = ({place} + {n}) % 5",
            f"{place} = {place} if {place} > {a} else {place} + 1", f"self.kept = y.mean() + self.kept * {n}", "self.other = self.kept",
            f"y = y + self.kept", f"y = y * (self.other + {place})", f"self.items.append({a}) if len(self.items) < 4 else self.items.pop()",
            f"self.text = str({place})", f"self.kept.add_({n})", "self.kept, self.other = self.other, self.kept", f"{place} *= {n}",
        ]))

    def _new_tensor(self) -> None:
        a, b, n = self._int(), self._int(), self._small()
        self._lines.append("y = " + self._random.choice([
            f"y * {a}", f"y + torch.arange({a}).sum()", f"y.reshape(-1)[: {a}]", f"torch.cat([y.reshape(-1), y.reshape(-1)])[{n}:]",
            f"torch.nn.functional.pad(y, (0, {n}))", f"torch.zeros({n}, abs({a}) + 1) + y.sum()", f"y.reshape(-1)[:: {n}]",
            f"y.reshape(y.numel())", f"y.sum(-1, keepdim=True).expand(*y.shape[:-1], {n})", f"y.reshape(-1)[-{n}:]", f"y.flatten()[{a} - {b}:]",
            f"y if y.shape == x.shape else y.sum() + x", f"y.contiguous() if y.is_contiguous() else y.clone()", f"y.reshape(-1, 1) @ torch.ones(1, {n})",
            f"(y, torch.full(({n},), {a}, dtype=torch.float16))[0]", f"y + torch.full(({n}, 1), -({a}), dtype=torch.uint8).sum()",
            f"y + torch.zeros(({n}, 1), dtype=torch.int8).fill_({a}).sum()",
            f"y / max({a}, 1)", f"y * ({a} / {n})", f"y * (1.0 / max({a}, 1))", f"y + min(1.0, {a} / 10)",
            f"(y - float({a}) / {n})", f"torch.full(({n}, {n}), float({a})) + y.mean()", f"torch.stack([y, y], {0})", f"y.t() if y.dim() == 2 else y",
            f"y * (2 if {a} == {b} else 3)", f"y == y.numel()", f"y.reshape(-1).split({n})[0]", f"written(y, {a})", f"y.repeat(*[1] * (y.dim() - 1), {n})",
        ]) + (".float()" if self._random.random() < 0.2 else ""))

    def text(self) -> str:
        for _ in range(self._random.randint(3, 9)):
            way = self._random.random()
            if self._places and way < 0.4:
                self._new_state()
            else:
                self._new_int() if way < 0.7 else self._new_tensor()
        returned = ", ".join(["y", *self._random.sample([i for i in self._ints if i.startswith("i")] or ["1"], 1)])
        body = "\n        ".join(["y = x * 2", *self._lines, f"return {returned if self._random.random() < 0.3 else 'y'}"])
        return f"""
import math
import torch
class Held:
    def __init__(self, value): self.value = value
def helper(a, b=2):
    return a + b if a != b else a
def written(y, n):
    z = y.clone()
    if z.dim() and z.shape[0]:
        z[: n // 2] += 1
        z[-1] = 0
    return z
class Slots:
    __slots__ = ("k",)
class Machine:
    def __init__(self):
        self.n, self.items, self.table, self.slots, self.text = 0, [2, 1], {{"m": 5}}, Slots(), ""
        self.slots.k = 1
        self.kept, self.other = torch.ones(()), torch.zeros(())
    def program(self, x):
        {body}
    def state(self):
        return self.n, self.items, self.table, self.slots.k, self.text, self.kept, self.other
"""


def outcome(function: typing.Callable[..., typing.Any], x: torch.Tensor) -> typing.Any:
    try:
        return function(x)
    except Exception as error:  # what a user would see
        return type(error)


def differs(found: typing.Any, wanted: typing.Any) -> "str | None":
    if isinstance(wanted, type) or isinstance(found, type):
        return None if found is wanted else f"{found}, eager {wanted}"
    if isinstance(wanted, (tuple, list)):
        if type(found) is not type(wanted) or len(found) != len(wanted):
            return f"{found!r}, eager {wanted!r}"
        return next((why for why in map(differs, found, wanted) if why), None)
    if not isinstance(wanted, torch.Tensor):
        return None if type(found) is type(wanted) and found == wanted else f"{found!r}, eager {wanted!r}"
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return f"{found.dtype} {list(found.shape)}, eager {wanted.dtype} {list(wanted.shape)}"
    strides = [[s for n, s in zip(t.shape, t.stride()) if n > 1] for t in (found, wanted)]
    if strides[0] != strides[1] and found.numel():
        return f"strides {found.stride()}, eager {wanted.stride()} of {list(wanted.shape)}"
    return None if torch.allclose(found.double(), wanted.double(), rtol=1e-4, atol=1e-4, equal_nan=True) else "values"


def is_large(value: typing.Any) -> bool:
    if isinstance(value, (tuple, list)):
        return any(map(is_large, value))
    return isinstance(value, torch.Tensor) and value.numel() > 1 << 20


def recorded_again(step: typing.Callable[..., typing.Any]) -> int:
    """Recordings of calls at the sizes that have all been run."""
    before = ingot.stats()["captures"]
    with torch.no_grad():
        for size in SIZES:
            for x in (torch.randn(*size), torch.randn(*reversed(size)).t()):
                outcome(step, x)
    return int(ingot.stats()["captures"] - before)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seconds", nargs="?", type=float, default=60)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    logging.getLogger("ingot").setLevel(logging.ERROR)
    folder = pathlib.Path(tempfile.mkdtemp())
    sys.path.insert(0, str(folder))
    end, seed, programs, calls, wrong, ranged = time.monotonic() + options.seconds, options.seed, 0, 0, 0, 0
    while time.monotonic() < end:
        text = Writer(seed).text()
        (folder / f"sizes_{seed}.py").write_text(text)
        made, first = importlib.import_module(f"sizes_{seed}").Machine, random.Random(seed).randrange(len(SIZES))
        machine, twin = made(), made()
        step = ingot.compile(machine.program, wait=True)
        with torch.no_grad():
            for size in (SIZES[first], *SIZES):
                for x in (torch.randn(*size), torch.randn(*reversed(size)).t()):
                    wanted = outcome(twin.program, x)
                    if is_large(wanted):  # What a program keeps may double with every call.
                        break
                    why = differs(outcome(step, x), wanted) or differs(machine.state(), twin.state())
                    calls += 1
                    if why is not None:
                        wrong += 1
                        print(f"seed {seed}, {list(x.shape)} {x.stride()}, first {SIZES[first]}: {why}\n{text}\n{step.report()}\n", flush=True)
                        break
                else:
                    continue
                break
        again = 0 if seed % 2 else recorded_again(step)
        if again:
            wrong += 1
            print(f"seed {seed}: {again} calls whose sizes were recorded are recorded again\n{text}\n{step.report()}\n", flush=True)
        programs += 1
        ranged += any(variant["range"] for variant in step.variants)
        seed += 1
    print(f"{programs} programs, {calls} calls, {wrong} wrong; {ranged} had a range; {ingot.stats()['native_calls']} calls native")
    raise SystemExit(wrong != 0)


if __name__ == "__main__":
    main()
