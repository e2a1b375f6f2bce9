# SPDX-License-Identifier: Apache-2.0
"""A process that checks one program after the other, so that a crash or a hang of native code ends nothing else."""

import dataclasses
import json
import logging
import os
import pathlib
import selectors
import subprocess
import sys
import tempfile
import traceback
import typing

HERE = pathlib.Path(__file__).resolve().parent
SECONDS_MAX = 120.0   # for one program


class Child:
    """The parent's end. Starts a new process when the last one has ended."""

    def __init__(self, env: "dict[str, str]", script: pathlib.Path = pathlib.Path(__file__)) -> None:
        self._script = script
        self._env = {**env, "MALLOC_PERTURB_": "165", "PYTHONFAULTHANDLER": "1"}   # memory that nobody wrote has no zeros in it
        self._process: "subprocess.Popen[str] | None" = None

    def check(self, text: str, modes: "typing.Sequence[str]") -> "dict[str, typing.Any]":
        """The report of a program; a crash or a hang is a failure in it."""
        report, how, what = self.ask({"text": text, "modes": list(modes)})
        return report or {"failures": [{"mode": how, "sizes": None, "what": what}], "calls": {}, "served": {}, "reasons": [], "operators": []}

    def ask(self, request: "dict[str, typing.Any]") -> "tuple[dict[str, typing.Any] | None, str, str]":
        """What the process answers; or None, ``crash`` or ``hang``, and what it said last."""
        if self._process is None or self._process.poll() is not None:
            self._said = tempfile.TemporaryFile("w+", errors="replace")
            self._process = subprocess.Popen([sys.executable, str(self._script)], env=self._env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                             stderr=self._said, text=True)
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        waiting = selectors.DefaultSelector()
        waiting.register(process.stdout, selectors.EVENT_READ)
        hangs = not waiting.select(SECONDS_MAX)
        line = "" if hangs else process.stdout.readline()
        if line:
            return typing.cast("dict[str, typing.Any]", json.loads(line)), "", ""
        if hangs:
            process.kill()
        process.wait()
        self._said.seek(0)
        said = self._said.read()
        what = f"no answer within {SECONDS_MAX:.0f} s" if hangs else f"the process ended with {process.returncode}"
        return None, "hang" if hangs else "crash", f"{what}\n{said[-2000:]}"

    def close(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.communicate()   # Its input ends.


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)   # What a program prints is no answer.
    import warnings

    import torch

    import check
    import program

    import ingot

    warnings.filterwarnings("ignore")
    logging.getLogger("ingot").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    for number, line in enumerate(sys.stdin):
        asked = json.loads(line)
        try:
            module = program.load(asked["text"], f"program{number}")
            report = dataclasses.asdict(check.Checker(ingot, module).run(asked["modes"]))
        except Exception:
            report = {"failures": [{"mode": "harness", "sizes": None, "what": traceback.format_exc()}], "calls": {}, "served": {}, "reasons": [], "operators": []}
        answers.write(json.dumps(report) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
