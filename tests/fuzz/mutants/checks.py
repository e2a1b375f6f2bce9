# SPDX-License-Identifier: Apache-2.0
"""Tests and fuzzers as commands over the tree, and whether one says that something is wrong."""

import json
import os
import pathlib
import re
import tempfile
import typing

import folders
import tree

PYTHON_TARGETS = ("product", "ingot", "ingot-opt", "ingot-compile", "ingot_shared", "onnx_compile_batch", "_native_recorder_test", "scale_op_2", "scale_op_3")
LIMIT_S = 900.0       # of a check whose time is not known
BUSY = 4.0            # times as long as without a fault, on a machine that does other things
GRACE_S = 120.0


class Listed(typing.NamedTuple):
    """How CMake runs a test."""

    command: "tuple[str, ...]"
    env: "dict[str, str]"


class Checks:
    """Runs what folders.py names."""

    def __init__(self, where: tree.Tree, seed: int, fuzz_s: float) -> None:
        self._tree, self._seed, self._fuzz_s = where, seed, fuzz_s
        self._listed: "dict[str, Listed]" = {}
        self._env = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(where.build / "python"), "INGOT_BUILD_DIR": str(where.build),
                     "PYTHONDONTWRITEBYTECODE": "1", "GTEST_BRIEF": "1", "GTEST_FAIL_FAST": "1"}

    def targets(self, name: str) -> "tuple[str, ...]":
        if self._is_python(name):
            return PYTHON_TARGETS
        return (f"{name.removeprefix('fuzz.')}_replay" if name.startswith("fuzz.") else name,)

    def run(self, name: str, known_s: "float | None") -> tree.Done:
        """Built already. Any status but 0 says that something is wrong, a limit that is reached as well."""
        limit = LIMIT_S if known_s is None else BUSY * known_s + GRACE_S
        if name.startswith("."):
            limit = BUSY * self._fuzz_s + 2 * GRACE_S
        with tempfile.TemporaryDirectory(prefix="ingot-mutants", dir=_scratch(), ignore_cleanup_errors=True) as folder:
            env = {**self._env, "TMPDIR": folder}
            if not self._is_python(name):
                env.update(self._cmake(name).env)
                done = tree.run(self._cmake(name).command, self._tree.path, limit, env)
            else:
                done = tree.run(self._command(name, folder), self._tree.path, limit, env)
            self._tree.end_processes()
        return done

    def _command(self, name: str, folder: str) -> "list[str]":
        python = str(self._tree.path / ".venv" / "bin" / "python")
        if name == "recorder_python":
            return [python, "-m", "pytest", "-q", "-x", "tests/python/observe/test_recorder.py", "tests/python/numerics/test_deferred.py"]
        if not name.startswith("."):
            return [python, "-m", "pytest", "-q", "-x", *map(str, pathlib.Path(self._tree.path, "tests/python").glob(f"*/{name}.py"))]
        words = folders.FUZZERS[name[1:]].arguments.split()
        meant = {"SECONDS": str(int(self._fuzz_s)), "SEED": str(self._seed), "FOLDER": folder}
        return [python, f"tests/fuzz/{name[1:]}", *(meant.get(word, word) for word in words)]

    @staticmethod
    def _is_python(name: str) -> bool:
        return name.startswith((".", "test_")) or name == "recorder_python"

    def _cmake(self, name: str) -> Listed:
        # It does not say how tests run that are not built yet.
        if not self._listed.get(name, Listed((), {})).command:
            self._listed.clear()
            done = tree.run(["ctest", "--test-dir", str(self._tree.build), "--show-only=json-v1"], self._tree.path, 120)
            for test in json.loads(done.said[done.said.index("{"):])["tests"]:
                # All shards of a program at once.
                group = re.sub(r"(?<=_test)\.\d+$", "", test["name"])
                given: "list[str]" = next((one["value"] for one in test["properties"] if one["name"] == "ENVIRONMENT"), [])
                env = dict(pair.split("=", 1) for pair in given if not pair.startswith("GTEST_"))
                self._listed.setdefault(group, Listed(tuple(test.get("command", ())), env))
            if not self._listed[name].command:
                raise tree.Failed(f"ctest does not know how to run {name}")
        return self._listed[name]


def _scratch() -> "str | None":
    """Stores sync every write, which only costs time here."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
