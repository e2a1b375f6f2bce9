# SPDX-License-Identifier: Apache-2.0
"""Whether calls are served at all: where the plain function is measured to be faster, it runs, here and in the next process.

Call sites time calls (client/native/site/trials.h) and say here what that comes to.
"""

import logging
import typing

from ingot.reasons import advice
from ingot.site.entry import SignatureState

if typing.TYPE_CHECKING:
    from ingot.site.engine import Engine

log = logging.getLogger("ingot")
CALLS_ASIDE = 256
"""Calls that run the plain function before it is looked again, where another trial does not say how many."""


class Paces:
    """Those of one engine."""

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine
        config = engine.config
        self._is_wanted = config.stand_aside and config.on_unsupported != "error" and not config.require_cached and not config.sequence_parallel
        if self._is_wanted:
            engine.site._try_plain(self)

    def may_begin(self) -> bool:
        """Whether what serves calls is what is going to serve them: nothing is on its way."""
        return self._engine.is_idle()

    def verdict(self, key: bytes, sizes: int, stands_aside: bool, served_ns: int, plain_ns: int) -> None:
        """A trial has ended otherwise than the one before, of calls of a structure and about these sizes."""
        engine = self._engine
        for signature in [one for one in list(engine._signatures.values()) if one.key == key]:
            if stands_aside:
                signature.entry.aside[sizes] = (served_ns, plain_ns)
                engine._refusals.say_slower(_words(signature, served_ns, plain_ns))
            else:
                signature.entry.aside.pop(sizes, None)
                log.info("%s: served in %.1f us, the function itself takes %.1f us", engine.name, served_ns / 1e3, plain_ns / 1e3)
            engine._learnt.tell_paces(signature)

    def take_over(self, signature: SignatureState) -> None:
        """What other processes have measured holds until it has been looked at again here."""
        if self._is_wanted:
            for sizes in signature.entry.aside:
                self._engine.site._stand_aside(signature.key, sizes, CALLS_ASIDE)

    def words(self) -> "list[str]":
        """Of structures whose calls run the plain function, why."""
        entries = {id(signature.entry): signature for signature in list(self._engine._signatures.values())}
        return [advice.sentence("slower", _words(signature, *took)) for signature in entries.values() for took in signature.entry.aside.values()]


def _words(signature: SignatureState, served_ns: int, plain_ns: int) -> str:
    way = "in parts" if signature.parts else "in native code"
    return f"a call {way} takes {served_ns / 1e3:.1f} us, the function itself {plain_ns / 1e3:.1f} us"
