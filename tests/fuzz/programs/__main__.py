# SPDX-License-Identifier: Apache-2.0
"""A differential fuzzer of ordinary Python programs: each is compared with eager, call by call, in process and across processes.

One of three is generated as it is, one gets changes that are drawn from what it reaches, and one is a kept program with such changes.

usage: tools/fuzz programs SECONDS [--seed N] [--shrink N] [--keep FOLDER]
       tests/fuzz/programs --programs N --seed N      (so many programs, however long they take)
       tests/fuzz/programs NAME ...       (judges the programs of tests/python/cases/programs with such names)

Prints each failure, shrunk, and totals. A failure is kept as a cell for test_programs.py.
"""

import argparse
import collections
import hashlib
import math
import pathlib
import random
import re
import sys
import tempfile
import time

import children
import corpus
import generate
import hypothesis
import shrink
import twins

CASES = children.ROOT / "tests/python/cases/programs"
FAILED = ("wrong", "died", "hung")
SHRINK_S = 60.0
"""Longest search for a smaller program."""


class Hunt:
    """Judges programs until the time is over; what failed is shrunk, printed and kept."""

    def __init__(self, judge: twins.Judge, folder: pathlib.Path, shrinks: int) -> None:
        self._judge, self._folder, self._shrinks = judge, folder, shrinks
        self._seen: "set[str]" = set()
        self._kept = kept_programs()
        self.totals: "collections.Counter[str]" = collections.Counter()
        self.refusals: "collections.Counter[str]" = collections.Counter()

    def run(self, seconds: float, programs: float, seed: int) -> None:
        ends = time.monotonic() + seconds

        def over() -> bool:
            return time.monotonic() > ends or self.totals["programs"] >= programs

        def one(program: twins.Program) -> None:
            if over() or program.text in self._seen:
                return
            self._seen.add(program.text)
            program = self._varied(program)
            verdict = self._judge.judge(program)
            self._count(verdict)
            if verdict.how in FAILED:
                self._keep(*self._shrunk(program, verdict))

        settings = hypothesis.settings(max_examples=200, deadline=None, database=None, phases=[hypothesis.Phase.generate],
                                       suppress_health_check=list(hypothesis.HealthCheck))
        while not over():
            hypothesis.seed(seed)(settings(hypothesis.given(generate.programs())(one)))()
            seed += 1

    def _varied(self, program: twins.Program) -> twins.Program:
        chance = random.Random(program.text)
        way = chance.randrange(3)
        return program if way == 0 else self._judge.changed(program if way == 1 else chance.choice(self._kept), chance.randrange(10**9), 4)

    def _shrunk(self, program: twins.Program, verdict: twins.Verdict) -> "tuple[twins.Program, twins.Verdict]":
        self._shrinks -= 1
        if self._shrinks < 0 or verdict.how == "hung":  # Each try would take as long.
            return program, verdict
        best, starts = [(program, verdict)], None if verdict.text.startswith("in process") else 2

        def fails(smaller: twins.Program) -> bool:
            found = self._judge.judge(smaller, starts)
            if (found.how, _kind(found.text)) != (verdict.how, _kind(verdict.text)):
                return False
            best.append((smaller, found))
            return True

        shrink.shrunk(program, fails, SHRINK_S)
        return best[-1]

    def _count(self, verdict: twins.Verdict) -> None:
        self.totals["programs"] += 1
        self.totals[verdict.how] += 1
        if verdict.how == "right":
            self.totals["native"] += verdict.native
            self.totals["needless"] += bool(verdict.needless)
            if not verdict.native:
                said = {re.sub(r"(chain|start)_\w+|\d+", "", line.strip()) for line in verdict.report.splitlines() if line.startswith("  eager: ")}
                self.refusals.update(said or verdict.refusals or ["no reason"])

    def _keep(self, program: twins.Program, verdict: twins.Verdict) -> None:
        name = f"{verdict.how}_{hashlib.sha256(program.text.encode()).hexdigest()[:8]}"
        self._folder.mkdir(parents=True, exist_ok=True)
        said = "\n".join(f"# {line}" for line in verdict.text.splitlines()[:8])
        (self._folder / f"{name}.py").write_text(f"# SPDX-License-Identifier: Apache-2.0\n# %% {name}\n{said}\nnative = None\n{program.text}")
        print(f"== {name}: {verdict.text[:1200]}\n{program.text}", flush=True)


def _kind(text: str) -> "tuple[str, ...]":
    """What of a step differed, and how it was served: a smaller program has to fail in the same way."""
    return tuple(re.findall(r"^\.?(\w*)[^\n]*\((\w+) call\)$", text, flags=re.MULTILINE)[:1])


def kept_programs() -> "list[twins.Program]":
    return [program for file in sorted(CASES.glob("*.py")) for program in twins.cells(file)]


def hunt(given: argparse.Namespace) -> int:
    print(f"seed {given.seed}", flush=True)
    with children.temporary_store() as store, tempfile.TemporaryDirectory() as folder:
        nurseries = children.Nursery.several(store, ["twins"])
        found = Hunt(twins.Judge(nurseries, pathlib.Path(folder)), given.keep, given.shrink)
        found.run(math.inf if given.programs else float(given.what[0]), given.programs or math.inf, given.seed)
        for nursery in nurseries:
            nursery.close()
    totals = found.totals
    ran = max(1, totals["programs"] - totals["invalid"])
    print(f"{totals['programs']} programs ({totals['invalid']} invalid): {totals['wrong']} wrong, {totals['died']} crashed, {totals['hung']} hung, "
          f"{totals['needless']} with needless captures, "
          f"{totals['native'] / ran:.0%} native from the second call")
    for name, count in found.refusals.most_common(20):
        print(f"  {count} {name}")
    return 1 if totals["wrong"] + totals["died"] + totals["hung"] else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="tools/fuzz programs", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", default=["60"], help="seconds, or names of kept programs")
    parser.add_argument("--programs", type=int, help="so many programs instead of seconds")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--shrink", type=int, default=10, help="failures that are made small; further ones are kept as they are")
    parser.add_argument("--keep", type=pathlib.Path, default=CASES, help="where failing programs go")
    given = parser.parse_args()
    if given.programs or given.what[0].replace(".", "").isdigit():
        return hunt(given)
    return corpus.judge([program for program in kept_programs() if any(name in program.name for name in given.what)])


if __name__ == "__main__":
    sys.exit(main())
