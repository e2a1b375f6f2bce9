# SPDX-License-Identifier: Apache-2.0
"""What one call site knows of its entries in the store, and of the calls under way for them."""

import collections
import enum
import os
import threading
import typing
import weakref

from ingot import gears
from ingot.reasons import notes
from ingot.checks import kept
from ingot.site import binding, rebinding
from ingot.trace import calls, exporting, keys, paths, recording


_REFUSED_PROOFS_MAX = 3
_BACK_OFFS = (8, 64, 512)
_IN_LINE_MAX = 2
_WAYS_IN_LINE_MAX = 4
_RECORDS_MAX = 8


class Entry:
    """What the daemon knows of one entry key, as far as this process has asked."""

    def __init__(self, key: keys.EntryKey) -> None:
        self.key = key
        self.variants: "list[binding.Variant]" = []
        self.rejected = ""
        """Which dependency did not hold, where variants are stored and none can be used here; the daemon is told."""
        self.note: "notes.Note | None" = None
        """What has been found out of calls that are not served whole, here or in another process."""
        self.doubted: "notes.Note | None" = None
        """What another process has found out, where something that it depends on is something else here."""
        self.aside: "dict[int, tuple[int, int]]" = {}
        """Of calls for which the plain function is faster, by their sizes (client/native/site/timed_call.h): what a served call takes and
        what that takes, in nanoseconds; measured here or in another process."""

    def usable(self) -> "list[binding.Variant]":
        """The variants whose dependency record holds in this process now; others wait for their state to return."""
        return [variant for variant in self.variants if variant.holds]

    def check(self, roots: paths.Roots) -> "list[tuple[binding.Variant, str | None]]":
        """Each variant with why its dependency record does not hold in this process, or None."""
        known: "dict[int, str | None]" = {}  # Variants of one recording share their record.
        found = []
        for variant in self.variants:
            fingerprint = hash(variant.record)
            if fingerprint not in known:
                known[fingerprint] = variant.mismatch(roots)
            found.append((variant, known[fingerprint]))
        return found


class State(enum.Enum):
    """What becomes of a call that no native code serves."""

    LOOKING = enum.auto()
    """It is looked up, and recorded if that finds nothing."""
    RECORDING = enum.auto()
    """A call of these sizes is being recorded, by another thread or an outer call: this one runs eagerly."""
    PENDING = enum.auto()
    """Recorded; native code is on its way, and calls run eagerly until it is here."""
    REFUSED = enum.auto()
    """Every call of the signature runs eagerly for good."""


