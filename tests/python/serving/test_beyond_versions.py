# SPDX-License-Identifier: Apache-2.0
"""Where the native code does not fit the process, programs run as ever, eagerly, and hear once why."""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest
from conftest import BUILD

PROGRAM = '''
import json, pickle, torch
import ingot
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Linear(4, 4)
    def forward(self, x):
        return self.a(x).relu()
    def twice(self, x):
        return self(self(x))
class Held:
    @ingot.compile
    def method(self, x):
        return x + 2
def f(x, by=2):
    "Doubles."
    return x * by
model, x = Net().eval(), torch.randn(3, 4)
with torch.no_grad():
    step, compiled = ingot.compile(f, wait=True), ingot.compile(model)
    same = [torch.equal(step(x, by=3), x * 3), torch.equal(compiled(x), model(x)), torch.equal(compiled.twice(x), model.twice(x)),
            torch.equal(Held().method(x), x + 2), torch.equal(ingot.accelerate(model)(x), model(x)), torch.equal(ingot.cache_compile(f)(x), x * 2),
            torch.equal(torch.compile(model, backend="ingot", options={"wait": True})(x), model(x))]
    step.prepare(x)
compiled.a.weight.data.zero_()
same += [isinstance(compiled, Net), list(compiled.state_dict()) == list(model.state_dict()), float(model.a.weight.data.sum()) == 0, compiled.eval() is compiled,
         step.wait(), step.__doc__ == "Doubles.", step.variants == [], step.config.wait, type(pickle.loads(pickle.dumps(compiled))) is Net]
ingot.set_dim_gears(torch.ones(4), {0: [2, 4]})
refused = []
for needs in (lambda: ingot.load("x.ingot"), lambda: ingot.tune(step), lambda: step.export("x.ingot"), lambda: compiled.as_text(), lambda: ingot.roofs()):
    try:
        needs()
    except ingot.Incompatible as error:
        refused.append(str(error))
try:
    ingot.compile(f, wiat=True)
except ingot.Invalid as error:
    refused.append(str(error))
print(json.dumps({"same": same, "refused": refused, "stats": ingot.stats(), "report": step.report(), "why": step.why_miss(),
                  "names": [n for n in ingot.__all__ if not hasattr(ingot, n)],
                  "version": ingot.__version__}))
'''

CHANGES = {
    "a torch of the future": ('import torch; torch.__version__ = torch.torch_version.TorchVersion("2.99.0+cpu")',
                              r"ingot works with PyTorch 2\.11, .*; found 2\.99\.0\+cpu"),
    # One that Ingot works with, and not the one of this build.
    "another torch": ('import torch; torch.__version__ = torch.torch_version.TorchVersion("2.12.1" if torch.__version__ >= (2, 13) else "2.13.1")',
                      r"this ingot was built for PyTorch .*, found 2\.1[23]\.1; build it again"),
    "another Python": ('import types; sys.modules["ingot._built_for"] = types.SimpleNamespace(PYTHON="3.99", TORCH="2.13.0")',
                       r"this ingot was built for Python 3\.99, found 3\.\d+; build it again"),
    "no native module": ('sys.modules["ingot._native"] = None', "its native module cannot be used .*; build it again"),
    "another native module": ('import types; sys.modules["ingot._native"] = types.ModuleType("ingot._native")', "its native module cannot be used .*; build it again"),
    "no build": ('sys.modules["ingot._built_for"] = None', "this ingot has not been built"),
}


def start(store, folder: pathlib.Path, change: str, program: str, **env: str):
    """A process in which the change has happened before anything of the program runs."""
    (folder / "sitecustomize.py").write_text(change)
    (folder / "program.py").write_text(program)
    paths = os.pathsep.join([str(folder), str(BUILD / "python")])
    return subprocess.run([sys.executable, "program.py"], cwd=folder, env={**store.env, "PYTHONPATH": paths, **env}, capture_output=True, text=True)


@pytest.mark.parametrize("change", CHANGES)
def test_everything_runs_eagerly_and_one_warning_says_why(change, store, tmp_path):
    statement, why = CHANGES[change]
    done = start(store, tmp_path, "import sys; " + statement, PROGRAM)
    assert done.returncode == 0, done.stderr
    said = [line for line in done.stderr.splitlines() if "ingot" in line]
    assert len(said) == 1 and re.search("^everything runs eagerly: " + why, said[0]), done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["same"] == [True] * 16 and found["names"] == []
    assert len(found["refused"]) == 6 and all(re.search(why, text) for text in found["refused"][:5])
    assert "unknown option" in found["refused"][5] or "wiat" in found["refused"][5]
    assert re.search(why, found["report"]) and re.search(why, found["why"]) and re.search(why, found["stats"]["eager"])
    assert not store.path.exists(), "no daemon was asked"


def test_without_torch_it_is_torch_that_is_missing(store, tmp_path):
    done = start(store, tmp_path, 'import sys; sys.modules["torch"] = None', "import ingot")
    assert done.returncode == 1 and "import of torch halted" in done.stderr and "eagerly" not in done.stderr


def test_a_process_that_fits_hears_nothing(store, tmp_path):
    done = start(store, tmp_path, "", "import ingot; assert ingot.compile is not None; print(ingot.__version__)")
    assert (done.returncode, done.stderr) == (0, "")
