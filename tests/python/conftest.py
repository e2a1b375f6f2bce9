# SPDX-License-Identifier: Apache-2.0
"""Every test gets a store of its own; its daemon is stopped at the end."""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys

import pytest
import starts

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# The build that belongs to this interpreter; looked up without loading PyTorch.
BUILD = pathlib.Path(importlib.util.find_spec("ingot").origin).parents[2]
BIN = BUILD / "bin"
# Calls that meet a daemon which is starting wait for it, however busy the machine is.
PATIENT = str(ROOT / "tests/support/patient.toml")
# Of helpers that programs which tests start may use as well.
SUPPORT = str(ROOT / "tests/support")
sys.path.append(SUPPORT)


class Store:
    """A store directory with a daemon that starts on first use."""

    parents = starts.Parents()

    def __init__(self, path: pathlib.Path) -> None:
        self.path, self.bin = path, BIN
        self.env = {**os.environ, "INGOT_STORE_DIR": str(path), "PYTHONDONTWRITEBYTECODE": "1"}
        self.env["INGOT_CONFIG"] = PATIENT
        for name in ("INGOT_SOCKET", "INGOT_DISABLE", "INGOT_WAIT", "INGOT_REQUIRE_CACHED"):
            self.env.pop(name, None)

    def cli(self, *args: str, check: bool = True) -> str:
        done = subprocess.run([str(BIN / "ingot"), *args], env=self.env, capture_output=True, text=True)
        if check:
            assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def json(self, *args: str):
        return json.loads(self.cli(*args, "--json"))

    def start(self, code: str, folder: "pathlib.Path | None" = None, **env: str) -> subprocess.Popen:
        """A new process from nothing."""
        return subprocess.Popen([sys.executable, "-c", code], env={**self.env, **env}, cwd=folder or self.path.parent, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)

    def python(self, code: str, folder: "pathlib.Path | None" = None, **env: str):
        """Runs code in a new process, which is forked where that can be (starts.py); its last line of output is JSON."""
        done = self.parents.run(code, env={**self.env, **env}, folder=folder or self.path.parent)
        return self._answer(done.returncode, done.stdout, done.stderr)

    @classmethod
    def finish(cls, process: subprocess.Popen):
        out, err = process.communicate(timeout=300)
        return cls._answer(process.returncode, out, err)

    @staticmethod
    def _answer(status: int, out: str, err: str):
        assert status == 0, err
        return json.loads(out.splitlines()[-1])


def _modes():
    """Of this thread: whether gradients, forward-mode gradients and inference mode are on."""
    torch = sys.modules.get("torch")
    return (torch.is_grad_enabled(), torch._C._is_fwd_grad_enabled(), torch.is_inference_mode_enabled()) if torch else (True, True, False)


# What takes longest comes first: with a file of minutes at the end, all but one worker have nothing left to do. The rest are of seconds.
LONGEST = ("programs/test_programs.py", "numerics/test_values.py", "programs/test_readme.py", "numerics/test_opinfo.py", "numerics/test_tensor_programs.py",
           "serving/test_sequence_parallel.py", "serving/test_tuning.py", "programs/test_ways_in.py", "numerics/test_lowering_pairs.py", "state/test_moving_state.py",
           "programs/test_product_programs.py", "onnx/test_onnx_answers.py", "serving/test_processes.py", "serving/test_ranks.py", "serving/test_package.py",
           "programs/test_dynamo.py", "numerics/test_rivals.py", "serving/test_types.py", "state/test_mutations.py", "serving/test_archives.py")


def pytest_collection_modifyitems(items):
    here = pathlib.Path(__file__).resolve().parent
    assert all((here / name).is_file() for name in LONGEST)
    turn = {here / name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: turn.get(item.path, len(turn)))


@pytest.fixture(scope="session", autouse=True)
def parents_end():
    yield
    Store.parents.close()


@pytest.fixture(autouse=True)
def modes_stay():
    """What one test leaves on decides what later ones of the process see."""
    before = _modes()
    yield
    assert _modes() == before, "the test left PyTorch in another mode than it found"


@pytest.fixture
def store(tmp_path):
    found = Store(tmp_path / "store")
    yield found
    found.cli("daemon", "stop", check=False)


@pytest.fixture(scope="session")
def session_store(tmp_path_factory):
    found = Store(tmp_path_factory.mktemp("ingot") / "store")
    yield found
    found.cli("daemon", "stop", check=False)


@pytest.fixture
def ingot(session_store, monkeypatch):
    """The package in this process, on a store shared by the session; counters start at zero."""
    monkeypatch.setenv("INGOT_STORE_DIR", str(session_store.path))
    monkeypatch.setenv("INGOT_CONFIG", PATIENT)
    monkeypatch.delenv("INGOT_SOCKET", raising=False)
    import ingot
    from ingot import counters

    counters.reset()
    return ingot
