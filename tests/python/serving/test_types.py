# SPDX-License-Identifier: Apache-2.0
"""What a checker of types says of programs that use Ingot, and of the extension's stubs."""

import ast
import pathlib
import subprocess
import sys

PROGRAM = """
import torch
import ingot
from typing_extensions import assert_type

class Block(torch.nn.Module):
    def generate(self, x: torch.Tensor) -> torch.Tensor:
        return x

def scaled(x: torch.Tensor, by: float = 2.0) -> torch.Tensor:
    return x * by

@ingot.compile
def plain(x: torch.Tensor) -> int:
    return 1

@ingot.compile(wait=True, guards="first")
def configured(x: torch.Tensor, flag: bool) -> "list[torch.Tensor]":
    return [x]

config = ingot.Config(wait=True, gears=ingot.Gears("product"))
config.gears.merge = "zip"
step = ingot.compile(scaled, config=config)
assert_type(step(torch.ones(3), by=3.0), torch.Tensor)
assert_type(plain(torch.ones(3)), int)
assert_type(configured(torch.ones(3), True), "list[torch.Tensor]")
assert_type(step.wait(), bool)
text: str = step.report() + step.as_text("plan") + step.soundness()
step.prepare(torch.ones(3))
model = ingot.compile(Block(), config={"wait": True}, cache_dir="/tmp/store")
module: torch.nn.Module = model.to(torch.float64).eval()
parent = torch.nn.Sequential(model, torch.nn.Linear(2, 2))
y: torch.Tensor = model.generate(model(torch.ones(3)))
named: ingot.Compiled[[torch.Tensor, float], torch.Tensor] = step
older = ingot.cache_compile(scaled, dynamic=False, ge_cache=True)
loaded = ingot.load("model.ingot")
error: Exception = ingot.HalfDone("x")
"""

WRONG = """
ingot.compile(scaled, speed=11)
ingot.compile(scaled)(3)
ingot.compile(scaled)(torch.ones(2), to=2.0)
ingot.Config(wiat=True)
ingot.Config().wiat = True
ingot.Config().gears.mrege = 'zip'
ingot.compile(scaled).raport()
ingot.cache_compile(scaled, fast=True)
""".strip().splitlines()


def test_programs_pass_and_mistakes_do_not(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM + "\n".join(WRONG) + "\n")
    done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", path.name], capture_output=True, text=True,
                          cwd=tmp_path)
    lines = sorted({int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error:" in line})
    first = PROGRAM.count("\n") + 1
    assert lines == list(range(first, first + len(WRONG))), done.stdout + done.stderr


def members(body):
    """Names that a stub declares."""
    found = {}
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            assert node.name not in found or node.decorator_list, f"{node.name} is declared twice"
            found[node.name] = node
        elif isinstance(node, ast.AnnAssign):
            found[node.target.id] = node
    return found


def test_the_stubs_are_those_of_the_extension(ingot):
    from ingot import _native

    stub = pathlib.Path(ingot.__file__).with_name("_native.pyi")
    declared = members(ast.parse(stub.read_text()).body)
    public = {name for name in dir(_native) if not name.startswith("_")}
    assert {name for name in declared if not name.startswith("_")} == public
    for name in public:
        kind = getattr(_native, name)
        if not isinstance(kind, type):
            continue
        known = members(declared[name].body)
        own = {member for member in vars(kind) if not member.startswith("_")}
        if kind is _native.Compiled:
            own |= set(_native.verbs)
        assert {member for member in known if not member.startswith("_")} == own, name
