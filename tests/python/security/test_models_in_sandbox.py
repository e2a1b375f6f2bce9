# SPDX-License-Identifier: Apache-2.0
"""What reads a stranger's model reaches the model and its output, whatever a fault of the reader lets the stranger do there.

The fault is an intruder (tests/support/intruder.c): code that runs in the process at the moment at which it opens the model.
"""

import os
import pathlib
import re
import subprocess

import pytest
import torch
from conftest import BIN, ROOT
from onnx_writer import Model
from test_places import without_landlock
from torch import nn

import ingot


@pytest.fixture(scope="module")
def intruder(tmp_path_factory):
    library = tmp_path_factory.mktemp("intruder") / "intruder.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", str(library), str(ROOT / "tests/support/intruder.c"), "-ldl"], check=True)
    return library


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "model.pt2"
    torch.export.save(torch.export.export(nn.Linear(4, 3).eval(), (torch.zeros(2, 4),)), str(path))
    return path


@pytest.fixture(scope="module")
def onnx(tmp_path_factory):
    folder = tmp_path_factory.mktemp("onnx")
    (folder / "w.data").write_bytes(torch.ones(3).numpy().tobytes())
    model = Model()
    model.input("x", 3)
    model.output(model.node("Add", "x", model.constant("w", torch.ones(3), {"location": "w.data"})))
    return pathlib.Path(model.save(folder / "model.onnx"))


def compiled(model, output, *options, **kwargs):
    return subprocess.run([str(BIN / "ingot"), "compile", str(model), "-o", str(output), *options], capture_output=True, text=True, timeout=300, **kwargs)


def attempts(model, folder, library, *options):
    """What became of each thing that the intruder has tried."""
    secret, beside = folder / "secret", model.parent / "beside"
    secret.write_text("password")
    beside.write_text("password")
    names = {"INGOT_TEST_READS": str(model), "INGOT_TEST_READ": str(secret), "INGOT_TEST_WRITE": str(folder / "written"), "INGOT_TEST_BESIDE": str(beside)}
    done = compiled(model, folder / "out.ingot", *options, env={**os.environ, **names, "LD_PRELOAD": str(library)})
    said = re.search(r"intruder: (.*)", done.stderr)
    assert said, done.stderr
    return done, dict(word.split("=") for word in said[1].split()), folder / "written"


def test_the_intruder_reaches_everything_where_nothing_is_shut_off(archive, intruder, tmp_path):
    _, became, written = attempts(archive, tmp_path, intruder, "--sandbox", "off")
    assert became == {"write": "ok", "read": "ok", "beside": "ok", "connect": "ok", "fork": "ok", "exec": ""} and written.exists()


@pytest.mark.parametrize("options", ((), ("--sandbox", "required")))
def test_an_archive_reaches_no_file_no_network_and_no_program(archive, intruder, tmp_path, options):
    done, became, written = attempts(archive, tmp_path, intruder, *options)
    assert became == {"write": "EACCES", "read": "EACCES", "beside": "EACCES", "connect": "EPERM", "fork": "EPERM", "exec": "EPERM"}
    assert not written.exists()
    assert done.returncode == 0, done.stderr
    x = torch.randn(2, 4)
    assert ingot.load(tmp_path / "out.ingot")(x).shape == (2, 3)


def test_an_onnx_model_reaches_its_folder_alone(onnx, intruder, tmp_path):
    done, became, written = attempts(onnx, tmp_path, intruder)
    assert became == {"write": "EACCES", "read": "EACCES", "beside": "ok", "connect": "EPERM", "fork": "EPERM", "exec": "EPERM"}
    assert not written.exists()
    assert done.returncode == 0, done.stderr
    assert next(iter(ingot.load(tmp_path / "out.ingot")(torch.ones(3)).values())).tolist() == [2, 2, 2]


def test_a_kernel_that_cannot_is_told_of(archive, tmp_path):
    done = compiled(archive, tmp_path / "out.ingot", preexec_fn=without_landlock)
    assert done.returncode == 0 and "warning" in done.stderr and "not shut off" in done.stderr and "files open" in done.stderr, done.stderr
    (tmp_path / "out.ingot").unlink()
    done = compiled(archive, tmp_path / "out.ingot", "--sandbox", "required", preexec_fn=without_landlock)
    assert done.returncode == 10 and "landlock" in done.stderr, done.stderr
    assert not list(tmp_path.iterdir()), "nor is anything half written left"
    done = compiled(archive, tmp_path / "out.ingot", "--sandbox", "maybe")
    assert done.returncode == 2 and "maybe" in done.stderr


def test_who_compiles_hears_nothing_where_all_is_well(archive, tmp_path):
    done = compiled(archive, tmp_path / "out.ingot")
    assert done.returncode == 0 and not done.stderr, done.stderr


def test_the_output_is_what_it_was_until_it_is_whole(archive, tmp_path):
    out, damaged = tmp_path / "out.ingot", tmp_path / "damaged.pt2"
    out.write_text("before")
    damaged.write_bytes(archive.read_bytes()[:-100])
    assert compiled(damaged, out).returncode == 4
    assert out.read_text() == "before" and sorted(path.name for path in tmp_path.iterdir()) == ["damaged.pt2", "out.ingot"]
    assert compiled(archive, out).returncode == 0 and out.read_bytes().startswith(b"INGOTEXP")
    assert out.stat().st_mode & 0o777 == 0o666 & ~umask()


def umask():
    now = os.umask(0)
    os.umask(now)
    return now
