# SPDX-License-Identifier: Apache-2.0
"""Whether calls are served at all: where the plain function is measured to be faster, it runs, here and in the next process.

Call sites time calls (client/native/site/trials.h) and say here what that comes to.
"""

import logging
import os
import typing

import torch

from ingot.reasons import advice
from ingot.site.entry import SignatureState

if typing.TYPE_CHECKING:
    from ingot.site.engine import Engine

log = logging.getLogger("ingot")
_AHEAD_MAX = 64
"""Sizes of an entry that are remembered so."""
_PROCESS = os.getpid()
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
        """A trial of calls of a structure and about these sizes has ended otherwise than the one before, or clearly for what serves them."""
        engine = self._engine
        for signature in [one for one in list(engine._signatures.values()) if one.key == key]:
            entry = signature.entry
            if stands_aside:
                entry.aside[sizes] = (served_ns, plain_ns)
                entry.ahead.pop(sizes, None)
                engine._refusals.say_slower(_words(signature, served_ns, plain_ns))
            elif entry.aside.pop(sizes, None) is not None:
                log.info("%s: served in %.1f us, the function itself takes %.1f us", engine.name, served_ns / 1e3, plain_ns / 1e3)
            else:
                self._tell_ahead(signature, sizes)
                continue
            engine._learnt.tell_paces(signature)

    def _tell_ahead(self, signature: SignatureState, sizes: int) -> None:
        """For the processes after this one, where it may hold for them: in a child of fork eager has one thread."""
        entry, threads = signature.entry, torch.get_num_threads()
        if os.getpid() == _PROCESS and entry.ahead.get(sizes) != threads and len(entry.ahead) < _AHEAD_MAX:
            entry.ahead[sizes] = threads
            self._engine._learnt.tell_paces(signature, is_beside=True)

    def take_over(self, signature: SignatureState) -> None:
        """What other processes have measured holds until it has been looked at again here."""
        if self._is_wanted:
            for sizes in signature.entry.aside:
                self._engine.site._stand_aside(signature.key, sizes, CALLS_ASIDE)
            for sizes, threads in signature.entry.ahead.items():
                if threads == torch.get_num_threads():
                    self._engine.site._leave_untried(signature.key, sizes)

    def words(self) -> "list[str]":
        """Of structures whose calls run the plain function, why."""
        entries = {id(signature.entry): signature for signature in list(self._engine._signatures.values())}
        return [advice.sentence("slower", _words(signature, *took)) for signature in entries.values() for took in signature.entry.aside.values()]


def _words(signature: SignatureState, served_ns: int, plain_ns: int) -> str:
    way = "in parts" if signature.parts else "in native code"
    return f"a call {way} takes {served_ns / 1e3:.1f} us, the function itself {plain_ns / 1e3:.1f} us"
