# SPDX-License-Identifier: Apache-2.0
"""Machines of a cluster on this one: each has a store, a daemon, a configuration and a signing key of its own.

They share a Redis of their own, the S3 server that INGOT_S3_ENDPOINT names (tests/support/swift_server.py) or a fake
one in memory, and one list of trusted keys. Between a machine and either server stands a :class:`Proxy`, which does
what servers do, and between it and both of them its network (`Host.net`), which loses, delays and parts: a
:class:`wire.Wire` where the machine can have a network of its own, :class:`Connections` elsewhere.
"""

import contextlib
import fcntl
import importlib.util
import json
import os
import pathlib
import random
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

import wire
from steps import Steps
from waiting import wait_until

# The build that belongs to this interpreter; looked up without loading PyTorch.
BUILD = pathlib.Path(importlib.util.find_spec("ingot").origin).parents[2]
BIN = BUILD / "bin"


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Proxy:
    """Stands in front of a server on the loopback and does what servers in trouble do, from the next byte on.

    `mode`: "pass"; "refuse" (closes what is open and what comes); "silent" (takes everything, passes nothing);
    "slow" (each piece `delay_s` later); "cut" (closes after `cut_bytes` of an answer).
    """

    def __init__(self, port: int, listener: socket.socket, net: "Connections | None") -> None:
        self.mode, self.delay_s, self.cut_bytes = "pass", 5.0, 2000
        self._target, self._net = port, net
        self._is_passing = threading.Event()
        self._is_passing.set()
        self._open: "list[socket.socket]" = []
        self._listener = listener
        host, self.port = self._listener.getsockname()[:2]
        self.address = f"{host}:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def set(self, mode: str) -> None:
        self.mode = mode
        (self._is_passing.clear if mode == "silent" else self._is_passing.set)()
        if mode == "refuse":
            for one in self._open:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.set("refuse")
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.mode == "refuse":
                client.close()
                continue
            try:
                server = socket.create_connection(("127.0.0.1", self._target))
            except OSError as error:
                print(f"port {self._target}: {error}", file=sys.stderr)
                client.close()
                continue
            for one in (client, server):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._open += [client, server]
            threading.Thread(target=self._pump, args=(client, server, False), daemon=True).start()
            threading.Thread(target=self._pump, args=(server, client, True), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, is_answer: bool) -> None:
        sent = 0
        with contextlib.suppress(OSError):
            while piece := source.recv(65536):
                self._is_passing.wait()
                if self._net is not None:
                    self._net.pass_on(is_answer)
                if self.mode == "slow":
                    time.sleep(self.delay_s)  # On purpose: a server that is slow.
                if self.mode == "refuse":
                    break
                if self.mode == "cut" and is_answer and sent + len(piece) > self.cut_bytes:
                    sink.sendall(piece[:max(0, self.cut_bytes - sent)])
                    break
                sent += len(piece)
                sink.sendall(piece)
        for one in (source, sink):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


class Connections:
    """What a network does, done to connections where a machine has no network of its own: as :class:`wire.Wire`."""

    RETRANSMISSION_S = 0.2

    def __init__(self) -> None:
        self.loss_out = self.loss_in = self.delay_s = 0.0

    def close(self) -> None:
        pass

    def pass_on(self, is_answer: bool) -> None:
        """Comes back when the next piece of a connection would have come: what is lost is sent again, later."""
        time.sleep(self.delay_s)  # On purpose: a network that is slow.
        while random.random() < (self.loss_in if is_answer else self.loss_out):
            time.sleep(self.RETRANSMISSION_S)  # On purpose: as a kernel that sends again.


