# SPDX-License-Identifier: Apache-2.0
"""For which sizes a variant's code has given what eager gave (docs/agreed.md)."""

import typing
import weakref

from ingot import _native

_live: "weakref.WeakValueDictionary[int, Agreed]" = weakref.WeakValueDictionary()


class Agreed:
    """Of one variant: what the store says of its artifact, and what this process has found."""

    def __init__(self, artifact: str, symbol_count: int, comparisons: "list[dict[str, typing.Any]]") -> None:
        self._artifact = artifact
        self.sizes: typing.Any = _native.AgreedSizes(symbol_count)
        """Of all that is known here; call sites ask it."""
        self.noted: typing.Any = _native.AgreedSizes(symbol_count)
        """Of what the store says."""
        self.comparisons = list(comparisons)
        self.tries = 0
        """Calls that could not be compared, for a reason that passes."""
        self.refused = ""
        """Why no call can be compared."""
        for one in comparisons:
            if not one["why_not"]:
                self.sizes.add(one["sizes"])
                self.noted.add(one["sizes"])
        for other in _of(artifact):
            self.sizes.merge(other.sizes)
        _live[id(self)] = self

    def add(self, sizes: "typing.Sequence[int]") -> None:
        """Native code has given the same at these values of the symbols, for whoever has the artifact."""
        for one in _of(self._artifact):
            one.sizes.add(sizes)

    def note(self, sizes: "typing.Sequence[int]", why_not: str) -> bool:
        """Notes what came of a comparison; False where that is no news."""
        if any((one["sizes"], one["why_not"]) == (list(sizes), why_not) for one in self.comparisons):
            return False
        kept = [one for one in self.comparisons if not one["why_not"]]
        self.comparisons = [*kept, {"sizes": list(sizes), "why_not": why_not, "build": _native.build}]
        if not why_not:
            self.noted.add(sizes)
        return True

    def words(self) -> "list[str]":
        """For people."""
        return [_words(one) for one in self.comparisons] or ["not compared with eager: no process here has recorded it"]


def _of(artifact: str) -> "list[Agreed]":
    # The references at once: other threads come and go while values() are walked through.
    live = [reference() for reference in _live.valuerefs()]
    return [one for one in live if one is not None and one._artifact == artifact]


def _words(one: "dict[str, typing.Any]") -> str:
    if one["why_not"]:
        return f"not compared with eager: {one['why_not']}"
    return f"agreed with eager{' at sizes ' + str(tuple(one['sizes'])) if one['sizes'] else ''} (build {one['build']})"
