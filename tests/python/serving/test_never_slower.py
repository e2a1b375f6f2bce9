# SPDX-License-Identifier: Apache-2.0
"""Calls run the plain function where that is faster than what serves them. How long either takes is said here: an operator sleeps, longer
where native code calls it, or where Python does."""

import logging
import pathlib
import sys
import time

import pytest
import torch

SECONDS = {"native": 0.0, "plain": 0.0}
CALLED: "list[str]" = []


def _who() -> str:
    """``plain`` where a function of this file calls the operator."""
    frame = sys._getframe(2)
    while frame is not None:
        if frame.f_code.co_name in ("f", "forward") and frame.f_code.co_filename == __file__:
            return "plain"
        frame = frame.f_back
    return "native"


@torch.library.custom_op("never_slower::work", mutates_args=())
def work(x: torch.Tensor) -> torch.Tensor:
    CALLED.append(_who())
    time.sleep(SECONDS[CALLED[-1]])  # On purpose: it says how long a call takes
    return x + 1


@work.register_fake
def _(x):
    return torch.empty_like(x)


def whole(name):
    """A function of a name of its own: what is found out of one holds for all processes on a store."""

    def f(x):
        return torch.tanh(work(x * 2)) * 3

    f.__qualname__ = f.__name__ = name
    return f


class Inner(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)

    def forward(self, x):
        return torch.tanh(work(self.linear(x))) * 3


class Apart(torch.nn.Module):
    """No one graph: a number leaves in its middle."""

    def __init__(self):
        super().__init__()
        self.inner = Inner()

    def forward(self, x):
        n = int(x.abs().argmax()) % 3
        return self.inner(x) * n + n


def cut(name):
    """No one graph, and no module in it: it comes apart into pieces."""

    def f(x):
        n = int(x.abs().argmax()) % 3
        return torch.tanh(work(x * 2)) * n

    f.__qualname__ = f.__name__ = name
    return f


@pytest.fixture
def timed(monkeypatch, session_store, tmp_path):
    """Ingot as it is for everybody, but for a daemon that may be slow."""
    config = tmp_path / "config.toml"
    config.write_text("first_lookup_ms_max = 30000\nconnect_ms_max = 30000\n")
    monkeypatch.setenv("INGOT_STORE_DIR", str(session_store.path))
    monkeypatch.setenv("INGOT_CONFIG", str(config))
    import ingot
    from ingot import counters

    counters.reset()
    CALLED.clear()
    return ingot


def takes(monkeypatch, native: float, plain: float) -> None:
    monkeypatch.setitem(SECONDS, "native", native)
    monkeypatch.setitem(SECONDS, "plain", plain)


def run(step, plain, count, shape=(4, 8)):
    """By which way each call went; all answers are the function's."""
    with torch.no_grad():
        x = torch.randn(shape)
        wanted = plain(x)
        CALLED.clear()
        for _ in range(count):
            torch.testing.assert_close(step(x), wanted)
        return list(CALLED)


def test_what_is_faster_is_served(timed, monkeypatch):
    takes(monkeypatch, 0.0, 0.02)
    step = timed.compile(whole("faster"), wait=True)
    ways = run(step, whole("faster"), 60)
    assert ways[1:9] == ["native"] * 8 and ways[1:].count("plain") == 4 and ways[30:] == ["native"] * 30
    assert "[slower]" not in str(step.report())


@pytest.mark.parametrize("make", [whole, lambda name: type(name, (Apart,), {})().eval(), cut], ids=["whole", "in_parts", "in_pieces"])
def test_what_is_slower_stands_aside_and_says_so(timed, monkeypatch, caplog, make):
    takes(monkeypatch, 0.02, 0.0)
    torch.manual_seed(0)
    plain = make("slower_" + make.__name__.strip("<>"))
    step = timed.compile(plain, wait=True)
    for _ in range(3):  # Parts are found and made one after the other.
        run(step, plain, 3)
        step.wait(60)
    with caplog.at_level(logging.WARNING, "ingot"):
        run(step, plain, 60)
        before = timed.stats()["plain_calls"]
        assert run(step, plain, 50) == ["plain"] * 50
    assert timed.stats()["plain_calls"] == before + 50
    said = [line for line in caplog.messages if "[slower]" in line]
    assert len(said) == 1 and " us, the function itself " in said[0], caplog.messages
    assert "[slower]" in str(step.report())
    assert step.why_miss(as_dict=True)["reason"] == "slower"