class Servers:
    """Redis and S3 of a test."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.redis_port = free_port()
        self._redis_words = ["redis-server", "--port", str(self.redis_port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
                             "--dir", str(folder), "--logfile", str(folder / "redis.log")]
        self._redis: "subprocess.Popen[bytes] | None" = None
        self._s3: "subprocess.Popen[str] | None" = None
        self.start_redis()
        if "INGOT_S3_ENDPOINT" in os.environ:
            self.s3 = {name: os.environ[name] for name in
                       ("INGOT_S3_ENDPOINT", "INGOT_S3_BUCKET", "INGOT_S3_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")}
        else:
            self._s3 = subprocess.Popen([str(BIN / "fake-s3")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            self.s3 = dict(line.split("=", 1) for line in self._s3.stdout.readline().split())
        self.s3_port = int(self.s3["INGOT_S3_ENDPOINT"].rsplit(":", 1)[1])

    def start_redis(self) -> None:
        self._redis = subprocess.Popen(self._redis_words, stdout=subprocess.DEVNULL)

        def answers() -> bool:
            try:
                socket.create_connection(("127.0.0.1", self.redis_port), 1).close()
            except OSError:
                return False
            return True
        wait_until("Redis listens", answers)

    def places(self) -> "dict[str, object]":
        """Settings of a daemon that speaks to them itself."""
        return {"cluster_index": f"redis://127.0.0.1:{self.redis_port}", "cluster_blobs_endpoint": self.s3["INGOT_S3_ENDPOINT"]}

    def redis(self, *words: str) -> "list[str]":
        """The lines of an answer."""
        return subprocess.run(["redis-cli", "-p", str(self.redis_port), *words], check=True, capture_output=True, text=True).stdout.split()

    def leases(self) -> "list[str]":
        return self.redis("KEYS", "ingot:l:*")

    def stop_redis(self) -> None:
        self._redis.kill()
        self._redis.wait()

    def close(self) -> None:
        self.stop_redis()
        if self._s3 is not None:
            self._s3.stdin.close()
            self._s3.wait()


class Host:
    """A machine: what runs on it sees its own home, store, daemon and, where it can, network.

    `steps`: where its daemons can be ended, once it counts them (steps.py).
    """

    def __init__(self, name: str, folder: pathlib.Path, servers: Servers, settings: "dict[str, object]", client: "dict[str, object]",
                 has_network: bool) -> None:
        self.name, self.folder, self._client = name, folder, client
        self.net = wire.Wire() if has_network else Connections()
        self.redis, self.s3 = (self._proxy(port) for port in (servers.redis_port, servers.s3_port))
        self.store = folder / "store"
        self.trust = folder / "home" / ".config" / "ingot"
        self.trust.mkdir(parents=True, mode=0o700)
        for part in (folder / "home", folder / "home" / ".config", self.trust):
            part.chmod(0o700)
        self.settings = {"cluster_index": f"redis://{self.redis.address}", "cluster_blobs_endpoint": f"http://{self.s3.address}",
                         "cluster_blobs_bucket": servers.s3["INGOT_S3_BUCKET"], "cluster_blobs_region": servers.s3["INGOT_S3_REGION"],
                         "cluster_host": name, **settings}
        self.env = {**os.environ, "HOME": str(folder / "home"), "XDG_CONFIG_HOME": str(folder / "home" / ".config"), "INGOT_STORE_DIR": str(self.store),
                    "INGOT_CONFIG": str(folder / "ingot.toml"), "PYTHONDONTWRITEBYTECODE": "1", "HF_HUB_OFFLINE": "1",
                    "AWS_ACCESS_KEY_ID": servers.s3["AWS_ACCESS_KEY_ID"], "AWS_SECRET_ACCESS_KEY": servers.s3["AWS_SECRET_ACCESS_KEY"]}
        for name in ("INGOT_SOCKET", "INGOT_DISABLE", "INGOT_WAIT", "INGOT_REQUIRE_CACHED"):
            self.env.pop(name, None)
        self.steps = Steps(folder / "steps")
        self.configure()
        self.public = self.json("trust", "keygen", self.name)["public"]

    def _proxy(self, port: int) -> Proxy:
        if isinstance(self.net, wire.Wire):
            return Proxy(port, self.net.street.inside(lambda: socket.create_server((wire.FAR, 0), backlog=256)), None)
        return Proxy(port, socket.create_server(("127.0.0.1", 0), backlog=256), self.net)

    def _words(self, *words: str) -> "list[str]":
        """Of a program that runs on this machine."""
        return self.net.machine.command(list(words)) if isinstance(self.net, wire.Wire) else list(words)

    def count_steps(self) -> None:
        """Of the daemons that are started from now on."""
        self.env |= self.steps.env

    def part(self) -> None:
        """From here on nothing reaches this machine, and nothing it says arrives."""
        self.net.loss_out = self.net.loss_in = 1.0

    def join(self) -> None:
        """The network is well again."""
        self.net.loss_out = self.net.loss_in = self.net.delay_s = 0.0

    def close(self) -> None:
        self.stop()
        self.redis.close()
        self.s3.close()
        self.net.close()

    def configure(self, **settings: object) -> None:
        """Changes the configuration, for the next daemon."""
        self.settings.update(settings)
        def lines(settings: "dict[str, object]") -> "list[str]":
            return [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
        (self.folder / "ingot.toml").write_text("\n".join([*lines(self._client), "[daemon]", *lines(self.settings), ""]))

    def cli(self, *args: str, check: bool = True, seconds: "float | None" = None) -> str:
        done = subprocess.run(self._words(str(BIN / "ingot"), *args), env=self.env, capture_output=True, text=True, timeout=seconds)
        if check:
            assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def json(self, *args: str):
        return json.loads(self.cli(*args, "--json"))

    def stats(self) -> "dict[str, int]":
        return self.json("stats", "--all")

    def checks(self) -> "list[dict[str, object]]":
        """What `config check` finds."""
        return json.loads(self.cli("config", "check", "--json", check=False))["checks"]

    def has_sent(self) -> bool:
        """Whether others can have all that was made here; a machine without a daemon has nothing to send now."""
        try:
            text = self.cli("daemon", "status", "--json", check=False, seconds=10)
        except subprocess.TimeoutExpired:
            return False  # It stands still (Steps).
        if not text:
            return not self._has_daemon()  # One that is too busy to answer is there.
        status = json.loads(text)
        return status["flights"] == 0 and status["cluster"]["unsent"] == 0

    def _has_daemon(self) -> bool:
        """Whether a daemon holds the lock of this machine's store."""
        for path in self.store.glob("*/LOCK"):
            with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
                whole = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
                if struct.unpack("hhqqi4x", fcntl.fcntl(file, fcntl.F_OFD_GETLK, whole))[0] != fcntl.F_UNLCK:
                    return True
        return False

    def log_of_cluster(self, lines: int) -> str:
        """The last lines that its daemons have logged of what they did, of trouble and of other machines."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.cli("daemon", "log", check=False, seconds=10)  # Has it write what waits.
        found = []
        for path in sorted(self.store.glob("*/ingotd.log")):
            for line in path.read_text(errors="replace").splitlines():
                # Of what is said for each request, what is said of the cluster.
                if " debug " not in line[:40] or "cluster" in line or "share" in line:
                    found.append(line)
        return "\n".join(found[-lines:])

    def start(self) -> int:
        """Starts the daemon; its process."""
        return self.json("daemon", "start")["pid"]

    def stop(self) -> None:
        self.cli("daemon", "stop", check=False)

    def workers(self) -> "list[int]":
        pid = self.json("daemon", "status")["pid"]
        return [int(one) for one in subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True).stdout.split()]

    def stop_workers(self) -> None:
        """From here on no compile of this machine ends. Its workers have compiled something: one that is still to start
        would not be stopped, and one that stops as it starts is replaced."""
        stopped = self.workers()
        assert stopped
        for one in stopped:
            os.kill(one, signal.SIGSTOP)

    def let_workers_go_on(self) -> None:
        for one in self.workers():
            os.kill(one, signal.SIGCONT)

    def kill(self) -> None:
        """As a machine that loses power: the daemon and its workers are gone at once."""
        for one in (self.json("daemon", "status")["pid"], *self.workers()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(one, signal.SIGKILL)

    def forget(self) -> None:
        """A machine that has never seen anything."""
        self.stop()
        shutil.rmtree(self.store, ignore_errors=True)

    def python(self, code: str, *args: str, **env: str):
        """Runs code in a new process; its last line of output is JSON."""
        return self.finish(self.begin(code, *args, **env))

    def begin(self, code: str, *args: str, **env: str) -> subprocess.Popen:
        return subprocess.Popen(self._words(sys.executable, "-c", code, *args), env={**self.env, **env}, cwd=self.folder,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    @staticmethod
    def finish(process: subprocess.Popen):
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
        return json.loads(out.splitlines()[-1])


class Caller:
    """A program of a machine that makes calls when it is told to, and outlives its daemon. argv and lines of its input are
    the test's; each line is answered by one of JSON."""

    def __init__(self, host: Host, code: str, *args: str) -> None:
        self._process = host.begin(code, *args)

    def ask(self, line: object) -> None:
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def has_answered(self) -> bool:
        return bool(select.select([self._process.stdout], [], [], 0)[0])

    def answer(self, seconds: float = 120.0):
        ready = select.select([self._process.stdout], [], [], seconds)[0]
        assert ready, f"no answer within {seconds} s"
        line = self._process.stdout.readline()
        assert line, self._process.stderr.read()
        return json.loads(line)

    def run(self, line: object):
        self.ask(line)
        return self.answer()

    def send_signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


