# SPDX-License-Identifier: Apache-2.0
"""The recordings of one call site on their way to the daemon, and what comes back for them."""

import contextlib
import json
import logging
import threading
import time
import typing
import weakref

from ingot import _native, counters, errors, gears
from ingot.reasons import miss, notes
from ingot.checks import verification
from ingot.site import background, binding, patience
from ingot.trace import exporting, paths, recording
from ingot.site.entry import Job

if typing.TYPE_CHECKING:
    from ingot.site.engine import Engine

log = logging.getLogger("ingot")
_LOOK_FIRST_S, _LOOK_S, _SAY_S = 0.2, 1.0, 10.0
"""Whoever waits asks the daemon how far it is, and says so in the log."""
_ASK_MS_MAX = 200
_TOO_LATE = 0.5
"""Estimates are what they are: nobody goes on waiting who has less than this part of the time that is expected."""
_LISTED_MAX = 16
_all: "weakref.WeakSet[Compiles]" = weakref.WeakSet()
_OUTCOMES = {0: "compiles", 1: "joins", 2: "graph_hits", 3: "proven"}


class Compiles:
    """Jobs under way. Calls and the background's threads use it at the same time."""

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine
        self._under_way: "list[Job]" = []
        self._lock = threading.Lock()
        self._thread = threading.local()
        self._hurry = threading.Event()
        if engine.config.wait:
            self._hurry.set()
        _all.add(self)

    # -- on the caller's thread ------------------------------------------------------------------------

    def submit(self, job: Job) -> None:
        """Sends a recording in the background."""
        counters.add("captures")
        job.signature.sent(job.sizes, job.call.objects if job.captured.moved else None)
        if self.is_holding():
            self._thread.held.append(job)
        else:
            self._send(job)

    def is_idle(self) -> bool:
        """Whether nothing is under way."""
        return not self._under_way

    def is_holding(self) -> bool:
        """Whether what this thread submits is held back."""
        return getattr(self._thread, "held", None) is not None

    @contextlib.contextmanager
    def holding(self) -> "typing.Iterator[list[Job]]":
        """Holds back what this thread submits: at the end it is sent, two recordings of one function in one state together."""
        held: "list[Job]" = []
        self._thread.held = held
        try:
            yield held
        finally:
            self._thread.held = None
            left = _together(held)
            try:
                while left:
                    self._send(left[0])
                    left = left[1:]
            finally:
                for job in left:
                    self.end(job)

    def wait(self, timeout: "float | None") -> bool:
        """Blocks until nothing is under way; False on timeout (seconds), or as soon as that is known to come."""
        end = None if timeout is None else time.monotonic() + timeout
        if not self._under_way:
            return True
        self._hurry.set()
        try:
            return self._wait_until(end)
        finally:
            if not self._engine.config.wait:
                self._hurry.clear()

    def _wait_until(self, end: "float | None") -> bool:
        while (job := next(iter(self._under_way), None)) is not None:  # One may lead to another.
            if not self._wait_for(job, end):
                return False
        return True

    def _wait_for(self, job: Job, end: "float | None") -> bool:
        look_s, said = _LOOK_FIRST_S, float("-inf")
        while not job.done.wait(look_s if end is None else max(0.0, min(look_s, end - time.monotonic()))):
            now, look_s = time.monotonic(), _LOOK_S
            if end is not None and now >= end:
                return False
            known = self._ask_how_far(job)
            left_s = known.get("left_s")
            if known and now - said >= _SAY_S:
                said = now
                where = f" on {known['holder']}" if known.get("holder") else ""
                log.info("%s: %s%s, %s", self._engine.name, "its compile waits for a worker" if known.get("state") == "queued" else "its compile is under way",
                         where, f"done in about {left_s:.0f} s" if left_s is not None else "nobody knows until when")
            if end is not None and left_s is not None and now + left_s * _TOO_LATE > end:
                log.info("%s: goes on without its compile, which takes about %.0f s more", self._engine.name, left_s)
                return False
        return True

    def _ask_how_far(self, job: Job) -> "dict[str, typing.Any]":
        """What the daemon says of the compile that the job waits for; nothing where it waits for none."""
        try:
            connection = self._engine._link.get(0)
            answer = json.loads(connection.query("progress", json.dumps({"progress": job.name()}), _ASK_MS_MAX))
        except errors.Error:
            return {}  # Whoever needs an answer of the daemon next says it.
        return typing.cast("dict[str, typing.Any]", answer.get("flight") or {})

    def describe(self) -> "list[dict[str, typing.Any]]":
        """What is under way, for people."""
        now, jobs = time.monotonic(), self._under_way[:_LISTED_MAX]
        listed = []
        for job in jobs:
            known = self._ask_how_far(job)
            listed.append({"function": self._engine.name, "since_s": round(now - job.since, 3) if job.since else 0.0,
                           **{name: known.get(name) for name in ("state", "holder", "left_s")}})
        return listed

    def _send(self, job: Job) -> None:
        """Whatever interrupts this, nobody waits for a job that nobody does."""
        background.submit(self, job)
        with self._lock:
            if not job.done.is_set():
                self._under_way.append(job)

    # -- in the background -----------------------------------------------------------------------------

    def run(self, job: Job) -> None:
        """Sends, receives, binds and installs."""
        try:
            patience.wait(job.since, self._hurry)
            self._serve(job)
        except errors.Error as e:
            self._note(job, e)
        except recording.Refused as e:  # Only its record has said it.
            counters.add(f"refused_{e.name}")
            self._engine._retire(job.signature, str(e))
        except Exception as e:  # a bug of ours: another recording would meet it again
            log.exception("compiling for %s failed", self._engine.name)
            self._engine._retire(job.signature, f"internal: {e!r}")
        finally:
            try:
                if job.sibling is not None:
                    self._settle(job.sibling)
            finally:
                self.end(job)

    def end(self, job: Job) -> None:
        """Nobody works on it any more."""
        if not job.gears:
            with self._engine._lock:
                job.signature.end(job.sizes)
                job.signature.eager_calls = []
                self._engine.site._set_waiting(job.signature.key, False)
        with self._lock:
            self._under_way = [j for j in self._under_way if j is not job]  # It holds the arguments of its call.
            job.done.set()

    def _serve(self, job: Job) -> None:
        engine, began = self._engine, time.perf_counter()
        config, entry = engine.config, job.signature.entry
        engine._link.open_first()
        _ = job.captured.record  # Made beside the start of the daemon.
        connection = engine._link.get(config.connect_ms_max)

        # A point of the proof makes the template at once, of nothing but this range.
        beside = job.proof.points[0] if job.proof is not None else job.sibling.captured if job.sibling is not None else None
        sibling = beside.recording if beside is not None else b""

        def send(captured: recording.Captured, claim: str = "", degree: int = 0) -> "dict[str, typing.Any]":
            return typing.cast("dict[str, typing.Any]", connection.compile(
                entry.key.components, captured.recording, captured.signature, captured.record,
                gears.is_dynamic(config, job.signature.declared), entry.rejected, config.compile_ms_max, claim, degree, job.is_deferred,
                job.gears, sibling, config.numerics == "eager", job.name(), [pattern.wire() for pattern in entry.key.patterns],
                engine.sequence_parallel(captured.signature)))

        reply = send(job.captured)
        counters.add_seconds("compile", time.perf_counter() - began)
        counters.add("specialized" if job.gears else _OUTCOMES[reply["outcome"]])
        self._accept(job, reply)
        engine._link.look_at_store()
        if job.proof is not None:
            proved, why = exporting.prove(reply, job.captured, job.proof, send)
            if proved is not None:
                counters.add("ranges")
                counters.add(_OUTCOMES[proved["outcome"]])
                self._accept(job, proved)
            elif why is not None:
                engine._refusals.warn_once("range", f"{engine.name}: {why}")

    def _note(self, job: Job, error: errors.Error) -> None:
        engine = self._engine
        if job.gears:
            log.debug("%s keeps the general code of its gears: %s", engine.name, error)
        elif job.is_deferred:
            job.signature.refused_proofs += 1  # Nobody has waited for it; a run that computes comes next.
        else:
            engine._note_daemon_error(error)
            if not isinstance(error, (errors.Unavailable, errors.Timeout)):  # What takes long goes on for whoever asks next.
                engine._last_miss = miss.Miss("failed", f"a compile failed: {error}")
                engine._retire(job.signature, str(error))
                if isinstance(error, (errors.Unsupported, errors.Invalid)):  # For good: the key holds the build. Others the daemon tries again.
                    job.signature.note_read(notes.rows_of(job.captured.record))
                    engine._learnt.tell_eager(job.signature, str(error), comes_apart=True, reason="failed")

    def _settle(self, sibling: Job) -> None:
        """Sends a recording that went along with another, unless what came back serves it: it may be a template of others."""
        with self._engine._lock:
            variant = self._engine._serving.server_of(sibling.call)
        if variant is None:
            return self._send(sibling)
        self._engine._comparisons.hold(variant, sibling)
        self.end(sibling)

    def _accept(self, job: Job, reply: "dict[str, typing.Any]") -> None:
        engine = self._engine
        variant = binding.Variant(reply["variant"])
        engine._comparisons.await_if_required(variant)
        if variant.artifact_digest in verification.quarantined:  # The daemon could not be told.
            return engine._retire(job.signature, verification.quarantined[variant.artifact_digest])
        if not engine._comparisons.hold(variant, job):
            return engine._retire(job.signature, verification.quarantined[variant.artifact_digest])
        is_for_a_call = not job.is_deferred and not job.gears
        if is_for_a_call:
            job.signature.shares_sizes = variant.is_template
        with engine._lock:
            if job.signature.parts:  # Meanwhile it runs in parts.
                return
            job.signature.entry.rejected = ""
            known = self._find_proven(job, variant)
            if known is None:
                known = self._take(job, variant)
            if is_for_a_call and job.signature.declared is None:
                job.signature.answered(known)

    def _take(self, job: Job, variant: binding.Variant) -> binding.Variant:
        """Installs a variant where its state is the present one, and keeps it; the one that is kept."""
        engine, entry = self._engine, job.signature.entry
        roots = paths.Roots(engine.target, job.call.objects)
        engine._recordings.moving.add_numbers(job.signature.keeps_changing(job.captured.record), roots)
        variant.holds = variant.mismatch(roots) is None
        if not variant.holds:  # The call itself, or another since, has moved on; the state it was made in may return.
            known = next((v for v in entry.variants if v.artifact_digest == variant.artifact_digest and v.record == variant.record), None)
            if known is None:
                entry.variants.append(variant)
            difference = _native.check_record(variant.record, roots.named()) if job.captured.still_holds() else None
            if difference is not None:
                engine._recordings.note_moved(job.signature, job.captured, *difference[0][1:3])  # No name leads to what was read.
            return known or variant
        # One graph may belong to results that differ in what Python computed of their sizes.
        alike = [v for v in entry.usable() if v.raw_signature == variant.raw_signature and variant.reads_all_that(v)]
        replaced = [v for v in alike if v.graph == variant.graph or variant.is_template and not v.is_template and variant.takes_all_of(v)]
        for old in replaced:
            if old.graph == variant.graph:
                # Each size was proved in a state that is the present one.
                variant.proven = sorted({*variant.proven, *old.proven})
                variant.take_over(old)
        entry.variants = [variant, *(v for v in entry.variants if v not in replaced)]
        if variant.is_template:
            job.signature.refused_proofs = 0
        if self._replace(job, variant, replaced):
            self._specialize(job, variant)
        elif not variant.fetches():  # What a call fetches may be of other sizes by now.
            inputs = engine._serving.inputs(variant, job.call)
            why = variant.program.explain(inputs) if variant.program else engine._last_miss.why
            engine._last_error = f"the variant does not take the call it was made from: {why}"
            engine._refusals.warn_once("install", f"{engine.name}: {engine._last_error}")
            engine._retire(job.signature, engine._last_error)
        return variant

    def _find_proven(self, job: Job, variant: binding.Variant) -> "binding.Variant | None":
        """The same one that is bound here already, where it took nothing but the proven sizes to serve the call."""
        engine = self._engine
        for old in job.signature.entry.usable():
            if old.program is not None and variant.differs_in_sizes_alone(old):
                old.proven = sorted({*old.proven, *variant.proven})
                takes = engine.site._prove(job.call.signature_key, old.program, old.proven_here()) > 0 and engine._serving.accepts(old, job.call)
                return old if takes else None
        return None

    def _replace(self, job: Job, variant: binding.Variant, replaced: "list[binding.Variant]") -> bool:
        """Installs a variant in the place of others; whether it takes the call it was made from."""
        engine, programs = self._engine, [old.program for old in replaced if old.program is not None]
        for program in programs:
            if program is variant.program:
                engine.site._remove(program)
        installed = engine._serving.install(job.signature, variant, job.call)
        for program in programs:  # Behind the new one: no call in between finds nothing.
            if program is not variant.program:
                engine.site._remove(program)
        return installed

    def _specialize(self, job: Job, variant: binding.Variant) -> None:
        """Asks for code of its own for every gear, where the compiler has said that a kernel gains by it."""
        declared, signature = job.signature.declared, job.signature
        gains = variant.is_template and declared is not None and declared.gears and variant.artifact.provenance()["gains_by_gears"]
        if not gains or not self._engine.config.gears.specialize or variant.graph in signature.specialized:
            return
        assert declared is not None
        signature.specialized.add(variant.graph)
        sizes = tuple(tuple(tensor.shape) for tensor in self._engine._serving.inputs(variant, job.call))
        values = declared.symbol_values(sizes, variant.artifact.symbol_places())
        self._send(job._replace(done=threading.Event(), proof=None, is_deferred=False, sibling=None, gears=tuple(values)))


def _together(jobs: "list[Job]") -> "list[Job]":
    """Two recordings as one job, where they are recordings of one function in one state."""
    if len(jobs) == 2:
        first, second = jobs
        alike = first.signature is second.signature and first.captured.signature == second.captured.signature
        if alike and first.captured.record == second.captured.record:
            return [second._replace(sibling=first)]
    return jobs


counters.list_under("under_way", lambda: [one for compiles in list(_all) for one in compiles.describe()])
