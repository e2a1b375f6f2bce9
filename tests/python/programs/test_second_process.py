# SPDX-License-Identifier: Apache-2.0
"""What one process has found out, those after it know at their first call: nothing is recorded or compiled again."""

import pytest

RUN = """
import json, os, sys, torch
sys.path.insert(0, ".")
import ingot, program
torch.manual_seed(0)
step, right, first = ingot.compile(program.step), [], None
with torch.no_grad():
    for number in range({rounds}):
        for args, kwargs in program.calls(torch.Generator().manual_seed(number), number + float(os.environ["BEGIN"])):
            found = step(*args, **kwargs)
            first = first or step.why_miss(as_dict=True)
            right.append(torch.allclose(found, program.step(*args, **kwargs), rtol=1e-4, atol=1e-4))
            step.wait(60)
print(json.dumps(dict(right=all(right), first=first, report=str(step.report()), **ingot.stats())))
"""


def run(store, folder, source=None, *, begin, rounds=6, **env):
    """A process of its own, whose numbers begin elsewhere."""
    if source is not None:
        (folder / "program.py").write_text("import dataclasses, torch\n" + source)
    found = store.python(RUN.replace("{rounds}", str(rounds)), folder, BEGIN=str(begin), **env)
    assert found["right"], found["report"]
    return found


def counts(found, *names):
    return [found.get(name, 0) for name in names]


CALLS = """
def calls(random, number):
    x = torch.randn(3, 8, generator=random)
    return [{calls}]
"""
NUMBERS = {
    "float": ("def step(x, t): return x * t + t", "((x, number / 4), {})"),
    "float by name": ("def step(x, t=1.0): return x * t + t", "((x,), dict(t=number / 4))"),
    "int": ("def step(x, n): return x.cumsum(1) * n + n", "((x, int(number)), {})"),
    "float in a dict": ("def step(x, p): return x * p['t'] + p['name'].__len__()", "((x, dict(t=number / 4, name='a')), {})"),
    "float in a list": ("def step(x, p): return x * p[0] + p[1]", "((x, [number / 4, 2.5]), {})"),
    "float in a dict in a list": ("def step(x, p): return x * p[0]['t']", "((x, [dict(t=number / 4)]), {})"),
    "float in a dataclass": ("@dataclasses.dataclass\nclass P:\n    t: float\ndef step(x, p): return x * p.t", "((x, P(number / 4)), {})"),
    "float in a tuple": ("def step(x, p): return x * p[0] + p[1]", "((x, (number / 4, 2.5)), {})"),
    "int in a tuple": ("def step(x, p): return x.cumsum(1) * p[0] + p[1]", "((x, (int(number), 3)), {})"),
    "float in a named tuple": ("import collections\nP = collections.namedtuple('P', 't n')\ndef step(x, p): return x * p.t + p.n", "((x, P(number / 4, 2.5)), {})"),
    "float in a tuple in a list": ("def step(x, p): return x * p[0][0]", "((x, [(number / 4, 2.5)]), {})"),
    "float in a tuple by name": ("def step(x, scale=(1.0, 1.0)): return x * scale[0] + scale[1]", "((x,), dict(scale=(number / 4, number)))"),
    "int in a frozen dataclass": ("@dataclasses.dataclass(frozen=True)\nclass P:\n    n: int\ndef step(x, p): return x * p.n", "((x, P(int(number))), {})"),
}


@pytest.mark.parametrize("kind", NUMBERS)
def test_a_number_that_varies_is_one_from_the_first_call_on(store, tmp_path, kind):
    function, call = NUMBERS[kind]
    first = run(store, tmp_path, function + CALLS.format(calls=call), begin=2)
    assert first["captures"] >= 2 and first["native_calls"] >= 2, first["report"]
    second = run(store, tmp_path, begin=102)
    assert counts(second, "captures", "compiles", "native_calls") == [0, 0, 6], second["report"]


def test_a_number_that_is_looked_at_is_not_followed_again(store, tmp_path):
    source = "def step(x, k):\n    for _ in range(k): x = x.sin()\n    return x" + CALLS.format(calls="((x, 2 + round(number) % 2), {})")
    assert run(store, tmp_path, source, begin=2)["captures"] == 2
    second = run(store, tmp_path, begin=4)
    assert counts(second, "captures", "compiles", "refusals", "native_calls") == [0, 0, 0, 6], second["report"]


