# SPDX-License-Identifier: Apache-2.0
"""What a user reads where something runs eagerly: once, one line that says what was met, in which line, and what to write instead; and that
what is eager for good costs its calls no Python of ours and no request."""

import functools
import logging
import pathlib
import random
import re
import sys
import time
import types

import pytest
import torch
from conftest import ROOT
from waiting import wait_until

# What people write, as a file `case.py`, and what they are told of it.
CASES = {
    "numpy": ("def f(x):\n    x.numpy()\n    return x + 1",
              "f runs eagerly: Tensor.numpy (case.py:2); stay with torch operators, or convert outside of the function [escape-numpy]"),
    "a clock": ("def f(x):\n    return x * time.time()",
                "f runs eagerly: time.time (case.py:2); move it out of the function, or say ingot.mark_pure of it if it depends on its arguments alone [call]"),
    "a draw": ("def f(x):\n    if random.random() < 2:\n        x = x + 1\n    return x",
               "f runs eagerly: random.random (case.py:2); move it out of the function, or say ingot.mark_pure of it if it depends on its arguments alone [call]"),
    "a file": ("def f(x):\n    open(__file__).close()\n    return x + 1",
               "f runs eagerly: open (case.py:2); move it out of the function, or say ingot.mark_pure of it if it depends on its arguments alone [call]"),
    "an address": ("def f(x):\n    return x + x.data_ptr()",
                   "f runs eagerly: Tensor.data_ptr (case.py:2); make it a custom operator (torch.library) [escape-data-ptr]"),
    "a generator": ("GENERATOR = torch.Generator()\ndef f(x):\n    return x + torch.rand(3, generator=GENERATOR)",
                    "f runs eagerly: torch.Generator (case.py:3); read what is needed before the call and pass it as numbers or text [foreign-type]"),
    "resized in place": ("def f(x):\n    y = x + 1\n    y.resize_(1)\n    return y", "f runs eagerly: Tensor.resize_ (case.py:3); make a new tensor [metadata-change]"),
    "within a library": ("def f(x):\n    return torch.nn.functional.one_hot(x.long()).numpy()",
                         "f runs eagerly: Tensor.numpy (case.py:2); stay with torch operators, or convert outside of the function [escape-numpy]"),
    "a list that grows": ("SEEN = []\ndef f(x):\n    SEEN.append(str(len(SEEN)))\n    return x",
                          "f runs eagerly: every call changes the length of case.SEEN, which it reads (serve.py:1); keep it in a tensor, or outside of the function [volatile]"),
}
# Of functions that do nothing: how they are called.
CALLS = {
    "gradients": ("step(x.requires_grad_())",
                  ("f runs eagerly: gradients are on, and an argument or a weight requires them (serve.py:1); call it under "
                   "torch.no_grad() or torch.inference_mode() [requires-grad]")),
    "autocast": ("with torch.autocast('cpu'):\n    step(x)", "f runs eagerly: autocast is on (serve.py:2); cast the model instead, e.g. model.to(torch.bfloat16) [autocast]"),
    "sparse": ("step(x.to_sparse())", "f runs eagerly: a tensor is not dense and strided (serve.py:1); convert it before the call, e.g. x.to_dense() [layout]"),
    "elsewhere": ("step(x.to('meta'))", "f runs eagerly: a tensor is not on the CPU (serve.py:1); only CPU tensors are served [device]"),
}


@pytest.fixture
def function_of(monkeypatch):
    """`f` of a module `case`, which the process knows for one test."""
    return functools.partial(_function_of, monkeypatch)


def _function_of(monkeypatch, text: str, path: pathlib.Path):
    path.write_text(text + "\n")
    module = types.ModuleType("case")
    vars(module).update(torch=torch, time=time, random=random, __file__=str(path))
    monkeypatch.setitem(sys.modules, "case", module)
    exec(compile(text, str(path), "exec"), vars(module))
    return module.f


def serve(statement: str, step, times: int) -> None:
    """Calls from another file of the program."""
    code = compile(statement, "serve.py", "exec")
    for _ in range(times):
        exec(code, {"step": step, "x": torch.ones(3), "torch": torch})


