# SPDX-License-Identifier: Apache-2.0
"""Files that the command line and the environment make for other programs to show: pictures, timelines, code with names."""

import json
import shutil
import subprocess

import pytest

RUN = '''
import json, torch, ingot
class Net(torch.nn.Module):
    def forward(self, x):
        return torch.sort(torch.tanh(x) * 2, dim=-1)[0].add(1)
step = ingot.compile(Net().eval(), wait=True)
with torch.no_grad():
    for _ in range(3):
        step(torch.ones(4, 16))
    report = step.report(torch.ones(4, 16))
maps = [line.split()[-1] for line in open("/proc/self/maps") if ".so" in line and "/ingot-" in line]
print(json.dumps(dict(native=ingot.stats()["native_calls"], symbols=[one.symbol for one in report.steps], maps=sorted(set(maps)))))
'''


@pytest.fixture
def filled(store):
    assert store.python(RUN)["native"] > 0
    return store


def failure(store, *args):
    """What a command that fails says."""
    from conftest import BIN

    done = subprocess.run([str(BIN / "ingot"), *args], env=store.env, capture_output=True, text=True)
    assert done.returncode != 0 and done.stdout == "", done
    return done.returncode, done.stderr


def test_an_entry_is_drawn_by_the_ending_of_the_file(filled, tmp_path):
    assert filled.cli("inspect", "forward", "--graph", str(tmp_path / "g.dot")) == f"wrote {tmp_path}/g.dot\n"
    dot = (tmp_path / "g.dot").read_text()
    assert dot == filled.cli("text", "forward", "dot") and dot.count("subgraph cluster_") == 2 and "aten.sort" in dot
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "dot").write_text("#!/bin/sh\necho \"drawn $1\"\nexec cat\n")
    (folder / "dot").chmod(0o700)
    path = filled.env["PATH"]
    filled.env["PATH"] = f"{folder}:{path}"
    for ending in ("svg", "png", "pdf"):
        filled.cli("inspect", "forward", "--graph", str(tmp_path / f"g.{ending}"))
        assert (tmp_path / f"g.{ending}").read_text() == f"drawn -T{ending}\n{dot}"
    (folder / "dot").write_text("#!/bin/sh\nexit 3\n")
    code, text = failure(filled, "inspect", "forward", "--graph", str(tmp_path / "h.svg"))
    assert code == 2 and "ended with 3" in text and not (tmp_path / "h.svg").exists()
    filled.env["PATH"] = str(tmp_path / "empty")
    code, text = failure(filled, "inspect", "forward", "--graph", str(tmp_path / "h.svg"))
    assert code == 3 and "graphviz is not installed" in text and ".dot" in text
    for wrong in ("h.jpg", "h", "h.svg.txt"):
        code, text = failure(filled, "inspect", "forward", "--graph", str(tmp_path / wrong))
        assert code == 2 and "the ending says what to write" in text and not (tmp_path / wrong).exists()
    code, text = failure(filled, "inspect", "forward", "--graph", str(tmp_path / "none" / "h.dot"))
    assert "none" in text


def test_the_timeline_of_a_compile_has_its_stages_in_order(filled, tmp_path):
    filled.cli("inspect", "forward", "--timeline", str(tmp_path / "t.json"))
    slices = [event for event in json.loads((tmp_path / "t.json").read_text())["traceEvents"] if event["ph"] == "X"]
    entry = filled.json("inspect", "forward")
    variant, = entry["variants"]
    whole, *stages = slices
    assert whole["name"] == f"{variant['kind']} {variant['artifact'][:12]}" and whole["dur"] == pytest.approx(variant["compile_s"] * 1e6)
    assert [stage["name"] for stage in stages] == ["passes", "fusion", "codegen", "link", "proof"]
    assert sum(stage["dur"] for stage in stages) == pytest.approx(whole["dur"], rel=1e-3)
    assert stages[0]["ts"] == whole["ts"] and all(a["ts"] + a["dur"] == pytest.approx(b["ts"]) for a, b in zip(stages, stages[1:]))
    assert {name: stage["dur"] / 1e6 for name, stage in zip(variant["stages"], stages)} == pytest.approx(variant["stages"])


def test_code_is_kept_as_files_with_names_where_that_is_asked_for(store, tmp_path):
    plain = store.python(RUN)
    assert plain["maps"] == []
    seen = store.python(RUN, INGOT_CODE_DIR=str(tmp_path / "code"))
    assert seen["native"] > 0 and seen["symbols"] == plain["symbols"]
    files = list((tmp_path / "code").iterdir())
    assert [str(file) for file in files] == seen["maps"] and len(files) == 1
    kernels = [symbol for symbol in seen["symbols"] if symbol]
    content = files[0].read_bytes()
    assert kernels and all(f".{symbol}".encode() in content for symbol in kernels)
    if shutil.which("nm"):
        names = subprocess.run(["nm", str(files[0])], capture_output=True, text=True, check=True).stdout
        assert all(any(line.endswith(f".{symbol}") and " T k" in line for line in names.splitlines()) for symbol in kernels), names
    # A directory that cannot be: code is in memory as ever, and somebody is told.
    (tmp_path / "file").write_text("")
    process = store.start(RUN, INGOT_CODE_DIR=str(tmp_path / "file"))
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0 and json.loads(out.splitlines()[-1])["native"] > 0 and "INGOT_CODE_DIR" in err
