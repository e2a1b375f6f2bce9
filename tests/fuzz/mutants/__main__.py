# SPDX-License-Identifier: Apache-2.0
"""Plants one fault at a time in the compiler's and client's C++ and asks which test or fuzzer sees it.

Faults are drawn by a seed from all lines that an operator (operators.py) applies to, planted in a worktree of its own (build/mutants/tree, at the
commit of this checkout), built, and held against the tests and fuzzers of their folder (folders.py), the cheap ones first, until one fails. What
does not compile or makes the same objects is drawn again; what equivalent.txt lists does not count. What kills is run once without a fault,
and does not count where it fails then as well.

usage: tools/fuzz mutants [SECONDS] --seed N [--state FILE]   one folder after the other, a fault each, until the time is over or all have --per-folder
       tools/fuzz mutants SECONDS --quick --seed N --state FILE   against unit tests alone; what they do not see is open, until a run without it
       tools/fuzz mutants --again --seed N --state FILE       those that survived or are open once more, against the tests of today
       tools/fuzz mutants --report --seed N --state FILE      the score by folder, and the survivors
       tools/fuzz mutants --draw --seed N                     what would be planted
       tools/fuzz mutants --remove                            the worktree and its build
"""

import argparse
import itertools
import pathlib
import signal
import sys
import time
import typing

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
sys.path.insert(0, str(HERE))

import checks  # noqa: E402
import drawing  # noqa: E402
import folders  # noqa: E402
import score  # noqa: E402
import tree  # noqa: E402


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tools/fuzz mutants", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seconds", type=float, nargs="?", default=float("inf"), help="a fault that is being judged then is judged to its end")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the faults and of the fuzzers (default: the clock)")
    parser.add_argument("--state", type=pathlib.Path, help="goes on with what this file has, one line of JSON for each fault")
    parser.add_argument("--per-folder", type=int, default=8, metavar="N", help="faults that count")
    parser.add_argument("--folders", default=",".join(folders.LIBRARIES), help="some of them, with commas between")
    parser.add_argument("--fuzz", type=float, default=30, metavar="SECONDS", help="of each fuzzer")
    parser.add_argument("--fuzzers", type=int, default=2, metavar="N", help="of a folder, in the order of the table")
    parser.add_argument("--limit", type=float, default=3600, metavar="SECONDS", help="of one fault, at most")
    parser.add_argument("--jobs", type=int, default=1, help="of the compiler")
    parser.add_argument("--only", default="", metavar="NAME,...", help="faults by name, whether they were judged before or not")
    for name, what in (("quick", "unit tests alone"), ("again", "judges survivors once more"), ("report", "prints the score"), ("draw", "prints faults"),
                       ("remove", "the worktree")):
        parser.add_argument(f"--{name}", action="store_true", help=what)
    return parser.parse_args()


TIME = " (time)"
"""Behind the name of a check that has reached its limit."""


