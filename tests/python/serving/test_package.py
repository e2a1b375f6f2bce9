# SPDX-License-Identifier: Apache-2.0
"""What an installed wheel holds, and how it meets a PyTorch it does not fit."""

import os
import pathlib
import re
import subprocess

import pytest
from conftest import BUILD

ROOT = pathlib.Path(__file__).resolve().parents[3]


def test_the_wheel_holds_the_extension_and_all_three_programs(tmp_path):
    subprocess.run(["cmake", "--install", BUILD, "--component", "wheel", "--prefix", tmp_path], check=True,
                   capture_output=True)
    package = tmp_path / "ingot"
    assert (tmp_path / "ingot_everywhere.py").exists() and (package / "_built_for.py").exists() and list(package.glob("_native.*.so"))
    for program in ("ingotd", "ingot-worker", "ingot", "ingot-compile"):
        assert os.access(package / "bin" / program, os.X_OK), program
    listed = subprocess.run([package / "bin" / "ingot", "--help"], capture_output=True, text=True, check=True).stdout
    assert "why-miss" in listed


def test_an_extension_built_for_another_torch_says_so(ingot):
    from ingot import compatibility

    compatibility.check_torch("2.13.1+cpu", built="2.13.0")
    with pytest.raises(ImportError, match=r"built for PyTorch 2\.13\.0, found 2\.12\.1"):
        compatibility.check_torch("2.12.1", built="2.13.0")


def test_versions_that_are_not_supported_are_named_with_those_that_are(ingot):
    from ingot import compatibility

    compatibility.check_python(compatibility.this_python(), compatibility.this_python())
    with pytest.raises(ImportError, match=r"works with CPython 3\.11, 3\.12 and 3\.13; this is Python 3\.14"):
        compatibility.check_python("3.14")
    with pytest.raises(ImportError, match=r"this is Python free-threaded 3\.13"):
        compatibility.check_python("free-threaded 3.13")
    with pytest.raises(ImportError, match=r"built for Python 3\.12, found 3\.11"):
        compatibility.check_python("3.11", built="3.12")
    with pytest.raises(ImportError, match=r"works with PyTorch 2\.11, 2\.12, 2\.13, 2\.14 and 2\.15; found 2\.16\.0"):
        compatibility.check_torch("2.16.0", built="2.16.0")


def test_another_source_is_another_build(tmp_path):
    sources = tmp_path / "sources.txt"
    sources.write_text("a.cpp\nb.py\n")
    (tmp_path / "a.cpp").write_text("int a;\n")
    (tmp_path / "b.py").write_text("b = 1\n")
    header = tmp_path / "build_id.h"

    def build_id(**given):
        facts = {"FOLDER": tmp_path, "SOURCES": sources, "BUILD_ID": "", "LLVM": "22.1", "VERSION": "1.2", "OUTPUT": header, **given}
        subprocess.run(["cmake", *[word for name, value in facts.items() for word in ("-D", f"{name}={value}")], "-P", ROOT / "proto" / "build_id.cmake"], check=True)
        return re.search(r'kBuildId\[\] = "1\.2\+(\w+)"', header.read_text())[1]

    ids = [build_id(), build_id(LLVM="22.2")]
    (tmp_path / "b.py").write_text("b = 2\n")
    ids += [build_id(), build_id(BUILD_ID="chosen")]
    assert len(set(ids)) == 4 and ids[-1] == "chosen"
    written = header.stat().st_mtime_ns
    build_id(BUILD_ID="chosen")
    assert header.stat().st_mtime_ns == written   # nothing is compiled anew
    listed = (BUILD / "proto" / "sources.txt").read_text().split()
    for product in ("compiler/compile.cpp", "compiler/ops/ops.def", "client/native/observe/observer.cpp", "client/python/ingot/site/engine.py", "kernels/abi.h",
                    "proto/record.fbs"):
        assert product in listed
    assert not [path for path in listed if path.startswith(("tests/", "docs/")) or "_test." in path]
