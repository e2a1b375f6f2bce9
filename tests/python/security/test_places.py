# SPDX-License-Identifier: Apache-2.0
"""Where a daemon is looked for, somebody else may be: another user of the machine, or another program of this one."""

import ctypes
import json
import os
import pathlib
import socket
import struct
import subprocess
import tempfile
import time

import pytest
from waiting import wait_until

NOBODY = 65534


def run(store, *words: str, **env: str) -> "tuple[subprocess.CompletedProcess, float]":
    began = time.monotonic()
    done = subprocess.run([str(store.bin / "ingot"), *words], env={**store.env, **env}, capture_output=True, text=True)
    return done, time.monotonic() - began


# Another user has the folder in which a client looks, and listens there without ever taking a connection.
STANDS_STILL = """
import os, socket, sys, time
folder, name = sys.argv[1:]
os.mkdir(folder)
os.chmod(folder, 0o755)
listener = socket.socket(socket.AF_UNIX)
listener.bind(f"{folder}/{name}")
os.chmod(f"{folder}/{name}", 0o777)
listener.listen(0)
full = []
for _ in range(4):
    full.append(socket.socket(socket.AF_UNIX))
    full[-1].setblocking(False)
    full[-1].connect_ex(f"{folder}/{name}")
print("ready", flush=True)
time.sleep(600)  # On purpose: it stands still
"""


def memory_socket(store) -> str:
    """The name of the place where a daemon serves that cannot use its store; every user can work it out."""
    from ingot import _native

    home = next(path.parent for path in store.path.glob("*/LOCK"))
    return _native.digest_bytes(str(home).encode())[:12] + ".sock"


@pytest.fixture
def tmp_of_all():
    """A folder as /tmp is, where other users reach it."""
    with tempfile.TemporaryDirectory(prefix="ingot-security-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o1777)
        yield pathlib.Path(folder)


def test_another_user_keeps_nobody_from_a_daemon(store, tmp_of_all):
    env = {"TMPDIR": str(tmp_of_all), "XDG_RUNTIME_DIR": ""}
    assert run(store, "daemon", "start", **env)[0].returncode == 0
    name = memory_socket(store)
    run(store, "daemon", "stop", "--now", **env)
    folder = tmp_of_all / f"ingot-{os.geteuid()}"
    if folder.exists():
        subprocess.run(["rm", "-r", str(folder)], check=True)
    python = "/usr/bin/python3"  # One that other users can reach.
    as_root = [] if os.geteuid() == 0 else ["sudo", "-n"]  # It takes a second user to show this.
    other = subprocess.Popen([*as_root, "setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", python, "-c", STANDS_STILL, str(folder), name],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert other.stdout.readline() == "ready\n", other.communicate()
        done, _ = run(store, "daemon", "start", **env)
        assert done.returncode == 0, done.stdout + done.stderr
        status, _ = run(store, "daemon", "status", "--json", **env)
        assert json.loads(status.stdout)["pid"] > 0
    finally:
        other.kill()
        other.wait()


def test_a_daemon_whose_socket_is_anothers_ends_and_says_so(store, tmp_path):
    """Clients would ask whoever is there now."""
    config = tmp_path / "config.toml"
    config.write_text("[daemon]\nplace_check_s = 1\n")
    env = {"INGOT_CONFIG": str(config), "INGOT_SOCKET": str(tmp_path / "daemon.sock")}
    done, _ = run(store, "daemon", "start", **env)
    assert done.returncode == 0, done.stdout + done.stderr
    status, _ = run(store, "daemon", "status", "--json", **env)
    pid = json.loads(status.stdout)["pid"]
    place = tmp_path / "daemon.sock"
    place.rename(tmp_path / "aside.sock")
    impostor = socket.socket(socket.AF_UNIX)
    impostor.bind(str(place))
    impostor.listen()
    wait_until("it has ended", lambda: not pathlib.Path(f"/proc/{pid}").exists())
    log = next(store.path.glob("*/ingotd.log")).read_text()
    assert "replaced its socket" in log
    assert place.exists(), "what another has made there is another's"


def without_landlock() -> None:
    """For this process and those it starts the kernel has none: seccomp answers ENOSYS."""
    ld, jump, ret = 0x20, 0x15, 0x06
    landlock_create_ruleset, enosys, allow = 444, 0x00050000 | 38, 0x7FFF0000
    rows = [(ld, 0, 0, 0), (jump, 0, 1, landlock_create_ruleset), (ret, 0, 0, enosys), (ret, 0, 0, allow)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *row) for row in rows))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(rows), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    no_new_privs, set_seccomp, filtered = 38, 22, 2
    if libc.prctl(no_new_privs, 1, 0, 0, 0) != 0 or libc.prctl(set_seccomp, filtered, ctypes.byref(program), 0, 0) != 0:
        os._exit(9)


def sandbox(store):
    checks = json.loads(store.cli("doctor", "--json", check=False))["checks"]
    (found,) = [check for check in checks if check["check"] == "sandbox"]
    return found


def test_workers_that_reach_files_are_no_good_condition(store):
    done = subprocess.run([str(store.bin / "ingot"), "daemon", "start"], env=store.env, capture_output=True, text=True, preexec_fn=without_landlock)
    assert done.returncode == 0, done.stdout + done.stderr
    condition = sandbox(store)
    assert not condition["ok"] and "files open" in condition["text"], condition
    log = next(store.path.glob("*/ingotd.log")).read_text()
    assert "workers can reach this user's files" in log, "whoever asks for nothing is told too"


def test_workers_that_reach_none_are_one(store):
    store.cli("daemon", "start")
    condition = sandbox(store)
    assert condition["ok"] and "files closed" in condition["text"], condition