# Of daemons whose answers must not depend on how busy the machine is: more than it ever stands still.
PATIENCE = {"cluster_lookup_ms_max": 30_000, "cluster_index_ms_max": 20_000, "cluster_blob_ms_max": 60_000}


class Cluster:
    """Machines that trust each other."""

    def __init__(self, folder: pathlib.Path, is_patient: bool = False, has_networks: bool = True, is_direct: bool = False, **settings: object) -> None:
        """`is_patient`: look-ups and tiers are waited for as long as it takes (PATIENCE).
        `has_networks`: machines have networks of their own, where that can be.
        `is_direct`: nothing is between machines and servers, for who takes the time; no trouble can be made then.
        `settings`: of the daemons of all machines."""
        self._folder, self._is_patient, self._is_direct = folder, is_patient, is_direct
        self._settings = {**(PATIENCE if is_patient else {}), **settings}
        self._has_networks = has_networks and not is_direct and wire.can_be_made()
        self.servers = Servers(folder)
        self.hosts: "list[Host]" = []

    def add(self, count: int = 1, **settings: object) -> "list[Host]":
        added = []
        for _ in range(count):
            name = f"host{len(self.hosts)}"
            folder = self._folder / name
            folder.mkdir(mode=0o700)
            places = self.servers.places() if self._is_direct else {}
            client = {"first_lookup_ms_max": PATIENCE["cluster_lookup_ms_max"]} if self._is_patient else {}
            added.append(Host(name, folder, self.servers, {**self._settings, **places, **settings}, client, self._has_networks))
            self.hosts.append(added[-1])
        first = self.hosts[0]
        for host in added:
            first.cli("trust", "add", host.public)
        for host in self.hosts[1:]:
            shutil.copy(first.trust / "trust.toml", host.trust / "trust.toml")
        return added

    def total(self, counter: str) -> int:
        return sum(host.stats()[counter] for host in self.hosts)

    def shared(self) -> None:
        """Waits until nothing is left to be sent."""
        for host in self.hosts:
            wait_until(f"{host.name} has sent what it made", host.has_sent)

    def close(self) -> None:
        for host in self.hosts:
            host.close()
        self.servers.close()
