# SPDX-License-Identifier: Apache-2.0
"""What happens when a call cannot be served natively: look up, bind, record, compile in the background."""

import functools
import json
import logging
import os
import pathlib
import threading
import time
import typing
import weakref

import torch

from ingot import _native, counters, errors, gears, profiling
from ingot.breaks import parts
from ingot.checks import comparisons, verification
from ingot.reasons import learnt, miss, refusals, report
from ingot.site import ahead, binding, compiles, daemon, live, lookups, paces, padding, recordings, serving, splitting
from ingot.trace import calls, collectives, groups, keys, paths, signatures
from ingot import config as configuration
from ingot.config import Config
from ingot.site.entry import Entry, SignatureState, State

log = logging.getLogger("ingot")
_FRUITLESS_MAX = 16
_VALUE_FAILURES_MAX = 3


class Engine:
    """The state behind one compiled callable. Calls may come from several threads."""

    def __init__(self, target: typing.Any, config: Config, name: "str | None" = None) -> None:
        self.target, self.config = target, config
        self.name = name or keys.function_name(target)
        self.site: typing.Any = _native.CallSite(target, self)
        self._entries: "dict[str, Entry]" = {}
        self._signatures: "dict[bytes, SignatureState]" = {}
        self._declared: "dict[bytes, gears.Declared | None]" = {}
        self._structures: "dict[bytes, str | errors.Unsupported]" = {}
        self._over_limit = 0
        """Calls of structures beyond the limit."""
        self._padded = padding.Padded()
        self._lock = threading.RLock()
        self._compiles, self._refusals = compiles.Compiles(self), refusals.Refusals(self)
        self._lookups, self._recordings, self._serving = lookups.Lookups(self), recordings.Recordings(self), serving.Serving(self)
        self._comparisons, self._paces, self._is_part = comparisons.Comparisons(self), paces.Paces(self), False
        self._parts: "weakref.WeakSet[Engine]" = weakref.WeakSet()
        """Of the modules that it calls, where it is no one graph."""
        self._last_miss, self._learnt = miss.NOT_CALLED, learnt.Learnt(self)
        self._last_error: "str | None" = None
        self._flattener = calls.CallFlattener(self.site, keys.parameter_names(target), config.shapes_max, self._learnt.tell_arguments)
        self._ended = False
        self.profile: "profiling.Profile | None" = None
        """What was measured last."""
        self.site._set_verify(config.verify_every())
        self._parallel = groups.Parallel.of(config.sequence_parallel)
        if self._parallel is not None:
            self.site._agree(self._parallel.name)
        live.engines.add(self)
        if not configuration.disabled():
            self._link = daemon.link(config)

    def sequence_parallel(self, signature: bytes) -> "tuple[int, int]":
        """The slot that the group whose ranks share rows has in a recording, and how many ranks; (0, 0): none."""
        return self._parallel.slot(json.loads(signature).get("groups", ())) if self._parallel is not None else (0, 0)

    def _comes_apart(self) -> bool:
        """Whether what is no one graph may run in parts. Where ranks agree on each call, one could be in parts and another not."""
        return self.config.on_unsupported != "error" and self._parallel is None

    # -- the way of a call that native code did not serve ------------------------------------------

    def _miss(self, reason: str, args: "tuple[typing.Any, ...]", kwargs: "dict[str, typing.Any]") -> typing.Any:
        if self._ended or self._refusals.has_too_many_bugs() or configuration.disabled() or torch.compiler.is_compiling():
            return self.target(*args, **kwargs)
        name, _, detail = reason.partition(":")
        if detail == "subclass" and collectives.holds_any((args, kwargs)):
            # A collective under way ends where it is first used: here.
            return self.site(*collectives.finished(args), **collectives.finished(kwargs))
        if name in ("unsupported", "failed"):
            return self._refusals.answer_from(name, detail, args, kwargs)
        try:
            call = self._flattener.of(args, kwargs)
            number = self._number(call)
            if number not in self._structures and self._learnt.ask(call):
                call = self._flattener.of(args, kwargs)
                number = self._number(call)
            if number not in self._structures:
                call = self._flattener.vary(call) if self._may_vary(call) else call
                number = self._number(call)
            if number not in self._structures and len(self._structures) < self.config.shapes_max:
                self._structures[number] = signatures.structure(call, self._flattener.parameters)
        except errors.Error:
            raise
        except Exception as e:  # a bug of ours must not become the user's
            return self._refusals.answer_after_bug("taking the arguments apart", e, args, kwargs)
        known = self._signatures.get(number)  # Another thread's call may let it go meanwhile.
        if known is not None and known.backs_off():
            counters.add("pending_calls")
            return _native.call(self.target, args, kwargs, True)
        if known is not None and self._waits(known, name, call):
            counters.add("pending_calls")
            self._set_waiting(known, name, call)
            return self._comparisons.run_eagerly(known, call)
        may_rest = self.config.on_unsupported != "error" and not self.config.require_cached  # Those want no eager answer.
        rebinding = known.rebinding if known is not None and may_rest and name in ("stale", "objects") else None
        if known is not None and rebinding is not None and rebinding.is_eager_turn():
            if rebinding.pays is False:
                self.site._stand_aside(known.key, call.tensors, paces.CALLS_ASIDE)
                return self._refusals.answer("bound-anew", "what it reads is another object in every call", args, kwargs)
            return rebinding.run_eagerly(lambda: _native.call(self.target, args, kwargs, True))
        if name in ("new", "stale", "objects") or known is None:
            began, opened = time.perf_counter(), self._flattener.opened
            try:
                installed = self._find_and_install(number, call, name in ("stale", "objects") or self._may_return(number, call))
            except Exception as e:  # a bug of ours must not become the user's
                return self._refusals.answer_after_bug("looking up", e, args, kwargs)
            if self._flattener.opened is not opened:
                return self.site(*args, **kwargs)  # Of another structure now.
            if installed:
                reason, result = self.site._serve(args, kwargs)
                if reason is None:
                    if (served := self._signatures.get(number)) is not None:
                        served.fruitless = 0
                        rebinding is None or rebinding.was_bound(time.perf_counter() - began, served.served())
                    return result
                name, _, detail = reason.partition(":")
                if name == "ranks":  # The next call.
                    return self.target(*args, **kwargs)
                if name in ("unsupported", "failed"):
                    return self._refusals.answer_from(name, detail, args, kwargs)
        signature = self._signatures.get(number)
        if signature is not None and signature.eager_reason is not None and signature.parts is not None:  # None: it comes apart yet.
            signature.fruitless += 1
            if signature.fruitless >= _FRUITLESS_MAX and self.config.on_unsupported != "error":
                self.site._refuse(signature.key)  # No variant's state has come back for long.
        if signature is None:
            self._over_limit += 1
            if self._over_limit >= refusals.HOPELESS_MIN:  # No call of a new structure will ever be looked at.
                self.site._pass_over(refusals.PASSED_OVER_MAX)
            return self._refusals.answer("shapes", f"more than {self.config.shapes_max} argument structures", args, kwargs)
        return self._record_or_run(signature, name, detail, call)

    def _waits(self, signature: SignatureState, reason: str, call: calls.Call) -> bool:
        """Whether nothing can be done for a call before what is under way is here. Among states that return it looks once for the
        objects of a call."""
        if self.config.require_cached or signature.eager_reason is not None or signature.state(signature.sizes_of(call)) is State.LOOKING and not self._awaits(signature, call):
            return False
        if reason == "new":
            return True
        objects = tuple(map(id, call.objects))
        known, signature.looked_for = signature.looked_for == objects, objects
        return known and reason in ("stale", "objects")

    def _set_waiting(self, signature: SignatureState, reason: str, call: calls.Call) -> None:
        """Calls of a signature whose variants take none of their sizes, and of which none would be recorded, need not come here."""
        with self._lock:
            if reason in ("new", "guard", "unproven") and self._awaits(signature, call):
                self.site._set_waiting(signature.key, True)

    def _may_vary(self, call: calls.Call) -> bool:
        """Whether numbers among the arguments of a new structure may be inputs: recordings follow them."""
        follows = self.config.dynamic is not False and self.config.capture != "export"
        return follows and not gears.declared(call.tensors, self.config.gears.merge)

    def _number(self, call: calls.Call) -> bytes:
        """The signature a call belongs to: its structure and the sizes declared to be fixed. GearError for what a first
        call declares wrongly."""
        declared, said = self._declared.get(call.signature_key), gears.declared(call.tensors, self.config.gears.merge)
        if declared is None:
            declared = self._declared[call.signature_key] = said
        elif said is not None and said != declared:
            raise gears.GearError(f"{self.name} was first called with other gears or fixed dims, and it is not supported to set them again: "
                                  f"{gears.text(declared)}, then {gears.text(said)}")
        if declared is None or not declared.static:
            return call.signature_key
        return call.signature_key + repr(declared.fixed(call.sizes())).encode()

    def _find_and_install(self, number: bytes, call: calls.Call, is_stale: bool) -> bool:
        with self._lock:
            signature = self._find_signature(number, call)
            if signature is not None and is_stale:
                self._lookups.check_again(signature.entry, call)
            return signature is not None and self._serving.install_all(signature, call)

    def _may_return(self, number: bytes, call: calls.Call) -> bool:
        """Whether the call would be recorded although its state may be one that a variant here was recorded in: one that came
        when that state had gone, as a cache's that has been filled meanwhile."""
        signature = self._signatures.get(number)
        would_record = signature is not None and signature.state(signature.sizes_of(call)) is State.LOOKING and not self._awaits(signature, call)
        return would_record and signature is not None and not all(variant.holds for variant in signature.entry.variants)

    def _awaits(self, signature: SignatureState, call: calls.Call) -> bool:
        """Whether what is under way for other sizes is likely to serve a call's too."""
        shares = self.config.dynamic is not False and self.config.capture != "export" and not self.config.wait
        return shares and signature.awaits_template(call) and not self._compiles.is_holding()

    # -- verification --------------------------------------------------------------------------------

    def _verify(self, program: typing.Any, args: "tuple[typing.Any, ...]", kwargs: "dict[str, typing.Any]") -> typing.Any:
        """The eager answer of a call that this program could serve, compared with the program's."""
        call = self._flattener.of(args, kwargs)
        variant = next((v for v in self._serving.bound() if v.program is program), None)
        if variant is None:  # Another thread has just replaced it.
            return self.target(*args, **kwargs)
        check = verification.Check(self.target, variant, self._serving.inputs(variant, call), call)
        result = check.run()
        if check.difference is not None:
            counters.add("verify_failures")
            self._quarantine(variant, check.difference)
        return result

    def _agree(self, program: typing.Any, args: "tuple[typing.Any, ...]", kwargs: "dict[str, typing.Any]") -> typing.Any:
        """The eager answer of a call whose like this program serves once it has been held against it."""
        return self._comparisons.answer(program, args, kwargs)

    def _quarantine(self, variant: binding.Variant, difference: str, where: str = "") -> None:
        why = f"{self.name}: {difference}"
        verification.quarantined[variant.artifact_digest] = why
        for engine in list(live.engines):
            engine._drop(variant.artifact_digest)
        self._refusals.warn_once(f"quarantine-{variant.artifact_digest}", f"{why}; artifact {variant.artifact_digest[:12]} is in quarantine, eager "
                        f"answers (`ingot retry` lifts it){where}")
        self._refusals.warned.update(("daemon-internal", "retired"))  # What follows from it when the same graph is recorded again.
        try:
            query = json.dumps({"artifact": variant.artifact_digest, "why": why})
            self._link.get(self.config.connect_ms_max).query("quarantine", query)
        except errors.Error as e:
            self._note_daemon_error(e)

    def _drop(self, artifact_digest: str) -> None:
        """Uses an artifact no longer."""
        with self._lock:
            for entry in self._entries.values():
                for variant in [v for v in entry.variants if v.artifact_digest == artifact_digest]:
                    entry.variants.remove(variant)
                    self._last_miss = miss.Miss("quarantined", verification.quarantined[artifact_digest])
                    if variant.program is not None:
                        self.site._remove(variant.program)

    # -- looking up ----------------------------------------------------------------------------------

    def _find_signature(self, number: bytes, call: calls.Call) -> "SignatureState | None":
        """The signature's entry by its key, asked from the daemon once; None over the limit."""
        if number not in self._signatures and len(self._signatures) >= self.config.shapes_max:
            return None
        declared = self._declared.get(call.signature_key)
        key = keys.entry_key(self.target, *call.in_words(), call.objects, self.config, declared, call.sizes())
        digest = key.digest()
        if digest not in self._entries:
            self._entries[digest] = self._lookups.look_up(key, call)
        signature = self._signatures.get(number)
        if signature is None or signature.entry is not self._entries[digest]:
            before, signature = signature, SignatureState(call.signature_key, self._entries[digest], declared)
            if before is not None:
                signature.take_over(before)
            self._signatures[number] = signature
            self._paces.take_over(signature)
        return signature

    def _report_opaque(self, opaque: "list[str]") -> None:
        if opaque and self.config.opaque == "warn":
            self._refusals.warn_once("opaque", f"{self.name}: state that cannot be digested is assumed unchanged: {', '.join(opaque[:3])}")

    @functools.cached_property
    def _value_failures_max(self) -> int:
        """After so many the structure is given up: soon where much of it stays native then."""
        configured = self.config.value_guard_failures_max
        return min(configured, _VALUE_FAILURES_MAX) if parts.has_any(self.target) else configured

    # -- recording and compiling ---------------------------------------------------------------------

    def _record_or_run(self, signature: SignatureState, reason: str, detail: str, call: calls.Call) -> typing.Any:
        if reason == "value":
            signature.value_failures += 1
            if self._parts or signature.value_failures > self._value_failures_max:
                self._retire(signature, f"value guards failed {signature.value_failures} times (last: {detail})")
        elif signature.eager_reason is None and signature.is_in_vain(self.config.recordings_in_vain_max):
            self._retire(signature, f"{self.config.recordings_in_vain_max} recordings in a row have served no call")
        sizes = signature.sizes_of(call) + (() if reason != "value" else ("value", detail))
        sizes = signature.beside(sizes) if reason in ("guard", "unproven") and not self.config.wait else sizes
        if signature.eager_reason is not None:
            if signature.parts is None and self._comes_apart():
                return splitting.split(self, signature, signature.eager_reason, call)
            return self._refusals.answer("retired", signature.why_eager(), call.args, call.kwargs)
        if signature.entry.note is not None:
            counters.add("known_refusals")
            return splitting.split(self, signature, signature.entry.note.why, call)
        if self.config.require_cached:
            return self._refuse_miss(signature, call)
        if signature.declared is not None and signature.declared.gears:
            if signature.declared.gear(call.sizes()) not in signature.declared.gears:
                answered, result = self._out_of_gear(signature, call)
                if answered:
                    return result
            if self._serving.proves(signature, call):
                reason, result = self.site._serve(call.args, call.kwargs)
                if reason is None:
                    return result
                if reason == "ranks":
                    return self.target(*call.args, **call.kwargs)
        elif self.config.on_miss in ("eager", "error"):
            return self._refuse_miss(signature, call)
        if signature.state(sizes) is not State.LOOKING or self._awaits(signature, call):
            counters.add("pending_calls")
            self._set_waiting(signature, reason, call)
            return self._comparisons.run_eagerly(signature, call)
        # Of those whose state has gone, it may return.
        has_room = len(signature.entry.usable()) < self.config.variants_max and len(signature.entry.variants) < 4 * self.config.variants_max
        if not has_room and reason != "unproven":
            self._retire(signature, f"more than {self.config.variants_max} variants")
        elif signature.declared is None and any(len(variant.proven) >= self.config.sizes_max for variant in signature.entry.usable()):
            self._retire(signature, f"more than {self.config.sizes_max} sizes, each recorded by itself")
        return self._recordings.answer(signature, sizes, call)

    def _out_of_gear(self, signature: SignatureState, call: calls.Call) -> "tuple[bool, typing.Any]":
        """(answered, result) of a call whose sizes were not declared, as ``on_miss`` says."""
        declared, sizes = signature.declared, call.sizes()
        assert declared is not None
        if self.config.on_miss == "pad" and not self._padded.is_refused(sizes) and self._padded.may_fill(signature.entry.usable()):
            gear = declared.above(sizes)
            filled = padding.filled_up(declared, call.tensors, gear) if gear is not None else None
            if filled is not None:
                args, kwargs = gears.replaced((call.args, call.kwargs), call.tensors, filled)
                counters.add("padded_calls")
                return True, self._padded.answer(sizes, self.site(*args, **kwargs), lambda: self.target(*call.args, **call.kwargs))
        if self.config.on_miss in ("eager", "error"):
            self._last_miss = miss.Miss("no_gear", f"size {declared.gear(sizes)} is no gear; the nearest are {declared.nearest(sizes)}")
            return True, self._refuse_miss(signature, call)
        log.info("%s: size %s is no gear", self.name, declared.gear(sizes))
        return False, None

    def _retire(self, signature: SignatureState, why: str) -> None:
        signature.refuse(why)
        counters.add("retired")

    def _refuse_miss(self, signature: SignatureState, call: calls.Call) -> typing.Any:
        nearest = self._last_miss.why if signature.declared is not None else self._serving.why_not(call)
        if self.config.require_cached or self.config.on_miss == "error":
            raise errors.NotFound(f"{self.name} has no variant for this call and may not compile one: {nearest}")
        signature.fruitless += 1
        if signature.fruitless >= _FRUITLESS_MAX and signature.declared is None and not signature.entry.variants:
            self.site._refuse(signature.key)  # The store has nothing, and nothing will be made.
        return self._refusals.answer("on_miss", nearest, call.args, call.kwargs)

    def be_part(self) -> None:
        """Serves only the calls of a program that runs in parts, of which its module is one."""
        self._is_part = True
        self.site._be_part()

    def take_part(self, part: "Engine") -> None:
        """Another engine serves a part of what this one does."""
        with self._lock:
            self._parts.add(part)

    def is_idle(self) -> bool:
        """Whether nothing is on its way for it."""
        return self._compiles.is_idle() and all(part.is_idle() for part in self._all_parts())

    def has_too_many_signatures(self) -> bool:
        """Whether calls of further structures run eagerly."""
        return len(self._structures) >= self.config.shapes_max

    def fetch_always(self, places: "typing.Iterable[paths.Path]") -> None:
        """Places that hold another number or tensor in every call: they are fetched."""
        self._recordings.moving.add(places)

    def expect_calls(self) -> None:
        """What has been recorded so far need not have served a call yet."""
        for signature in list(self._signatures.values()):
            signature.expects_calls()

    def _all_parts(self) -> "list[Engine]":
        with self._lock:
            return list(self._parts)

    def _note_daemon_error(self, error: errors.Error) -> None:
        self._last_error = str(error)
        counters.add("daemon_errors")
        if isinstance(error, (errors.Unavailable, errors.Timeout)):
            self._link.say(error)
        else:
            self._refusals.warn_once(f"daemon-{error.code}", f"{self.name} runs eagerly for now: {error.code}: {error}")

    # -- what users ask ------------------------------------------------------------------------------

    def wait(self, timeout: "float | None" = None) -> bool:
        """Blocks until every compile under way has been installed or has failed; False on timeout (seconds), or as soon as the
        daemon expects a compile to be done long after that."""
        ends = None if timeout is None else time.monotonic() + timeout
        is_done = self._compiles.wait(timeout) and self._learnt.wait(ends) and self._comparisons.wait(ends)
        return is_done and all(part.wait(None if ends is None else max(0.0, ends - time.monotonic())) for part in self._all_parts())

    def prepare(self, /, *args: typing.Any, **kwargs: typing.Any) -> None:
        """Records and compiles for these example inputs and waits: the call runs once, under no_grad.

        With declared gears every gear that is not proved yet is recorded too, on the example's values cut off or repeated.
        All but the first two of them compute nothing that the function does not read itself.
        """
        ahead.prepare(self, args, kwargs)

    def save_capture(self, path: "str | os.PathLike[str]", *args: typing.Any, **kwargs: typing.Any) -> None:
        """Records the function for these example inputs, in each of their gears, and writes the recordings to a file that
        ``ingot warm`` compiles without the program (docs/format/capture.md). Needs no daemon.

        Raises Unsupported, naming the reason, when a recording is refused.
        """
        pathlib.Path(path).write_bytes(ahead.capture_file(self, args, kwargs))

    @property
    def variants(self) -> "list[dict[str, typing.Any]]":
        """The variants known here: kind, proven sizes, artifact digest and bytes, step counts."""
        return report.variants(self._entries.values())

    def report(self, /, *args: typing.Any, **kwargs: typing.Any) -> "report.Report":
        """For people: variants, what runs natively, what was refused and why; and what was measured last: of each step the time, and
        the bytes and operations that it comes to, against the machine's measured roofs.

        With the arguments of a call it measures first: the function runs with them about 24 times, without gradients where something requires them. Without any
        it calls nothing; ``ingot.profile`` measures the calls that a program makes.
        """
        if args or kwargs:
            profiling.measured(self.site, args, kwargs, self.wait)
        profile = self.profile
        return report.Report(f"{self._words()}\n  {report.UNMEASURED}" if profile is None else f"{self._words()}\n{profile}", profile)

    def _words(self) -> str:
        return report.text(self.name, self._entries.values(), self.eager_reasons(), self._last_miss.why, self._last_error,
                           sorted(part._words() for part in self._all_parts()))

    def eager_reasons(self) -> "list[str]":
        """Why structures of arguments run eagerly, for good or until they are measured again."""
        return [signature.why_eager() for signature in list(self._signatures.values()) if signature.eager_reason] + self._paces.words()

    def look_up_again(self) -> None:
        """Calls from now on take what the store has by then; those under way end as they began."""
        with self._lock:
            for entry in self._entries.values():
                for variant in entry.variants:
                    if variant.program is not None:
                        self.site._remove(variant.program)
            self._entries.clear()
            self._signatures.clear()

    def with_parts(self) -> "list[Engine]":
        """This one and those that serve parts and pieces of its function."""
        return [self, *(inner for part in self._all_parts() for inner in part.with_parts())]

    def program_numbers(self) -> "set[int]":
        """Of the programs that its variants have been bound to in this process."""
        return {number for entry in list(self._entries.values()) for variant in entry.variants for number in variant.program_numbers}

    def why_miss(self, *, as_dict: bool = False) -> typing.Any:
        """Why the last call was not served from the store, by name of the first difference, down to the graph node.

        ``as_dict`` gives it for programs: ``reason`` (docs/cli.md), ``why``, and ``graph``, ``key``, ``nearest``,
        ``component``, ``item``, ``stored``, ``asked`` where there is a relative.
        """
        last = self._last_miss
        graph = None
        if last.details:
            try:
                graph = miss.graph_difference(last, self._link.get(self.config.connect_ms_max))
            except errors.Error:
                pass
        if as_dict:
            return {"reason": last.reason, "why": last.why, **last.details, **({"graph": graph} if graph else {})}
        return last.why + (f"\n{graph}" if graph else "")

    def soundness(self) -> str:
        """The dependency record in words: what is proved at load, and what is assumed."""
        return report.soundness(self._entries.values())

    def as_text(self, stage: str = "graph") -> str:
        """The newest variant as text: ``graph``, ``optimized``, ``loop``, ``schedule``, ``plan``, ``guards``, ``llvm``, ``asm`` or ``dot``."""
        return report.as_text(self.name, self._entries.values(), stage, lambda query: self._link.get(self.config.connect_ms_max).query("text", query))

    def export(self, path: "str | os.PathLike[str]", *, weights: "str | os.PathLike[str]" = "inside",
               sign: "str | os.PathLike[str] | bool" = False) -> None:
        """Writes every argument structure that is served natively, with its variants and weights, to a file that ``ingot.load`` and
        C++ run without daemon or capture. What the function read besides its arguments is as it was when it was recorded.

        ``weights``: ``inside`` the file, ``reference`` (a safetensors file beside it), or the path of a safetensors file that has them.
        ``sign``: a private key's file, or True for ``~/.config/ingot/signing.key``: writes ``PATH.sig``, for ``ingot.load(path, trust=...)``.
        Unsupported names what a file could not check without Python; NotFound when nothing has been compiled yet.
        """
        from ingot import exported

        exported.save(path, self.name, [(self._structures.get(number), [v for v in signature.entry.usable() if v.program is not None])
                                        for number, signature in self._signatures.items()], weights, sign)

    def end(self) -> None:
        """Lets go of what is watched: it would keep a program's files open when the interpreter takes modules apart. Calls are eager."""
        with self._lock:
            self._ended = True
            self.site._reset()
            self._entries.clear()
            self._signatures.clear()
