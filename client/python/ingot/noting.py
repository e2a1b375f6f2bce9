# SPDX-License-Identifier: Apache-2.0
"""What threads note while they record, by a patch of this process that is in place only as long as any of them does."""

import contextlib
import threading
import typing

Found = typing.TypeVar("Found")


class Noting(typing.Generic[Found]):
    """One thing that is noted: each thread has its own collection, or none."""

    def __init__(self, patch: "typing.Callable[[bool], None]") -> None:
        """``patch(True)`` puts the patch in place, ``patch(False)`` takes it away."""
        self._patch = patch
        self._found: "dict[int, Found]" = {}
        self._lock = threading.RLock()  # A finalizer may import something in the middle of it.

    def here(self) -> "Found | None":
        """The collection of this thread, while it notes."""
        return self._found.get(threading.get_ident())

    def elsewhere(self) -> "list[Found]":
        """The collections of other threads."""
        with self._lock:
            return [found for thread, found in self._found.items() if thread != threading.get_ident()]

    @contextlib.contextmanager
    def into(self, found: Found) -> "typing.Iterator[None]":
        """Notes into ``found`` on this thread; an outer collection sees nothing meanwhile."""
        thread = threading.get_ident()
        with self._lock:
            outer = self._found.get(thread)
            self._found[thread] = found
            self._patch(True)
        try:
            yield
        finally:
            with self._lock:
                if outer is None:
                    del self._found[thread]
                else:
                    self._found[thread] = outer
                if not self._found:
                    self._patch(False)