@pytest.mark.parametrize("case", CASES)
def test_what_a_function_does_is_said_once(case, ingot, function_of, tmp_path, caplog):
    text, said = CASES[case]
    step = ingot.compile(function_of(text, tmp_path / "case.py"), wait=True)
    with caplog.at_level(logging.WARNING, "ingot"), torch.no_grad():
        serve("step(x)", step, 12)
    assert [line.removeprefix("case.") for line in caplog.messages] == [said]


@pytest.mark.parametrize("case", CALLS)
def test_how_a_function_is_called_is_said_once(case, ingot, function_of, tmp_path, caplog):
    statement, said = CALLS[case]
    step = ingot.compile(function_of("def f(x):\n    return x", tmp_path / "case.py"), wait=True)
    with caplog.at_level(logging.WARNING, "ingot"):
        serve(statement, step, 12)
    assert [line.removeprefix("case.") for line in caplog.messages] == [said]
    assert ingot.stats()["fallbacks"] >= 12


def test_every_refusal_of_the_documentation_has_its_words_and_no_other():
    from ingot.reasons import advice

    text = (ROOT / "docs/troubleshooting.md").read_text()
    tables = text.split("## Refusals by name")[1].split("### While native code runs")[0]
    documented = [name for row in re.findall(r"^\| (`.+?) \|", tables, re.M) for name in re.findall(r"`([^`]+)`", re.sub(r"\([^)]*\)", "", row))]
    assert sorted(set(documented)) == sorted(advice.ADVICE)
    for name, words in advice.ADVICE.items():
        assert words.means and words.instead and "\n" not in words.means + words.instead, name
    assert advice.instead("of-another-build") == "see docs/troubleshooting.md"


def of_ours(step, statement: str, times: int) -> "list[str]":
    """Python functions of the package that calls run."""
    seen: "list[str]" = []
    code, values = compile(statement, "serve.py", "exec"), {"step": step, "x": torch.ones(3), "torch": torch}

    def note(frame, event, argument):
        if event == "call" and "/ingot/" in frame.f_code.co_filename:
            seen.append(frame.f_code.co_qualname)

    sys.setprofile(note)
    try:
        for _ in range(times):
            exec(code, values)
    finally:
        sys.setprofile(None)
    return seen


GROWS = "SEEN = []\ndef f(x):\n    SEEN.append(str(len(SEEN)))\n    return x"
PLAIN = "def f(x, *rest):\n    return x"


def asks_alone(store, asked: "list[int]") -> bool:
    """Asks once more how many requests there were, which is a request or two itself; whether there were no others since the last two times."""
    asked.append(store.json("stats")["requests"])
    return len(asked) > 2 and asked[-1] - asked[-2] == asked[-2] - asked[-3]


@pytest.mark.parametrize("text, statement, options, first", [
    (CASES["an address"][0], "step(x)", {}, 40),
    (CASES["a generator"][0], "step(x)", {}, 40),
    (GROWS, "step(x)", {}, 700),
    (PLAIN, CALLS["gradients"][0], {}, 4),
    (PLAIN, CALLS["autocast"][0], {}, 4),
    (PLAIN, CALLS["sparse"][0], {}, 4),
    (PLAIN, "step(x, 'never compiled')", {"on_miss": "eager"}, 40),
], ids=["an address", "a generator", "a list that grows", "gradients", "autocast", "sparse", "on_miss"])
def test_what_is_eager_for_good_runs_no_python_of_ours_and_asks_nobody(text, statement, options, first, ingot, function_of, store, tmp_path):
    store.cli("daemon", "start")
    # A daemon that nobody else asks: what other functions of this process have under way is none of its.
    step = ingot.compile(function_of(text, tmp_path / "case.py"), cache_dir=str(store.path), **options)
    with torch.set_grad_enabled("requires_grad" in statement):
        serve(statement, step, first)
        step.wait()
        serve(statement, step, first)
        step.wait()
        asked: "list[int]" = []
        wait_until("nobody else asks", lambda: asks_alone(store, asked))
        before = ingot.stats()
        assert of_ours(step, statement, 50) == []
        after = ingot.stats()
        is_alone = asks_alone(store, asked)
    assert {name: after[name] - before.get(name, 0) for name in after if isinstance(after[name], int) and after[name] != before.get(name, 0)} == {"fallbacks": 50}
    assert is_alone, asked
