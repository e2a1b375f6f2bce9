# SPDX-License-Identifier: Apache-2.0
"""Runs what may crash, hang or change its process, each time in a child process of its own, at the price of a fork.

A ``Nursery`` is a process that has imported torch and ingot and nothing else; each request is a function by name
and an argument, run in a child forked from it. Stores are temporary, with a daemon of their own.
"""

import contextlib
import ctypes
import faulthandler
import gc
import importlib
import os
import pathlib
import pickle
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback
import typing

ROOT = pathlib.Path(__file__).resolve().parents[3]
FOREIGN = ("INGOT_SOCKET", "INGOT_CONFIG", "INGOT_DISABLE", "INGOT_WAIT", "INGOT_REQUIRE_CACHED", "INGOT_VERIFY")


class Outcome(typing.NamedTuple):
    """How a child ended: ``answered`` (value), ``raised``, ``died`` or ``hung`` (text)."""

    how: str
    value: typing.Any
    text: str


@contextlib.contextmanager
def temporary_store() -> "typing.Iterator[pathlib.Path]":
    """A folder for a store; its daemon is stopped at the end."""
    memory = pathlib.Path("/dev/shm")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="ingot-", dir=memory if os.access(memory, os.W_OK) else None))
    try:
        yield folder / "store"
    finally:
        subprocess.run([ROOT / "build/release/bin/ingot", "daemon", "stop"], env=environment(folder / "store"), capture_output=True, check=False)
        shutil.rmtree(folder, ignore_errors=True)


def environment(store: pathlib.Path) -> "dict[str, str]":
    """The environment of a process that uses this store."""
    kept = {name: value for name, value in os.environ.items() if name not in FOREIGN}
    return {**kept, "INGOT_STORE_DIR": str(store), "PYTHONDONTWRITEBYTECODE": "1", "HF_HUB_OFFLINE": "1"}


class Nursery:
    """The parent of such children; one request at a time. ``preload`` are modules that it imports for all of them."""

    def __init__(self, store: pathlib.Path, preload: "typing.Sequence[str]" = (), seed: int = 0) -> None:
        self._process = subprocess.Popen([sys.executable, __file__, *preload], env={**environment(store), "PYTHONHASHSEED": str(seed)},
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def run(self, function: str, argument: typing.Any, limit_s: float = 60.0) -> Outcome:
        """``function`` is "module:name" beside this file; ``argument`` and its result are pickled."""
        assert self._process.stdin and self._process.stdout
        _send(self._process.stdin, pickle.dumps((function, argument, limit_s)))
        data = _receive(self._process.stdout)
        try:
            return Outcome(*pickle.loads(data))
        except Exception as e:  # It holds something of a class that only the child has.
            return Outcome("raised", None, f"an answer that cannot be read here: {e!r}")

    @classmethod
    def several(cls, store: pathlib.Path, preload: "typing.Sequence[str]" = ()) -> "list[Nursery]":
        """Two whose processes hash texts differently, as those of a user do."""
        return [cls(store, preload, seed) for seed in (0, 1)]

    def close(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(30)


def _send(file: typing.IO[bytes], data: bytes) -> None:
    file.write(struct.pack("<q", len(data)) + data)
    file.flush()


def _receive(file: typing.IO[bytes]) -> bytes:
    size = file.read(8)
    if len(size) < 8:
        raise EOFError("the process on the other side has ended")
    return file.read(struct.unpack("<q", size)[0])


def _child(pipe: int, said: int, function: str, argument: typing.Any, limit_s: float) -> None:
    os.dup2(said, 1)
    os.dup2(said, 2)
    faulthandler.enable(said)
    faulthandler.dump_traceback_later(limit_s * 0.9, file=said)
    with os.fdopen(pipe, "wb") as out:
        try:
            module, _, name = function.partition(":")
            data = pickle.dumps(("answered", getattr(importlib.import_module(module), name)(argument), ""))
        except BaseException:
            data = pickle.dumps(("raised", None, traceback.format_exc()))
        out.write(data)


def _wait(pid: int, pipe: int, deadline: float) -> "bytes | None":
    """What the child wrote until it closed the pipe; None when it was too slow and is no more."""
    data = b""
    while True:
        ready, _, _ = select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            os.kill(pid, signal.SIGKILL)
            return None
        piece = os.read(pipe, 1 << 20)
        if not piece:
            return data
        data += piece


def _run(function: str, argument: typing.Any, limit_s: float) -> bytes:
    """The pickled outcome, which only the asker takes apart."""
    reading, writing = os.pipe()
    with tempfile.TemporaryFile() as said:
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                os.close(reading)
                _child(writing, said.fileno(), function, argument, limit_s)
                status = 0
            finally:
                os._exit(status)
        os.close(writing)
        data = _wait(pid, reading, time.monotonic() + limit_s)
        os.close(reading)
        _, status = os.waitpid(pid, 0)
        said.seek(0)
        text = said.read().decode(errors="replace")[-6000:]
    if data is None:
        return pickle.dumps(("hung", None, f"no answer after {limit_s:.0f} s\n{text}"))
    if not data or os.WIFSIGNALED(status):
        return pickle.dumps(("died", None, f"ended by signal {os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0}\n{text}"))
    return data


_MADV_HUGEPAGE, _MADV_COLLAPSE, _HUGE = 14, 25, 1 << 21


def _fold_memory() -> None:
    """Memory of this process into large pages, where the kernel does that: a fork copies a list of its pages, which took a quarter of a child's time."""
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    for line in pathlib.Path("/proc/self/maps").read_text().splitlines():
        bounds, mode, _, _, _, *name = line.split()
        if mode.startswith("rw") and name in ([], ["[heap]"]):
            first, end = (int(bound, 16) for bound in bounds.split("-"))
            first, end = -(-first // _HUGE) * _HUGE, end // _HUGE * _HUGE
            for at in range(first, end, _HUGE):
                madvise(at, _HUGE, _MADV_HUGEPAGE)
                madvise(at, _HUGE, _MADV_COLLAPSE)


def _serve(preload: "typing.Sequence[str]") -> None:
    import numpy  # noqa: F401
    import torch

    import ingot  # noqa: F401

    for name in preload:
        importlib.import_module(name)
    torch.set_num_threads(1)
    gc.collect()
    gc.freeze()  # Collections in children would copy every page.
    _fold_memory()
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # What programs print is no answer.
    while True:
        try:
            function, argument, limit_s = pickle.loads(_receive(sys.stdin.buffer))
        except EOFError:
            return
        _send(out, _run(function, argument, limit_s))


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    _serve(sys.argv[1:])