def test_what_becomes_faster_is_served_again(timed, monkeypatch):
    takes(monkeypatch, 0.02, 0.0)
    plain = whole("becomes_faster")
    step = timed.compile(plain, wait=True)
    run(step, plain, 45)
    assert run(step, plain, 10) == ["plain"] * 10
    takes(monkeypatch, 0.0, 0.02)
    run(step, plain, 300)
    assert run(step, plain, 20) == ["native"] * 20 and "[slower]" not in str(step.report())


def test_a_profile_measures_what_would_be_served(timed, monkeypatch):
    takes(monkeypatch, 0.02, 0.0)
    plain = whole("profiled")
    step, x = timed.compile(plain, wait=True), torch.randn(4, 8)
    run(step, plain, 45)
    assert run(step, plain, 5) == ["plain"] * 5
    with torch.no_grad(), timed.profile(step) as profile:
        for _ in range(3):
            step(x)
    assert CALLED[-3:] == ["native"] * 3 and "never_slower" in str(profile)
    assert run(step, plain, 5) == ["plain"] * 5


def test_each_size_for_itself(timed, monkeypatch):
    plain = whole("sizes")
    step = timed.compile(plain, wait=True)
    for shape in ((4, 8), (64, 8), (5, 8)):
        run(step, plain, 3, shape)
    takes(monkeypatch, 0.02, 0.0)
    run(step, plain, 45, (64, 8))
    takes(monkeypatch, 0.0, 0.02)
    run(step, plain, 60, (4, 8))
    assert run(step, plain, 20, (64, 8)) == ["plain"] * 20
    assert run(step, plain, 20, (4, 8)) == ["native"] * 20


def test_what_calls_change_is_changed_once_by_each(timed, monkeypatch):
    takes(monkeypatch, 0.02, 0.0)

    class Counting(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros(()))
            self.calls = 0

        def forward(self, x):
            self.calls += 1
            self.seen += 1
            return work(x) * self.seen

    module = Counting().eval()
    step, x = timed.compile(module, wait=True), torch.ones(3)
    with torch.no_grad():
        for n in range(1, 61):
            assert torch.equal(step(x), torch.full((3,), 2.0 * n))
    assert module.calls == 60 and float(module.seen) == 60 and {"native", "plain"} == set(CALLED[1:])


@pytest.mark.parametrize("settings", [{"stand_aside": False}, {"on_unsupported": "error"}])
def test_settings_that_want_no_eager_answer_measure_nothing(timed, monkeypatch, settings):
    takes(monkeypatch, 0.02, 0.0)
    plain = whole("settings_" + "_".join(settings))
    step = timed.compile(plain, wait=True, config=settings)
    assert run(step, plain, 60)[1:] == ["native"] * 59


SECOND = """
import json, sys, torch, ingot
sys.path[:0] = FOLDERS
import test_never_slower as t
t.SECONDS.update(native=0.02, plain=0.0)
plain = t.whole("second_process")
step = ingot.compile(plain, wait=True)
ways = t.run(step, plain, COUNT)
step.wait()
print(json.dumps([ways, ingot.stats()["captures"], step.why_miss(as_dict=True)["reason"], str(step.report())]))
"""


def test_the_next_process_begins_with_it(store, tmp_path):
    config = tmp_path / "config.toml"
    config.write_text("first_lookup_ms_max = 30000\nconnect_ms_max = 30000\n")
    here = pathlib.Path(__file__).resolve().parent
    text = SECOND.replace("FOLDERS", repr([str(here), str(here.parent)]))
    first = store.python(text.replace("COUNT", "45"), INGOT_CONFIG=str(config))
    assert first[0][-5:] == ["plain"] * 5 and first[1:3] == [1, "slower"]
    ways, captures, _, report = store.python(text.replace("COUNT", "45"), INGOT_CONFIG=str(config))
    # The first call finds the code and is served; what is known of such calls comes with it.
    assert captures == 0 and ways[1:] == ["plain"] * 44 and "[slower]" in report


@pytest.mark.parametrize("row", ["[5, Infinity, 5]", "[5, 1e400, 5]", f"[5, 1{'0' * 400}, 5]", "[5, -1, 5]", "[5, true, 5]", "[5.0, 5, 5]", "[5, 5]", "5", "null", '["5", 5, 5]'])
def test_a_damaged_note_is_none(timed, row):
    from ingot.reasons import notes

    text = '{"why": "", "reason": "refused", "comes_apart": false, "read": [], "aside": [%s]}'
    assert notes.note_of(text % "[5, 6, 7]").aside == ((5, 6, 7),)
    assert notes.note_of(text % row) is None
