# SPDX-License-Identifier: Apache-2.0
"""capture="export": ranges proved without seeing their sizes, programs that recording refuses, and clear refusals."""

import logging
import pathlib
import time

import pytest
import torch

class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(8, 8)
        self.register_buffer("table", torch.arange(8.0))
        self.offset = torch.ones(8)

    def forward(self, x, mask=None, scale=0.5):
        y = self.linear(x).view(-1, 8) * scale + self.table + self.offset
        y = torch.softmax(y, -1).view(x.shape)
        return y if mask is None else y * mask.unsqueeze(-1)


def served(ingot, step, *args, **kwargs):
    """(result, native calls, recordings and exports) of one call."""
    before = ingot.stats()
    with torch.no_grad():
        got = step(*args, **kwargs)
    after = ingot.stats()
    return got, after["native_calls"] - before["native_calls"], after["captures"] - before["captures"]


def test_a_proved_range_serves_sizes_never_seen(ingot):
    block = Block().eval()
    step = ingot.compile(block, capture="export", wait=True)
    with torch.no_grad():
        x, mask = torch.randn(4, 6, 8), torch.rand(4, 6)
        torch.testing.assert_close(step(x, mask), block(x, mask))
        assert ingot.stats()["ranges"] == 1, step.report()
        for batch, tokens in ((4, 6), (2, 2), (3, 97), (50, 5), (7, 7)):
            x, mask = torch.randn(batch, tokens, 8), torch.rand(batch, tokens)
            got, native, captures = served(ingot, step, x, mask)
            torch.testing.assert_close(got, block(x, mask))
            assert (native, captures) == (1, 0), (batch, tokens)
        # Export proves nothing of a single row: that size is recorded first.
        x, mask = torch.randn(1, 5, 8), torch.rand(1, 5)
        got, native, captures = served(ingot, step, x, mask)
        torch.testing.assert_close(got, block(x, mask))
        assert (native, captures) == (0, 1)
    text = step.as_text("guards")
    assert "x.size(0) == s0\n" in text or "x.size(1) == s0\n" in text


def test_the_range_is_printed_and_kept(ingot):
    step = ingot.compile(lambda x: torch.sin(x) + x.shape[0] * 0, capture="export", wait=True)
    with torch.no_grad():
        step(torch.randn(4, 8))
    assert "range: " in step.as_text("guards"), step.report()
    assert step.variants[0]["range"] == "s0 >= 2 and s1 >= 2", step.variants


def test_weights_stay_those_of_the_module(ingot):
    block = Block().eval()
    step = ingot.compile(block, capture="export", wait=True)
    with torch.no_grad():
        step(torch.randn(4, 6, 8))
        block.linear.weight.mul_(2.0)
        x = torch.randn(5, 3, 8)
        got, native, _ = served(ingot, step, x)
        torch.testing.assert_close(got, block(x))
        assert native == 1
        block.linear.weight = torch.nn.Parameter(torch.randn(8, 8))
        torch.testing.assert_close(step(x), block(x))


def limited(x):
    if x.shape[0] > 20:
        return torch.cos(x)
    assert x.shape[1] % 4 == 0
    return torch.sin(x) * 2


def test_branches_and_divisibility_are_part_of_the_range(ingot):
    step = ingot.compile(limited, capture="export", wait=True)
    with torch.no_grad():
        x = torch.randn(6, 8)
        torch.testing.assert_close(step(x), limited(x))
        assert step.variants[0]["range"] == "s0 >= 2 and s0 <= 20 and s1 >= 4 and s1 % 4 == 0", step.report()
        for rows, columns, inside in ((20, 12, True), (3, 4, True), (21, 8, False)):
            x = torch.randn(rows, columns)
            got, native, captures = served(ingot, step, x)
            torch.testing.assert_close(got, limited(x))
            assert (native, captures) == ((1, 0) if inside else (0, 1)), (rows, columns)
        with pytest.raises(AssertionError):
            step(torch.randn(6, 9))


def test_equal_sizes_are_part_of_the_range(ingot):
    fn = lambda x, y: x @ y  # noqa: E731
    step = ingot.compile(fn, capture="export", wait=True)
    with torch.no_grad():
        step(torch.randn(4, 6), torch.randn(6, 5))
        got, native, captures = served(ingot, step, torch.ones(3, 9), torch.ones(9, 2))
        torch.testing.assert_close(got, torch.full((3, 2), 9.0))
        assert (native, captures) == (1, 0), step.report()
        with pytest.raises(RuntimeError):
            step(torch.ones(3, 9), torch.ones(8, 2))


def test_dynamic_false_proves_no_range(ingot):
    step = ingot.compile(lambda x: torch.sin(x) - 3, capture="export", dynamic=False, wait=True)
    with torch.no_grad():
        step(torch.randn(4, 8))
        assert [v["kind"] for v in step.variants] == ["exact"]
        x = torch.randn(5, 8)
        _, native, captures = served(ingot, step, x)
        assert (native, captures) == (0, 1)


def test_marked_sizes_alone_are_symbolic(ingot):
    step = ingot.compile(lambda x: torch.sin(x) - 4, capture="export", wait=True)
    x = torch.randn(4, 8)
    torch._dynamo.mark_dynamic(x, 0)
    with torch.no_grad():
        step(x)
        assert step.variants[0]["range"] == "s0 >= 2"
        assert served(ingot, step, torch.randn(9, 8))[1:] == (1, 0)
        assert served(ingot, step, torch.randn(9, 9))[1] == 0


