# SPDX-License-Identifier: Apache-2.0
"""Machines of a cluster on this one, over a real Redis and the S3 server that INGOT_S3_ENDPOINT names (else one in
memory): what a new machine waits for, ten that miss at once, a holder that dies, tiers and networks in trouble.

usage: [tests/support/swift_server.py] python tests/bench/cluster.py [hit|many|killed|trouble|networks ...]
"""

import pathlib
import socket
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "support"), str(HERE)]
from hosts import Caller, Cluster, Host  # noqa: E402
from waiting import wait_until  # noqa: E402
from tabulate import tabulate  # noqa: E402

# argv: a name of models.py. One process whose first call is served by whoever has it.
FIRST = f"import sys; sys.path.insert(0, {str(HERE)!r})" + """
import json, time, torch, ingot
from models import MODELS
model, args = MODELS[sys.argv[1]]()
eager = sys.argv[2] == "eager"
with torch.no_grad():
    step = model if eager else ingot.compile(model)
    began = time.perf_counter()
    first = step(*args)
    first_s = time.perf_counter() - began
    right = model(*args)
    out = {"first_s": first_s, "difference": float((first - right).abs().max())}
    if not eager:
        step.wait()
        out["native_s"] = time.perf_counter() - began
        out["stats"] = ingot.stats()
print(json.dumps(out))
"""

# argv: how many statements; seconds to go on calling. What calls cost beside eager's in the same process.
CALLS = """
import json, sys, time, torch, ingot
steps, seconds = int(sys.argv[1]), float(sys.argv[2])
def f(x, w):
    for i in range(steps):
        x = torch.relu(x @ w) * (i + 1) / 7 + x
    return x
torch.manual_seed(0)
x, w = torch.randn(64, 256), torch.randn(256, 256) / 16
with torch.no_grad():
    right, eager_s = f(x, w), []
    for _ in range(50):
        began = time.perf_counter(); f(x, w); eager_s.append(time.perf_counter() - began)
    g = ingot.compile(f)
    took, wrong, native, began_all = [], 0, None, time.perf_counter()
    while time.perf_counter() - began_all < seconds:
        began = time.perf_counter(); y = g(x, w); took.append(time.perf_counter() - began)
        wrong += not torch.allclose(y, right, atol=1e-4)
        if native is None and ingot.stats()["native_calls"]: native = time.perf_counter() - began_all
        time.sleep(0.002)
print(json.dumps({"eager_s": sorted(eager_s)[len(eager_s) // 2], "first_s": took[0], "slowest_s": max(took), "wrong": wrong, "native_after_s": native, "calls": len(took)}))
"""


# What is to be closed, whatever comes between.
OPEN: "list[Cluster]" = []


def cluster(count: int, has_networks: bool = False, is_direct: bool = False, **settings: object):
    folder = tempfile.TemporaryDirectory(prefix="ingot-cluster-")
    found = Cluster(pathlib.Path(folder.name), has_networks=has_networks, is_direct=is_direct)
    found.folder = folder
    OPEN.append(found)
    found.add(count, **settings)
    return found


def close(world: Cluster) -> None:
    OPEN.remove(world)
    world.close()


