# SPDX-License-Identifier: Apache-2.0
"""Native code is held against eager's answer before it serves the call that it was recorded from; the store notes it."""

import pathlib
import threading

import pytest
import torch
import torch.nn.functional as F


def counts(ingot):
    stats = ingot.stats()
    return [stats[name] for name in ("agreed", "agreement_failed", "agreement_skipped")]


@pytest.fixture
def planted(monkeypatch):
    """planted(fn): what is recorded from now on is compiled as if it had been ``fn``: code that is wrong in itself."""
    from ingot import config
    from ingot.site import recordings
    from ingot.trace import recording

    def plant(wrong):
        submit = recordings.Recordings._submit

        def submit_another(self, job):
            call = job.call._replace(tensors=[tensor.clone() for tensor in job.call.tensors])
            run = recording.Recording(wrong, "wrong", call._replace(args=tuple(call.tensors)), config.resolve(None), follows_sizes=True)
            job.captured.recording = run.finish(run.run()).recording
            return submit(self, job)

        monkeypatch.setattr(recordings.Recordings, "_submit", submit_another)
    return plant


def test_the_recorded_call_is_compared_once(ingot, session_store):
    def agreeing(x):
        return {"a": F.silu(x) * 2, "b": [torch.argmax(x, -1), x > 0]}

    x = torch.randn(4, 16)
    with torch.no_grad():
        step = ingot.compile(agreeing, wait=True)
        for _ in range(3):
            assert torch.equal(step(x)["b"][0], x.argmax(-1))
        assert counts(ingot) == [1, 0, 0], step.report()
        assert ingot.stats()["native_calls"] >= 2
        assert "agreed with eager" in step.soundness()
        again = ingot.compile(agreeing, wait=True)
        again(x)
        assert counts(ingot) == [1, 0, 0] and "agreed with eager" in again.soundness()
    name = "test_the_recorded_call_is_compared_once.<locals>.agreeing"
    noted = session_store.json("inspect", name)["variants"][0]["agreed"]
    assert [(one["why_not"], one["sizes"], one["when"] > 0, one["build"] != "") for one in noted] == [("", [4, 16], True, True)]
    assert "agreed with eager" in session_store.cli("inspect", name)


@pytest.mark.parametrize("wrong", [lambda x: (F.silu(x) * 2.5, x > 0), lambda x: (F.silu(x) * 2, x >= 0)], ids=["float", "bool"])
def test_wrong_code_is_found_before_it_serves(ingot, session_store, planted, wrong, caplog, request):
    def right(x):
        return F.silu(x) * 2, x > 0

    right.__qualname__ = f"right_{request.node.callspec.id}"
    planted(wrong)
    x = torch.cat([torch.zeros(1, 16), torch.randn(3, 16)])
    native = ingot.stats()["native_calls"]
    with torch.no_grad():
        step = ingot.compile(right, wait=True)
        for _ in range(4):
            silu, positive = step(x)
            assert torch.allclose(silu, F.silu(x) * 2) and torch.equal(positive, x > 0)
    assert counts(ingot)[:2] == [0, 1], step.report()
    assert ingot.stats()["native_calls"] == native
    said = [record.getMessage() for record in caplog.records if "quarantine" in record.getMessage()]
    assert len(said) == 1 and "output [" in said[0] and "differs" in said[0], said
    folder = pathlib.Path(said[0].rpartition("kept in ")[2])
    assert (folder / "recording.capture").read_bytes().startswith(b"INGOTCAP")
    call = torch.load(folder / "call.pt", weights_only=True)
    assert torch.equal(call["inputs"][0], x) and call["difference"] in said[0]
    assert torch.equal(call["answers"][1], x > 0)
    assert session_store.json("inspect", right.__qualname__)["failure"]["quarantined"]