def mapped(x):
    return torch.func.vmap(lambda row: row.sin() * row.sum())(x)


def test_a_transform_that_recording_refuses_is_served(ingot):
    with torch.no_grad():
        x = torch.randn(4, 8)
        recorded = ingot.compile(mapped, wait=True)
        for _ in range(2):  # The first makes what functorch needs.
            recorded(x)
        assert ingot.stats()["refused_functorch"] >= 1
        step = ingot.compile(mapped, capture="export", wait=True)
        torch.testing.assert_close(step(x), mapped(x))
        for rows in (4, 9):
            x = torch.randn(rows, 8)
            got, native, captures = served(ingot, step, x)
            torch.testing.assert_close(got, mapped(x))
            assert (native, captures) == (1, 0), step.report()


def late(x):
    return torch.sin(x) * time.time()


class Counter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return torch.sin(x) * self.calls


counted = Counter()


def read(x):
    pathlib.Path("/dev/null").read_text()
    return torch.sin(x)


@pytest.mark.parametrize("fn, why", [(late, "time.time"), (read, "call")])
def test_what_cannot_be_served_rightly_is_refused_and_right(ingot, caplog, fn, why):
    step = ingot.compile(fn, capture="export", wait=True)
    x = torch.randn(4, 8)
    with torch.no_grad(), caplog.at_level(logging.WARNING, "ingot"):
        for _ in range(3):
            torch.testing.assert_close(step(x), fn(x), rtol=1e-4, atol=1e-2 if fn is not late else 1e6)
    assert step.variants == []
    assert [r.message for r in caplog.records if why in r.message], caplog.text


def test_a_function_that_counts_its_calls_is_recorded_and_then_eager(ingot, caplog):
    step = ingot.compile(counted, capture="export", wait=True)
    x = torch.randn(4, 8)
    with torch.no_grad(), caplog.at_level(logging.WARNING, "ingot"):
        for calls in range(1, 7):
            torch.testing.assert_close(step(x), torch.sin(x) * calls)
            assert counted.calls == calls
    assert "volatile" in caplog.text and "self.calls" in caplog.text


def unexportable(x):
    return torch.sin(x) * (2 if bool((x > 100).any()) else 3)


def test_a_failed_export_is_said_once_and_recorded(ingot, caplog):
    step = ingot.compile(unexportable, capture="export", wait=True)
    with torch.no_grad(), caplog.at_level(logging.WARNING, "ingot"):
        for rows in (4, 5, 6):
            x = torch.randn(rows, 8)
            torch.testing.assert_close(step(x), unexportable(x))
    said = [r.message for r in caplog.records if "torch.export" in r.message]
    assert len(said) == 1, caplog.text
    assert "GuardOnDataDependentSymNode" in said[0] or "data" in said[0].lower()


class Cache(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(8))

    def forward(self, x):
        self.seen.add_(x.sum(0))
        return x + self.seen


def test_state_is_written_once_for_each_call(ingot):
    module, plain = Cache().eval(), Cache().eval()
    step = ingot.compile(module, capture="export", wait=True)
    with torch.no_grad():
        for rows in (4, 4, 6, 3):
            x = torch.randn(rows, 8)
            torch.testing.assert_close(step(x), plain(x))
            torch.testing.assert_close(module.seen, plain.seen)


SCRIPT = """
import json, sys, torch, ingot
sys.path[:0] = [{folder!r}, {folder!r}.rpartition("/")[0]]
import model
step = ingot.compile(model.fn, capture="export", wait=True)
with torch.no_grad():
    x = torch.randn({rows}, 8)
    torch.testing.assert_close(step(x), model.fn(x))
stats = ingot.stats()
print(json.dumps({{k: stats.get(k, 0) for k in ("captures", "exports", "compiles", "native_calls", "entry_hits", "ranges")}}))
"""


def test_a_second_process_serves_the_range_at_once(store, tmp_path):
    (tmp_path / "model.py").write_text("import torch\ndef fn(x):\n    return torch.softmax(torch.sin(x), -1) * 2\n")
    first = store.python(SCRIPT.format(folder=str(tmp_path), rows=4))
    assert first["exports"] == 1 and first["ranges"] == 1
    second = store.python(SCRIPT.format(folder=str(tmp_path), rows=77))
    assert second == {"captures": 0, "exports": 0, "compiles": 0, "native_calls": 1, "entry_hits": 1, "ranges": 0}


def test_declared_gears_name_the_sizes_of_the_range(ingot):
    block = Block().eval()
    step, x, mask = ingot.compile(block, capture="export"), torch.randn(4, 6, 8), torch.rand(4, 6)
    for tensor in (x, mask):
        ingot.set_dim_gears(tensor, {0: [2, 4, 8, 32]})
    step.prepare(x, mask)
    seen = ingot.stats()
    assert (seen["exports"], seen["ranges"], seen["captures"]) == (1, 1, 1), step.report()
    assert [v["range"] for v in step.variants if v["kind"] == "template"] == ["s0 >= 2"], "only the geared dim may change"
    for batch in (2, 4, 8, 32):
        x, mask = torch.randn(batch, 6, 8), torch.rand(batch, 6)
        got, native, captures = served(ingot, step, x, mask)
        torch.testing.assert_close(got, block(x, mask))
        assert (native, captures) == (1, 0), batch
