# SPDX-License-Identifier: Apache-2.0
"""The dependency record: what outside its inputs a recording depended on, and whether it still holds here.

Its rows are the reads that the observer saw (docs/dependencies.md), and the custom operators that ran.
"""

import typing

from ingot import _native
from ingot.trace import custom_ops, paths

Dependency = tuple[str, str, str, str]
"""(kind, where, digest as hex, short text)"""


def of_operators(operators: "typing.Iterable[str]") -> "list[Dependency]":
    """A row for each operator that is not PyTorch's."""
    rows: "list[Dependency]" = []
    for op in filter(_native.is_foreign_operator, operators):
        found = custom_ops.digest(op)
        rows.append(("custom_op", op, *found) if found else
                    ("opaque", f"custom_op {op}", _native.digest_text(op), "no code or library was found that implements it"))
    return rows


def first_mismatch(record: typing.Any, roots: paths.Roots, state_guards: typing.Any = None, validated: typing.Any = None,
                   is_whole: bool = True) -> "str | None":
    """The first dependency that does not hold in this process, in words; None when all hold, and ``state_guards`` is told them.

    A ``validated`` that may serve saves looking at what does not depend on the call's objects; a new one is told that instead of ``state_guards``.
    Of a record that is not the whole of what a run has read, nobody knows which places must lead to two objects.
    """
    for kind, where, digest, text in record.of_kind("custom_op"):
        found = custom_ops.digest(where)
        if found is None:
            return f"{kind} {where}: not found in this process"
        if found[0] != digest:
            return f"{kind} {where} changed" + (f" (was {text})" if text else "")
    difference = _native.check_record(record, roots.named(), state_guards, validated, is_whole)
    return None if difference is None else words(*difference)


def words(row: Dependency, here: "str | None") -> str:
    """``net.py:12 read self.scale = 2.0, now 3.0``"""
    kind, where, _, text = row
    subject = subject_of(kind, where)
    if here is None:
        return f"{subject}: not found in this process" + (f" (was {text})" if text else "")
    value, _, line = text.rpartition(" (")
    line, there = (line.rstrip(")"), value) if value else ("", text)
    said = f"{subject} changed" + (f": {there} -> {here}" if there and there != here else ": its content" if there else "")
    return f"{said} (read at {line})" if line else said


def subject_of(kind: str, where: str) -> str:
    """What a row is about, for people."""
    return str(_native.dependency_subject(kind, where))
