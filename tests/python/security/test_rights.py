# SPDX-License-Identifier: Apache-2.0
"""A client that reaches the daemon's socket, and nothing else of it, as a container that has mounted the socket's folder: it uses the daemon and administers nothing."""

import json
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap

import pytest
from conftest import Store

VICTIM = """
import torch


def victim(x):
    return torch.relu(x * 2 + 1)
"""
RUN = """
import json, sys
sys.path.insert(0, {folder!r})
import torch, ingot, victim
step = ingot.compile(victim.victim)
for _ in range(3):
    y = step(torch.arange(4.0))
    step.wait()
assert y.tolist() == [1, 3, 5, 7], y
print(json.dumps(ingot.stats()))
"""
ADMINISTERS = [("list",), ("stats",), ("config",), ("doctor",), ("gc",), ("verify",), ("evict", "victim"), ("pin", "victim"), ("unpin", "victim"), ("retry", "victim"),
               ("tune", "victim"), ("export", "--all", "--unsigned", "-o", "{folder}/out.bundle"), ("import", "{folder}/in.bundle", "--allow-unsigned"), ("sync", "--push"),
               ("trust", "recall"), ("inspect", "victim"), ("why-miss", "victim"), ("text", "victim"), ("ranks", "victim"), ("daemon", "stop"), ("daemon", "stop", "--now")]


class Container:
    """Processes of this user in a mount namespace where the daemon's store is not: only the folder of its socket is."""

    def __init__(self, store, folder: pathlib.Path) -> None:
        self._store, self._folder = store, folder
        self.env = {name: value for name, value in store.env.items() if name != "INGOT_STORE_DIR"}
        self.env |= {"INGOT_SOCKET": str(folder / "run" / "ingotd.sock"), "HOME": str(folder / "home"), "XDG_CACHE_HOME": str(folder / "home" / "cache"), "XDG_RUNTIME_DIR": "",
                     "TMPDIR": str(folder / "home")}
        (folder / "home").mkdir()

    def run(self, *words: str) -> subprocess.CompletedProcess:
        hide = f'mount -t tmpfs none "{self._store.path}" && exec "$@"'
        within = ["unshare", "--mount", "--", "sh", "-c", hide, "sh", *words]
        as_root = [] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--"]  # It takes a namespace to show this.
        return subprocess.run([*as_root, *within], env=self.env, capture_output=True, text=True, timeout=300)

    def cli(self, *words: str) -> subprocess.CompletedProcess:
        return self.run(str(self._store.bin / "ingot"), *words)


@pytest.fixture
def tmp_path():
    """A short one: the sockets of a store whose path is long are elsewhere."""
    with tempfile.TemporaryDirectory(prefix="ingot-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        yield pathlib.Path(folder)


@pytest.fixture
def store(tmp_path):
    found = Store(tmp_path / "store")
    yield found
    found.cli("daemon", "stop", "--now", check=False)


@pytest.fixture
def mounted(store, tmp_path):
    """A daemon whose socket has a folder of its own, with an entry; and a container that has that folder."""
    run = tmp_path / "run"
    run.mkdir(mode=0o700)
    store.env["INGOT_SOCKET"] = str(run / "ingotd.sock")
    (tmp_path / "victim.py").write_text(VICTIM)
    assert store.python(RUN.format(folder=str(tmp_path)))["compiles"] == 1
    return Container(store, tmp_path)


def entries(store) -> "list[dict]":
    return store.json("list")["entries"]


def test_a_container_uses_the_daemon(mounted, store, tmp_path):
    done = mounted.run(sys.executable, "-c", RUN.format(folder=str(tmp_path)))
    assert done.returncode == 0, done.stderr
    stats = json.loads(done.stdout.splitlines()[-1])
    assert (stats["entry_hits"], stats["compiles"]) == (1, 0), "it was served what the other process had compiled"
    status = mounted.cli("daemon", "status", "--json")
    assert status.returncode == 0 and json.loads(status.stdout)["pid"] > 0, status.stderr


@pytest.mark.parametrize("words", ADMINISTERS, ids=lambda words: " ".join(words[:2]))
def test_a_container_administers_nothing(mounted, store, tmp_path, words):
    (tmp_path / "in.bundle").write_bytes(b"what it is does not matter")
    before = entries(store)
    done = mounted.cli(*[word.format(folder=tmp_path) for word in words])
    assert done.returncode == 13, (words, done.stdout, done.stderr)
    assert "administers the daemon" in done.stderr
    assert entries(store) == before
    assert not (tmp_path / "out.bundle").exists()


def test_what_is_asked_over_the_socket_itself_writes_no_file(mounted, store, tmp_path):
    """As the program of the review did: no library in between, the path in the arguments."""
    target = tmp_path / "authorized_keys"
    target.write_text("honest\n")
    script = f"""
        import json
        from ingot import _native
        connection = _native.Connection.open("", "", 10_000)
        for verb, words in (("export", {{"file": {str(target)!r}, "all": True, "unsigned": True}}), ("import", {{"file": {str(target)!r}, "allow_unsigned": True}})):
            try:
                print(verb, connection.query(verb, json.dumps(words)))
            except Exception as error:
                print(verb, type(error).__name__)
        """
    done = mounted.run(sys.executable, "-c", textwrap.dedent(script))
    assert done.stdout.split() == ["export", "Denied", "import", "Denied"], (done.stdout, done.stderr)
    assert target.read_text() == "honest\n"
    # He who administers sends a descriptor: a path means nothing to the daemon.
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], env=store.env, capture_output=True, text=True)
    assert done.stdout.split() == ["export", "Invalid", "import", "Invalid"], (done.stdout, done.stderr)
    assert target.read_text() == "honest\n"


def test_the_socket_at_which_it_is_administered_is_in_no_folder_that_is_given_away(mounted, store, tmp_path):
    assert [path.name for path in (tmp_path / "run").iterdir() if path.is_socket()] == ["ingotd.sock"]
    admin = next(store.path.glob("*/admin"))
    assert admin.is_socket() and admin.stat().st_mode & 0o777 == 0o600 and admin.parent.stat().st_mode & 0o777 == 0o700


def test_whoever_administers_does_all_of_it(mounted, store, tmp_path):
    """The same words where the store is: else the tests above could pass since nothing works."""
    bundle = tmp_path / "out.bundle"
    assert store.json("export", "--all", "--unsigned", "-o", str(bundle))["entries"] >= 1
    assert bundle.stat().st_mode & 0o777 == 0o600
    assert store.json("import", str(bundle), "--allow-unsigned")["known"] >= 1
    for entry in entries(store):
        store.cli("evict", entry["key"])
    assert entries(store) == []
