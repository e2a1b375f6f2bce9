# SPDX-License-Identifier: Apache-2.0
"""Verification: answers are compared with eager now and then; wrong artifacts go into quarantine everywhere."""

import logging

import pytest
import torch
import torch.nn.functional as F

CODE = '''
import torch
def right(x):
    return torch.nn.functional.silu(x) + 1
def wrong(x):
    return torch.nn.functional.silu(x) + 1.5
'''

# The entry of `right` gets the graph of `wrong`: what a dependency that nobody saw would do.
FORGE = '''
import json, sys, torch
sys.path.insert(0, ".")
import net, ingot
from ingot import config; from ingot.site import daemon; from ingot.trace import calls, keys, recording
x = torch.ones(4, 16)
settings = config.resolve(None)
with torch.no_grad():
    key = keys.entry_key(net.right, (x,), {}, [], settings)
    def recorded(fn):
        run = recording.Recording(fn, "net.right", calls.Call((x,), {}, [x], ["x"], [], b""), ingot.Config(), follows_sizes=True)
        return run.finish(run.run())
    wrong, right = recorded(net.wrong), recorded(net.right)
daemon.link(settings).get(5000).compile(key.components, wrong.recording, wrong.signature, right.record, True, "", 60000)
print(json.dumps("forged"))
'''

RUN = '''
import json, sys, torch
sys.path.insert(0, ".")
import net, ingot
step = ingot.compile(net.{name}, wait=True)
x, answers = torch.ones(4, 16), []
with torch.no_grad():
    for _ in range({calls}):
        answers.append(bool(torch.allclose(step(x), net.{name}(x))))
print(json.dumps(dict(answers=answers, why=step.why_miss(as_dict=True), report=step.report(), **ingot.stats())))
'''


def test_a_wrong_artifact_is_caught_and_given_to_no_other_process(store, tmp_path):
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "net.py").write_text(CODE)
    assert store.python(FORGE, folder) == "forged"
    # Without verification it goes unnoticed: every other check is about what was recorded, not about answers.
    assert store.python(RUN.format(name="right", calls=1), folder)["answers"] == [False]
    caught = store.python(RUN.format(name="right", calls=4), folder, INGOT_VERIFY="sample:1")
    assert caught["answers"] == [True] * 4, caught["report"]
    # Caught at the first call; the second records the true graph, and the others are native and found right.
    assert [caught[name] for name in ("entry_hits", "verify_failures", "captures", "verified")] == [1, 1, 1, 3], caught
    assert caught["why"]["reason"] == "quarantined" and "output 0 differs by up to 0.5" in caught["why"]["why"], caught["why"]
    entry = store.json("inspect", "right")
    assert entry["failure"]["quarantined"] and "output 0 differs by up to 0.5" in entry["failure"]["message"]
    assert "quarantined" in store.cli("inspect", "right")
    other = store.python(RUN.format(name="right", calls=2), folder)
    assert other["answers"] == [True, True] and other["entry_hits"] == 1 and other["captures"] == 0, other["report"]
    # The graph itself is compiled for nobody, until somebody says otherwise.
    refused = store.python(RUN.format(name="wrong", calls=2), folder)
    assert refused["answers"] == [True, True] and refused["native_calls"] == 0, refused["report"]
    assert store.json("why-miss", "net.wrong")["reason"] == "quarantined"
    assert store.json("retry", entry["failure"]["graph_key"])["cleared"] >= 1
    again = store.python(RUN.format(name="wrong", calls=2), folder)
    assert again["answers"] == [True, True] and (again["compiles"], again["native_calls"]) == (1, 1), again["report"]
    assert store.json("stats")["quarantined"] == 1


def test_the_process_that_finds_it_does_without_a_daemon(store, tmp_path):
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "net.py").write_text(CODE)
    store.python(FORGE, folder)
    code = RUN.format(name="right", calls=4).replace("with torch.no_grad():", '''import subprocess
with torch.no_grad():
    step._engine._link.get(5000)
    class Gone:
        def __getattr__(self, name): raise ingot.Unavailable("gone")
    serve = step._engine._quarantine
    def quarantine(*args):
        step._engine._link._connection = Gone()
        serve(*args)
    step._engine._quarantine = quarantine''')
    alone = store.python(code, folder, INGOT_VERIFY="sample:1")
    assert alone["answers"] == [True] * 4, alone["report"]
    assert alone["verify_failures"] == 1 and alone["native_calls"] == 0 and alone["daemon_errors"] >= 1, alone


@pytest.fixture
def verified(ingot):
    """compile(fn) whose every second native call is verified; the first call is the recording."""
    def compile_(fn, **options):
        return ingot.compile(fn, config=ingot.Config(verify="sample:2", wait=True, **options))
    return compile_


def counts(ingot):
    stats = ingot.stats()
    return stats["verified"], stats["verify_failures"]


def test_right_answers_stay(ingot, verified):
    step = verified(lambda x, y: {"a": F.silu(x) * y, "b": [torch.softmax(y, -1), None]})
    with torch.no_grad():
        for _ in range(9):
            x, y = torch.randn(4, 16), torch.randn(4, 16)
            found = step(x, y)
            assert torch.allclose(found["a"], F.silu(x) * y, atol=1e-6) and found["b"][1] is None
    assert counts(ingot) == (4, 0)
    assert len(step.variants) == 1