def hit(rounds: int = 7) -> None:
    """A new machine's first call of MiniLM, which another has compiled."""
    world = cluster(2, is_direct=True)
    a, b = world.hosts
    cold = a.python(FIRST, "minilm", "ingot")
    world.shared()
    rows, eager, ours, warm, took, recorded = [], [], [], [], [], 0
    for _ in range(rounds):
        eager.append(b.python(FIRST, "minilm", "eager")["first_s"])
        b.forget()
        b.start()
        run = b.python(FIRST, "minilm", "ingot")
        recorded += run["stats"]["captures"]
        assert run["difference"] < 1e-4
        ours.append(run["first_s"])
        stats = b.stats()
        took.append(stats["cluster_lookup_ns"] / max(1, stats["cluster_lookup_count"]) / 1e6)
        warm.append(b.python(FIRST, "minilm", "ingot")["first_s"])
    e = statistics.median(eager)
    for name, found in (("eager", eager), ("from the cluster", ours), ("from its own daemon", warm)):
        rows.append([name, *(f"{value * 1e3:.1f}" for value in (min(found), statistics.median(found), max(found))), f"{(statistics.median(found) - e) * 1e3:+.1f}"])
    print(tabulate(rows, headers=["first call of MiniLM on a new machine, ms", "least", "median", "most", "beyond eager"]))
    size = a.json("list")["entries"][0]["bytes"]
    print(f"{recorded} of {rounds} were too late for cluster_lookup_ms_max and ran eagerly; one look-up in the cluster {min(took):.1f} to {max(took):.1f} ms, {size / 1e6:.2f} MB; "
          f"the first machine had native code after {cold['native_s']:.2f} s\n")
    close(world)


# argv: nothing. A program that has called something else already, waits for the moment to begin, and says when its
# function became native.
AT_ONCE = """
import json, sys, time, torch, ingot
torch.set_num_threads(1)  # Threads of ten machines would wait for each other on this one, spinning.
def other(x, w):
    return torch.relu(x @ w) + x
def f(x, w):
    for i in range(24):
        x = torch.relu(x @ w) * (i + 1) / 7 + torch.sin(x)
    return x
x, w = torch.randn(8, 32), torch.randn(32, 32) / 6
with torch.no_grad():
    right = f(x, w)
    first = ingot.compile(other)
    first(x, w)
    first.wait(60)
    g = ingot.compile(f)
    print(json.dumps("ready"), flush=True)
    began = float(sys.stdin.readline())
    time.sleep(max(0.0, began - time.time()))
    g(x, w)
    called = time.time()
    g.wait(60)
    native = time.time()
    last = g(x, w)
print(json.dumps({"called": called, "native": native, "right": bool((right - last).abs().max() <= 1e-3 * right.abs().max()), "stats": ingot.stats()}), flush=True)
"""


class PublishWatch:
    """When the index gets its next graph: looks each millisecond, over a connection of its own."""

    def __init__(self, port: int) -> None:
        self._redis = socket.create_connection(("127.0.0.1", port))
        self._before, self.time = self._count(), 0.0
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _count(self) -> int:
        self._redis.sendall(b"ZCARD ingot:t:graphs\r\n")
        return int(self._redis.recv(64)[1:])

    def _look(self) -> None:
        while self._count() == self._before:
            time.sleep(0.001)
        self.time = time.time()

    def wait(self) -> float:
        self._thread.join(60)
        assert self.time, "nothing was published"
        return self.time


def many(count: int = 10, rounds: int = 3) -> None:
    """Machines that miss one key at once, a process on each."""
    rows = []
    for _ in range(rounds):
        world = cluster(count)
        for host in world.hosts:
            host.start()
        callers = [Caller(host, AT_ONCE) for host in world.hosts]
        for caller in callers:
            assert caller.answer() == "ready"
        world.shared()
        before, watch = world.total("compiles"), PublishWatch(world.servers.redis_port)
        began = time.time() + 0.2
        for caller in callers:
            caller.ask(began)
        answers = [caller.answer() for caller in callers]
        published = watch.wait()
        assert all(answer["right"] for answer in answers)
        native = sorted(answer["native"] for answer in answers)
        late = [f"{(one - published) * 1e3:+.0f}" for one in native]
        rows.append([world.total("compiles") - before, f"{(max(answer['called'] for answer in answers) - began) * 1e3:.0f}", f"{(published - began) * 1e3:.0f}",
                     " ".join(late), sum((one - published) <= 0.1 for one in native)])
        for caller in callers:
            caller.close()
        close(world)
    print(tabulate(rows, headers=[f"{count} machines miss at once: compiles", "last first call, ms", "published after, ms", "native, ms from the publish", "within 100 ms"]), "\n")