class Hunt:
    """Judges faults one by one in one tree."""

    def __init__(self, where: tree.Tree, state: score.State, equivalents: score.Equivalents, asked: argparse.Namespace) -> None:
        self._tree, self._state, self._equivalents, self._asked = where, state, equivalents, asked
        self._checks = checks.Checks(where, asked.seed, asked.fuzz)

    def judge(self, mutant: drawing.Mutant) -> score.Verdict:
        """With a line in the state."""
        began = time.monotonic()
        if reason := self._equivalents.reason(mutant.path, mutant.before, mutant.after):
            found = ("equivalent", reason, "")
        else:
            self._make_plain(folders.LIBRARIES[mutant.folder])
            found = self._outcome(mutant)
        verdict = score.Verdict.of(mutant, found[0], found[1], time.monotonic() - began, found[2])
        self._state.add(verdict)
        return verdict

    def _make_plain(self, targets: "typing.Sequence[str]") -> None:
        self._tree.must_make(targets)
        self._tree.remember_objects()

    def _outcome(self, mutant: drawing.Mutant) -> "tuple[str, str, str]":
        """(outcome, by what, what that said)."""
        tried: "set[str]" = set()
        while True:
            with self._tree.planted(mutant):
                built = self._tree.make(folders.LIBRARIES[mutant.folder])
                if built.status != 0:
                    return ("uncompiled", "", built.said[-600:])
                if not self._tree.changed_objects():
                    return ("unchanged", "", "")
                killer, said = self._killer(mutant, tried)
            if not killer and self._asked.quick:
                return ("open", "", "")
            if not killer:
                return ("survived", f"{len(tried)} of {len(self._chosen(mutant))} checks", "")
            if self._passes_plain(killer.removesuffix(TIME), killer.endswith(TIME)):
                return ("killed", killer, said)

    def _killer(self, mutant: drawing.Mutant, tried: "set[str]") -> "tuple[str, str]":
        """The first check that fails of those that were not tried yet, and what it said."""
        ends = time.monotonic() + self._asked.limit
        for name in self._chosen(mutant):
            if time.monotonic() >= ends:
                break
            if name in tried or not self._state.sound.get(name, (True, 0))[0]:
                continue
            tried.add(name)
            # Targets of other folders may include the header.
            if (built := self._tree.make(self._checks.targets(name))).status != 0:
                return ("compiler of a target", built.said[-600:])
            done = self._checks.run(name, self._known_s(name))
            print(f"    {name}: {'passes' if done.status == 0 else 'fails'} in {done.seconds:.0f} s", flush=True)
            if done.status != 0:
                return (name if done.status != -1 else f"{name} (time)", done.said[-1500:])
        return ("", "")

    def _chosen(self, mutant: drawing.Mutant) -> "list[str]":
        if self._asked.quick:
            return folders.units(mutant.folder)
        names = folders.checks(mutant.folder, mutant.path)
        fuzzers = [name for name in names if name.startswith(".")][: self._asked.fuzzers]
        return [name for name in names if not name.startswith(".") or name in fuzzers]

    def _known_s(self, name: str) -> "float | None":
        return self._state.sound[name][1] if name in self._state.sound else None

    def _passes_plain(self, name: str, at_once: bool) -> bool:
        """Whether a check passes without a fault. It is asked once, but for limits, which other work of the machine can lead to, after each."""
        known = self._state.sound.get(name)
        if name != "compiler of a target" and (known is None or at_once):
            self._tree.must_make(self._checks.targets(name))
            done = self._checks.run(name, known and known[1])
            print(f"    {name} without a fault: {'passes' if done.status == 0 else 'fails'} in {done.seconds:.0f} s", flush=True)
            if known is None:
                self._state.add_check(name, done.status == 0, done.seconds)
            return done.status == 0
        return known is None or known[0]


def chosen(root: pathlib.Path, asked: argparse.Namespace, state: score.State, equivalents: score.Equivalents) -> "typing.Iterator[drawing.Mutant]":
    """One of each folder in turn, behind those that the state has; or those of the state that survived."""
    drawn = {folder: drawing.drawn(root, folder, asked.seed) for folder in asked.folders.split(",")}
    if asked.again or asked.only:
        left = [name for name, one in state.verdicts.items() if score.outcome(one, equivalents) in ("survived", "open")]
        wanted = asked.only.split(",") if asked.only else left
        yield from (mutant for mutants in drawn.values() for mutant in mutants if mutant.name in wanted)
        return
    queues = {folder: iter([one for one in mutants if one.name not in state.verdicts]) for folder, mutants in drawn.items()}
    while queues:
        least = min(queues, key=lambda folder: state.counted(folder, equivalents))
        mutant = next(queues[least], None) if state.counted(least, equivalents) < asked.per_folder else None
        if mutant is None:
            del queues[least]
        else:
            yield mutant


def hunt(asked: argparse.Namespace, state: score.State, equivalents: score.Equivalents, where: tree.Tree) -> int:
    ends = time.monotonic() + asked.seconds
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    where.prepare()
    judge = Hunt(where, state, equivalents, asked)
    for mutant in chosen(where.path, asked, state, equivalents):
        if time.monotonic() >= ends:
            break
        print(f"{mutant.name} {mutant.edit.operator}\n{mutant.diff()}", flush=True)
        verdict = judge.judge(mutant)
        print(f"  {verdict.outcome} {verdict.by} ({verdict.seconds:.0f} s)", flush=True)
    return 0


def main() -> int:
    asked = arguments()
    where = tree.Tree(ROOT, ROOT / "build" / "mutants" / "tree", asked.jobs)
    if asked.remove:
        where.remove()
        return 0
    print(f"seed {asked.seed}", flush=True)
    state = score.State(asked.state, asked.seed)
    equivalents = score.Equivalents((HERE / "equivalent.txt").read_text())
    if asked.draw:
        for mutant in itertools.islice(chosen(ROOT, asked, state, equivalents), 8 * len(folders.LIBRARIES)):
            print(f"{mutant.name} {mutant.edit.operator}\n{mutant.diff()}")
    elif not asked.report:
        hunt(asked, state, equivalents, where)
    print(score.report(state, equivalents, asked.folders.split(",")))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except tree.Failed as failed:
        print(f"mutants: {failed}", file=sys.stderr)
        sys.exit(2)
