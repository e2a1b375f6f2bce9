# SPDX-License-Identifier: Apache-2.0
"""The threads of this process that send recordings to the daemon and install what comes back."""

import _thread
import contextvars
import logging
import os
import queue
import threading
import typing

from ingot.entry import Job

log = logging.getLogger("ingot")


class Runner(typing.Protocol):
    """Whose job it is: the recordings of one call site (compiles.py)."""

    def run(self, job: Job) -> None: ...


class _Line:
    """Jobs that one thread does in turn."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.begin()

    def begin(self) -> None:
        """Empty, without a thread: at the start, and in a child process."""
        self._queue: "queue.SimpleQueue[tuple[contextvars.Context, Runner, Job]]" = queue.SimpleQueue()
        self._has_thread = False
        self._lock = threading.Lock()

    def add(self, runner: Runner, job: Job) -> None:
        with self._lock:
            if not self._has_thread:
                # Thread.start() waits until the thread runs: for milliseconds, while those of PyTorch's last operator still spin.
                _thread.start_new_thread(self._work, ())
                self._has_thread = True
        self._queue.put((contextvars.copy_context(), runner, job))  # A record may name variables of the call's context.

    def _work(self) -> None:
        threading.current_thread().name = self._name
        while True:
            context, runner, job = self._queue.get()
            try:
                context.run(runner.run, job)
            except Exception:  # a bug of ours must not end the thread that serves every call site
                log.exception("compiling for a call site failed")
                job.shape.end(job.sizes)
                job.done.set()
            del context, runner, job  # The next may be long in coming.


_recordings = _Line("ingot-compile")
# What is served already can wait, and must not keep back what is not.
_gears = _Line("ingot-gears")


def submit(runner: Runner, job: Job) -> None:
    (_gears if job.gears else _recordings).add(runner, job)


def _forked() -> None:
    _recordings.begin()
    _gears.begin()


os.register_at_fork(after_in_child=_forked)
