# SPDX-License-Identifier: Apache-2.0
"""Programs of a test, as `python -c` runs them, at the price of a fork: importing torch takes nine tenths of most of them.

A parent imports torch and nothing else. Each program is a child of it that becomes what `python -c` would be: its code
runs in `__main__`, with its environment, folder, output, and the end that an interpreter has. Two parents take turns, so
that a program and the next one hash texts differently and lie elsewhere in memory, as separate starts would.
"""

import contextlib
import itertools
import json
import os
import re
import select
import subprocess
import sys
import tempfile
import typing

# What an interpreter or a library reads as it is loaded. (Inductor, which is loaded later, sets TORCHINDUCTOR_CACHE_DIR.)
_EARLY = re.compile(r"PYTHON(?!DONTWRITEBYTECODE)|LD_|GLIBC_|OMP_|GOMP_|KMP_|MKL_|TORCH_|INGOT_EVERYWHERE$|CUDA")


class Parent:
    def __init__(self, env: "dict[str, str]", seed: int) -> None:
        # Its own name is no name of the program: what is executed leaves nothing behind but what the program makes.
        self._process = subprocess.Popen([sys.executable, "-c", "exec(__import__('starts').become())"], env={**env, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": str(seed)},
                                         cwd=os.path.dirname(os.path.abspath(__file__)), text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def run(self, code: str, args: "typing.Sequence[str]", env: "typing.Mapping[str, str]", folder: str, seconds: float) -> "subprocess.CompletedProcess[str]":
        with tempfile.NamedTemporaryFile("r") as out, tempfile.NamedTemporaryFile("r") as err:
            self._process.stdin.write(json.dumps({"code": code, "args": args, "env": dict(env), "folder": folder, "out": out.name, "err": err.name}) + "\n")
            self._process.stdin.flush()
            child = int(self._process.stdout.readline())
            if not select.select([self._process.stdout], [], [], seconds)[0]:
                os.kill(child, 9)
                self._process.stdout.readline()
                raise subprocess.TimeoutExpired("python -c", seconds, out.read(), err.read())
            return subprocess.CompletedProcess("python -c", int(self._process.stdout.readline()), out.read(), err.read())

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait(30)


class Parents:
    """Two, made when somebody first asks, with the environment of that time but for what Ingot reads."""

    def __init__(self) -> None:
        self._env: "dict[str, str]" = {}
        self._made: "list[Parent]" = []
        self._turns = itertools.cycle((0, 1))

    def run(self, code: str, *args: str, env: "typing.Mapping[str, str]", folder: "str | os.PathLike[str]" = ".", seconds: float = 300) -> "subprocess.CompletedProcess[str]":
        """As subprocess.run; from nothing where the environment asks for it."""
        self._env = self._env or {name: value for name, value in os.environ.items() if not name.startswith("INGOT_")}
        if any(_EARLY.match(name) and env.get(name) != self._env.get(name) for name in {*env, *self._env}):
            return subprocess.run([sys.executable, "-c", code, *args], env=env, cwd=folder, capture_output=True, text=True, timeout=seconds)
        if not self._made:
            self._made = [Parent(self._env, seed) for seed in (1, 2)]
        return self._made[next(self._turns)].run(code, args, env, os.path.abspath(folder), seconds)

    def close(self) -> None:
        for parent in self._made:
            parent.close()


def become() -> typing.Any:
    """In the parent: serves until nobody asks any more. In a child: the code that it is to run."""
    import torch  # noqa: F401

    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            out.close()
            return _program(json.loads(line))
        print(child, file=out, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), file=out, flush=True)
    return compile("", "<string>", "exec")


def _program(asked: "dict[str, typing.Any]") -> typing.Any:
    for number, name, flags in ((0, os.devnull, os.O_RDONLY), (1, asked["out"], os.O_WRONLY | os.O_APPEND), (2, asked["err"], os.O_WRONLY | os.O_APPEND)):
        file = os.open(name, flags)
        os.dup2(file, number)
        os.close(file)
    sys.argv[1:] = asked["args"]
    os.environ.clear()
    os.environ.update(asked["env"])
    os.chdir(asked["folder"])
    with contextlib.suppress(KeyError):
        del sys.modules[__name__]
    return compile(asked["code"], "<string>", "exec")
