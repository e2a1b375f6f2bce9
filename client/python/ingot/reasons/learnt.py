# SPDX-License-Identifier: Apache-2.0
"""What one process has found out of a callable, told to those after it: each note lies in the store under a key.

Which arguments vary, or are objects, decides what a call's entry key is. So that is asked before any key with values is made, under a
key of the function alone (``keys.learnt_key``).
"""

import json
import threading
import time
import typing

from ingot import _native, errors
from ingot.reasons import notes
from ingot.site import background
from ingot.trace import calls, keys
from ingot.site.entry import SignatureState

if typing.TYPE_CHECKING:
    from ingot.site.engine import Engine


class _Telling(typing.NamedTuple):
    """A note on its way to the daemon."""

    text: "typing.Callable[[], str]"
    components: "typing.Callable[[], list[keys.Component]]"
    done: threading.Event


class Learnt:
    """That of one engine. Calls and the background's thread use it at the same time."""

    def __init__(self, engine: "Engine") -> None:
        self._engine, self._is_asked = engine, False
        self._components: "list[keys.Component] | None" = None
        self.begin()

    def begin(self) -> None:
        """Nothing is on its way: at the start, and in a child process."""
        self._lock, self._under_way = threading.Lock(), list["_Telling"]()

    # -- arguments -----------------------------------------------------------------------------------

    def ask(self, call: calls.Call) -> bool:
        """Once, at the first call whose structure may say too much; whether that is another structure now."""
        engine = self._engine
        if self._is_asked or not call.says_values():
            return False
        self._is_asked = True
        if engine._link.nothing_stored():
            return False
        try:
            connection = engine._link.get(engine.config.first_lookup_ms_max)
            reply = json.loads(connection.query("noted", json.dumps({"components": self._of_function()}), engine.config.first_lookup_ms_max))
        except errors.Error as e:
            engine._note_daemon_error(e)
            return False
        return engine._flattener.take(reply["note"]) if reply["note"] else False

    def tell_arguments(self) -> None:
        """What calls have shown of their arguments."""
        self._tell(lambda: json.dumps(self._engine._flattener.found()), self._of_function)

    def _of_function(self) -> "list[keys.Component]":
        if self._components is None:
            self._components = keys.learnt_key(self._engine.target, self._engine.config)
        return self._components

    # -- calls that are not served whole -------------------------------------------------------------

    def tell_eager(self, signature: SignatureState, why: str, comes_apart: bool, reason: str = "refused") -> None:
        """Why calls of this structure are eager for good, or come apart."""
        if why.partition(":")[0] in notes.OF_THIS_RUN:
            return
        entry, known = signature.entry, signature.entry.note
        if known is not None and known.why == why and known.comes_apart == comes_apart:
            return
        if known is not None and known.why == why:
            read, varied = known.read, known.varied
        else:
            rows, doubted = signature.read_in_all(), entry.doubted
            times = notes.varied_since(doubted, rows) if doubted is not None and doubted.why == why else {}
            read, varied = notes.kept(notes.without_varied(rows, times)), tuple((*place, count) for place, count in times.items())
        entry.note = notes.Note(why, reason, comes_apart, read, told_pure=tuple(sorted(_native.marked_pure())),
                                limits=notes.limits_of(why, self._engine.config), varied=varied)
        self.tell_paces(signature)

    def tell_paces(self, signature: SignatureState) -> None:
        """For which of their calls the plain function is faster, beside what else is known of them."""
        entry = signature.entry
        note = (entry.note or notes.Note("", "refused", False, ()))._replace(aside=tuple((sizes, *took) for sizes, took in entry.aside.items()))
        self._tell(note.to_text, lambda: entry.key.components)

    # -- on the way to the daemon --------------------------------------------------------------------

    def _tell(self, text: "typing.Callable[[], str]", components: "typing.Callable[[], list[keys.Component]]") -> None:
        telling = _Telling(text, components, threading.Event())
        with self._lock:
            self._under_way.append(telling)
        background.tell(self, telling)

    def run(self, telling: _Telling) -> None:
        """In the background."""
        engine = self._engine
        try:
            query = json.dumps({"components": telling.components(), "note": telling.text()})
            engine._link.open_first()
            engine._link.get(engine.config.connect_ms_max).query("split", query)
        except errors.Error as e:
            engine._note_daemon_error(e)
        finally:
            self.end(telling)

    def end(self, telling: _Telling) -> None:
        """Nobody works on it any more."""
        with self._lock:
            self._under_way = [one for one in self._under_way if one is not telling]
        telling.done.set()

    def wait(self, ends: "float | None") -> bool:
        """Blocks until the store has all of it; False at ``ends`` (of ``time.monotonic``)."""
        while (telling := next(iter(self._under_way), None)) is not None:
            if not telling.done.wait(None if ends is None else max(0.0, ends - time.monotonic())):
                return False
        return True
