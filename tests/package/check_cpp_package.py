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


CONVOLUTIONS = """
import sys, torch, ingot
from torch import nn
torch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 4, 3, 2), nn.Sigmoid()).eval()
step = ingot.compile(model, wait=True)
with torch.no_grad():
    step(torch.randn(2, 3, 64, 48))
    step.export(sys.argv[1])
    for sizes in ((3, 3, 32, 40), (5, 3, 97, 33), (2, 3, 50, 131)):
        result = model(torch.ones(sizes))
        print(*result.shape, "sum", result.double().sum().item())
"""


def check_recorded_sizes(build: pathlib.Path, program: pathlib.Path, folder: pathlib.Path) -> None:
    """What one recording proved in Python, quotients of sizes among it, C++ runs at sizes that were never recorded."""
    os.environ.update(INGOT_STORE_DIR=str(folder / "store"), PYTHONPATH=str(build / "python"))
    try:
        expected = run(sys.executable, "-c", CONVOLUTIONS, folder / "convolutions.ingot").splitlines()[-3:]
    finally:
        run(build / "bin/ingot", "daemon", "stop", "--now")
    for sizes, line in zip(("3,3,32,40", "5,3,97,33", "2,3,50,131"), expected):
        wanted, found = (text.split("sum") for text in (line, run(program, folder / "convolutions.ingot", sizes)))
        assert found[0].split() == wanted[0].split(), (sizes, found, wanted)
        assert abs(float(found[1]) - float(wanted[1])) < 1e-3, (sizes, found, wanted)
    assert "size 4 at dim 1" in run(program, folder / "convolutions.ingot", "3,4,32,40", code=2)


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
    check_recorded_sizes(build, program, folder)
    assert "size 17 at dim 1" in run(program, folder / "model.ingot", "4,17", code=2)
    assert "rows" not in run(program, folder / "none.ingot", code=3)
    # One OpenMP runtime in the process: the one that torch brings.
    runtimes = {os.path.realpath(line.split()[2]) for line in run("ldd", program).splitlines() if "gomp" in line}
    assert len(runtimes) == 1, runtimes


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        check(pathlib.Path(sys.argv[1]), pathlib.Path(name))
