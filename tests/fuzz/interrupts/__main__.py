# SPDX-License-Identifier: Apache-2.0
"""Calls that signals and collections of garbage interrupt anywhere: no handler becomes part of a call, none of its exceptions is lost, and what
a call leaves behind is what its first statements, up to one of them, would have left.

usage: tests/fuzz/interrupts [SECONDS] [--seed N]
"""

import gc
import pathlib
import random
import signal
import sys
import traceback
import types
import typing

import torch

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
import seeds

CALLS = 60
SLOWEST_S = 3e-3
"""After so long at most a signal comes: some before the call's first statement, some when it is over."""

PLACES = ["self.done[{i}] += 1", "self.names[{i}] += 1", "self.table[{i}] += 1", "self.a{i} += 1", "cache.a{i} += 1", "N[{i}] += 1", "Kind.a{i} += 1",
          "self.done[{i}] = self.done[{i}] + 1", "self.table[{i}] = self.table[{i}] + 1", "self.slots.c{i} += 1", "self.kept[{i}] = self.kept[{i}] + 1"]
WORK = ["x = torch.tanh(x @ x)", "x = x + 1", "x = torch.relu(x) * 0.5", "x = x.softmax(0)", "rows = [[i] for i in range(300)]", "x = x * len(str(x.shape))",
        "x = torch.cat([x, x])[: x.shape[0]]", "x = x + (1 if float(x.sum()) > 1e9 else 0)"]


class TimeIsUp(Exception):
    """What a handler raises: no bug of anybody's."""


class Program:
    """Every statement that changes something changes one count by one, in turn."""

    def __init__(self, seed: int) -> None:
        pick = random.Random(seed)
        self.count = pick.randint(3, 12)
        self.places = [pick.choice(PLACES) for _ in range(self.count)]
        body = []
        for i, place in enumerate(self.places):
            body += [pick.choice(WORK) for _ in range(pick.randint(0, 2))] + [place.format(i=i)]
        names = range(self.count)
        self.text = "\n".join([
            "import torch", f"N = [0] * {self.count}",
            "class Slots:", "    __slots__ = " + repr(tuple(f"c{i}" for i in names)), "    def __init__(self):", *(f"        self.c{i} = 0" for i in names),
            "class Kind:", *(f"    a{i} = 0" for i in names), "class Cache(Kind):", "    pass",
            "class Net(torch.nn.Module):", "    def __init__(self):", "        super().__init__()",
            f"        self.register_buffer('done', torch.zeros({self.count}))", f"        self.names, self.table = [0] * {self.count}, dict.fromkeys(range({self.count}), 0)",
            f"        self.slots, self.kept = Slots(), [torch.zeros(()) for _ in range({self.count})]", *(f"        self.a{i} = 0" for i in names),
            "    def forward(self, x, cache):", *("        " + line for line in body), "        return x", ""])

    def counts(self, scope: "dict[str, typing.Any]") -> "list[int]":
        found = []
        for i, place in enumerate(self.places):
            target = place.format(i=i).split("=")[0].rstrip(" +").replace("self", "net")
            found.append(int(eval(target, scope)))
        return found


class Seen:
    handled = collected = closed = raised = 0
    where = ""
    """The innermost frames in which the last handler that raised has run."""


def rows() -> "typing.Iterator[int]":
    try:
        yield 1
    finally:
        Seen.closed += 1


def abandon() -> None:
    """A generator that only the collector can close."""
    cycle: "list[typing.Any]" = [rows()]
    next(cycle[0])
    cycle.append(cycle)


def collected(phase: str, info: typing.Any) -> None:
    Seen.collected += 1


def handle(number: int, frame: typing.Any) -> None:
    Seen.handled += 1


def raise_it(number: int, frame: typing.Any) -> None:
    Seen.raised += 1
    Seen.where = "".join(traceback.format_stack(frame)[-4:])
    raise random.choice([TimeIsUp, KeyboardInterrupt])


