# SPDX-License-Identifier: Apache-2.0
"""Every line of README.md and docs/use.md that somebody may copy is run here. A line that no table below knows fails, and so does a row whose line is gone."""

import pathlib
import re
import shlex
import shutil
import subprocess
import sys

import pytest
from conftest import BIN, BUILD, ROOT, Store

README = (ROOT / "README.md").read_text() + (ROOT / "docs" / "use.md").read_text()
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
BLOCKS = [(found[1], found[2]) for found in FENCE.finditer(README)]
SPANS = dict.fromkeys(span for span in re.findall(r"`([^`\n]+)`", FENCE.sub("", README)) if re.match(r"(ingot|ingotd|cmake|pip|tools/\w+)( |$)|.*[(=]", span))
# What is said of, and is no line: set-up has run where a test does, and a bench takes minutes.
NAMES = {"generate()", "trust=", "tools/setup", "tools/bench", "ingotd"}

# What the reader has when the first block begins.
BEFORE = '''
import json, math, os, sys, torch, traceback
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(64, 128), torch.nn.Linear(128, 64)
    def forward(self, x):
        return self.down(torch.nn.functional.gelu(self.up(x)))
torch.manual_seed(0)
'''
# And when the blocks have been run.
AFTER = '''
torch.set_grad_enabled(False)
model, x, path = Net().eval(), torch.randn(4, 64), "model.ingot"
f = model.forward
step = ingot.compile(model, wait=True)
step(x), step(x)
'''

# Each line as it stands is a part of what is run, but for "..." and for names that the sentence before it gives.
PYTHON = {
    "ingot.stats()": "assert ingot.stats()['native_calls'] >= 1",
    "INGOT_VERIFY=sample:100": "os.environ.update(['INGOT_VERIFY=sample:100'.split('=')]); assert ingot.compile(Net()).config.verify_every() == 100; "
                               "del os.environ['INGOT_VERIFY']",
    "INGOT_WAIT=1": "os.environ.update(['INGOT_WAIT=1'.split('=')]); assert ingot.compile(Net()).config.wait; del os.environ['INGOT_WAIT']",
    'step.export("model.ingot")': 'step.export("model.ingot"); assert os.path.exists("model.ingot")',
    'weights="reference"': 'step.export("apart.ingot", weights="reference"); assert os.path.exists("apart.safetensors")',
    'ingot.load("model.ingot")': 'assert torch.allclose(ingot.load("model.ingot")(x), model(x), atol=1e-5)',
    "ingot.load(path)": "assert torch.allclose(ingot.load(path)(x), model(x), atol=1e-5)",
    'ingot.quantize_(model, "int8")': 'plain, model = model, Net(); ingot.quantize_(model, "int8"); assert type(model.up) is ingot.QuantizedLinear; model = plain',
    "ingot.adopt_(model)": "assert ingot.adopt_(model) is model",
    "ingot.accelerate(model)": "assert isinstance(ingot.accelerate(model), Net)",
    "ingot.compile(f)": "assert torch.allclose(ingot.compile(f)(x), f(x), atol=1e-5)",
    "ingot.cache_compile(f)": "assert torch.allclose(ingot.cache_compile(f)(x), f(x), atol=1e-5)",
    'guards="first"': 'assert torch.allclose(ingot.compile(f, guards="first")(x), f(x), atol=1e-5)',
    "step.prepare(x)": "step.prepare(x)",
    "step.wait()": "step.wait()",
    "step.why_miss()": "assert step.why_miss()",
    "@torch.inference_mode()": "torch.set_grad_enabled(True); ingot.compile(torch.inference_mode()(model.forward), wait=True)(x); torch.set_grad_enabled(False)",
    'torch.compile(model, backend="ingot")': 'assert torch.allclose(torch.compile(model, backend="ingot")(x), model(x), atol=1e-5)',
    'torch.compile(f, backend="ingot")': 'assert torch.allclose(torch.compile(f, backend="ingot")(x), f(x), atol=1e-5)',
    "ingot.everywhere()": 'ingot.everywhere(); assert torch.compiler.get_default_backend() == "ingot"; torch.compiler.set_default_backend(None)',
}
# What the lines above do not make themselves.
MAKES = 'torch.export.save(torch.export.export(model, (x,)), "model.pt2")'

