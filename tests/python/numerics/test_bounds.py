# SPDX-License-Identifier: Apache-2.0
"""Slices, selects and views whose places depend on sizes: native code gives eager's answer and never leaves its tensors.

Workers make code that checks each access, so that one outside of its buffer fails the call instead of reading on.
"""

import pytest
import torch
import torch.nn.functional as F

from conftest import Store

SIZES = (12, 9, 16, 7, 31, 10, 1, 0, 2, 5)


def written_views(x):
    y = x.clone()
    y[:, -2:] += 1
    y[:, 0] = 7
    y[:, 1:-1].mul_(3)
    y[-1, -1] -= 2
    return y * 2, y[:, -1]


def written_input(x):
    x[:, -2:].add_(1)
    x.select(1, -1).mul_(2)
    return x[:, :-1] + x[:, 1:]


def moved_within(x):
    y = x.clone()
    y[:, 1:] = y[:, :-1].clone()
    y[:, -1:] = 0
    return y.exp()


def pieces_written(x):
    y = x.clone()
    head, _, tail = y.tensor_split((2, -3), dim=1)
    tail.neg_()
    head += tail.sum()
    return y + 1


def overlapping_pieces(x):
    y = x.clone()
    a, b, c = y.tensor_split((5, 2), dim=1)
    c.mul_(2)
    return a + 1, b.sum(), y


def windows(x):
    return x.as_strided((x.shape[0], 2), (x.shape[1], 1)) + 1


def last_windows(x):
    y = x * 2
    return y.as_strided((x.shape[0], 2), (x.shape[1], 1), x.shape[1] - 2) + 1


