# SPDX-License-Identifier: Apache-2.0
"""What an installed wheel holds, and how it meets a PyTorch it does not fit."""

import os
import subprocess

import pytest
from conftest import ROOT


def test_the_wheel_holds_the_extension_and_all_three_programs(tmp_path):
    subprocess.run(["cmake", "--install", ROOT / "build" / "release", "--component", "wheel", "--prefix", tmp_path], check=True,
                   capture_output=True)
    package = tmp_path / "ingot"
    assert (package / "_built_for.py").exists() and list(package.glob("_native.*.so"))
    for program in ("ingotd", "ingot-worker", "ingot", "ingot-compile"):
        assert os.access(package / "bin" / program, os.X_OK), program
    listed = subprocess.run([package / "bin" / "ingot", "--help"], capture_output=True, text=True, check=True).stdout
    assert "why-miss" in listed


def test_an_extension_built_for_another_torch_says_so(ingot):
    from ingot import compatibility

    compatibility.check_torch("2.13.0", "2.13.1+cpu")
    with pytest.raises(ImportError, match=r"built for PyTorch 2\.13\.0, found 2\.14\.0"):
        compatibility.check_torch("2.13.0", "2.14.0")
