# SPDX-License-Identifier: Apache-2.0
"""One process that compiles many models (compile_batch.cpp)."""

import json
import pathlib
import subprocess
import typing


class Batch:
    """Started anew when it dies."""

    def __init__(self, program: pathlib.Path) -> None:
        self.program = program
        self.process: "subprocess.Popen[str] | None" = None

    def compile(self, request: "dict[str, typing.Any]") -> "dict[str, typing.Any]":
        if self.process is None:
            self.process = subprocess.Popen([self.program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if line:
            answer: "dict[str, typing.Any]" = json.loads(line)
            return answer
        status = self.process.wait()
        self.process = None
        return {"code": "crash", "error": f"the compiler ended with {status}"}

    def close(self) -> None:
        if self.process is not None:
            assert self.process.stdin is not None
            self.process.stdin.close()
            self.process.wait()
            self.process = None