def interrupted(step: typing.Any, arguments: "tuple[typing.Any, ...]", handler: typing.Any, after_s: float) -> "tuple[torch.Tensor | None, bool]":
    """(what the call gave, whether the handler's exception came through)."""
    result, caught = None, False
    signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, after_s)
        result = step(*arguments)
    except (TimeIsUp, KeyboardInterrupt):
        caught = True
    while True:  # It may still come, here as well.
        try:
            signal.setitimer(signal.ITIMER_REAL, 0)
            return result, caught
        except (TimeIsUp, KeyboardInterrupt):
            caught = True


def check(seed: int) -> "tuple[str, int, int]":
    """(what is wrong, or nothing; calls; how many of them native code served)."""
    import ingot

    random.seed(seed)
    program, before, name = Program(seed), ingot.stats()["native_calls"], f"interrupts_{seed}"
    was, threshold = signal.getsignal(signal.SIGALRM), gc.get_threshold()
    gc.callbacks.append(collected)
    try:
        for start in ("nothing stored", "second start"):
            sys.modules[name] = module = types.ModuleType(name)
            what = run(program, vars(module), name)
            if what:
                return f"{start}, {what}", CALLS, 0
    finally:
        gc.enable()
        gc.set_threshold(*threshold)
        gc.callbacks.remove(collected)
        signal.signal(signal.SIGALRM, was)
        del sys.modules[name]
    return "", 2 * CALLS, ingot.stats()["native_calls"] - before


def run(program: Program, scope: "dict[str, typing.Any]", name: str) -> str:
    """What is wrong, or nothing."""
    import ingot

    exec(compile(program.text, f"{name}.py", "exec"), scope)
    exec("net, cache = Net(), Cache()", scope)
    cache = scope["cache"]
    step = ingot.compile(scope["net"])
    wanted = program.counts(scope)
    raises = random.random() < 0.5
    # Python itself loses what is raised in what collections start.
    gc.set_threshold(10**6 if raises else 50, 2, 2)
    gc.enable()

    def wrong(what: str) -> str:
        return f"{what}; counts {program.counts(scope)}, wanted {wanted}\n{program.text}\n{step.report()}"

    with torch.no_grad():
        for call in range(CALLS):
            x = torch.randn(random.choice([40, 40, 60])).outer(torch.ones(40))[:40] * 0.01
            if not raises:
                abandon()
            seen = Seen.raised
            result, caught = interrupted(step, (x, cache), raise_it if raises else handle, random.uniform(1e-5, SLOWEST_S) if call % 5 else 0)
            if caught != (Seen.raised > seen):
                return wrong(f"call {call}: an exception of a handler was lost at\n{Seen.where}")
            found = program.counts(scope)
            done = [b - a for a, b in zip(wanted, found)]
            if done != sorted(done, reverse=True) or any(one not in (0, 1) for one in done) or (not caught and not all(done)):
                return wrong(f"call {call}: not what the first statements leave ({done})")
            wanted = found
            if result is not None and call % 10 == 0 and not torch.allclose(result, eager(program, x), atol=1e-5, equal_nan=True):
                return wrong(f"call {call}: another result")
            if call % 7 == 6:  # Most calls begin while nothing is stored; the later, the more of them are native.
                step.wait(60)
        step.wait(60)
        gc.collect()
        gc.disable()
        seen_all = Seen.handled, Seen.closed, Seen.raised, Seen.collected
        for _ in range(3):
            step(x, cache)
            wanted = [one + 1 for one in wanted]
        if program.counts(scope) != wanted:
            return wrong("calls that nothing interrupts")
        if (Seen.handled, Seen.closed, Seen.raised, Seen.collected) != seen_all:
            return wrong("an interruption has become part of the call")
    return ""


def eager(program: Program, x: torch.Tensor) -> torch.Tensor:
    scope: "dict[str, typing.Any]" = {"__name__": "plain"}
    exec(program.text + "net, cache = Net(), Cache()\n", scope)
    return typing.cast(torch.Tensor, scope["net"](x, scope["cache"]))


if __name__ == "__main__":
    seeds.run(check, __doc__)