ODD = {
    "a float that is too large": ("def step(x, t): return x.abs() * t + t", "1e300"),
    "one that is looked at": ("def step(x, t): return x.roll(int(t), 1) if t > 1e4 else x * t", "3e4"),
    "one that is looked at and comes back": ("def step(x, t): return x.roll(int(t), 1) if t > 1e4 else x * t", "3e4 if number in (3, 5) else number"),
}


@pytest.mark.parametrize("kind", ODD)
def test_an_odd_number_hides_no_others(store, tmp_path, kind):
    """Neither here nor in later processes is the argument one whose numbers decide."""
    function, odd = ODD[kind]
    call = CALLS.format(calls=f"((x, {odd if 'if' in odd else f'{odd} if number == 3 else number'} + 0.25), {{}})")
    first = run(store, tmp_path, function + call, begin=2, rounds=8)
    assert first["native_calls"] >= 3, first["report"]
    second = run(store, tmp_path, begin=102)
    assert counts(second, "captures", "compiles", "native_calls") == [0, 0, 6], second["report"]


def test_what_is_known_of_another_function_of_the_name_is_not_taken(store, tmp_path):
    call = CALLS.format(calls="((x, int(number)), {})")
    run(store, tmp_path, "def step(x, n): return x * n" + call, begin=2)
    other = run(store, tmp_path, "def step(x, n): return x.roll(n, 1) if n < 1000 else x" + call, begin=2)
    assert other["captures"] >= 2, other["report"]


def test_what_has_been_forgotten_is_found_out_again(store, tmp_path):
    function, call = NUMBERS["float"]
    run(store, tmp_path, function + CALLS.format(calls=call), begin=2)
    assert store.json("retry", "program.step")["cleared"] == 1
    again = run(store, tmp_path, begin=102)
    assert counts(again, "captures", "native_calls") == [1, 5], again["report"]


REFUSED = "LIMIT = 3\ndef step(x): return after(x.relu())\ndef after(x): return torch.from_numpy(x.numpy().copy()) if LIMIT > 2 else x + 1"
PLAIN = CALLS.format(calls="((x,), {})")


def test_a_refusal_is_known_at_the_first_call(store, tmp_path):
    first = run(store, tmp_path, REFUSED + PLAIN, begin=0)
    assert first["refusals"] >= 1 and first["captures"] == 0, first["report"]
    second = run(store, tmp_path, begin=0)
    assert counts(second, "captures", "refusals", "known_refusals") == [0, 0, 1], second["report"]
    assert second["first"]["reason"] == "refused" and "numpy" in second["first"]["why"], second["first"]


@pytest.mark.parametrize("edit", [("torch.from_numpy(x.numpy().copy())", "x * 2"), ("LIMIT = 3", "LIMIT = 2")])
def test_a_refusal_is_asked_again_when_what_it_depends_on_has_changed(store, tmp_path, edit):
    run(store, tmp_path, REFUSED + PLAIN, begin=0)
    changed = run(store, tmp_path, REFUSED.replace(*edit) + PLAIN, begin=0)
    assert counts(changed, "captures", "compiles", "known_refusals") == [1, 1, 0], changed["report"]
    assert changed["native_calls"] >= 4 and "tried again" in changed["first"]["why"], changed["first"]


def test_a_refusal_of_one_type_of_argument_says_nothing_of_another(store, tmp_path):
    source = "def step(x, how): return x * 2 if how == 'plain' else torch.from_numpy(x.numpy().copy())"
    run(store, tmp_path, source + CALLS.format(calls="((x, 'numpy'), {})"), begin=0)
    other = run(store, tmp_path, source + CALLS.format(calls="((x, 'plain'), {})"), begin=0)
    assert counts(other, "captures", "compiles", "known_refusals") == [1, 1, 0], other["report"]


def test_a_refusal_where_refusals_are_errors(store, tmp_path):
    (tmp_path / "program.py").write_text("import torch\n" + REFUSED)
    code = """
import json, sys, torch
sys.path.insert(0, ".")
import ingot, program
step, said = ingot.compile(program.step, on_unsupported="error"), []
with torch.no_grad():
    for _ in range(3):
        try:
            step(torch.ones(3))
        except ingot.Unsupported as e:
            said.append(str(e))
step.wait(60)
print(json.dumps(dict(said=said, **ingot.stats())))
"""
    first, second = store.python(code, tmp_path), store.python(code, tmp_path)
    assert first["refusals"] >= 1 and second["refusals"] == 0, second
    assert len(second["said"]) == 3 and all("numpy" in one for one in second["said"]), second["said"]


