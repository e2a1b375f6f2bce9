# SPDX-License-Identifier: Apache-2.0
"""Why calls of a callable run eagerly: each answered so, counted, and said once."""

import logging
import typing

from ingot import _native, adopting, counters, errors
from ingot.reasons import advice, miss, notes
from ingot.trace import interrupts, recording
from ingot.site.entry import SignatureState

if typing.TYPE_CHECKING:
    from ingot.site.engine import Engine

log = logging.getLogger("ingot")
_BUGS_MAX = 3
_OF_SOME_CALLS = ("fresh-answer", "aliased-input")
"""What is the way of some calls alone: a cache of few sizes is full some day, and the next argument may be nothing that the function finds by itself."""
_REFUSALS_MAX = 2
HOPELESS_MIN, PASSED_OVER_MAX = 4, 4096
"""Structures in a row that were all refused, after which new ones are tried ever more rarely: where each call is of another, each would be recorded."""


class Refusals:
    """Those of one engine."""

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine
        self.warned: "set[str]" = set()
        self._said: "dict[str, str]" = {}
        """Of each reason what was said of it first."""
        self.bugs = 0
        """Exceptions of ours between a call and its answer."""
        self._in_a_row = 0
        """Structures, since one of them was sent."""

    def has_too_many_bugs(self) -> bool:
        """Whether nothing more is to be looked up."""
        return self.bugs >= _BUGS_MAX

    def was_sent(self) -> None:
        """A recording was not refused."""
        self._in_a_row = 0

    def answer(self, name: str, detail: str, args: "tuple[typing.Any, ...]", kwargs: "dict[str, typing.Any]") -> typing.Any:
        """The eager answer, counted, said once for each reason."""
        counters.add("fallbacks")
        counters.add(f"refused_{name}")
        if name not in self._said:
            self._said[name] = advice.sentence(name, detail)
            if not (name == "retired" and detail.partition(":")[0] in self.warned):
                self.warn_once(name, f"{self._engine.name} runs eagerly: {self._said[name]}")
        if name != "on_miss":  # There the miss itself says why.
            self._engine._last_miss = miss.Miss("refused", self._said[name] if name != "retired" else detail)
        if self._engine.config.on_unsupported == "error" and name != "execution":
            raise errors.Unsupported(f"{self._engine.name}: {advice.sentence(name, detail)}")
        return _native.call(self._engine.target, args, kwargs, True)

    def answer_from(self, name: str, detail: str, args: "tuple[typing.Any, ...]", kwargs: "dict[str, typing.Any]") -> typing.Any:
        """The eager answer of a call that the call site cannot take, or whose native code failed."""
        if name != "unsupported":
            return self.answer("execution", detail, args, kwargs)
        # What a class of its own computes may be a collective under way, which ends where it is first used.
        if self._engine.config.on_unsupported != "error" and detail != "subclass":
            self._engine.site._leave_to_eager(detail)
        return self.answer(detail, detail, args, kwargs)

    def answer_after_bug(self, doing: str, bug: Exception, args: "tuple[typing.Any, ...]", kwargs: "dict[str, typing.Any]"
                            ) -> typing.Any:
        if interrupts.is_one(bug):
            raise bug
        log.exception("%s: %s failed", self._engine.name, doing)
        self.bugs += 1
        self._engine._last_error = f"internal: {doing} failed: {bug!r}"
        return self.answer("internal", repr(bug), args, kwargs)

    def warn_once(self, name: str, text: str) -> None:
        if name not in self.warned:
            self.warned.add(name)
            log.log(logging.DEBUG if self._engine._is_part else logging.WARNING, "%s", text)  # The whole has said why it has parts.

    def note(self, signature: SignatureState, refused: recording.Refused, read: "frozenset[notes.Row] | None" = None) -> None:
        """Of a recording that became no graph, and has ``read`` so much: what passes is tried again, the rest runs eagerly for good."""
        counters.add("refusals")
        counters.add(f"refused_{refused.name}")
        signature.refusals += 1
        self._in_a_row += signature.refusals == 1
        if self._in_a_row >= HOPELESS_MIN:
            self._engine.site._pass_over(min(1 << self._in_a_row, PASSED_OVER_MAX))
        why = self.say(refused)
        if read is not None:
            signature.note_read(read)
        if self._engine.config.on_unsupported == "error":
            signature.refuse(why)
            self._engine._learnt.tell_eager(signature, why, comes_apart=True)
            raise errors.Unsupported(f"{self._engine.name}: {refused.name} ({refused.detail})")
        # A first call makes much that later ones find: modules, tables, buffers.
        if refused.name not in recording.MAY_PASS or signature.refusals >= _REFUSALS_MAX:
            if refused.name not in _OF_SOME_CALLS or not signature.back_off():
                self.stay_eager(signature, why)
                self._engine._learnt.tell_eager(signature, why, comes_apart=True)

    def say(self, refused: recording.Refused) -> str:
        """The reason in words."""
        if adopting.holds_any(self._engine.target):  # Whatever was found first: all of it is torchao's own work.
            refused = recording.Refused("subclass", f"weights that torchao has quantised, {refused.name}: {refused.detail}")
        why = f"{refused.name}: {refused.detail}"
        self._engine._last_miss = miss.Miss("refused", why)
        self.warn_once(refused.name, f"{self._engine.name} runs eagerly: {advice.sentence(refused.name, refused.detail)}")
        return why

    def say_slower(self, words: str) -> None:
        """Calls that could be served run the plain function."""
        self._engine._last_miss = miss.Miss("slower", words)
        self.warn_once("slower", f"{self._engine.name} runs eagerly: {advice.sentence('slower', words)}")

    def stay_eager(self, signature: SignatureState, why: str) -> None:
        """Calls of this structure run the function from now on, at the cost of a look-up."""
        signature.refuse(why)
        # Where variants are here, a call may still find its state among theirs.
        may_serve = bool(signature.entry.variants) or signature.declared is not None and bool(signature.declared.static)
        if signature.parts is not None and not may_serve:
            self._engine.site._refuse(signature.key)
