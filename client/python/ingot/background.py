# SPDX-License-Identifier: Apache-2.0
"""The one thread of this process that sends recordings to the daemon and installs what comes back."""

import logging
import queue
import threading
import typing

from ingot.entry import Job

log = logging.getLogger("ingot")


class Compiles(typing.Protocol):
    """An engine, as this thread sees it."""

    name: str

    def _compile(self, job: Job) -> None: ...


_queue: "queue.SimpleQueue[tuple[Compiles, Job] | None]" = queue.SimpleQueue()
_worker: "threading.Thread | None" = None
_worker_lock = threading.Lock()


def _work() -> None:
    while True:
        item = _queue.get()
        if item is None:
            return
        engine, job = item
        try:
            engine._compile(job)
        except Exception:  # a bug of ours must not end the thread that serves every call site
            log.exception("compiling %s failed", engine.name)
            job.shape.pending.discard(job.sizes)
            job.done.set()
        del item, engine, job  # The next may be long in coming.


def submit(engine: Compiles, job: Job) -> None:
    global _worker
    with _worker_lock:
        if _worker is None or not _worker.is_alive():
            _worker = threading.Thread(target=_work, name="ingot-compile", daemon=True)
            _worker.start()
    _queue.put((engine, job))
