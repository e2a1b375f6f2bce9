# SPDX-License-Identifier: Apache-2.0
"""The comparisons of one call site: native code held against calls that eager has answered (docs/agreed.md)."""

import json
import logging
import threading
import time
import typing
import weakref

from ingot import _native, counters, errors, patterns
from ingot.checks import captures
from ingot.site import background
from ingot.trace import calls, interrupts, recording
from ingot.checks.comparison import Comparison
from ingot.checks.kept import Keeper, Kept, NotCompared

if typing.TYPE_CHECKING:
    from ingot.site import binding
    from ingot.site.engine import Engine
    from ingot.site.entry import Entry, Job, SignatureState

log = logging.getLogger("ingot")
_TRIES_MAX = 3
_KINDS_MAX = 8
_PASSING = frozenset(["weights", "unsteady"])
"""Reasons that another call may not have."""


class Work(typing.NamedTuple):
    """A call that is to be compared in the background."""

    entry: "Entry"
    variant: "binding.Variant"
    kept: Kept
    captured: recording.Captured
    done: threading.Event


class Comparisons:
    """Those of one engine. Calls and the background's threads use it at the same time."""

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._under_way: "set[tuple[typing.Any, ...]]" = set()
        """Variants and kinds of sizes of which a call is being compared: others need not be."""
        self._works: "list[Work]" = []

    # -- on the caller's thread ------------------------------------------------------------------------

    def keeper(self) -> "Keeper | None":
        """For a call that is about to be recorded; None where nothing is compared."""
        config = self._engine.config
        return Keeper(config.agree_bytes_max) if config.agree != "off" else None

    def kept(self, keeper: "Keeper | None", run: recording.Recording, captured: recording.Captured) -> "Kept | NotCompared | None":
        """What a keeper has of a call that has been recorded."""
        try:
            if keeper is None:
                return None
            self._refuse_own_meaning()
            return keeper.of_recording(run, captured)
        except NotCompared as e:
            return e.with_traceback(None)  # Else it and its frames would hold each other.

    def _refuse_own_meaning(self) -> None:
        """NotCompared where the user has said that code is to compute something else than eager."""
        if self._engine.config.passes:
            raise NotCompared("passes", "passes of the user's own may change what is computed")
        unchecked = next((one for one in patterns.registered() if not one.is_checked), None)
        if unchecked is not None:
            raise NotCompared("pattern", f"pattern {unchecked.name!r} was registered with check=False, and may compute something else")

    def await_if_required(self, variant: "binding.Variant") -> None:
        """Before it is installed: whether its calls are eager until they have been compared."""
        variant.agreed.sizes.set_awaited(self._engine.config.agree == "require")

    def answer(self, program: typing.Any, args: "tuple[typing.Any, ...]", kwargs: "dict[str, typing.Any]") -> typing.Any:
        """The eager answer of a call that a program could serve once sizes of its kind have been compared."""
        engine = self._engine
        call = engine._flattener.of(args, kwargs)
        entry, variant = next(((entry, one) for entry in list(engine._entries.values()) for one in entry.usable()
                               if one.program is program), (None, None))
        symbols = engine._serving.symbols(variant, call) if variant is not None else None
        if entry is None or variant is None or symbols is None or variant.agreed.refused:
            return engine.target(*args, **kwargs)
        key = (variant.artifact_digest, *map(_native.AgreedSizes.kind_of, symbols))
        with self._lock:
            is_taken = key in self._under_way
            self._under_way.add(key)
        if is_taken:
            return engine.target(*args, **kwargs)
        is_handed_on = False
        try:
            result, work = self._recorded(entry, variant, call)
            if work is not None and (engine.config.wait or variant.agreed.tries > 0):
                self._compare(work.entry, work.variant, work.kept, work.captured)  # Nothing changes meanwhile.
            elif work is not None:
                self._hand_on(work, key)
                is_handed_on = True
            return result
        finally:
            if not is_handed_on:
                self._forget(key)

    def run_eagerly(self, signature: "SignatureState", call: calls.Call) -> typing.Any:
        """The answer of a call that eager answers since code is on its way; kept where its sizes are of a kind that no other has."""
        target, kinds = self._engine.target, tuple(_native.AgreedSizes.kind_of(size) for sizes in call.sizes() for size in sizes)
        recorded = signature.kept() if signature.kept is not None else None
        is_needed = recorded is not None and not recorded.writes() and len(recorded.inputs) == len(call.tensors) and kinds not in signature.kinds_kept
        keeper = self.keeper() if is_needed and len(signature.kinds_kept) < _KINDS_MAX else None
        if keeper is None or recorded is None:
            return target(*call.args, **call.kwargs)
        signature.kinds_kept.add(kinds)
        try:
            begun = recorded.of_another_call(keeper.copies(call.tensors))
        except NotCompared:
            return target(*call.args, **call.kwargs)
        result = target(*call.args, **call.kwargs)
        try:
            if begun.weights_stayed():
                signature.eager_calls.append(keeper.of_answer(begun, call.tensors, result))
        except NotCompared as e:
            log.debug("%s: a call is not kept: %s", self._engine.name, e)
        return result

    def note_recorded(self, signature: "SignatureState", call: calls.Call, kept: "Kept | NotCompared | None") -> None:
        """Other calls of the signature may be kept beside one that has been recorded."""
        signature.kept = weakref.ref(kept) if isinstance(kept, Kept) else None
        signature.kinds_kept.add(tuple(_native.AgreedSizes.kind_of(size) for sizes in call.sizes() for size in sizes))

    def _recorded(self, entry: "Entry", variant: "binding.Variant", call: calls.Call) -> "tuple[typing.Any, Work | None]":
        """The answer of a call, and what there is to compare of it."""
        run, keeper = self._engine._recordings.prepare(call), self.keeper()
        if keeper is not None:
            run.keep_in(keeper.memory)
        result = run.run()
        kept: "Kept | NotCompared | None"
        try:
            captured = run.finish(result)
            kept = self.kept(keeper, run, captured)
        except recording.Refused as e:
            kept = NotCompared(e.name, e.detail)
        except Exception as e:  # a bug of ours must not become the user's: the answer is there
            if interrupts.is_one(e):
                raise
            log.exception("keeping a call of %s failed", self._engine.name)
            kept = NotCompared("internal", repr(e))
        if isinstance(kept, NotCompared):
            self._note_why_not(entry, variant, kept)
        return result, Work(entry, variant, kept, captured, threading.Event()) if isinstance(kept, Kept) else None

    def _hand_on(self, work: Work, key: "tuple[typing.Any, ...]") -> None:
        with self._lock:
            self._works.append(work)
        background.compare(_Runner(self, key), work)

    def wait(self, end: "float | None") -> bool:
        """Blocks until nothing is compared any more; False where that is not before ``end`` (of ``time.monotonic``)."""
        while (work := next(iter(self._works), None)) is not None:
            if not work.done.wait(None if end is None else max(0.0, end - time.monotonic())):
                return False
        return True

    def _forget(self, key: "tuple[typing.Any, ...]", work: "Work | None" = None) -> None:
        with self._lock:
            self._under_way.discard(key)
            self._works = [one for one in self._works if one is not work]
        if work is not None:
            work.done.set()

    # -- in the background -----------------------------------------------------------------------------

    def hold(self, variant: "binding.Variant", job: "Job") -> bool:
        """Holds a variant against the call that it was recorded from, before it serves any, and against others that eager has
        answered meanwhile; False where it was wrong and is not to be used."""
        entry = job.signature.entry
        if isinstance(job.kept, NotCompared):
            self._note_why_not(entry, variant, job.kept)
        if not isinstance(job.kept, Kept):
            return True
        others, job.signature.eager_calls = job.signature.eager_calls, []
        return self._compare(entry, variant, job.kept, job.captured) and all(
            self._compare(entry, variant, kept, job.captured, is_own=False) for kept in others if self._takes(variant, kept))

    @staticmethod
    def _sizes(variant: "binding.Variant", kept: Kept) -> "list[int]":
        return [kept.inputs[number].shape[dim] for number, dim in variant.artifact.symbol_places()]

    def _takes(self, variant: "binding.Variant", kept: Kept) -> bool:
        """Whether a variant would serve a call like one that has been kept, and sizes of its kind have not been compared."""
        try:
            sizes = self._sizes(variant, kept)
        except IndexError:
            return False
        return kept.signature == variant.raw_signature and variant.covers(sizes) and not variant.agreed.sizes.hold(sizes)

    def _compare(self, entry: "Entry", variant: "binding.Variant", kept: Kept, captured: recording.Captured, is_own: bool = True) -> bool:
        try:
            sizes = self._sizes(variant, kept)
        except IndexError:
            self._note_why_not(entry, variant, NotCompared("structure", "its code is of another recording"))
            return True
        if variant.agreed.sizes.hold(sizes):
            if not variant.agreed.noted.hold(sizes):
                self._tell(entry, variant, sizes)
            return True
        comparison = Comparison(kept, variant)
        try:
            difference = comparison.difference()
        except NotCompared as e:
            if is_own:  # Others may be none of the variant's.
                self._note_why_not(entry, variant, e)
            return True
        except Exception as e:
            if interrupts.is_one(e):
                raise
            log.exception("comparing a call of %s with eager failed", self._engine.name)  # a bug of ours must not become the user's
            self._note_why_not(entry, variant, NotCompared("internal", repr(e)))
            return True
        if difference is None:
            counters.add("agreed")
            variant.agreed.add(sizes)
            self.await_if_required(variant)
            self._tell(entry, variant, sizes)
            return True
        counters.add("agreement_failed")
        where = captures.save(self._engine, entry, captured, comparison, variant, difference)
        self._engine._quarantine(variant, difference, f"; the call is kept in {where}" if where else "")
        return False

    def _note_why_not(self, entry: "Entry", variant: "binding.Variant", why: NotCompared) -> None:
        counters.add("agreement_skipped")
        counters.add(f"agreement_skipped_{why.name}")
        log.debug("%s is not compared with eager: %s", self._engine.name, why)
        agreed = variant.agreed
        agreed.tries += 1
        takes_next = why.name in _PASSING and agreed.tries < _TRIES_MAX
        if not takes_next:
            agreed.refused = str(why)
        agreed.sizes.set_awaited(takes_next or self._engine.config.agree == "require")
        self._tell(entry, variant, [], str(why))

    def _tell(self, entry: "Entry", variant: "binding.Variant", sizes: "list[int]", why_not: str = "") -> None:
        """Notes it in the store, beside the artifact."""
        if not variant.agreed.note(sizes, why_not):
            return
        query = {"components": entry.key.components, "artifact": variant.artifact_digest, "sizes": sizes, "why_not": why_not}
        try:
            self._engine._link.get(self._engine.config.connect_ms_max).query("agreed", json.dumps(query))
        except errors.NotFound:
            pass  # Another artifact has taken its place meanwhile.
        except errors.Error as e:
            self._engine._note_daemon_error(e)


class _Runner:
    """Does the work of one call in the background."""

    def __init__(self, comparisons: Comparisons, key: "tuple[typing.Any, ...]") -> None:
        self._comparisons, self._key = comparisons, key

    def run(self, work: Work) -> None:
        try:
            self._comparisons._compare(work.entry, work.variant, work.kept, work.captured)
        finally:
            self.end(work)

    def end(self, work: Work) -> None:
        self._comparisons._forget(self._key, work)
