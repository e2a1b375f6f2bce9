# SPDX-License-Identifier: Apache-2.0
"""Installs the C++ package, builds examples/cpp against it as an outside project, and runs it.

usage: check_cpp_package.py BUILD_FOLDER
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

import torch
from torch import nn

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def run(*command: object, code: int = 0) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    assert done.returncode == code, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def save(path: pathlib.Path) -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 4), nn.Softmax(-1)).eval()
    rows = torch.export.Dim("rows", min=2, max=4096)
    with torch.no_grad():
        torch.export.save(torch.export.export(model, (torch.randn(4, 16),), dynamic_shapes=({0: rows},)), str(path))
    return model


def check(build: pathlib.Path, folder: pathlib.Path) -> None:
    prefix, example = folder / "prefix", folder / "example"
    run("cmake", "--install", build, "--prefix", prefix, "--component", "cpp")
    assert (prefix / "include/ingot/client.h").exists()
    for header in prefix.rglob("*.h"):
        assert not re.search(r'#include "(?!ingot/)', header.read_text()), f"{header} includes what is not installed"
    run("cmake", "-S", ROOT / "examples/cpp", "-B", example, "-DCMAKE_BUILD_TYPE=Release",
        f"-DCMAKE_PREFIX_PATH={prefix};{torch.utils.cmake_prefix_path}")
    run("cmake", "--build", example)
    model = save(folder / "model.pt2")
    run(prefix / "bin/ingot-compile", folder / "model.pt2", "-o", folder / "model.ingot")
    program = example / "run_exported"
    for rows in (2, 7, 4096):
        with torch.no_grad():
            expected = model(torch.ones(rows, 16))
        sizes, total = run(program, folder / "model.ingot", f"{rows},16").split("sum")
        assert sizes.split() == [str(rows), "4"], sizes
        assert abs(float(total) - expected.double().sum().item()) < 1e-3 * rows, (total, expected.sum())
    assert "size 17 at dim 1" in run(program, folder / "model.ingot", "4,17", code=2)
    assert "rows" not in run(program, folder / "none.ingot", code=3)
    # One OpenMP runtime in the process: the one that torch brings.
    runtimes = {os.path.realpath(line.split()[2]) for line in run("ldd", program).splitlines() if "gomp" in line}
    assert len(runtimes) == 1, runtimes


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        check(pathlib.Path(sys.argv[1]), pathlib.Path(name))