def killed() -> None:
    """The holder of the lease dies in the middle of its compile."""
    world = cluster(2, cluster_lease_ms=3000, workers=1)
    a, b = world.hosts
    a.start()
    b.start()
    dying = a.begin(CALLS, "60", "30")
    wait_until("one machine compiles", lambda: a.json("daemon", "status")["compiles_pending"] == 1)
    a.stop_workers()
    assert a.stats()["compiles"] == 0
    other = b.begin(CALLS, "60", "12")
    wait_until("the other waits for it", lambda: b.stats()["cluster_waits"] == 1)
    dying.kill()  # It would start another daemon.
    dying.wait()
    a.kill()
    began = time.perf_counter()
    wait_until("the other has begun", lambda: b.json("daemon", "status")["compiles_pending"] == 1 or b.stats()["compiles"] == 1)
    taken_over = time.perf_counter() - began
    wait_until("the other has compiled", lambda: b.stats()["compiles"] == 1)
    took = time.perf_counter() - began
    run = Host.finish(other)
    print(f"holder killed: {b.stats()['compiles']} more compile, begun {taken_over:.2f} s and done {took:.2f} s after its death (lease 3 s); "
          f"slowest call {run['slowest_s'] * 1e3:.1f} ms, wrong {run['wrong']}\n")
    close(world)


def in_trouble(cases: "list[tuple[str, str, Callable[[Host], None], Callable[[Host], None]]]", has_networks: bool) -> None:
    """What calls cost a machine that is brought into trouble and out of it again."""
    rows = []
    for place, fault, begin, end in cases:
        world = cluster(2, has_networks)
        a, b = world.hosts
        a.python(CALLS, "4", "1")
        world.shared()
        b.start()
        begin(b)
        run = b.python(CALLS, "4", "12")
        end(b)
        began = time.perf_counter()
        b.python(CALLS, "5", "1")
        world.shared()
        recovered = time.perf_counter() - began
        rows.append([place, fault, f"{run['eager_s'] * 1e3:.2f}", f"{(run['first_s'] - run['eager_s']) * 1e3:+.1f}", f"{(run['slowest_s'] - run['eager_s']) * 1e3:+.1f}",
                     "never" if run["native_after_s"] is None else f"{run['native_after_s']:.2f}", run["wrong"], f"{recovered:.1f}"])
        close(world)
    print(tabulate(rows, headers=["where", "fault", "eager call, ms", "first call beyond", "slowest beyond", "native after, s", "wrong", "sends again within, s"]), "\n")


def trouble() -> None:
    """A tier that is gone, silent, slow by 5 s or cuts connections."""
    def setting(tier: str, mode: str) -> "Callable[[Host], None]":
        def work(host: Host) -> None:
            proxy = getattr(host, tier)
            proxy.cut_bytes = 40
            proxy.set(mode)
        return work
    in_trouble([(tier, fault, setting(tier, fault), setting(tier, "pass")) for tier in ("redis", "s3") for fault in ("refuse", "silent", "slow", "cut")], False)


def networks() -> None:
    """A machine that is parted from both tiers, heard or hears alone, or is far away."""
    def setting(loss_out: float, loss_in: float, delay_s: float) -> "Callable[[Host], None]":
        def work(host: Host) -> None:
            host.net.loss_out, host.net.loss_in, host.net.delay_s = loss_out, loss_in, delay_s
        return work
    in_trouble([("network", fault, setting(*what), Host.join) for fault, what in (
        ("parted", (1, 1, 0)), ("nothing it says arrives", (1, 0, 0)), ("it hears nothing", (0, 1, 0)), ("200 ms, 5 % of loss", (0.05, 0.05, 0.1)))], True)


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)
    try:
        for name in sys.argv[1:] or ["hit", "many", "killed", "trouble", "networks"]:
            {"hit": hit, "many": many, "killed": killed, "trouble": trouble, "networks": networks}[name]()
    finally:
        while OPEN:
            close(OPEN[-1])
