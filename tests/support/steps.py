# SPDX-License-Identifier: Apache-2.0
"""Ends the daemon of a machine at any step of its work: see steps.cpp, whose memory this shares."""

import importlib.util
import mmap
import pathlib
import signal
import struct

LIBRARY = pathlib.Path(importlib.util.find_spec("ingot").origin).parents[2] / "bin" / "libingot-steps.so"


class Steps:
    """The next steps of the machine's daemons are counted from when they are armed."""

    COUNT_ALONE = 2**62
    _AT, _DONE, _SIGNAL, _FIRED, _WHERE = 0, 8, 16, 20, 24

    def __init__(self, path: pathlib.Path) -> None:
        path.write_bytes(bytes(mmap.PAGESIZE))
        with open(path, "r+b") as file:
            self._memory = mmap.mmap(file.fileno(), mmap.PAGESIZE)
        self.env = {"LD_PRELOAD": str(LIBRARY), "INGOT_STEPS": str(path)}

    def arm(self, at: int = COUNT_ALONE, sends: signal.Signals = signal.SIGKILL) -> None:
        """The daemon gets the signal before its step `at`, counted from 1, takes effect."""
        self._memory[self._AT:self._AT + 8] = bytes(8)
        struct.pack_into("<qii", self._memory, self._DONE, 0, sends, 0)
        struct.pack_into("<q", self._memory, self._AT, at)

    def disarm(self) -> int:
        """How many steps there were."""
        struct.pack_into("<q", self._memory, self._AT, 0)
        return struct.unpack_from("<q", self._memory, self._DONE)[0]

    @property
    def fired(self) -> bool:
        return struct.unpack_from("<i", self._memory, self._FIRED)[0] != 0

    @property
    def where(self) -> str:
        """The step at which it was, for people."""
        text = self._memory[self._WHERE:]
        return text[:text.index(0)].decode(errors="replace")