OWN = {
    "an address": "class Config: pass\nconfig = Config()\ndef step(x): return torch.from_numpy((x * {id(config): 2}[id(config)]).numpy().copy())",
    "the number that hashes begin with": "def step(x): return torch.from_numpy((x * (2 + hash('ingot') % 3)).numpy().copy())",
    "the order of a set": "NAMES = {'a', 'bb', 'ccc', 'dddd', 'eeeee'}\ndef step(x):\n    for name in NAMES: x = x + len(name)\n    return torch.from_numpy(x.numpy().copy())",
    "a copy": "import copy\nclass Config:\n    def __init__(self): self.names = ['a']\nconfig = Config()\n"
              "def step(x): return torch.from_numpy((x * len(copy.deepcopy(config).names)).numpy().copy())",
}


@pytest.mark.parametrize("kind", OWN)
def test_a_refusal_depends_on_nothing_that_each_process_has_of_its_own(store, tmp_path, kind):
    first = run(store, tmp_path, OWN[kind] + PLAIN, begin=0, PYTHONHASHSEED="1")
    assert first["refusals"] >= 1, first["report"]
    second = run(store, tmp_path, begin=0, PYTHONHASHSEED="2")
    assert counts(second, "refusals", "known_refusals") == [0, 1], second["report"]


def test_a_refusal_depends_on_nothing_that_process_after_process_finds_otherwise(store, tmp_path):
    source = "import os\nLIMIT, JOB = 3, os.environ['JOB']\ndef step(x): return after(x * len(JOB))\ndef after(x): return torch.from_numpy(x.numpy().copy()) if LIMIT > 2 else x"
    found = [run(store, tmp_path, source + PLAIN, begin=0, JOB=str(number))["refusals"] > 0 for number in range(6)]
    assert found == [True, True, True, True, False, False]
    edited = run(store, tmp_path, source.replace("LIMIT, JOB = 3", "LIMIT, JOB = 2") + PLAIN, begin=0, JOB="9")
    assert edited["native_calls"] >= 4, edited["report"]


def test_a_refusal_is_asked_again_where_what_could_not_be_imported_is_there(store, tmp_path):
    source = "def step(x):\n    try: import fast_way\n    except ImportError: return torch.from_numpy(x.numpy().copy()) * 2\n    return fast_way.double(x)"
    for _ in range(2):
        without = run(store, tmp_path, source + PLAIN, begin=0)
    assert counts(without, "refusals", "known_refusals") == [0, 1], without["report"]
    (tmp_path / "fast_way.py").write_text("def double(x): return x * 2\n")
    present = run(store, tmp_path, begin=0)
    assert counts(present, "captures", "known_refusals") == [1, 0] and present["native_calls"] >= 4, present["report"]
    assert "fast_way can be imported now" in present["first"]["why"], present["first"]


def test_a_debugger_is_in_the_way_of_its_own_process_alone(store, tmp_path):
    source = "import os, sys\nif os.environ.get('DEBUGGED'): sys.settrace(lambda *a: None)\ndef step(x): return x.relu() * 2"
    assert run(store, tmp_path, source + PLAIN, begin=0, DEBUGGED="1")["native_calls"] == 0
    free = run(store, tmp_path, begin=0)
    assert counts(free, "captures", "known_refusals") == [1, 0] and free["native_calls"] >= 4, free["report"]


ALIASED = """
import os
linear = torch.nn.Linear(8, 8)
def step(x): return linear(x) + 1
def calls(random, number):
    x = torch.nn.Parameter(torch.randn(8, 8, generator=random))
    return [((linear.weight if {when} else x,), {{}})]
"""


def test_an_argument_that_the_function_finds_itself_says_nothing_of_others(store, tmp_path):
    first = run(store, tmp_path, ALIASED.format(when="number == 0"), begin=0, rounds=16)
    assert first["refusals"] == 1 and first["native_calls"] >= 4, first["report"]
    first = run(store, tmp_path, ALIASED.format(when="True").replace("+ 1", "+ 2"), begin=0)
    assert first["native_calls"] == 0, first["report"]
    second = run(store, tmp_path, ALIASED.format(when="False").replace("+ 1", "+ 2"), begin=0)
    assert counts(second, "captures", "known_refusals") == [1, 0] and second["native_calls"] >= 4, second["report"]


