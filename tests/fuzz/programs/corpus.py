# SPDX-License-Identifier: Apache-2.0
"""Judges kept programs and prints what became of each that is not as it says of itself."""

import collections
import pathlib
import tempfile
import typing

import children
import twins


def said(program: twins.Program, verdict: twins.Verdict) -> str:
    """The verdict in one word, "right" where all is as the program says."""
    if verdict.how != "right" or program.native is None:
        return verdict.how
    if verdict.native != program.native:
        return "eager" if program.native else "native"
    return "needless" if verdict.needless else "right"


def judge(programs: "typing.Sequence[twins.Program]") -> int:
    totals: "collections.Counter[str]" = collections.Counter()
    with children.temporary_store() as store, tempfile.TemporaryDirectory() as folder:
        nurseries = children.Nursery.several(store, ["twins"])
        one = twins.Judge(nurseries, pathlib.Path(folder))
        for program in programs:
            verdict = one.judge(program)
            how = said(program, verdict)
            totals[how] += 1
            totals["served natively"] += verdict.native
            if how != "right":
                print(f"== {how} {program.name}: {verdict.text[:1500]}{' '.join(verdict.refusals)}", *verdict.needless[:1], sep="\n", flush=True)
            if len(programs) < 4:
                print(verdict.report)
        for nursery in nurseries:
            nursery.close()
    print(dict(totals))
    return 0 if totals["right"] == len(programs) else 1