CASES = {
    "the last three": lambda x: x[:, -3:].exp(),
    "all but the last": lambda x: x[:, :-1] * 2,
    "all but the ends": lambda x: x[:, 1:-1] * 2,
    "as many as there are rows": lambda x: x[:, -x.shape[0]:] + 1,
    "after as many as there are rows": lambda x: x[:, x.shape[0]:] + 1,
    "the last half": lambda x: x[:, -(x.shape[1] // 2):] + 1,
    "more than there are": lambda x: (x[:, :10] + 1, x[:, -10:] * 2),
    "nothing": lambda x: x[:, 8:3] + 1,
    "slices of slices": lambda x: x[:, 2:][:, :-2][:, -3:].exp(),
    "every second": lambda x: (x[:, ::2] + 1, x[:, 1::3] + 2, x[:, -5::2] * 3),
    "one element": lambda x: x[:, -1] * 2 + x[-1, 0],
    "unbound rows": lambda x: x.unbind(0)[-1] + x.unbind(0)[0],
    "narrow": lambda x: (x.narrow(1, x.shape[1] - 3, 2) + 1, x.narrow(1, -2, 2).exp()),
    "flip and roll": lambda x: x.flip(1)[:, :-1] + x.roll(-2, 1)[:, 1:] + x.roll(x.shape[1] - 1, 1)[:, :-1],
    "rotated halves": lambda x: torch.cat([-x[:, x.shape[1] // 2:], x[:, :x.shape[1] // 2]], 1) * 2,
    "cat of ends": lambda x: torch.cat([x[:, -2:], x[:, :-2]], 1) * 2,
    "cropping pads": lambda x: (F.pad(x, (1, -1)) + 1, F.pad(x, (-1, 2)) * 2),
    "pads of both dims": lambda x: F.pad(x, (2, 1, 1, 2), value=3.0) * 2,
    "stack of ends": lambda x: torch.stack([x[:, 0], x[:, -1]]).sum(0),
    "neighbours": lambda x: torch.where(x[:, 1:] > x[:, :-1], x[:, 1:], 0),
    "softmax of the tail": lambda x: x[:, -4:].softmax(-1),
    "without the head's mean": lambda x: x[:, :-1].mean(1, keepdim=True) - x[:, -1:],
    "halves": lambda x: x.chunk(2, 1)[-1] + 1,
    "pieces": lambda x: x.split([2, x.shape[1] - 2], 1)[1].exp(),
    "windows": lambda x: x.unfold(1, 2, 1).sum(-1),
    "a diagonal": lambda x: x[:, -3:].diagonal().exp(),
    "written views": written_views,
    "a written input": written_input,
    "moved within": moved_within,
    "pieces written": pieces_written,
    "overlapping pieces": overlapping_pieces,
    "as_strided": windows,
    "as_strided from behind": last_windows,
}


@pytest.fixture(scope="module")
def checked_store(tmp_path_factory):
    found = Store(tmp_path_factory.mktemp("checked") / "store")
    yield found
    found.cli("daemon", "stop", check=False)


@pytest.fixture
def ingot(checked_store, monkeypatch):
    """The package on a store of its own, whose workers make code that checks its accesses."""
    monkeypatch.setenv("INGOT_STORE_DIR", str(checked_store.path))
    monkeypatch.setenv("INGOT_CHECKED_ACCESSES", "1")
    monkeypatch.delenv("INGOT_SOCKET", raising=False)
    import ingot
    from ingot import counters

    counters.reset()
    global _before
    _before += failures()
    with torch.no_grad():
        yield ingot


def failures():
    """Calls of native code that could not go on: an access outside, an operator that raised."""
    from ingot import _native

    return _native.call_counters()["failures"] - _before


_before = 0


def leaves(value):
    return [leaf for item in value for leaf in leaves(item)] if isinstance(value, (tuple, list)) else [value]


def answer(function, inputs):
    """What a call gives and leaves in its inputs; an exception as its type."""
    inputs = [x.clone() for x in inputs]
    try:
        result = function(*inputs)
    except (IndexError, RuntimeError) as error:
        return type(error)
    return [*leaves(result), *inputs]


def compare(step, function, inputs, where):
    want, got = answer(function, inputs), answer(step, inputs)
    if isinstance(want, type):
        assert got == want, where
        return False
    assert not isinstance(got, type), where
    for a, b in zip(want, got, strict=True):
        torch.testing.assert_close(b, a, equal_nan=True, msg=lambda text: f"{where}: {text}")
        assert b.shape == a.shape, where
    return True


def one_tensor(n, generator):
    return [torch.randn(3, n, generator=generator)]


def run_sizes(ingot, step, function, sizes, make=one_tensor):
    """Each size twice, on other values; gives the sizes whose second call ran natively."""
    served = []
    for n in sizes:
        generator = torch.Generator().manual_seed(1)
        compare(step, function, make(n, generator), f"n={n}, first")
        before = ingot.stats()["native_calls"]
        right = compare(step, function, make(n, generator), f"n={n}, second")
        if right and ingot.stats()["native_calls"] > before:
            served.append(n)
    assert not failures(), step.report()
    return served


@pytest.mark.parametrize("name", CASES)
def test_a_template_gives_what_eager_gives(ingot, name):
    step = ingot.compile(CASES[name], wait=True)
    served = run_sizes(ingot, step, CASES[name], SIZES)
    assert len(served) >= 4, (served, step.report())


@pytest.mark.parametrize("name", CASES)
def test_exact_code_gives_what_eager_gives(ingot, name):
    step = ingot.compile(CASES[name], wait=True, dynamic=False)
    served = run_sizes(ingot, step, CASES[name], (12, 5, 1, 0))
    assert {12, 5} <= set(served), (served, step.report())


def written_tail(x, y):
    z = x.clone()
    z[:, -y.shape[0]:] = y
    z[:, :-y.shape[0]].neg_()
    return z * 2


TWO_SIZES = {
    "as many as another has": lambda x, y: x[:, -y.shape[0]:].exp(),
    "all but as many": lambda x, y: x[:, :-y.shape[0]] * 2,
    "from there to there": lambda x, y: x[:, -y.shape[0]:-1] + 1,
    "narrow": lambda x, y: x.narrow(1, x.shape[1] - y.shape[0], y.shape[0]) * y,
    "one of them": lambda x, y: x[:, -y.shape[0]] + x.select(1, y.shape[0] - 1),
    "written tail": written_tail,
    "moved on": lambda x, y: torch.cat([x[:, y.shape[0]:], y.expand(x.shape[0], -1)], 1) * 2,
    "slices of slices": lambda x, y: x[:, -y.shape[0]:][:, 1:] + y[:-1],
}


@pytest.mark.parametrize("dynamic", (None, False))
@pytest.mark.parametrize("name", TWO_SIZES)
def test_places_by_another_size(ingot, name, dynamic):
    function = TWO_SIZES[name]
    step = ingot.compile(function, wait=True, dynamic=dynamic)
    sizes = ((12, 4), (17, 6), (9, 5), (12, 7), (31, 3), (6, 6), (3, 5), (1, 1), (4, 0), (0, 0))
    served = run_sizes(ingot, step, function, sizes, lambda size, generator: [
        torch.randn(3, size[0], generator=generator), torch.randn(size[1], generator=generator)])
    assert len(served) >= 5, (served, step.report())
    if dynamic is None:
        assert "template" in [v["kind"] for v in step.variants], step.report()


@pytest.mark.parametrize("merge", ("zip", "product"))
def test_gears_give_what_eager_gives(ingot, merge):
    def ends(x):
        return x[:, -3:].exp(), x[:, 1:-1] * 2, torch.cat([x[:, -2:], x[:, :-2]], 1), x[-1, -1]

    step = ingot.compile(ends, wait=True, config={"gears": {"merge": merge}})
    x = torch.randn(3, 12)
    ingot.set_dim_gears(x, {1: [4, 5, 8, 12, 31, 64]})
    compare(step, ends, [x], "declared")
    step.prepare(x)
    before = ingot.stats()["native_calls"]
    for n in (4, 5, 8, 12, 31, 64):
        compare(step, ends, [torch.randn(3, n)], f"gear {n}")
    assert ingot.stats()["native_calls"] == before + 6, step.report()
    assert not failures(), step.report()
    for n in (0, 1, 2, 3):
        compare(step, ends, [torch.randn(3, n)], f"no gear: {n}")


def test_exported_ranges_give_what_eager_gives(ingot):
    def ends(x):
        return x[:, -3:].exp() + x[:, :3] * x[:, -1:]

    step = ingot.compile(ends, wait=True, capture="export")
    served = run_sizes(ingot, step, ends, (12, 9, 16, 3, 31, 5, 2, 1, 0))
    assert {12, 9, 16, 31} <= set(served), step.report()


def test_memory_outside_of_an_operand_is_not_compiled(ingot):
    def before(x):
        return (x * 2)[1:].as_strided((2, 2), (2, 1), 0) + 1

    step = ingot.compile(before, wait=True)
    x = torch.randn(4, 3)
    calls = ingot.stats()["native_calls"]
    for _ in range(3):
        assert torch.equal(step(x), before(x))
    assert ingot.stats()["native_calls"] == calls
    assert "outside of its operand" in str(step.report()), step.report()
