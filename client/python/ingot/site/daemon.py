# SPDX-License-Identifier: Apache-2.0
"""This process's connection to ingotd: opened in the background, shared by every call site."""

import json
import logging
import os
import threading
import time
import typing

from ingot import _native, errors
from ingot.site import background
from ingot.config import Config, has_cluster

log = logging.getLogger("ingot")


class Link:
    """A connection that is being opened or is open; a failure is remembered for a while."""

    _RETRY_S = 5.0

    def __init__(self, config: Config) -> None:
        self._config = config
        self._said: "set[str]" = set()
        self._begin()
        self._nothing_stored = not has_cluster()
        if not self.nothing_stored():
            self.open_soon()  # Otherwise a daemon is started for the first compile: it would take time from the first call.

    def _begin(self) -> None:
        self._ready = threading.Event()
        self._connection: typing.Any = None
        self._failure: "errors.Error | None" = None
        self._failed_at = 0.0
        self._lock = threading.Lock()
        self._opening = False
        self._store_is_known = False

    def forked(self) -> None:
        """In a child process: the parent's connection and the thread that opened it are not ours."""
        _of_parents.append(self._connection)
        self._nothing_stored = False
        self._begin()

    def open_soon(self) -> None:
        """Starts opening without waiting."""
        with self._lock:
            if self._opening or self._connection is not None:
                return
            self._opening = True
            self._ready.clear()
        try:
            background.thread(self._open, "ingot-connect").start()
        except RuntimeError as e:
            self._failure, self._failed_at, self._opening = errors.Unavailable(str(e)), time.monotonic(), False
            self._ready.set()

    def open_first(self) -> None:
        """Starts opening where nobody has yet: nothing is stored, or this is a child process."""
        if not self._opening and not self._ready.is_set():
            self.open_soon()

    def _open(self) -> None:
        try:
            connection = _native.Connection.open(self._config.store_dir, self._config.socket, self._config.connect_ms_max)
            self._connection, self._failure = connection, None
        except Exception as e:
            self._failure = e if isinstance(e, errors.Error) else errors.Internal(repr(e))
            self._failed_at = time.monotonic()
            self.say(self._failure)
        finally:
            self._opening = self._nothing_stored = False
            self._ready.set()
        self.look_at_store()

    def nothing_stored(self) -> bool:
        """Whether there is neither a store nor a daemon, nor other machines: nothing to ask for."""
        if self._nothing_stored:
            self._nothing_stored = _native.nothing_stored(self._config.store_dir, self._config.socket)
        return self._nothing_stored

    def is_away(self) -> bool:
        """Whether it could not be opened, and it is too soon to try again: nothing that is recorded would be compiled."""
        return self._connection is None and self._failure is not None and time.monotonic() - self._failed_at <= self._RETRY_S

    def say(self, error: errors.Error) -> None:
        """Warns that the daemon cannot be used, once for each kind of reason, whoever meets it."""
        self._warn_once(error.code, f"{self._place()} cannot be used for now, calls run eagerly: {error.code}: {error}")

    def look_at_store(self) -> None:
        """Warns once when the daemon cannot use its store and will forget everything when it ends. A daemon opens a new store
        only for its first compile, so this is asked again then."""
        if self._store_is_known or self._connection is None:
            return
        try:
            status = json.loads(self._connection.query("status"))
        except errors.Error:
            return  # Whoever needs an answer of the daemon next says it.
        if status["store_trouble"]:
            self._warn_once("store", f"{self._place()} cannot be used, the daemon keeps artifacts in memory only: {status['store_trouble']}")
        self._store_is_known = status["store_state"] not in ("fresh", "opening")

    def _place(self) -> str:
        return f"the store {self._config.store_dir or '(default)'}"

    def _warn_once(self, kind: str, text: str) -> None:
        with self._lock:
            is_new = kind not in self._said
            self._said.add(kind)
        if is_new:
            log.warning("%s", text)

    def get(self, wait_ms: int) -> typing.Any:
        """The connection; Unavailable when it is not open within the time."""
        self.open_first()
        if self._connection is None and self._failure is not None and time.monotonic() - self._failed_at > self._RETRY_S:
            self.open_soon()
        with background.waiting():
            is_ready = self._ready.wait(wait_ms / 1e3)
        if not is_ready:
            raise errors.Unavailable(f"the daemon did not answer within {wait_ms} ms")
        if self._connection is None:
            raise self._failure or errors.Unavailable("no connection")
        return self._connection


_of_parents: "list[typing.Any]" = []
"""Never closed: their sockets are shared with the parent process."""
_links: "dict[tuple[str, str], Link]" = {}
_links_lock = threading.Lock()


def link(config: Config) -> Link:
    """One link for each store directory and socket."""
    with _links_lock:
        key = (config.store_dir, config.socket)
        if key not in _links:
            _links[key] = Link(config)
        return _links[key]


def _forked() -> None:
    global _links_lock
    _links_lock = threading.Lock()
    for one in _links.values():
        one.forked()


os.register_at_fork(after_in_child=_forked)