LIMITED = """
import json, os, sys, torch
sys.path.insert(0, ".")
import ingot, program
step = ingot.compile(program.step, config={{"{name}": {value}}})
with torch.no_grad():
    right = []
    for number in range(12):
        args = (torch.ones(3, 8) * (number % 3 - 1),)
        right.append(torch.allclose(step(*args), program.step(*args)))
        step.wait(60)
print(json.dumps(dict(right=all(right), report=str(step.report()), why=step.why_miss(), **ingot.stats())))
"""
LIMITS = {
    "instructions_max": ("def step(x):\n    for _ in range(200): x = x + 1\n    return x", 300, 100_000),
    "value_guard_failures_max": ("def step(x): return x * 2 if x.sum() > 0 else x.sin() + 1", 0, 50),
}


@pytest.mark.parametrize("name", LIMITS)
def test_a_refusal_for_a_limit_holds_where_the_limit_does(store, tmp_path, name):
    source, low, high = LIMITS[name]
    (tmp_path / "program.py").write_text("import torch\n" + source)
    found = [store.python(LIMITED.format(name=name, value=value), tmp_path) for value in (low, low, high)]
    assert all(one["right"] for one in found), found
    assert found[1]["known_refusals"] + found[1]["retired"] >= 1 and found[1]["captures"] == 0, found[1]
    assert found[2]["known_refusals"] == 0 and found[2]["native_calls"] >= 6 and not found[2]["fallbacks"], found[2]


FAILS = """
norm = torch.nn.BatchNorm1d(8).train()
def step(x): return norm(x.relu())
"""


def test_a_compile_that_failed_for_good_is_known_at_the_first_call(store, tmp_path):
    first = run(store, tmp_path, FAILS + PLAIN, begin=0)
    assert first["captures"] >= 1 and first["compiles"] == 0, first["report"]
    second = run(store, tmp_path, begin=0)
    assert counts(second, "captures", "known_refusals") == [0, 1], second["report"]
    assert second["first"]["reason"] == "failed" and "running statistics" in second["first"]["why"], second["first"]
    store.cli("retry", "program.step")
    assert run(store, tmp_path, begin=0)["captures"] >= 1


BLOCKS = """
def block(width):
    return torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.GELU(), torch.nn.LayerNorm(width)).eval()
def number(x):
    return len(f"{float(x.abs().max()):.3f}")
class Reader(torch.nn.Module):
    def __init__(self, first, second):
        super().__init__()
        self.first, self.second = first, second
    def forward(self, x):
        x = self.first(x)
        return self.second(x) * number(x)
torch.manual_seed(0)
"""
APART = {
    "parts": BLOCKS + "step = Reader(block(8), block(8))",
    "nested parts": BLOCKS + "step = Reader(block(8), Reader(block(8), block(8)))",
    "pieces": BLOCKS + "def step(x):\n    x = (x * 2).sin().cos() + 1\n    n = number(x)\n    y = (x + n).exp().sum(1, keepdim=True)\n    return (y * x).tanh() * n",
}


SAME = """
import zlib
class Config:
    def __init__(self): self.k = 2
A = B = C = Config()
FIRST = []
def step(x):
    if not FIRST: FIRST.append(A.k)
    return x * B.k * C.k + zlib.crc32(b"a") % 3
"""


def test_a_refusal_is_known_whichever_of_its_places_are_one_object(store, tmp_path):
    """What its runs have in common does not say that: the first has found the object at another place before."""
    assert run(store, tmp_path, SAME + PLAIN, begin=0)["refusals"] == 2
    second = run(store, tmp_path, begin=0)
    assert counts(second, "captures", "refusals") == [0, 0] and second["known_refusals"] >= 1, second["report"]


@pytest.mark.parametrize("kind", APART)
def test_a_program_in_parts_is_served_in_parts_at_once(store, tmp_path, kind):
    first = run(store, tmp_path, APART[kind] + PLAIN, begin=0, rounds=30)
    assert first["captures"] >= 2 and first["native_calls"] >= 20, first["report"]
    second = run(store, tmp_path, begin=0, rounds=30)
    assert counts(second, "captures", "compiles") == [0, 0] and second["native_calls"] >= 40, second["report"]