class SignatureState:
    """The calls of one structure: their entry, and what is under way for them.

    By sizes: LOOKING -> RECORDING -> PENDING -> LOOKING, which finds native code unless the compile failed; any of them ->
    REFUSED, which holds for all sizes.
    """

    def __init__(self, key: bytes, entry: Entry, declared: "gears.Declared | None" = None) -> None:
        self.key, self.entry, self.declared = key, entry, declared
        self._under_way: "dict[tuple[typing.Any, ...], State]" = {}
        self._lock = threading.Lock()
        self.eager_reason: "str | None" = None
        """Why it is REFUSED."""
        self.stays_whole = ""
        """Why its function is not cut."""
        self.parts: "int | None" = None
        """How many of the modules that its calls run are compiled instead of them; None before it has been looked for any."""
        self._read: "frozenset[notes.Row] | None" = None
        """What every run has read that was refused."""
        self.value_failures = 0
        self.refusals = 0
        """Recordings that were refused for something that a second call may do otherwise: what it finds made already."""
        self.moved: "collections.defaultdict[str, set[str]]" = collections.defaultdict(set)
        """Places that a recording read and did not find as they were when it ended: the digests of what it read there."""
        self._calls_to_back_off, self._back_offs = 0, iter(_BACK_OFFS)
        """Calls that are to be eager before the next is recorded; how many the next times."""
        self._record: typing.Any = None
        """Of the recording that was sent last."""
        self._values: "collections.defaultdict[paths.Path, set[str]]" = collections.defaultdict(set)
        """Places that held another value than in the recording before: the digests of those values."""
        self.refused_proofs = 0
        """Deferred recordings that were instances of no template, since the newest template came."""
        self.fruitless = 0
        """Calls since it is REFUSED that no variant's state has served."""
        self.looked_for: "tuple[int, ...] | None" = None
        """The objects, by identity, of the call for which variants were last looked up while something was under way."""
        self._left: "tuple[int, ...] | None" = None
        """The objects, by identity, whose state the recording that was sent last has left behind."""
        self.rebinding = rebinding.Rebinding()
        self._answers: "list[tuple[binding.Served, int]]" = []
        """Of what has come of the recordings sent, newest last: the calls that it serves, and how many it had served by then."""
        self.shares_sizes = True
        """Whether a recording made here is expected to serve other sizes as well; what came back last says so."""
        self.kept: "weakref.ref[kept.Kept] | None" = None
        """Of the call that was recorded last, until it has been compared."""
        self.kinds_kept: "set[tuple[str, ...]]" = set()
        """The kinds of sizes of calls that were kept."""
        self.eager_calls: "list[kept.Kept]" = []
        """Other calls that eager has answered since, and that have not been compared."""
        self.specialized: "set[str]" = set()
        """Graphs for whose gears code has been asked for."""

    def state(self, sizes: "tuple[typing.Any, ...]") -> State:
        """Of calls of these sizes."""
        return State.REFUSED if self.eager_reason is not None else self._under_way.get(sizes, State.LOOKING)

    def awaits_template(self, call: calls.Call) -> bool:
        """Whether what is under way, for whatever sizes, is likely to serve these too: nobody else needs to record. It serves no
        call with objects that it was recorded with and that were changed by that in something that it read."""
        # They are compiled one after the other: more of them in the line bring nothing sooner.
        enough = 1 if self.shares_sizes and not self.entry.usable() else _IN_LINE_MAX
        if self._takes_several_ways(call.sizes()):
            enough = _WAYS_IN_LINE_MAX
        return self.declared is None and len(self._under_way) >= enough and not self._has_left(call.objects)

    def _takes_several_ways(self, sizes: "tuple[typing.Any, ...]") -> bool:
        """Whether calls have been served, and others of equal sizes are under way: what they fetch is of sizes that take another way,
        as caches do that are being filled and are full. Such ways follow each other, and each is taken once in a run."""
        is_alone = sizes in self._under_way and all(other[: len(sizes)] == sizes for other in self._under_way)
        return is_alone and self.served() > 0

    def _has_left(self, objects: "typing.Sequence[typing.Any]") -> bool:
        return self._left == tuple(map(id, objects))

    def sizes_of(self, call: calls.Call) -> "tuple[typing.Any, ...]":
        """By which it is told what is under way for a call."""
        return call.sizes() + (("changed",) if self._has_left(call.objects) else ())

    def beside(self, sizes: "tuple[typing.Any, ...]") -> "tuple[typing.Any, ...]":
        """By which it is told what is under way for a call that no range has taken."""
        is_another = self._takes_several_ways(sizes) and self._under_way[sizes] is State.PENDING
        return (*sizes, "another", len(self._under_way)) if is_another else sizes

    def begin(self, sizes: "tuple[typing.Any, ...]") -> bool:
        """LOOKING -> RECORDING, by one caller alone; False for all others."""
        with self._lock:
            if self.state(sizes) is not State.LOOKING:
                return False
            self._under_way[sizes] = State.RECORDING
            return True

    def sent(self, sizes: "tuple[typing.Any, ...]", changed: "typing.Sequence[typing.Any] | None" = None) -> None:
        """RECORDING -> PENDING, of a recording after which what it read of these objects is something else."""
        self._under_way[sizes] = State.PENDING
        self._left = tuple(map(id, changed)) if changed is not None else None

    def end(self, sizes: "tuple[typing.Any, ...]") -> None:
        """-> LOOKING."""
        self._under_way.pop(sizes, None)

    def refuse(self, why: str) -> None:
        """-> REFUSED."""
        self.eager_reason = why

    def note_read(self, rows: "frozenset[notes.Row]") -> None:
        """Of a run that was refused: what the first calls find otherwise is not what it depends on."""
        self._read = rows if self._read is None else self._read & rows

    def read_in_all(self) -> "frozenset[notes.Row]":
        """What it depends on that calls are not served: of what was refused, or of variants that have served too little."""
        if self._read is not None:
            return self._read
        records = [notes.rows_of(variant.record) for variant in self.entry.variants[:_RECORDS_MAX]]
        return frozenset.intersection(*records) if records else frozenset()

    def why_eager(self) -> str:
        """All of it, in words; empty where it is not refused."""
        why = self.eager_reason or ""
        return f"{why}; the function is not cut: {self.stays_whole}" if why and self.stays_whole else why

    def keeps_changing(self, record: typing.Any) -> "list[paths.Path]":
        """Places at which recordings have found a third value with this one. Two may be the sides of a switch, each with its variant."""
        before, self._record = self._record, record
        changed = record.changed_since(before) if before is not None else []
        for _, where, digest, _ in changed:
            self._values[where].add(digest)
        return [where for _, where, _, _ in changed if len(self._values[where]) > 1]

    def back_off(self) -> bool:
        """Lets some calls be eager before the next one is recorded: what each of the first calls has made anew, a table that grows or a
        history that fills, may stay as it is from then on. False when that has been hoped for often enough."""
        self._calls_to_back_off = next(self._back_offs, 0)
        return self._calls_to_back_off > 0

    def backs_off(self) -> bool:
        """Whether a call is one of those."""
        left, self._calls_to_back_off = self._calls_to_back_off, max(0, self._calls_to_back_off - 1)
        return left > 0

    def served(self) -> int:
        """Calls that its variants have served."""
        return sum(variant.served.total() for variant in self.entry.variants)

    def answered(self, variant: "binding.Variant") -> None:
        """A variant serves what has been recorded, as far as the daemon knows."""
        self._answers.append((variant.served, variant.served.total()))

    def is_in_vain(self, recordings_max: int) -> bool:
        """Whether none of so many recordings has served a call since: each call is of another kind than all before."""
        del self._answers[:-recordings_max]
        return len(self._answers) >= recordings_max and all(served.total() == before for served, before in self._answers)

    def take_over(self, before: "SignatureState") -> None:
        """What is known of the same calls, of which something that the entry key holds has changed."""
        self._answers, self._record, self._values = before._answers, before._record, before._values

    def expects_calls(self) -> None:
        """What has been recorded was recorded for calls to come."""
        self._answers.clear()

    def forget_what_is_under_way(self) -> None:
        """In a child process, where no thread works on it."""
        self._lock, self._under_way = threading.Lock(), {}

    def may_defer(self) -> bool:
        """Whether a recording that computes nothing has a fair chance to be proved: a template is here, or on its way, since
        two recordings are needed to make one."""
        usable = self.entry.usable()
        likely = any(variant.is_template for variant in usable) or len(usable) + list(self._under_way.values()).count(State.PENDING) >= 2
        return likely and self.refused_proofs < _REFUSED_PROOFS_MAX


class Job(typing.NamedTuple):
    """A recording on its way to the daemon."""

    signature: SignatureState
    call: calls.Call
    sizes: "tuple[typing.Any, ...]"
    captured: recording.Captured
    done: threading.Event
    proof: "exporting.Proof | None" = None
    is_deferred: bool = False
    """Nothing was computed: the daemon may prove the recording, not compile it."""
    sibling: "Job | None" = None
    """An earlier recording that has not been sent: both may make one template."""
    gears: "tuple[int, ...]" = ()
    """Asks for code of its own for these values of the symbols, of the template that serves the recording already."""
    since: float = 0.0
    """When it was submitted, of ``time.monotonic``."""
    kept: "kept.Kept | kept.NotCompared | None" = None
    """What native code is to be held against, or why it cannot be; None: nobody asks for that."""

    def name(self) -> str:
        """A name for the daemon, which says under it how far the compile is."""
        return f"{os.getpid()}-{id(self.done):x}"
