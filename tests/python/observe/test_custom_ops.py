# SPDX-License-Identifier: Apache-2.0
"""Which library implements a custom operator, and whether it is still the same one."""

import shutil
import subprocess

import pytest
import torch

from conftest import BUILD


def build(folder, name: str, number: int, *flags: str) -> str:
    """A shared object that names the operator lib::scale as one that registers it does."""
    source, library = folder / f"{name}.c", folder / f"{name}.so"
    source.write_text(f'const char* space = "libspace"; const char* op = "scale_op"; int version(void) {{ return {number}; }}\n')
    subprocess.run(["gcc", "-shared", "-fPIC", *flags, "-o", str(library), str(source)], check=True)
    return str(library)


@pytest.fixture
def loaded(monkeypatch):
    """Paths that torch.ops.load_library has loaded, as this test says."""
    paths: "set[str]" = set()
    monkeypatch.setattr(torch.ops, "loaded_libraries", paths)
    return paths


@pytest.mark.parametrize("flag", ["-Wl,--build-id=sha1", "-Wl,--build-id=none"])
def test_a_library_counts_by_its_build(ingot, tmp_path, loaded, flag):
    from ingot.trace import custom_ops

    assert custom_ops.digest("libspace::scale_op") is None
    first = build(tmp_path, "first", 1, flag)
    loaded.add(first)
    before = custom_ops.digest("libspace::scale_op.default")
    assert before is not None and before == custom_ops.digest("libspace::scale_op")
    assert bool(custom_ops.build_id(open(first, "rb").read())) == ("sha1" in flag)
    build(tmp_path, "first", 2, flag)
    assert custom_ops.digest("libspace::scale_op") not in (None, before)
    build(tmp_path, "first", 1, flag)
    assert custom_ops.digest("libspace::scale_op") == before


def test_a_library_that_does_not_name_the_operator_does_not_count(ingot, tmp_path, loaded):
    from ingot.trace import custom_ops

    loaded.add(build(tmp_path, "first", 1))
    before = custom_ops.digest("libspace::scale_op")
    other = tmp_path / "other.c"
    other.write_text("int other(void) { return 1; }\n")
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(tmp_path / "other.so"), str(other)], check=True)
    loaded.add(str(tmp_path / "other.so"))
    assert custom_ops.digest("libspace::scale_op") == before


@pytest.mark.parametrize("content", [b"", b"GNU\0", b"\x04\0\0\0\xff\xff\0\0\x03\0\0\0GNU\0", b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0ab"])
def test_broken_notes_are_no_crash(ingot, content):
    from ingot.trace import custom_ops

    custom_ops.build_id(content)


def test_what_counts_as_custom(ingot):
    from ingot import _native

    assert _native.is_foreign_operator("mylib::op") and not _native.is_foreign_operator("aten::add.Tensor")


NATIVE = """
import json, torch, ingot
torch.ops.load_library("{library}")
step, x = ingot.compile(lambda x: torch.ops.ingot_test.scale(x.exp()) + 1, wait=True), torch.ones(4)
with torch.no_grad():
    answers = [step(x)[0].item() for _ in range(2)]
print(json.dumps(dict(answers=answers, expected=(torch.ops.ingot_test.scale(x.exp()) + 1)[0].item(), why=step.why_miss(), **ingot.stats())))
"""


def test_an_operator_that_a_native_library_registers(store, tmp_path):
    built, library = BUILD / "tests" / "integration", tmp_path / "libscale.so"

    def run(factor):
        shutil.copy(built / f"libscale_op_{factor}.so", library)
        found = store.python(NATIVE.format(library=library))
        assert found["answers"] == [found["expected"]] * 2, found
        return found

    before, unchanged, rebuilt, back = run(2), run(2), run(3), run(2)
    assert (before["captures"], unchanged["captures"], rebuilt["captures"], back["captures"]) == (1, 0, 1, 0)
    assert unchanged["native_calls"] == 2 and rebuilt["expected"] != before["expected"]
    assert "ingot_test::scale" in rebuilt["why"] and "libscale.so" in rebuilt["why"], rebuilt["why"]
