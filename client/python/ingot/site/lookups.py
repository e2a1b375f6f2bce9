# SPDX-License-Identifier: Apache-2.0
"""What the store has for a callable, and what of it holds in this process."""

import time
import typing

from ingot import counters, errors
from ingot.reasons import miss, notes
from ingot.checks import verification
from ingot.site import binding
from ingot.trace import calls, keys, paths
from ingot.config import has_cluster
from ingot.site.entry import Entry

if typing.TYPE_CHECKING:
    from ingot.site.engine import Engine


class Lookups:
    """The questions of one engine to the daemon, and to its own process."""

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine

    def look_up(self, key: keys.EntryKey, call: calls.Call) -> Entry:
        """What the daemon, or whom it asks, has of an entry; empty where it cannot be asked."""
        engine = self._engine
        entry = Entry(key)
        if engine._link.nothing_stored() and engine.config.on_miss == "compile" and not engine.config.require_cached:
            engine._last_miss = miss.nothing_stored(engine.name)
            counters.add("entry_misses")
            return entry
        began = time.perf_counter()
        try:
            reply = engine._link.get(engine.config.first_lookup_ms_max).lookup(key.components, engine.config.first_lookup_ms_max)
        except errors.Error as e:
            engine._note_daemon_error(e)
            engine._last_miss = miss.unreachable(e)
            return entry
        finally:
            counters.add_seconds("lookup", time.perf_counter() - began)
        if not reply["variants"]:
            engine._last_miss = miss.of_reply(reply)
        note = self._note(entry, reply["in_parts"], call)
        if note is not None:
            entry.aside = {sizes: (served, plain) for sizes, served, plain in note.aside}
            entry.note = note if note.why else None
        if entry.note is not None:
            engine._last_miss = miss.Miss(entry.note.reason, f"found out earlier: {entry.note.why}")
        if reply["variants"]:
            self._admit(entry, reply["variants"], call)
            if not entry.usable() and has_cluster():
                self._ask_again(entry, key, call)
        counters.add("entry_hits" if entry.usable() else "entry_misses")
        return entry

    def _note(self, entry: Entry, text: str, call: calls.Call) -> "notes.Note | None":
        """What another process has found out, where all that it depends on is the same here."""
        note = notes.note_of(text) if text else None
        why = note.mismatch(paths.Roots(self._engine.target, call.objects), self._engine.config) if note is not None else None
        if note is not None and why is not None:
            entry.doubted = note
            self._engine._last_miss = miss.Miss("rejected", f"was {note.why}; tried again: {why}")
        return note if why is None else None

    def _ask_again(self, entry: Entry, key: keys.EntryKey, call: calls.Call) -> None:
        """What this machine has of an entry does not hold here; others may have more of it."""
        engine = self._engine
        began = time.perf_counter()
        try:
            reply = engine._link.get(engine.config.first_lookup_ms_max).lookup(key.components, engine.config.first_lookup_ms_max, True)
        except errors.Error as e:
            return engine._note_daemon_error(e)
        finally:
            counters.add_seconds("lookup", time.perf_counter() - began)
        if len(reply["variants"]) > len(entry.variants):
            self._admit(entry, reply["variants"], call)

    def _admit(self, entry: Entry, variants: "list[dict[str, typing.Any]]", call: calls.Call) -> None:
        """Keeps the variants, and notes whose dependency record holds in this process."""
        engine = self._engine
        began = time.perf_counter()
        found = [binding.Variant(reply) for reply in variants]
        for variant in found:
            engine._comparisons.await_if_required(variant)
        entry.variants = [v for v in found if v.artifact_digest not in verification.quarantined]
        for variant, mismatch in entry.check(paths.Roots(engine.target, call.objects)):
            why = mismatch
            if why is None and engine.config.opaque == "trace" and variant.record.of_kind("opaque"):
                why = "it depends on what cannot be digested"
            variant.holds = why is None
            entry.rejected = why or entry.rejected
        if entry.usable():
            entry.rejected = ""
        elif entry.rejected:
            engine._last_miss = miss.Miss("rejected", f"stored but rejected: {entry.rejected}")
            counters.add("dependency_misses")
        counters.add_seconds("check", time.perf_counter() - began)

    def check_again(self, entry: Entry, call: calls.Call) -> None:
        """Something this process watches has changed: finds the variants whose dependencies hold now."""
        engine = self._engine
        roots = paths.Roots(engine.target, call.objects)
        held = bool(entry.usable())
        for variant, why in entry.check(roots):
            if why is not None and variant.holds:
                engine._last_miss = miss.Miss("rejected", f"changed in this process: {why}")
            variant.holds = why is None
        if held and not entry.usable():
            counters.add("dependency_misses")
            entry.rejected = engine._last_miss.why