def test_what_a_call_writes_is_compared(ingot):
    class Cache:
        def __init__(self):
            self.keys = torch.zeros(8, 16)

    class Norm(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("steps", torch.zeros(16))
            self.seen = []

        def forward(self, x, cache):
            x.add_(1)
            cache.keys.add_(x)
            self.steps.add_(2)
            self.last = x * 3
            return cache.keys * self.steps

    model, twin, cache, twin_cache = Norm(), Norm(), Cache(), Cache()
    model.last = twin.last = torch.zeros(8, 16)
    step = ingot.compile(model, wait=True)
    with torch.no_grad():
        for _ in range(4):
            x = torch.randn(8, 16)
            y = x.clone()
            assert torch.allclose(step(x, cache), twin(y, twin_cache))
            assert torch.equal(x, y) and torch.allclose(cache.keys, twin_cache.keys) and torch.equal(model.steps, twin.steps)
            assert torch.allclose(model.last, twin.last)
    assert counts(ingot)[1:] == [0, 0] and counts(ingot)[0] >= 1, (step.report(), step.soundness())


def test_a_wrong_write_is_found(ingot, planted):
    def fn(x):
        x.mul_(2)
        return x + 1

    def wrong(x):
        y = x * 2 + 1
        x.mul_(3)
        return y

    planted(wrong)
    step = ingot.compile(fn, wait=True)
    with torch.no_grad():
        for _ in range(3):
            x = torch.ones(4)
            assert torch.equal(step(x), torch.full((4,), 3.0)) and torch.equal(x, torch.full((4,), 2.0))
    assert counts(ingot)[:2] == [0, 1]


def test_what_cannot_be_repeated_is_named(ingot, session_store):
    def draws(x):
        return x + torch.rand_like(x)

    step = ingot.compile(draws, wait=True)
    with torch.no_grad():
        for _ in range(3):
            torch.manual_seed(7)
            found = step(torch.ones(4))
            torch.manual_seed(7)
            assert torch.equal(found, torch.ones(4) + torch.rand(4))
    assert counts(ingot) == [0, 0, 1] and ingot.stats()["agreement_skipped_random"] == 1
    assert "not compared with eager: random" in step.soundness()
    assert "random" in session_store.cli("inspect", "draws")

    runs = []

    @torch.library.custom_op("agreed_test::tell", mutates_args=())
    def tell(x: torch.Tensor) -> torch.Tensor:
        runs.append(1)
        return x * 2

    tell.register_fake(torch.empty_like)
    step = ingot.compile(lambda x: tell(x) + 1, wait=True)
    with torch.no_grad():
        step(torch.ones(4))
    assert len(runs) == 1
    assert ingot.stats()["agreement_skipped_operator"] == 1, (ingot.stats(), step.report())


def test_weights_that_change_meanwhile_leave_it_to_the_next_call(ingot, monkeypatch):
    from ingot.checks import comparison

    model = torch.nn.Linear(8, 13)  # No other test's: code that has agreed in this process is not compared again.
    difference, changes = comparison.Comparison.difference, iter([lambda: model.weight.data.mul_(2)])

    def change_first(self):
        next(changes, lambda: None)()
        return difference(self)

    monkeypatch.setattr(comparison.Comparison, "difference", change_first)
    step = ingot.compile(model, wait=True)
    x = torch.randn(3, 8)
    with torch.no_grad():
        step(x)
        assert counts(ingot) == [0, 0, 1] and ingot.stats()["agreement_skipped_weights"] == 1
        assert "not compared with eager: weights" in step.soundness()
        native = ingot.stats()["native_calls"]
        for _ in range(3):
            assert torch.allclose(step(x), F.linear(x, model.weight, model.bias), atol=1e-5)
    assert counts(ingot) == [1, 0, 1]
    assert ingot.stats()["native_calls"] - native == 2
    assert "not compared" not in step.soundness()


def test_copies_have_a_limit(ingot):
    step = ingot.compile(lambda x: x * 3 - 1, config=ingot.Config(wait=True, agree_bytes_max=100))
    with torch.no_grad():
        for _ in range(6):
            step(torch.ones(64))
    stats = ingot.stats()
    assert stats["agreed"] == 0 and stats["agreement_skipped_memory"] == 1 and stats["native_calls"] > 0
    assert "agree_bytes_max=100" in step.soundness()
    small = ingot.compile(lambda x: x * 3 - 2, config=ingot.Config(wait=True, agree_bytes_max=100))
    with torch.no_grad():
        small(torch.ones(8))
    assert ingot.stats()["agreed"] == 1


def test_off_compares_nothing(ingot):
    step = ingot.compile(lambda x: x * 5 - 1, config=ingot.Config(wait=True, agree="off"))
    with torch.no_grad():
        for _ in range(3):
            step(torch.ones(8))
    assert counts(ingot) == [0, 0, 0] and "agreed with eager" not in step.soundness()
    with pytest.raises(ingot.Invalid, match="agree"):
        ingot.Config(agree="twice")


def test_last_digits_that_decide_are_no_difference(ingot):
    torch.manual_seed(0)
    weight = torch.randn(256, 256)

    def decides(x):
        return (x @ weight).sum(-1) > bound

    x = torch.randn(64, 256)
    bound = (x @ weight).sum(-1).median()
    step = ingot.compile(decides, wait=True)
    with torch.no_grad():
        for _ in range(3):
            step(x)
    assert counts(ingot)[1] == 0, ingot.stats()


def test_each_kind_of_size_is_compared_by_whoever_records_it(ingot, session_store):
    def any_rows(x):
        return F.gelu(x) * 2

    step = ingot.compile(any_rows, wait=True)
    with torch.no_grad():
        for rows in (5, 7, 16, 1, 2048):
            x = torch.randn(rows, 4)
            for _ in range(2):
                assert torch.allclose(step(x), any_rows(x), atol=1e-6)
    agreed = counts(ingot)[0]
    variants = session_store.json("inspect", "any_rows")["variants"]
    noted = [one["sizes"] for variant in variants for one in variant["agreed"]]
    assert agreed == len(noted) >= 1 and counts(ingot)[1:] == [0, 0], (noted, step.report())


def test_calls_that_eager_answers_meanwhile_are_compared_too(ingot):
    def meanwhile(x):
        return torch.tanh(x) * 3

    step = ingot.compile(meanwhile)
    with torch.no_grad():
        step(torch.randn(5, 4))
        step(torch.randn(32, 4))
        assert step.wait(120)
        native = ingot.stats()["native_calls"]
        step(torch.randn(64, 4))
    assert ingot.stats()["native_calls"] == native + 1, step.report()
    assert counts(ingot) == [2, 0, 0], (step.report(), step.soundness())


def test_require_serves_nothing_that_has_not_been_compared(ingot, session_store):
    def required(x):
        return F.silu(x) + 1

    with torch.no_grad():
        ingot.compile(required, config=ingot.Config(wait=True, agree="off"))(torch.randn(5, 4))
        assert counts(ingot) == [0, 0, 0]
        native = ingot.stats()["native_calls"]
        step = ingot.compile(required, config=ingot.Config(agree="require"))
        for _ in range(2):
            step(torch.randn(5, 4))
            assert step.wait(60)
        assert counts(ingot) == [1, 0, 0] and ingot.stats()["native_calls"] == native + 1, step.report()
        step(torch.randn(7, 4))   # Ragged as well.
        assert ingot.stats()["native_calls"] == native + 2
        step(torch.randn(32, 4))  # The first of its kind.
        assert step.wait(60)
        assert counts(ingot) == [2, 0, 0] and ingot.stats()["native_calls"] == native + 2
        step(torch.randn(16, 4))
        assert ingot.stats()["native_calls"] == native + 3
        # What has agreed is noted: the next one needs no eager call.
        again = ingot.compile(required, config=ingot.Config(agree="require"))
        again(torch.randn(48, 4))
        assert counts(ingot) == [2, 0, 0] and ingot.stats()["native_calls"] == native + 4
    noted = session_store.json("inspect", "required")["variants"][0]["agreed"]
    assert [one["sizes"] for one in noted] == [[5, 4], [32, 4]], noted


def test_require_never_serves_what_cannot_be_compared(ingot):
    step = ingot.compile(lambda x: x + torch.rand_like(x), config=ingot.Config(wait=True, agree="require"))
    native = ingot.stats()["native_calls"]
    with torch.no_grad():
        for _ in range(5):
            torch.manual_seed(7)
            found = step(torch.ones(4))
            torch.manual_seed(7)
            assert torch.equal(found, torch.ones(4) + torch.rand(4))
    assert ingot.stats()["native_calls"] == native and ingot.stats()["agreement_skipped_random"] == 1


CODE = """
import torch
def right(x):
    return torch.nn.functional.silu(x) + 1
def wrong(x):
    return torch.nn.functional.silu(x) + 1.5
"""

# The entry of `right` gets the graph of `wrong`: what nobody has recorded here.
FORGE = """
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
"""

RUN = """
import json, sys, torch
sys.path.insert(0, ".")
import net, ingot
step = ingot.compile(net.right, config=ingot.Config(wait=True, agree="{agree}"))
x, answers = torch.ones(4, 16), []
with torch.no_grad():
    for _ in range(4):
        answers.append(bool(torch.allclose(step(x), net.right(x))))
print(json.dumps(dict(answers=answers, said=step.soundness(), report=step.report(), **ingot.stats())))
"""


def test_what_nobody_has_recorded_is_served_on_the_proof_unless_agreement_is_required(store, tmp_path):
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "net.py").write_text(CODE)
    assert store.python(FORGE, folder) == "forged"
    trusting = store.python(RUN.format(agree="once"), folder)
    assert trusting["answers"] == [False] * 4 and "no process here has recorded it" in trusting["said"], trusting
    required = store.python(RUN.format(agree="require"), folder)
    # Found by the first call, before any native answer; the second records the true graph.
    assert required["answers"] == [True] * 4, required["report"]
    assert [required[name] for name in ("agreement_failed", "agreed", "captures", "native_calls")] == [1, 1, 1, 2], required
    assert store.json("inspect", "right")["failure"]["quarantined"]
    other = store.python(RUN.format(agree="require"), folder)
    assert other["answers"] == [True] * 4 and other["native_calls"] == 4 and other["agreed"] == 0, other["report"]
    assert "agreed with eager" in other["said"]


def test_memory_as_it_was_is_no_difference(ingot):
    def leaves_open(x):
        y = torch.empty(64)
        y[:32] = x
        return y

    torch.empty(64).fill_(7.0)
    step = ingot.compile(leaves_open, wait=True)
    with torch.no_grad():
        for _ in range(3):
            assert torch.equal(step(torch.ones(32))[:32], torch.ones(32))
    assert counts(ingot)[1] == 0, ingot.stats()


def test_threads_note_what_agreed_while_variants_come_and_go():
    from ingot.checks.agreed import Agreed

    errors: "list[Exception]" = []

    def come_and_go():
        try:
            kept = []
            for i in range(3000):
                kept = [*kept[-20:], Agreed(f"{i % 3}", 1, [])]
                kept[-1].add([i % 50])
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=come_and_go) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
