# SPDX-License-Identifier: Apache-2.0
"""What lies between a machine of a test and everything else: a network that loses, delays and parts.

Where this process may make network namespaces (root, /dev/net/tun), a machine has one of its own, and its packets pass
a pair of TUN devices between which a thread carries them: TCP of the kernel meets what is done to them, no kernel
module for it (netem, nftables) is needed, and nothing is left behind, since descriptors hold all of it. Elsewhere the
proxies of hosts.py do to the bytes of a connection what such a network would.
"""

import contextlib
import ctypes
import fcntl
import functools
import heapq
import itertools
import os
import pathlib
import random
import select
import struct
import subprocess
import threading
import time
from collections.abc import Callable
from typing import Any

_LIBC = ctypes.CDLL(None, use_errno=True)
_CLONE_NEWNET = 0x40000000
_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
# Of the loopback's, since plain HTTP is refused beyond it.
FAR = "127.77.0.1"
_NEAR = "10.77.0.2"


def _on_a_thread_of_its_own(work: "Callable[[], Any]"):
    found: "list[Any]" = []
    failed: "list[BaseException]" = []

    def run() -> None:
        try:
            found.append(work())
        except BaseException as error:
            failed.append(error)
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return found[0]


def _call(what: str, result: int) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), what)


class Namespace:
    """A network of its own, for as long as this object or a process in it lives."""

    def __init__(self) -> None:
        def make() -> int:
            _call("unshare", _LIBC.unshare(_CLONE_NEWNET))
            return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        self._fd = _on_a_thread_of_its_own(make)

    def close(self) -> None:
        os.close(self._fd)

    def inside(self, work: "Callable[[], Any]"):
        """What `work` makes in there."""
        def enter():
            _call("setns", _LIBC.setns(self._fd, _CLONE_NEWNET))
            return work()
        return _on_a_thread_of_its_own(enter)

    def command(self, words: "list[str]") -> "list[str]":
        """Words that run a program in there, as the process that is started."""
        return ["nsenter", f"--net=/proc/{os.getpid()}/fd/{self._fd}", *words]

    def run(self, *words: str) -> None:
        subprocess.run(self.command(list(words)), check=True, capture_output=True)

    def tun(self) -> int:
        def make() -> int:
            fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
            fcntl.ioctl(fd, _TUNSETIFF, struct.pack("16sH22x", b"wire", _IFF_TUN | _IFF_NO_PI))
            return fd
        return self.inside(make)


class Wire:
    """The only way from a machine to the servers. `loss_out`, `loss_in`: the share of what the machine sends, or is
    sent, that is lost; `delay_s`: how much later all of it comes, each way. In force for what is sent from then on."""

    def __init__(self) -> None:
        self.loss_out = self.loss_in = self.delay_s = 0.0
        self.machine, self.street = Namespace(), Namespace()
        self._near, self._far = self.machine.tun(), self.street.tun()
        for place in (self.machine, self.street):
            place.run("sh", "-c", "echo 1 > /proc/sys/net/ipv4/conf/all/route_localnet; ip link set lo up; ip link set wire up")
        # The machine's loopback is the one address; the rest of that net is elsewhere.
        self.machine.run("sh", "-c", f"ip addr add {_NEAR}/32 dev wire; ip route del local 127.0.0.0/8 dev lo table local; "
                         f"ip route add {FAR}/32 dev wire src {_NEAR}")
        self.street.run("ip", "route", "add", f"{_NEAR}/32", "dev", "wire", "src", FAR)
        self._end, self._ended = os.pipe()
        self._thread = threading.Thread(target=self._carry, daemon=True)
        self._thread.start()

    def close(self) -> None:
        os.close(self._ended)
        self._thread.join()
        for fd in (self._near, self._far, self._end):
            os.close(fd)
        self.machine.close()
        self.street.close()

    def _carry(self) -> None:
        under_way: "list[tuple[float, int, int, bytes]]" = []
        numbers, draw = itertools.count(), random.Random(7)
        while True:
            wait = max(0.0, under_way[0][0] - time.monotonic()) if under_way else None
            ready, _, _ = select.select([self._near, self._far, self._end], [], [], wait)
            if self._end in ready:
                return
            for source in ready:
                sink, loss = (self._far, self.loss_out) if source == self._near else (self._near, self.loss_in)
                with contextlib.suppress(BlockingIOError):
                    while packet := os.read(source, 65536):
                        if draw.random() >= loss:
                            heapq.heappush(under_way, (time.monotonic() + self.delay_s, next(numbers), sink, packet))
            while under_way and under_way[0][0] <= time.monotonic():
                _, _, sink, packet = heapq.heappop(under_way)
                # A device whose queue is full loses packets, as any.
                with contextlib.suppress(OSError):
                    os.write(sink, packet)


@functools.cache
def can_be_made() -> bool:
    """Whether machines can have networks of their own here. INGOT_TEST_NETWORKS=0: as if they could not."""
    if os.environ.get("INGOT_TEST_NETWORKS") == "0" or not pathlib.Path("/dev/net/tun").exists():
        return False
    try:
        Wire().close()
    except (OSError, subprocess.CalledProcessError):
        return False
    return True
