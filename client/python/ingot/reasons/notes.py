# SPDX-License-Identifier: Apache-2.0
"""What the next process is told of calls that native code does not serve whole, so that it need not find it out."""

import importlib.machinery
import json
import re
import sys
import typing

from ingot import _native
from ingot.config import Config
from ingot.trace import dependencies, paths

Row = tuple[str, str, str]
"""(kind, where, digest as hex) of a dependency (dependencies.py)."""
_BYTES_MAX = 200_000
"""Of the rows: what is left out can only have a note believed too long, which costs speed."""
_OF_ONE_PROCESS = ("!address", "!order", 'builtins:hash("ingot"])')
"""How the places end of which hardly two processes find the same: addresses, and what follows from the number that hashes of texts begin with."""
_MISSING = "missing"
"""A kind of row: a module that nobody finds."""
OF_THIS_RUN = ("internal", "interrupted", "traced", "aliased-input")
"""Reasons that say nothing of other processes: what was in the way was no part of the function."""
_VARIED_MAX = 3
"""Processes that found something else at a place, and came to the same end: it does not depend on that."""
_LIMITS = ("instructions_max", "variants_max", "sizes_max", "value_guard_failures_max", "recordings_in_vain_max")
_OF_LIMITS = re.compile(r"instructions: |value guards failed |more than |\d+ recordings in a row ")


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
    limits: "tuple[int, ...]" = ()
    """``limits_of`` the configuration, where one of them is the reason."""
    varied: "tuple[tuple[str, str, int], ...]" = ()
    """(kind, where, how often) of what other processes found otherwise, and came to the same end."""

    def to_text(self) -> str:
        return json.dumps(self._asdict())

    def mismatch(self, roots: paths.Roots, config: Config) -> "str | None":
        """The first that is not what it was, in words."""
        for name, was, here in zip(_LIMITS, self.limits, limits_of(self.why, config)):
            if was != here:
                return f"{name} was {was}, and is {here}"
        more = sorted(_native.marked_pure().difference(self.told_pure)) if self.why else []
        if more:
            return f"{more[0]} is marked pure now"
        there = next((name for kind, name, _ in self.read if kind == _MISSING and not is_missing(name)), None)
        return f"{there} can be imported now" if there else dependencies.first_mismatch(_record(self.read), roots, is_whole=False)


def note_of(text: str) -> "Note | None":
    """None for what no client of this version has written."""
    try:
        found = Note(**json.loads(text))
        read = tuple((str(kind), str(where), str(digest)) for kind, where, digest in found.read)
        _record(read)
        aside = tuple((sizes, served, plain) for sizes, served, plain in found.aside)
        are_numbers = all(type(number) is int and 0 <= number < 1 << 64 for row in aside for number in row)
        told = tuple(str(name) for name in found.told_pure)
        limits = tuple(int(number) for number in found.limits)
        varied = tuple((str(kind), str(where), int(times)) for kind, where, times in found.varied)
        is_one = isinstance(found.why, str) and found.reason in ("refused", "failed") and are_numbers
        return Note(found.why, found.reason, bool(found.comes_apart), read, aside, told, limits, varied) if is_one else None
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None


def _record(rows: "typing.Iterable[Row]") -> typing.Any:
    return _native.DependencyRecord([(*row, "") for row in rows if row[0] != _MISSING])


def is_missing(name: str) -> bool:
    """Whether an import of a module finds nothing, as far as can be said without running code of a program."""
    top = name.partition(".")[0]
    try:
        return name not in sys.modules and top not in sys.modules and importlib.machinery.PathFinder.find_spec(top) is None
    except (ImportError, ValueError):
        return False


def missing(names: "typing.Iterable[str]") -> "frozenset[Row]":
    """Of modules that a run has tried to import: whoever has them may take another way."""
    return frozenset((_MISSING, name, "") for name in names if is_missing(name))


def limits_of(why: str, config: Config) -> "tuple[int, ...]":
    """The limits that a reason may be about; none for any other reason."""
    return tuple(getattr(config, name) for name in _LIMITS) if _OF_LIMITS.match(why) else ()


def rows_of(record: typing.Any, without: "typing.Container[paths.Path]" = ()) -> "frozenset[Row]":
    """The rows of a ``_native.DependencyRecord``, but for places that hold another thing in each call, or in each process."""
    return frozenset((kind, where, digest) for kind, where, digest, _ in record.rows()
                     if where not in without and kind != "opaque" and not where.endswith(_OF_ONE_PROCESS))


def varied_since(before: Note, rows: "frozenset[Row]") -> "dict[tuple[str, str], int]":
    """How often processes have found something else at each of the places, with those that ``rows`` have, and came to the end of ``before``
    all the same. Code is edited until it comes to another."""
    times = {(kind, where): count for kind, where, count in before.varied}
    found = {(kind, where): digest for kind, where, digest in before.read}
    for kind, where, digest in rows:
        if kind != "code" and found.get((kind, where), digest) != digest:
            times[kind, where] = times.get((kind, where), 0) + 1
    return times


def without_varied(rows: "frozenset[Row]", times: "typing.Mapping[tuple[str, str], int]") -> "frozenset[Row]":
    """What is left to depend on."""
    return frozenset(row for row in rows if times.get(row[:2], 0) < _VARIED_MAX)


def kept(rows: "typing.Iterable[Row]") -> "tuple[Row, ...]":
    """Those that a note has room for, code before all else."""
    found, left = [], _BYTES_MAX
    for row in sorted(rows, key=lambda one: (one[0] != "code", one)):
        left -= sum(map(len, row)) + 20
        if left < 0:
            break
        found.append(row)
    return tuple(found)
