# SPDX-License-Identifier: Apache-2.0
"""Every pair of lowering classes, native against eager, and then triples of them; goes on where it ended.

usage: tests/fuzz/pairs SECONDS [--part I/N]   the next programs of a part of the walk
       tests/fuzz/pairs --programs N           so many programs from the first on, with nothing kept
       tests/fuzz/pairs --triples N            the same of three rules
       tests/fuzz/pairs --report               what all parts have seen so far
       tests/fuzz/pairs --classes              the classes, with their rules and the number of calls of each
       tests/fuzz/pairs --place N [--place M]  programs of these places again
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import typing

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tensors")]

import coverage  # noqa: E402
import walk  # noqa: E402

PROGRAMS_MAX = 600   # of one process and store: both grow


class Campaign:
    """Checks the programs of places in children of its own."""

    def __init__(self, seen: coverage.Coverage) -> None:
        self._seen, self._count = seen, 0
        self._folder: "tempfile.TemporaryDirectory[str] | None" = None

    def check(self, place: int) -> str:
        """What is wrong with the program, or nothing."""
        import child as children

        if self._folder is None or self._count >= PROGRAMS_MAX:
            self.close()
            self._count, self._folder = 0, tempfile.TemporaryDirectory(prefix="ingot-pairs", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
            self._env = {**os.environ, "INGOT_STORE_DIR": os.path.join(self._folder.name, "store")}
            self._child = children.Child(self._env, HERE / "run.py")
        self._count += 1
        answer, how, said = self._child.ask({"place": place})
        answer = {"text": f"place {place}", "wrong": f"{how}: {said}"} if answer is None else answer
        self._seen.add(place, answer)
        return f"place {place}: {answer['text']}\n  {answer['wrong']}" if answer.get("wrong") else ""

    def close(self) -> None:
        if self._folder is not None:
            self._child.close()
            subprocess.run([str(ROOT / "build" / "release" / "bin" / "ingot"), "daemon", "stop"], env=self._env, capture_output=True)
            shutil.rmtree(self._folder.name, ignore_errors=True)
            self._folder = None


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tools/fuzz pairs", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seconds", type=float, nargs="?", default=60.0)
    parser.add_argument("--part", default="1/1", help="of the walk, as 1/2 and 2/2 on two cores")
    parser.add_argument("--programs", type=int, help="so many programs, however long they take, with nothing kept")
    parser.add_argument("--seed", type=int, default=0, help="with --programs and --triples: the first of them")
    parser.add_argument("--place", type=int, action="append", help="checks the program of that place again")
    parser.add_argument("--report", action="store_true", help="prints what all parts have seen")
    parser.add_argument("--classes", action="store_true", help="prints the classes of the operator table")
    parser.add_argument("--triples", type=int, help="so many programs of three rules, with nothing kept")
    parser.add_argument("--state", type=pathlib.Path, default=ROOT / "build" / "fuzz" / "pairs", help="where parts keep how far they are")
    return parser.parse_args()


def places(asked: argparse.Namespace, walked: walk.Walk, seen: coverage.Coverage) -> "typing.Iterator[int]":
    if asked.place:
        yield from asked.place
    elif asked.programs is not None:
        yield from range(asked.seed, asked.seed + asked.programs)
    elif asked.triples is not None:
        yield from range(walked.count + asked.seed, walked.count + asked.seed + asked.triples)
    else:
        number, count = (int(text) for text in asked.part.split("/"))
        ends = time.monotonic() + asked.seconds
        while time.monotonic() < ends:
            yield seen.next * count + number - 1
            seen.next += 1


def main() -> int:
    asked = arguments()
    walked = walk.Walk()
    if asked.classes:
        print(walked.classes())
        return 0
    if asked.report:
        print(coverage.total(asked.state, walked).summary())
        return 0
    keeps = asked.place is None and asked.programs is None and asked.triples is None
    path = asked.state / f"part-{asked.part.replace('/', '-of-')}.json"
    seen = coverage.Coverage(walked, path if keeps else None)
    campaign, failed = Campaign(seen), 0
    try:
        for place in places(asked, walked, seen):
            wrong = campaign.check(place)
            if wrong:
                failed += 1
                print(wrong, flush=True)
            seen.save_sometimes()
    finally:
        campaign.close()
        seen.save()
    print(seen.summary())
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
