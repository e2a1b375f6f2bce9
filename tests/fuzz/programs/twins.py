# SPDX-License-Identifier: Apache-2.0
"""A program and its compiled twin: both take the same steps in processes of their own, and every step must look alike.

A program is the text of a module with ``fn`` (what is compiled), ``inputs()`` (fresh arguments) and, as it likes:

    keywords()    keyword arguments of each call
    mutations     statements, executed in the module one after the other, each before two more calls
    needless      statements that change nothing that ``fn`` reads
    native        whether the second call must be native (True unless said)
    grad          a context manager's name in torch to call under (default: "no_grad")

Statements may call ``step``: the function as it is called, compiled or not.
"""

import ast
import contextlib
import gc
import hashlib
import importlib
import os
import pathlib
import random
import re
import sys
import typing

import changes
import children
import rounding
import snapshots

PROTOCOL = ("inputs", "keywords", "mutations", "needless", "native", "grad", "step")


class Steps(typing.NamedTuple):
    """What one process does: ``None`` calls, a text is executed in the module."""

    folder: str
    module: str
    steps: "list[str | None]"
    compiled: bool
    nudged: bool = False
    """Whether operators round otherwise (rounding.py)."""


class Seen(typing.NamedTuple):
    """One step: the picture of arguments, result and state after it, and what Ingot counted in it."""

    picture: snapshots.Picture
    native: int
    captures: int


def play(plan: Steps) -> "tuple[list[Seen], dict[str, typing.Any], str]":
    """Takes the steps in this process. Also what was counted in all, and the report of the compiled function."""
    import numpy as np
    import torch

    import ingot

    sys.path.insert(0, plan.folder)
    os.chdir(plan.folder)
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)
    snapshots.programs.add(plan.module)
    module = importlib.import_module(plan.module)
    fn = ingot.compile(module.fn, wait=True, config=ingot.Config(first_lookup_ms_max=20_000, connect_ms_max=20_000)) if plan.compiled else module.fn
    module.step = fn
    seen = []
    with getattr(torch, getattr(module, "grad", "no_grad"))(), rounding.Nudged() if plan.nudged else contextlib.nullcontext():
        for step in plan.steps:
            before = ingot.stats()
            picture = _take(module, fn, step)
            after = ingot.stats()
            seen.append(Seen(picture, after["native_calls"] - before["native_calls"], after["captures"] - before["captures"]))
    report = ""
    if plan.compiled:
        with contextlib.suppress(Exception):  # A module keeps its own names.
            report = f"{fn.report()}\nwhy: {fn.why_miss()}"
    return seen, ingot.stats(), report


def _take(module: typing.Any, fn: typing.Any, step: "str | None") -> snapshots.Picture:
    args, kwargs = (), {}
    try:
        if step is not None:
            exec(compile(step, "<mutation>", "exec"), vars(module))
            gc.collect()  # What goes, goes now.
            outcome: "dict[str, typing.Any]" = {}
        else:
            args, kwargs = tuple(module.inputs()), dict(getattr(module, "keywords", dict)())
            result = fn(*args, **kwargs)
            outcome = {"result": list(result) if hasattr(result, "__next__") else result}
    except Exception as e:
        outcome = {"exception": e}
    state = {f"state.{name}": value for name, value in snapshots.of_module(module, PROTOCOL).items()}
    return snapshots.Camera().take_all({"arguments": args, "keywords": kwargs, **outcome, **state})


class Program(typing.NamedTuple):
    """A program's text and what it says of itself."""

    name: str
    text: str
    mutations: "list[str]"
    needless: "list[str]"
    native: "bool | None"


def program(name: str, text: str) -> Program:
    said: "dict[str, typing.Any]" = {"mutations": [], "needless": [], "native": True}
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id in said:
            said[node.targets[0].id] = ast.literal_eval(node.value)
    return Program(name, text, **said)


def cells(file: pathlib.Path) -> "list[Program]":
    """The programs of a file: each begins with a line ``# %% name``, and the lines before the first belong to each."""
    first, *rest = re.split(r"^# %% (\w+).*\n", file.read_text(), flags=re.MULTILINE)
    return [program(f"{file.stem}.{name}", first + text.rstrip() + "\n") for name, text in zip(rest[::2], rest[1::2])]


class Verdict(typing.NamedTuple):
    """``how``: right, wrong, died, hung or invalid (the program itself does not run). ``native``: the second call was;
    ``later``: the share of native ones among the second calls after mutations."""

    how: str
    text: str
    native: bool = False
    later: float = 0.0
    refusals: "tuple[str, ...]" = ()
    needless: "tuple[str, ...]" = ()
    report: str = ""


