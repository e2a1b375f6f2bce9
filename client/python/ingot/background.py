# SPDX-License-Identifier: Apache-2.0
"""The threads of this process that send recordings to the daemon and install what comes back."""

import logging
import queue
import threading
import typing

from ingot.entry import Job

log = logging.getLogger("ingot")


if typing.TYPE_CHECKING:
    from ingot.compiles import Compiles


class _Line:
    """Jobs that one thread does in turn."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._queue: "queue.SimpleQueue[tuple[Compiles, Job]]" = queue.SimpleQueue()
        self._worker: "threading.Thread | None" = None
        self._lock = threading.Lock()

    def add(self, compiles: "Compiles", job: Job) -> None:
        with self._lock:
            if self._worker is None or not self._worker.is_alive():
                self._worker = threading.Thread(target=self._work, name=self._name, daemon=True)
                self._worker.start()
        self._queue.put((compiles, job))

    def _work(self) -> None:
        while True:
            compiles, job = self._queue.get()
            try:
                compiles.run(job)
            except Exception:  # a bug of ours must not end the thread that serves every call site
                log.exception("compiling for a call site failed")
                job.shape.pending.discard(job.sizes)
                job.done.set()
            del compiles, job  # The next may be long in coming.


_recordings = _Line("ingot-compile")
# What is served already can wait, and must not keep back what is not.
_gears = _Line("ingot-gears")


def submit(compiles: "Compiles", job: Job) -> None:
    (_gears if job.gears else _recordings).add(compiles, job)
