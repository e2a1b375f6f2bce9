# SPDX-License-Identifier: Apache-2.0
"""What is secret is told to nobody: every way that the daemon has of saying something is asked, and its files are read."""

import json
import pathlib
import signal
import subprocess

import pytest
from conftest import PATIENT
from waiting import wait_until

PASSWORD = "S3cretPassw0rd"
SAYS = [("config",), ("config", "--json"), ("config", "check"), ("config", "check", "--json"), ("stats",), ("doctor",), ("doctor", "--json"), ("top", "--once", "--json"),
        ("daemon", "status"), ("daemon", "log"), ("list",)]


@pytest.fixture
def configured(store, tmp_path):
    """Gives the daemon of `store` settings."""

    def write(**settings: "str | int"):
        path = tmp_path / "config.toml"
        lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
        path.write_text(pathlib.Path(PATIENT).read_text() + "\n[daemon]\n" + "\n".join(lines) + "\n")
        store.env["INGOT_CONFIG"] = str(path)
        return path

    return write


@pytest.fixture
def password_file(tmp_path):
    path = tmp_path / "redis.password"
    path.write_text(PASSWORD + "\n")
    path.chmod(0o600)
    return path


@pytest.fixture
def redis(tmp_path):
    """A server that lets in whoever knows the password; its URL."""
    socket = tmp_path / "redis.sock"
    process = subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", str(socket), "--requirepass", PASSWORD, "--save", "", "--dir", str(tmp_path)],
                               stdout=subprocess.DEVNULL)
    wait_until("the server is there", socket.exists)
    yield f"unix://{socket}"
    process.kill()
    process.wait()


def said(store) -> str:
    """Everything that the daemon, its files and its process say."""
    texts = []
    for words in SAYS:
        done = subprocess.run([str(store.bin / "ingot"), *words], env=store.env, capture_output=True, text=True)
        texts.append(done.stdout + done.stderr)
    texts += [path.read_bytes().decode(errors="replace") for path in store.path.rglob("*") if path.is_file()]
    process = pathlib.Path(f"/proc/{pid(store)}")
    return "\n".join([*texts, *((process / name).read_bytes().decode(errors="replace") for name in ("cmdline", "environ"))])


def pid(store) -> int:
    return store.json("daemon", "status")["pid"]


def failure(store, *words: str) -> str:
    done = subprocess.run([str(store.bin / "ingot"), *words], env=store.env, capture_output=True, text=True)
    assert done.returncode != 0, done.stdout
    return done.stdout + done.stderr


def tier(store):
    """How the shared index is found, by whoever logs in now; other things may be wrong on a machine of tests."""
    checks = json.loads(store.cli("config", "check", "--json", check=False))["checks"]
    return next(check for check in checks if check["check"] == "cluster index")


def test_the_password_of_the_shared_index_is_told_to_nobody(store, configured, password_file, redis):
    configured(cluster_index=redis, cluster_index_password_file=str(password_file), log_level="debug")
    store.cli("daemon", "start")
    assert tier(store)["ok"] and "a record can be written" in tier(store)["text"]
    assert PASSWORD not in said(store)
    assert redis.removeprefix("unix://") in store.cli("config")


def test_who_has_another_password_is_not_let_in_and_says_nothing_of_it(store, configured, password_file, redis):
    password_file.write_text("Another" + PASSWORD)
    configured(cluster_index=redis, cluster_index_password_file=str(password_file))
    store.cli("daemon", "start")
    assert not tier(store)["ok"] and "WRONGPASS" in tier(store)["text"]
    assert PASSWORD not in said(store)


@pytest.mark.parametrize("url", ["redis://u:{}@localhost", "redis://:{}@localhost:6379/0", "rediss://cache.example rediss://u:{}@other.example/",
                                 "unix://u:{}@/run/x", "redis://:a/{}@localhost", "u:{}@localhost:6379", "redis://localhost/0?password={}",
                                 "redis://u%3A{}@localhost"])
def test_no_setting_holds_a_password(store, configured, url):
    path = configured(cluster_index=url.format(PASSWORD))
    why = failure(store, "daemon", "start")
    assert "cluster_index_password_file" in why and str(path) in why and PASSWORD not in why


def test_a_password_that_others_can_read_is_not_used(store, configured, password_file, redis):
    password_file.chmod(0o640)
    configured(cluster_index=redis, cluster_index_password_file=str(password_file))
    store.cli("daemon", "start")
    everything = said(store)
    assert "cluster_index_password_file" in everything and f"chmod 600 {password_file}" in everything and PASSWORD not in everything


@pytest.mark.parametrize("host", ["10.1.2.3", "cache.example", "127.cache.example", "[2001:db8::1]"])
def test_nothing_goes_to_another_machine_in_the_clear(store, configured, host):
    configured(cluster_index=f"redis://{host}:6379")
    store.cli("daemon", "start")
    assert "rediss://" in said(store)
    store.cli("daemon", "stop", "--now")
    configured(cluster_blobs_endpoint=f"http://{host}:9000", cluster_blobs_bucket="b")
    store.cli("daemon", "start")
    assert "https://" in said(store)


def test_memory_is_written_nowhere_when_a_process_dies(store):
    store.cli("daemon", "start")
    limits = pathlib.Path(f"/proc/{pid(store)}/limits").read_text()
    (core,) = [line.split()[4:6] for line in limits.splitlines() if line.startswith("Max core file size")]
    assert {int(one) for one in core} <= {0, 1}, core


def test_a_signal_that_dumps_leaves_no_core(store, tmp_path):
    before = set(pathlib.Path("/").glob("core*"))
    store.cli("daemon", "start")
    process = pid(store)
    subprocess.run(["kill", f"-{int(signal.SIGABRT)}", str(process)], check=True)
    wait_until("it is gone", lambda: not pathlib.Path(f"/proc/{process}").exists())
    assert not [path for path in (*store.path.rglob("core*"), *tmp_path.rglob("core*"), *set(pathlib.Path("/").glob("core*")) - before) if path.is_file()]
