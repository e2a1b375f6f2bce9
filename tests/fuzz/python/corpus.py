# SPDX-License-Identifier: Apache-2.0
"""Judges the programs of cases/programs and prints what became of each that is not as it says of itself, and totals.

usage: corpus.py [NAME ...]      (parts of names; all without)
"""

import collections
import pathlib
import sys
import tempfile

import children
import twins


def main(names: "list[str]") -> None:
    files = sorted((children.ROOT / "tests/python/cases/programs").glob("*.py"))
    programs = [p for file in files for p in twins.cells(file) if not names or any(name in p.name for name in names)]
    totals: "collections.Counter[str]" = collections.Counter()
    with children.temporary_store() as store, tempfile.TemporaryDirectory() as folder:
        nursery = children.Nursery(store, ["twins"])
        judge = twins.Judge(nursery, pathlib.Path(folder))
        for program in programs:
            verdict = judge.judge(program)
            how = verdict.how
            if how == "right" and program.native is not None and verdict.native != program.native:
                how = "eager" if program.native else "native"
            elif how == "right" and program.native is not None and verdict.needless:
                how = "needless"
            totals[how] += 1
            totals["served natively"] += verdict.native
            if how != "right":
                print(f"== {how} {program.name}: {verdict.text[:1500]}{' '.join(verdict.refusals)}", *verdict.needless[:1], sep="\n", flush=True)
            if len(programs) < 4:
                print(verdict.report)
        nursery.close()
    print(dict(totals))


if __name__ == "__main__":
    main(sys.argv[1:])
