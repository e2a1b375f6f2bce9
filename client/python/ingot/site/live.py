# SPDX-License-Identifier: Apache-2.0
"""The engines of this process: what becomes of them when it forks, and when it ends."""

import atexit
import os
import threading
import time
import typing
import weakref

from ingot.checks import comparisons
from ingot.site import background, compiles

if typing.TYPE_CHECKING:
    from ingot.site.engine import Engine

engines: "weakref.WeakSet[Engine]" = weakref.WeakSet()


def _forked() -> None:
    """A child process has none of the threads that held locks or worked on recordings."""
    for engine in list(engines):
        engine._lock, engine._compiles = threading.RLock(), compiles.Compiles(engine)
        engine._comparisons = comparisons.Comparisons(engine)
        engine._flattener.forget_locks()
        engine._learnt.begin()
        for signature in engine._signatures.values():
            signature.forget_what_is_under_way()
            engine.site._set_waiting(signature.key, False)


os.register_at_fork(after_in_child=_forked)


@atexit.register
def _finish() -> None:
    """A short script still fills the cache: compiles under way get a moment to be published."""
    began = time.monotonic()
    for engine in list(engines):
        engine.wait(max(0.0, began + engine.config.exit_wait_ms_max / 1e3 - time.monotonic()))
    background.end()
    for engine in list(engines):
        engine.end()
