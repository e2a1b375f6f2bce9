# SPDX-License-Identifier: Apache-2.0
"""What one call site knows of its entries in the store, and of the calls under way for them."""

import threading
import typing

from ingot import binding, dependencies, exporting, gears, keys, paths, recording


class Entry:
    """What the daemon knows of one entry key, as far as this process has asked."""

    def __init__(self, key: keys.EntryKey) -> None:
        self.key = key
        self.variants: "list[binding.Variant]" = []
        self.rejected = ""
        """Which dependency did not hold, where variants are stored and none can be used here; the daemon is told."""

    def usable(self) -> "list[binding.Variant]":
        """The variants whose dependency record holds in this process now; others wait for their state to return."""
        return [variant for variant in self.variants if variant.holds]

    def check(self, roots: paths.Roots) -> "list[tuple[binding.Variant, str | None]]":
        """Each variant with why its dependency record does not hold in this process, or None."""
        known: "dict[int, str | None]" = {}  # Variants of one recording share their record.
        found = []
        for variant in self.variants:
            fingerprint = hash(tuple(variant.record))
            if fingerprint not in known:
                known[fingerprint] = dependencies.first_mismatch(variant.record, roots)
            found.append((variant, known[fingerprint]))
        return found


class Shape:
    """The calls of one structure: their entry, and what is under way for them."""

    def __init__(self, entry: Entry, declared: "gears.Declared | None" = None) -> None:
        self.entry, self.declared = entry, declared
        self.pending: "set[tuple[typing.Any, ...]]" = set()
        self.eager_reason: "str | None" = None
        self.value_failures = 0


class Job(typing.NamedTuple):
    """A recording on its way to the daemon."""

    shape_key: bytes
    shape: Shape
    call: recording.Call
    sizes: "tuple[typing.Any, ...]"
    captured: recording.Captured
    done: threading.Event
    proof: "exporting.Proof | None" = None
