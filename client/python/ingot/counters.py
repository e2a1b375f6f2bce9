# SPDX-License-Identifier: Apache-2.0
"""Counters of this process, named once; the language of tests and of ``ingot.stats()``."""

import collections
import os
import threading
import typing

from ingot import _native

_lock = threading.Lock()
_counts: "collections.Counter[str]" = collections.Counter()
_seconds: "dict[str, float]" = collections.defaultdict(float)
_NAMES = ("captures", "deferred", "deferred_completed", "compiles", "joins", "entry_hits", "entry_misses", "graph_hits",
          "proven", "specialized", "dependency_misses", "fallbacks", "refusals", "known_refusals", "retired", "verified", "verify_failures", "verify_skipped",
          "agreed", "agreement_failed", "agreement_skipped")


def add(name: str, count: int = 1) -> None:
    """Counts an event; names are those of ``stats()``, refusals also as ``refused_<name>``."""
    with _lock:
        _counts[name] += count


def add_seconds(name: str, seconds: float) -> None:
    """Adds to a time."""
    with _lock:
        _seconds[name] += seconds


_lists: "dict[str, typing.Callable[[], list[typing.Any]]]" = {}


def list_under(name: str, items: "typing.Callable[[], list[typing.Any]]") -> None:
    """Has ``stats()`` say these too, where there are any."""
    _lists[name] = items


_pending_before = 0
"""Pending calls, of those that the call sites count themselves, before the last ``reset``."""


def stats() -> "dict[str, typing.Any]":
    """Counters of this process since it started: recordings (``captures``; among them ``deferred``, which compute nothing that
    is not asked for, and ``deferred_completed``, of which the function kept a tensor), compiles it led, hits, templates that came back
    with code for their gears (``specialized``), fallbacks
    (calls that could not be served and ran eagerly), ``plain_calls`` (that could be served and ran eagerly, to time the plain function or
    because it is faster), refusals by name, those that
    another process had found out (``known_refusals``), native code held against eager's answer to the call it was recorded
    from (``agreed``; ``agreement_failed``; ``agreement_skipped``, also by name: docs/agreed.md), native calls and steps, what a guard
    policy left out (``skipped_watches``: native calls that did not ask what is watched in this process;
    ``skipped_value_guards``: comparisons of values that steered Python), and seconds
    spent in the daemon's answers, recording and binding. While compiles are under way ``under_way`` lists them: ``function``,
    ``since_s``, and what the daemon knows: ``state`` (``queued``, ``compiles``), ``holder`` (the machine that compiles), ``left_s``
    (seconds until it is expected to be done)."""
    with _lock:
        out: "dict[str, typing.Any]" = {name: _counts[name] for name in _NAMES}
        out.update({name: count for name, count in sorted(_counts.items()) if name not in out})
        out["seconds"] = {name: round(value, 6) for name, value in sorted(_seconds.items())}
    calls = _native.call_counters()
    out["native_calls"] = calls["native_calls"]
    out["fallbacks"] += calls["refused_calls"]
    pending = out.pop("pending_calls", 0) + calls["pending_calls"] - _pending_before
    if pending:
        out["pending_calls"] = pending
    if calls["plain_calls"]:
        out["plain_calls"] = calls["plain_calls"]
    if calls["dissenting_calls"]:
        out["dissenting_calls"] = calls["dissenting_calls"]
    out["guard_failures"] = calls["guard_failures"]
    out["value_guard_failures"] = calls["value_guard_failures"]
    out["skipped_watches"] = calls["skipped_watches"]
    out["skipped_value_guards"] = calls["skipped_value_guards"]
    out["verify_skipped"] += calls["verify_skipped"]
    out["native_steps"], out["aten_steps"] = calls["native_steps"], calls["aten_steps"]
    out.update({name: items for name, items in ((name, listed()) for name, listed in _lists.items()) if items})
    return out


def reset() -> None:
    """Sets this process's Python-side counters to zero (for tests and notebooks)."""
    global _pending_before
    _pending_before = _native.call_counters()["pending_calls"]
    with _lock:
        _counts.clear()
        _seconds.clear()


def _forked() -> None:
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_forked)