# Each line as it stands but for words in capitals, and what is said behind it: the mode that fits a test, or what has to be there.
COMMANDS = {
    "ingot compile model.pt2 -o model.ingot": "",
    "ingot compile model.onnx -o model.ingot": "",
    "ingot list": "",
    "ingot inspect KEY": "",
    "ingot why-miss FUNCTION": "",
    "ingot diff KEY KEY": "",
    "ingot ranks FUNCTION": "",
    "ingot retry KEY": "--help",
    "ingot top": "--help",
    "ingot stats": "",
    "ingot doctor": "",
    "ingot export": "--all --unsigned -o BUNDLE",
    "ingot import": "BUNDLE --allow-unsigned",
    "ingotd --serve": "--help",
    "cmake --install build/release --prefix DIR --component cpp": "",
    # Minutes: the metadata and what it depends on. test_package.py looks into a wheel.
    "pip install . --no-build-isolation": "--dry-run --no-deps --quiet",
    # What it runs once everything is set up, as it is here.
    "tools/demo": "--processes 2",
    # An hour, of which this test is a part: that it starts, and says what it takes.
    "tools/test": "--help",
}
INSTALLED = {"find_package(ingot)": "lib/cmake/ingot/ingotConfig.cmake"}


def shell_lines() -> "list[str]":
    return [line.split("#")[0].strip() for language, text in BLOCKS if language == "sh" for line in text.splitlines()]


def block(language: str) -> str:
    return "\n".join(text for found, text in BLOCKS if found == language)


def test_no_line_is_left_out_and_no_row_is_of_a_line_that_is_gone():
    assert {language for language, _ in BLOCKS} == {"sh", "python", "cpp"}, "every block says what it is"
    settings = {span for span in SPANS if re.fullmatch(r"INGOT_\w+=1", span)}
    known = {*PYTHON, *COMMANDS, *INSTALLED, *NAMES} | settings
    assert {*SPANS, *shell_lines()} == known
    sources = "".join(path.read_text() for top in ("client", "compiler", "daemon") for path in (ROOT / top).rglob("*") if path.suffix in (".py", ".cpp", ".h"))
    assert [name for name in settings if f'"{name.removesuffix("=1")}"' not in sources] == []


@pytest.fixture(scope="module")
def own_store(tmp_path_factory):
    """What others leave in a store shows in what is said of it."""
    found = Store(tmp_path_factory.mktemp("reader_store") / "store")
    yield found
    found.cli("daemon", "stop", check=False)


@pytest.fixture(scope="module")
def reader(own_store, tmp_path_factory):
    """A folder in which everything written in Python has been run, and what came of each."""
    folder = tmp_path_factory.mktemp("reader")
    code = BEFORE + block("python") + AFTER + MAKES + "\nfound = {}\n"
    for line in PYTHON:
        code += f"try:\n    {PYTHON[line]}\n    found[{line!r}] = None\nexcept Exception:\n    found[{line!r}] = traceback.format_exc()\n"
    code += "print(json.dumps(found))"
    found = own_store.python(code, folder)
    (folder / "made").mkdir()
    shutil.copy(folder / "model.ingot", folder / "made")  # Commands below write others of that name.
    return folder, found


def test_the_first_program_is_native_when_it_says_so(reader):
    assert set(reader[1]) == set(PYTHON)


@pytest.mark.parametrize("line", PYTHON)
def test_python(line, reader):
    for word in re.findall(r'\w[\w.]*|"[^"]*"', line):  # "..." stands for arguments, "|" between choices.
        assert word in PYTHON[line], "what is run is not what the line says"
    assert reader[1][line] is None, reader[1][line]


def program(name: str, line: str) -> "list[str]":
    """How a command's first word starts here."""
    if line == "tools/demo":
        script = (ROOT / line).read_text()
        assert script.rstrip().endswith('exec .venv/bin/python examples/demo.py "$@"'), script
        return [sys.executable, str(ROOT / "examples/demo.py")]
    if name == "ingot":  # tools/setup links it.
        linked = pathlib.Path(sys.executable).with_name("ingot")
        assert linked.resolve() == (BIN / "ingot").resolve(), f"{linked} is not this build's"
        return [str(linked)]
    return {"ingotd": [str(BIN / "ingotd")], "pip": [sys.executable, "-m", "pip"]}.get(name, [name])


