# SPDX-License-Identifier: Apache-2.0
"""What the next process is told of calls that native code does not serve whole, so that it need not find it out."""

import json
import typing

from ingot import _native
from ingot.trace import dependencies, paths

Row = tuple[str, str, str]
"""(kind, where, digest as hex) of a dependency (dependencies.py)."""
_BYTES_MAX = 200_000
"""Of the rows: what is left out can only have a note believed too long, which costs speed."""


class Note(typing.NamedTuple):
    """Of the calls of one entry. Whoever believes it wrongly runs eagerly what could be native, and nothing worse."""

    why: str
    """Empty where calls are served whole, or would be."""
    reason: str
    """For programs (docs/cli.md): ``refused``, or ``failed`` where the compiler has refused it."""
    comes_apart: bool
    """Whether parts or pieces of it may be served; False: somebody has looked, and there are none."""
    read: "tuple[Row, ...]"
    """What every run has read that came to this end: where it is something else now, it is tried again."""
    aside: "tuple[tuple[int, int, int], ...]" = ()
    """``Entry.aside``, as rows."""
    told_pure: "tuple[str, ...]" = ()
    """Of which callables the user had said that they depend on their arguments alone: each more may be all that was missing."""

    def to_text(self) -> str:
        return json.dumps(self._asdict())

    def mismatch(self, roots: paths.Roots) -> "str | None":
        """The first that is not what it was, in words."""
        more = sorted(_native.marked_pure().difference(self.told_pure)) if self.why else []
        if more:
            return f"{more[0]} is marked pure now"
        return dependencies.first_mismatch(_native.DependencyRecord([(*row, "") for row in self.read]), roots)


def note_of(text: str) -> "Note | None":
    """None for what no client of this version has written."""
    try:
        found = Note(**json.loads(text))
        read = tuple((str(kind), str(where), str(digest)) for kind, where, digest in found.read)
        _native.DependencyRecord([(*row, "") for row in read])
        aside = tuple((sizes, served, plain) for sizes, served, plain in found.aside)
        are_numbers = all(type(number) is int and 0 <= number < 1 << 64 for row in aside for number in row)
        told = tuple(str(name) for name in found.told_pure)
        is_one = isinstance(found.why, str) and found.reason in ("refused", "failed") and are_numbers
        return Note(found.why, found.reason, bool(found.comes_apart), read, aside, told) if is_one else None
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None


def rows_of(record: typing.Any, without: "typing.Container[paths.Path]" = ()) -> "frozenset[Row]":
    """The rows of a ``_native.DependencyRecord``, but for places that hold another thing in each call."""
    return frozenset((kind, where, digest) for kind, where, digest, _ in record.rows() if where not in without and kind != "opaque")


def kept(rows: "typing.Iterable[Row]") -> "tuple[Row, ...]":
    """Those that a note has room for, code before all else."""
    found, left = [], _BYTES_MAX
    for row in sorted(rows, key=lambda one: (one[0] != "code", one)):
        left -= sum(map(len, row)) + 20
        if left < 0:
            break
        found.append(row)
    return tuple(found)
