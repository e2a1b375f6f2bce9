# SPDX-License-Identifier: Apache-2.0
"""Calls of a callable that are recorded: their answers, and what there is to compile of them."""

import logging
import threading
import time
import typing

from ingot import _native, counters, gears
from ingot.reasons import notes
from ingot.site import moving
from ingot.trace import calls, dependencies, exporting, interrupts, paths, recording
from ingot.site.entry import Job, SignatureState

if typing.TYPE_CHECKING:
    from ingot.site.engine import Engine

log = logging.getLogger("ingot")
_MOVES_MAX = 3
_PASSED_OVER_AWAY = 64
"""Calls before it is asked again whether the daemon is there."""


class Recordings:
    """Those of one engine, and the places that each of them found changed."""

    def __init__(self, engine: "Engine") -> None:
        self._engine, self.moving = engine, moving.Moving()

    def answer(self, signature: SignatureState, sizes: "tuple[typing.Any, ...]", call: calls.Call) -> typing.Any:
        """The answer of a call, which is recorded; what there is to compile of it is sent."""
        if self._is_vain(call):
            counters.add("pending_calls")
            return _native.call(self._engine.target, call.args, call.kwargs, True)
        if not signature.begin(sizes):  # Another thread was faster.
            return self._engine.target(*call.args, **call.kwargs)
        is_sent = False
        try:
            result, job = self._recorded(signature, sizes, call)
            is_sent = job is not None and self._submit(job)
        finally:
            if not is_sent:
                signature.end(sizes)
        if job is not None and is_sent and self._engine.config.wait and not self._engine._compiles.is_holding():
            job.done.wait(self._engine.config.compile_ms_max / 1e3)
        return result

    def _is_vain(self, call: calls.Call) -> bool:
        """Whether nothing would come of a recording: there is nobody to compile it, or it cannot follow a number of the call."""
        if self._engine._link.is_away():
            self._engine.site._pass_over(_PASSED_OVER_AWAY)
            return True
        return self._engine._flattener.is_odd(call)

    def _submit(self, job: Job) -> bool:
        self._engine._refusals.was_sent()
        try:
            self._engine._compiles.submit(job)
        except RuntimeError as e:  # Python starts no thread while it ends: the answer is there.
            self._engine._compiles.end(job)
            log.debug("%s: nothing is compiled: %s", self._engine.name, e)
            return False
        return True

    def _recorded(self, signature: SignatureState, sizes: "tuple[typing.Any, ...]", call: calls.Call
                  ) -> "tuple[typing.Any, Job | None]":
        """The answer of a call, and what there is to compile of it."""
        began = time.perf_counter()
        run = self.prepare(call)
        comparisons = self._engine._comparisons
        keeper = comparisons.keeper()
        if keeper is not None:
            run.keep_in(keeper.memory)
        prepared = time.perf_counter()
        result = run.run()
        ran = time.perf_counter()
        try:
            captured, proof = self._finish(run, result, call, signature.declared)
        except recording.Refused as e:
            if run.touched is None or not self._engine._flattener.open(call, run.touched):
                self._engine._refusals.note(signature, e, self._read(run.read))
            return result, None
        except Exception as e:  # a bug of ours must not become the user's: the answer is there
            if interrupts.is_one(e):
                raise
            log.exception("finishing the recording of %s failed", self._engine.name)
            self._engine._refusals.note(signature, recording.Refused("internal", repr(e)))
            return result, None
        fixed = run.fixed_arguments()
        self._engine._flattener.was_recorded(call, fixed)
        if fixed:
            return result, None
        found = {path for path, _, may_be_fetched in captured.moved if path and may_be_fetched} - self.moving.places
        are_fetched = self.moving.add_found(found)
        counters.add_seconds("record", prepared - began + time.perf_counter() - ran)
        self._engine._report_opaque(captured.opaque)
        first = next((place for place in captured.moved if place[0] and place[1]), None)
        if first is not None and self.note_moved(signature, captured, *first[:2]):
            return result, None
        if captured.must_fetch(found) and are_fetched:
            return result, None  # It would have to be bound anew for every call: the next recording fetches what lies there.
        kept = comparisons.kept(keeper, run, captured)
        comparisons.note_recorded(signature, call, kept)
        return result, Job(signature, call, sizes, captured, threading.Event(), proof, since=time.monotonic(), kept=kept)

    def _read(self, of_run: "typing.Callable[[], frozenset[notes.Row]]") -> "frozenset[notes.Row] | None":
        """What a run has read that was refused; None where nobody can say it."""
        try:
            return of_run()
        except Exception as e:  # The answer is there.
            if interrupts.is_one(e):
                raise
            log.debug("%s: what was read before a refusal is not known: %r", self._engine.name, e)
            return None

    def note_moved(self, signature: SignatureState, captured: recording.Captured, where: paths.Path, digest: str) -> bool:
        """Notes a place that the run of a recording read, with the digest of what was there, and that holds something else now; whether it held
        something new too often. What returns, as a flag of a cache does with each new cache, is found again."""
        subject = dependencies.subject_of("attribute", where)
        signature.moved[where].add(digest)
        log.debug("%s moves %s", self._engine.name, subject)
        if len(signature.moved[where]) < _MOVES_MAX:
            return False
        refused = recording.Refused("volatile", f"every call changes {subject}, which it reads")
        if signature.back_off():
            self._engine._refusals.say(refused)
        else:
            changed = {place for place, _, _ in captured.moved}
            self._engine._refusals.note(signature, refused, self._read(lambda: notes.rows_of(captured.record, changed)))
        return True

    def defer(self, args: "tuple[typing.Any, ...]", kwargs: "dict[str, typing.Any]") -> bool:
        """Sends a recording of a call that computes nothing, for the daemon to hold against its templates. False when a call
        that computes must take its place."""
        call = self._engine._flattener.of(args, kwargs)
        signature, sizes = self._engine._signatures.get(self._engine._number(call)), call.sizes()
        if signature is None or self._engine.config.capture == "export" or not signature.may_defer() or not signature.begin(sizes):
            return False
        is_sent = False
        try:
            captured = self._deferred(call)
            if captured is not None:
                counters.add("deferred")
                is_sent = self._submit(Job(signature, call, sizes, captured, threading.Event(), is_deferred=True))
        finally:
            if not is_sent:
                signature.end(sizes)
        return is_sent

    def _deferred(self, call: calls.Call) -> "recording.Captured | None":
        run = self.prepare(call, deferred=True)
        try:
            return run.finish(run.run())
        except Exception as e:  # The run that computes says it to the user.
            if interrupts.is_one(e):
                raise
            log.debug("%s: a deferred recording failed: %r", self._engine.name, e)
            return None
        finally:
            run.complete_if_kept()

    def _finish(self, run: recording.Recording, result: typing.Any, call: calls.Call, declared: "gears.Declared | None"
                ) -> "tuple[recording.Captured, exporting.Proof | None]":
        if self._engine.config.capture != "export":
            return run.finish(result), None
        began = time.perf_counter()
        captured, proof, warning = exporting.capture(run, result, self._engine.target, call, self._engine.config, declared)
        counters.add("exports")
        counters.add_seconds("export", time.perf_counter() - began)
        if warning is not None:
            self._engine._refusals.warn_once("export", f"{self._engine.name}: {warning}")
        return captured, proof

    def prepare(self, call: calls.Call, deferred: bool = False) -> recording.Recording:
        declared = self._engine._declared.get(call.signature_key)
        follows = self._engine.config.dynamic is not False and self._engine.config.capture != "export" and (declared is None or bool(declared.gears))
        # Gears name every size that changes.
        fixed = declared.static if declared is not None else ()
        return recording.Recording(self._engine.target, self._engine.name, call, self._engine.config, deferred, follows and not deferred,
                                   self.moving.places | self._engine._flattener.places(call), fixed)