@pytest.mark.parametrize("line", COMMANDS)
def test_command(line, reader, own_store, tmp_path):
    folder = ROOT if re.match(r"tools|cmake|pip", line) else reader[0]
    words = shlex.split(f"{line} {COMMANDS[line]}")
    env = dict(own_store.env)
    if "model.onnx" in words:
        sys.path.append(str(ROOT / "tests" / "python" / "onnx"))
        from test_onnx import mlp

        mlp()[0].save(reader[0] / "model.onnx")
    entry = next(found for found in own_store.json("list")["entries"] if found["function"].endswith("Net.forward"))
    given = {"KEY": entry["key"], "FUNCTION": entry["function"], "DIR": str(tmp_path / "prefix"), "BUNDLE": str(reader[0] / "entries.bundle"), "build/release": str(BUILD)}
    words = [*program(words[0], line), *(given.get(word, word) for word in words[1:])]
    if line == "ingotd --serve":  # It would take the next word for an address.
        words = [words[0], "--help"]
    done = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True)
    assert done.returncode == 0, f"{shlex.join(words)}\n{done.stdout}{done.stderr}"
    if line == "ingotd --serve":
        assert "--serve" in done.stdout
    for name, file in INSTALLED.items() if words[0] == "cmake" else ():
        assert re.search(re.escape(name.split("(")[-1].strip(")")), (tmp_path / "prefix" / file).read_text())


def test_what_is_installed_for_cpp_is_a_part_of_the_product():
    """tools/demo builds the product alone; here all of it is built, so that the install above would find what is missing there."""
    commands = subprocess.run(["ninja", "-C", BUILD, "-t", "commands", "product"], capture_output=True, text=True, check=True).stdout
    built = set(re.findall(r" -o (\S+)", commands))
    for names in re.findall(r"cmake_symlink_library (.*?) &&", commands):
        built |= set(names.split())
    scripts = [path.read_text() for path in BUILD.rglob("cmake_install.cmake") if "_deps" not in path.parts]
    installed = set()
    for text in scripts:
        for part in re.findall(r'if\(CMAKE_INSTALL_COMPONENT STREQUAL "cpp".*?(?=\nif\(CMAKE_INSTALL_COMPONENT|\Z)', text, re.S):
            installed |= set(re.findall(rf'"{BUILD}/((?:bin|lib)/[^"]+)"', part))
    assert {pathlib.Path(name).name.split(".")[0] for name in installed} >= {"libingot", "ingot", "ingotd", "ingot-worker", "ingot-compile"}
    assert sorted(installed - built) == []


CPP = '''
#include <ATen/ATen.h>
{head}
int main() {{
  at::Tensor x = at::ones({{4, 64}});
  {body}
  return function.has_value() && outputs.has_value() && outputs->size() == 1 && !scaled.has_value() ? 0 : 1;
}}
'''


def test_cpp(reader, tmp_path):
    """`scale` is an argument that this model does not have: an error in words."""
    import torch

    subprocess.run(["cmake", "--install", BUILD, "--prefix", tmp_path / "prefix", "--component", "cpp"], check=True, capture_output=True)
    head = "\n".join(line for line in block("cpp").splitlines() if line.startswith("#"))
    body = "\n  ".join(line for line in block("cpp").splitlines() if not line.startswith("#"))
    (tmp_path / "main.cpp").write_text(CPP.format(head=head, body=body))
    within = pathlib.Path(torch.__path__[0])
    libraries = next(path.parent for path in (tmp_path / "prefix").rglob("libingot.so"))
    command = ["c++", "-std=c++20", "-I", tmp_path / "prefix/include", "-isystem", within / "include", tmp_path / "main.cpp", "-o", tmp_path / "main",
               "-L", libraries, "-L", within / "lib", "-lingot", "-Wl,--no-as-needed", "-ltorch_cpu", "-lc10", f"-Wl,-rpath,{libraries}:{within / 'lib'}"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    done = subprocess.run([tmp_path / "main"], cwd=reader[0] / "made", capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
