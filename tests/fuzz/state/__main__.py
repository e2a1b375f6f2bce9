# SPDX-License-Identifier: Apache-2.0
"""Modules with state beside their plain selves: what each call gives and leaves behind, with nothing stored and with all of it.

Every other seed is a history (histories.py): its tensors part and meet again, and its integers come near the ends of 32, 53 and 64 bits; each fourth of those is taken
once more by another process, on the same store.

usage: tests/fuzz/state [SECONDS] [--seed N]
"""

import pathlib
import subprocess
import sys
import types
import typing

import torch

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
import generate
import histories
import seeds
import sides

ROUNDS = 3
SETTLES_IN = 100
"""Calls of one kind after which none of them is recorded any more, whatever changes between: they are served, or have been given up."""


def _namespace(text: str, name: str) -> "dict[str, typing.Any]":
    sys.modules[name] = types.ModuleType(name)
    scope = vars(sys.modules[name])
    exec(compile(text, f"{name}.py", "exec"), scope)
    return scope


class Side:
    """One of both: a program's own namespace, and what is called in it."""

    def __init__(self, text: str, name: str) -> None:
        self.scope = _namespace(text, name)
        exec("net, cache, other = Net(), Cache(), Cache()", self.scope)
        self.call: typing.Any = self.scope["net"]

    def change(self, statement: str) -> None:
        exec(statement, self.scope)

    def step(self, x: torch.Tensor, k: int, t: "float | None") -> "tuple[typing.Any, ...]":
        """(what the call gives or raises, and all state after it)."""
        try:
            found: typing.Any = self.call(x, self.scope["cache"], k, **({} if t is None else {"t": t}))
        except Exception as e:
            found = type(e).__name__
        net = self.scope["net"]
        state = [found, self.scope["N"], self.scope["Kind"].n, type(net).c, net.a, net.b, net.f, net.items, net.table, net.slots.n, net.slots.t, net.t]
        for cache in (self.scope["cache"], self.scope["other"]):
            state += [cache.n, cache.kept, cache.ready]
        return tuple(state)


class History:
    """One of both, as Side: what is said of its state says as well which tensors are one."""

    def __init__(self, text: str, name: str) -> None:
        self._name, self.scope = name, _namespace(text, name)
        exec("net = Net()", self.scope)
        self.call: typing.Any = self.scope["net"]

    def change(self, statement: str) -> None:
        try:
            exec(statement, self.scope)
        except RuntimeError:  # Rows that do not fit, as on the other side.
            pass

    def step(self, x: torch.Tensor, k: int) -> str:
        look = sides.Look(self._name)
        try:
            found: typing.Any = look.at(self.call(x, k))
        except Exception as e:
            found = type(e).__name__
        return repr((found, look.at(x), look.at(self.scope["net"])))


def recorded_for_ever(side: Side, step: typing.Any, changes: "list[str]") -> int:
    """Recordings in calls that come after many like them."""
    import ingot

    before = 0
    for number in range(SETTLES_IN + 10):
        if number == SETTLES_IN:
            before = ingot.stats()["captures"]
        for change in changes:
            side.change(change)
        side.step(torch.ones(2, 4), 1, None)
        step.wait(60)
    return int(ingot.stats()["captures"] - before)


def check(seed: int) -> "tuple[str, int, int]":
    """(what is wrong, or nothing; calls; how many of them native code served)."""
    return check_history(seed, ("nothing stored", "second start"), seed % 8 == 1) if seed % 2 else check_module(seed)


def check_module(seed: int) -> "tuple[str, int, int]":
    import ingot

    program, calls = generate.Writer(seed), 0
    before = ingot.stats()["native_calls"]
    with torch.no_grad():
        for start in ("nothing stored", "second start"):
            name = f"state_{seed}"
            plain, side = Side(program.text, name), Side(program.text, name)
            side.call = step = ingot.compile(side.scope["net"])
            torch.manual_seed(seed)
            for turn in range(ROUNDS):
                for change in program.changes:
                    plain.change(change)
                    side.change(change)
                    x = torch.randint(-4, 5, (2 + calls % 3, 4)).float()
                    k, t = (calls * 7 % 11 - program.k_from, calls % 4 / 4 if program.gives_t else None)
                    wanted, found = plain.step(x.clone(), k, t), side.step(x.clone(), k, t)
                    calls += 1
                    if seeds.differs(wanted, found):
                        return f"{start}, call {calls}, after {change!r}: {wanted} where {found} was given\n{program.text}\n{program.changes}\n{step.report()}", calls, 0
                    if turn == 0 or calls % 5 == 0:
                        step.wait(60)
            for changes in ([], program.changes[-1:]):
                recorded = recorded_for_ever(side, step, changes)
                if recorded:
                    return f"{start}: {recorded} recordings in 10 calls, {changes} between\n{program.text}\n{step.report()}", calls, 0
    return "", calls, ingot.stats()["native_calls"] - before


def check_history(seed: int, starts: "typing.Sequence[str]", has_other_process: bool) -> "tuple[str, int, int]":
    import ingot

    program, calls = histories.Writer(seed), 0
    before = ingot.stats()["native_calls"]
    with torch.no_grad():
        for start in starts:
            name = f"history_{seed}"
            plain, side = History(program.text, name), History(program.text, name)
            side.call = step = ingot.compile(side.scope["net"])
            torch.manual_seed(seed)
            for turn in range(ROUNDS):
                for change in program.changes:
                    plain.change(change)
                    side.change(change)
                    x = torch.randint(-4, 5, (program.sizes[calls % len(program.sizes)], 4)).float()
                    k = program.numbers[calls % len(program.numbers)]
                    wanted, found = plain.step(x.clone(), k), side.step(x.clone(), k)
                    calls += 1
                    if wanted != found:
                        return f"{start}, call {calls}, k = {k}, after {change!r}: {wanted} where {found} was given\n{program.text}\n{program.changes}\n{step.report()}", calls, 0
                    if turn == 0 or calls % 5 == 0:
                        step.wait(60)
    if has_other_process:
        done = subprocess.run([sys.executable, __file__, "--history", str(seed)], capture_output=True, text=True)
        if done.returncode != 0:
            return done.stdout + done.stderr, calls, 0
    return "", calls, ingot.stats()["native_calls"] - before


if __name__ == "__main__":
    if sys.argv[1:2] == ["--history"]:  # In the store of the process that asks for it.
        fault, _, _ = check_history(int(sys.argv[2]), ("another process",), False)
        sys.exit(fault or None)
    seeds.run(check, __doc__)