def test_what_a_function_writes_is_written_once(ingot, verified):
    class Cache:
        def __init__(self):
            self.keys = torch.zeros(8, 16)
            self.length = 8

    class Norm(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("steps", torch.zeros(16))

        def forward(self, x, cache):
            x.add_(1)
            cache.keys.add_(x)
            self.steps.add_(2)
            return cache.keys * self.steps

    model, twin = Norm(), Norm()
    cache, twin_cache = Cache(), Cache()
    step = verified(model)
    with torch.no_grad():
        for _ in range(7):
            x = torch.randn(8, 16)
            y = x.clone()
            assert torch.allclose(step(x, cache), twin(y, twin_cache))
            assert torch.equal(x, y) and torch.allclose(cache.keys, twin_cache.keys) and torch.equal(model.steps, twin.steps)
    assert counts(ingot) == (3, 0), step.report()


def test_inputs_that_share_memory_keep_sharing_it(ingot, verified):
    def fn(whole, part):
        part.mul_(2)
        return whole + 1

    step = verified(fn)
    with torch.no_grad():
        for _ in range(5):
            base, twin = torch.ones(4, 8), torch.ones(4, 8)
            assert torch.equal(step(base, base[1:3]), fn(twin, twin[1:3]))
            assert torch.equal(base, twin)
    assert counts(ingot)[1] == 0


def test_random_numbers_and_side_effects_are_left_out(ingot, verified):
    step = verified(lambda x: x + torch.rand_like(x))
    with torch.no_grad():
        step(torch.ones(4))
        for _ in range(6):
            torch.manual_seed(7)
            found = step(torch.ones(4))
            torch.manual_seed(7)
            assert torch.equal(found, torch.ones(4) + torch.rand(4))
    random = ingot.stats()
    assert random["verified"] == 0 and random["verify_failures"] == 0

    class Keeper(torch.nn.Module):
        def forward(self, x):
            self.last = x * 2
            return x + 1

    model = Keeper()
    model.last = torch.zeros(3)
    step = verified(model)
    with torch.no_grad():
        for i in range(5):
            step(torch.full((3,), float(i)))
            assert torch.equal(model.last, torch.full((3,), 2.0 * i))
    skipped = ingot.stats()
    assert skipped["verified"] == 0 and skipped["verify_skipped"] > random["verify_skipped"], (step.report(), skipped)


def test_exceptions_of_the_function_pass_through(ingot, verified):
    def fn(x):
        return x * 2

    def raises(x):
        raise ZeroDivisionError("of the function")

    step = verified(fn)
    x = torch.ones(3)
    with torch.no_grad():
        step(x)
        step(x)
        engine = step._engine
        engine.target = raises
        with pytest.raises(ZeroDivisionError):
            step(x)
        engine.target = fn
        assert torch.equal(step(x), x * 2)


def test_one_warning_names_output_and_difference(ingot, verified, caplog):
    step = verified(lambda x: (x * 1, {"mask": x * 3}))
    x = torch.ones(4)
    with torch.no_grad(), caplog.at_level(logging.WARNING, logger="ingot"):
        step(x)
        step(x)
        step._engine.target = lambda x: (x * 1, {"mask": x * 3.25})
        for _ in range(4):
            step(x)
    said = [record.getMessage() for record in caplog.records]
    assert len([text for text in said if "quarantine" in text]) == 1, said
    assert "output [1]['mask'] differs by up to 0.25" in said[0], said


def test_tolerances_follow_the_dtype():
    from ingot.checks import verification

    x = torch.linspace(-4, 4, 64)
    for dtype, good, bad in ((torch.float32, 1e-6, 1e-2), (torch.float64, 1e-9, 1e-3), (torch.bfloat16, 1e-2, 2.0),
                             (torch.float16, 1e-3, 0.2), (torch.complex64, 1e-6, 1e-2)):
        tolerance = verification.TOLERANCE[dtype]
        expected = x.to(dtype)
        assert verification.compare(expected, (x + good).to(dtype), tolerance) is None, dtype
        assert "differs by up to" in verification.compare(expected, (x + bad).to(dtype), tolerance), dtype
    loose = verification.TOLERANCE[torch.float32]
    numbers = torch.tensor([1, 2, 3])
    assert verification.compare(numbers, numbers.clone(), loose) is None
    assert verification.compare(numbers, numbers + 1, loose) == "differs in 3 of 3 elements"
    odd = torch.tensor([float("nan"), float("inf"), -float("inf"), 1.0])
    assert verification.compare(odd, odd.clone(), loose) is None
    assert "NaN" in verification.compare(odd, odd.nan_to_num(), loose)
    assert "NaN" in verification.compare(odd, -odd, loose)
    assert "is torch.float32 [2]" in verification.compare(torch.ones(3), torch.ones(2), loose)
    assert verification.compare(torch.ones(0), torch.ones(0), loose) is None


def test_settings(ingot, monkeypatch):
    from ingot import config

    monkeypatch.setenv("INGOT_VERIFY", "sample:3")
    assert config.resolve(None).verify_every() == 3
    monkeypatch.delenv("INGOT_VERIFY")
    assert config.resolve(None).verify_every() == 0
    for wrong in ("sample", "sample:0", "sample:-1", "always", "sample:x"):
        with pytest.raises(ingot.Invalid, match="sample:N"):
            ingot.Config(verify=wrong)
