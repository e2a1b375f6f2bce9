# SPDX-License-Identifier: Apache-2.0
"""The threads of this process that send recordings to the daemon and install what comes back.

An interpreter that ends unwinds the threads that still run Python, through whatever C++ they are in. So none of these is
left there: ``end`` waits for those that run Python, and keeps those that wait for the daemon from coming back.
"""

import _thread
import contextlib
import contextvars
import logging
import os
import queue
import threading
import typing

from ingot import _native
from ingot.site.entry import Job

log = logging.getLogger("ingot")
_SECONDS_MAX = 10.0


_Piece = typing.TypeVar("_Piece", contravariant=True)


class Runner(typing.Protocol[_Piece]):
    """Whose work it is: the recordings of one call site (compiles.py), or a call to be compared (comparisons.py)."""

    def run(self, job: _Piece, /) -> None: ...

    def end(self, job: _Piece, /) -> None: ...


@contextlib.contextmanager
def _running_python() -> "typing.Iterator[bool]":
    """The process does not end while this lasts; False where it is ending already."""
    may_run = _native.enter_background()
    try:
        yield may_run
    finally:
        if may_run:
            _native.leave_background()


@contextlib.contextmanager
def waiting() -> "typing.Iterator[None]":
    """Whoever waits for the daemon in Python does it within this: the end of the process does not wait for him, and he stays there."""
    is_background = _native.step_out_background()
    try:
        yield
    finally:
        if is_background:
            _native.step_in_background()


class _Line:
    """Jobs that one thread does in turn."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.begin()

    def begin(self) -> None:
        """Empty, without a thread: at the start, and in a child process."""
        self._queue: "queue.SimpleQueue[tuple[contextvars.Context, Runner[typing.Any], typing.Any]]" = queue.SimpleQueue()
        self._has_thread = self.is_over = False
        self._in_work: "tuple[Runner[typing.Any], typing.Any] | None" = None
        self._lock = threading.Lock()

    def add(self, runner: "Runner[_Piece]", job: "_Piece") -> None:
        with self._lock:
            if self.is_over:
                return runner.end(job)
            if not self._has_thread:
                # Thread.start() waits until the thread runs: for milliseconds, while those of PyTorch's last operator still spin.
                _thread.start_new_thread(self._work, ())
                self._has_thread = True
            self._queue.put((contextvars.copy_context(), runner, job))  # A record may name variables of the call's context.

    def _work(self) -> None:
        threading.current_thread().name = self._name
        while True:
            context, runner, job = self._queue.get()
            with _running_python() as may_run:
                if not may_run:
                    return runner.end(job)
                self._in_work = runner, job
                try:
                    context.run(runner.run, job)
                except Exception:  # a bug of ours must not end the thread that serves every call site
                    log.exception("compiling for a call site failed")
                    runner.end(job)
                self._in_work = None
                del context, runner, job  # The next may be long in coming.

    def end(self) -> None:
        """Nobody works on any of them any more."""
        with self._lock:
            self.is_over = True
        with contextlib.suppress(queue.Empty):
            while True:
                _, runner, job = self._queue.get_nowait()
                runner.end(job)
        if self._in_work is not None:
            runner, job = self._in_work
            runner.end(job)


_recordings = _Line("ingot-compile")
# What is served already can wait, and must not keep back what is not.
_gears = _Line("ingot-gears")
_compared = _Line("ingot-compare")


def submit(runner: "Runner[Job]", job: Job) -> None:
    (_gears if job.gears else _recordings).add(runner, job)


def tell(runner: "Runner[_Piece]", note: "_Piece") -> None:
    """In turn with recordings: what has been found out of them."""
    _recordings.add(runner, note)


def compare(runner: "Runner[_Piece]", call: "_Piece") -> None:
    """Beside compiles, which may take seconds."""
    _compared.add(runner, call)


def thread(work: "typing.Callable[[], None]", name: str) -> threading.Thread:
    """A thread for one piece of work. RuntimeError where none starts any more, since the process is ending."""
    if _recordings.is_over:
        raise RuntimeError("the process is ending")

    def run() -> None:
        with _running_python() as may_run:
            if may_run:
                work()

    return threading.Thread(target=run, name=name, daemon=True)


def end() -> None:
    """The process is about to end: what is under way stays undone, and what is submitted from now on as well."""
    if not _native.end_background(_SECONDS_MAX):
        log.debug("a background thread still runs Python after %s s", _SECONDS_MAX)
    for line in (_recordings, _gears, _compared):
        line.end()


def _forked() -> None:
    _native.forget_background()
    for line in (_recordings, _gears, _compared):
        line.begin()


os.register_at_fork(after_in_child=_forked)