class Judge:
    """Runs programs on one store and says what became of them."""

    def __init__(self, nurseries: "typing.Sequence[children.Nursery]", folder: pathlib.Path, limit_s: float = 60.0) -> None:
        self._nurseries, self._folder, self._limit_s = nurseries, folder, limit_s
        folder.mkdir(parents=True, exist_ok=True)

    def judge(self, program: Program, starts: "int | None" = 2) -> Verdict:
        """In process: calls, each change followed by two calls. Across processes (unless ``starts`` is None): one without changes, one that
        begins with the needless ones, then for the last ``starts`` mutations one that begins with it; they share what the first has stored,
        and come from one nursery after the other."""
        digest = hashlib.sha256(repr(program).encode()).hexdigest()[:12]
        for part in ("chain", "start"):
            (self._folder / f"{part}_{digest}.py").write_text(program.text)
        chain: "list[str | None]" = [None, None, None]
        for change in (*program.needless, *program.mutations):
            chain += [change, None, None]
        hits = {number for number in range(3, 3 + 3 * len(program.needless)) if chain[number] is None}
        eager = self._eager(f"chain_{digest}", chain)
        if eager.how != "answered":
            return Verdict("invalid", eager.text)
        verdict = self._compare(f"chain_{digest}", chain, eager, "in process", hits)
        if verdict.how != "right" or starts is None:
            return verdict
        starting: "list[list[str | None]]" = [[None, None], [*program.needless, None, None]]
        starting += [[change, None, None] for change in reversed(program.mutations[-starts:] if starts else [])]
        for number, steps in enumerate(starting):
            where = "first process" if number == 0 else f"a process that begins with {steps[:-2]}"
            hits = {len(steps) - 2, len(steps) - 1} if number == 1 and verdict.native else set()
            expected = self._eager(f"start_{digest}", steps, number)
            if expected.how != "answered":
                return Verdict("invalid", expected.text)
            other = self._compare(f"start_{digest}", steps, expected, where, hits, number)
            if other.how != "right":
                return other._replace(native=verdict.native, later=verdict.later, refusals=verdict.refusals)
            verdict = verdict._replace(needless=verdict.needless + other.needless)
        return verdict

    def changed(self, kept: Program, seed: int, count: int) -> Program:
        """The program with changes that are drawn from what it reaches in place of its own (changes.py)."""
        module = f"draw_{hashlib.sha256(kept.text.encode()).hexdigest()[:12]}"
        (self._folder / f"{module}.py").write_text(kept.text)
        drawn = self._nurseries[0].run("changes:draw", changes.Draw(str(self._folder), module, PROTOCOL, seed, count), self._limit_s)
        if drawn.how != "answered" or not drawn.value:
            return kept
        return program(kept.name, f"{kept.text}\nmutations = {drawn.value!r}\nneedless = []\nnative = None\n")

    def _run(self, process: int, steps: Steps) -> children.Outcome:
        return self._nurseries[process % len(self._nurseries)].run("twins:play", steps, self._limit_s)

    def _eager(self, module: str, steps: "list[str | None]", process: int = 0, nudged: bool = False) -> children.Outcome:
        return self._run(process, Steps(str(self._folder), module, steps, False, nudged))

    def _compare(self, module: str, steps: "list[str | None]", eager: children.Outcome, where: str, hits: "set[int]", process: int = 0) -> Verdict:
        """``hits``: the steps that must be native without a capture, where the second call was."""
        found = self._run(process, Steps(str(self._folder), module, steps, True))
        if found.how != "answered":
            return Verdict("wrong" if found.how == "raised" else found.how, f"{where}: {found.text}")
        seen, counts, report = found.value
        refusals = tuple(sorted(name[len("refused_"):] for name, count in counts.items() if name.startswith("refused_") and count))
        calls = [number for number, step in enumerate(steps) if step is None]
        native = len(calls) > 1 and seen[calls[1]].native == 1
        again = [seen[number].native for number in calls[3:] if steps[number - 1] is None and steps[number - 2] is not None]
        verdict = Verdict("right", "", native, sum(again) / len(again) if again else float(native), refusals, (), f"{report}\n{found.text}")
        nudged: "children.Outcome | None" = None
        for number, (expected, got) in enumerate(zip(eager.value[0], seen)):
            differs = snapshots.difference(expected.picture, got.picture)
            if differs and nudged is None:
                nudged = self._eager(module, steps, process, nudged=True)
            if differs and nudged.how == "answered":
                differs = snapshots.difference(expected.picture, got.picture, nudged.value[0][number].picture)
            if differs:
                done = " | ".join("call" if step is None else step for step in steps[:number + 1])
                return verdict._replace(how="wrong", text=f"{where}, after {done}\n{differs} ({'native' if got.native else 'eager'} call)")
            if number in hits and native and (got.native, got.captures) != (1, 0):
                verdict = verdict._replace(needless=verdict.needless + (f"{where}: step {number} was not served by what is there\n{report}",))
        return verdict
