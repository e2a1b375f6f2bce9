# SPDX-License-Identifier: Apache-2.0
"""Programs that are no one graph run in parts: the modules they call are native, the Python between them is Python."""

import copy
import gc
import io
import pickle
import sys
import threading
import weakref

import pytest
import torch
from conftest import ROOT
from recorded import load

escapes = load("escapes", ROOT / "tests" / "bench" / "escapes.py")


class Reader(torch.nn.Module):
    """Two blocks, with a value of the first one's result read in Python between them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        torch.manual_seed(width)
        self.width, self.seen = width, []
        self.first, self.second = block(width), block(width)

    def forward(self, x, fail=False):
        x = self.first(x)
        if fail:
            raise KeyError("between")
        return self.second(x) * len(f"{float(x.abs().max()):.3f}")


def block(width: int) -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.GELU(), torch.nn.LayerNorm(width)).eval()


def gained(ingot, run, *names):
    before = ingot.stats()
    result = run()
    after = ingot.stats()
    return result, *(after.get(name, 0) - before.get(name, 0) for name in names)


def call_until_in_parts(step, inputs):
    with torch.no_grad():
        for _ in range(5):
            for x in inputs:
                step(x)
            assert step.wait(60)


def in_parts(ingot, width):
    """A model that runs in parts, the compiled one, and its inputs."""
    model = Reader(width)
    step, inputs = ingot.compile(model), torch.randn(30, 3, width)
    call_until_in_parts(step, inputs)
    return model, step, inputs


@torch.no_grad()
def test_the_modules_around_are_native_and_nothing_is_recorded_any_more(ingot):
    model, step, inputs = in_parts(ingot, 17)
    expected = [model(x) for x in inputs]
    found, native, captures, parts = gained(ingot, lambda: [step(x) for x in inputs], "native_calls", "captures", "parts")
    torch.testing.assert_close(found, expected)
    assert (native, captures, parts) == (2 * len(inputs), 0, 0)


@torch.no_grad()
def test_the_plain_model_is_what_it_was(ingot):
    model, step, inputs = in_parts(ingot, 18)
    _, native, refused = gained(ingot, lambda: model(inputs[0]), "native_calls", "refused_calls")
    assert (native, refused) == (0, 0)
    for other in (copy.deepcopy(model), copy.copy(model), pickle.loads(pickle.dumps(model.first))):
        assert not any("_compiled_call_impl" in vars(module) for module in other.modules() if module not in set(model.modules()))
    assert sorted(model.state_dict()) == sorted(Reader(18).state_dict())
    held = io.BytesIO()
    torch.save(model.first, held)
    held.seek(0)
    torch.testing.assert_close(torch.load(held, weights_only=False)(inputs[0]), model.first(inputs[0]))


@torch.no_grad()
def test_other_functions_neither_see_nor_lose_anything(ingot):
    model = Reader(19)
    before = ingot.compile(lambda x: model.first(x) + 1, wait=True)
    step, inputs = ingot.compile(model), torch.randn(30, 3, 19)
    before(inputs[0])
    _, native = gained(ingot, lambda: before(inputs[1]), "native_calls")
    assert native == 1
    call_until_in_parts(step, inputs)
    assert "_compiled_call_impl" in vars(model.first)
    _, native, captures = gained(ingot, lambda: [before(x) for x in inputs], "native_calls", "captures")
    assert (native, captures) == (len(inputs), 0)
    after = ingot.compile(lambda x: model.second(model.first(x)) - 1, wait=True)
    after(inputs[0])
    found, native = gained(ingot, lambda: after(inputs[1]), "native_calls")
    torch.testing.assert_close(found, model.second(model.first(inputs[1])) - 1)
    assert native == 1, after.report()
    records = [row for entry in after._engine._entries.values() for variant in entry.variants for row in variant.record.rows()]
    of_part = [row for row in records if "_compiled_call_impl" in row[1]]
    del vars(model.first)["_compiled_call_impl"], vars(model.second)["_compiled_call_impl"]
    _, native, captures = gained(ingot, lambda: [after(x) for x in inputs], "native_calls", "captures")
    assert (native, captures) == (len(inputs), 0), of_part


@torch.no_grad()
def test_changed_weights_and_modules_are_seen(ingot):
    model, step, inputs = in_parts(ingot, 20)
    model.first[0].weight.mul_(2)
    torch.testing.assert_close(step(inputs[0]), model(inputs[0]))
    model.second = block(20).add_module("last", torch.nn.ReLU()) or torch.nn.Sequential(block(20), torch.nn.ReLU())
    for x in inputs:
        torch.testing.assert_close(step(x), model(x))
    model.first.register_forward_hook(lambda module, args, result: result * 3)
    for x in inputs:
        torch.testing.assert_close(step(x), model(x))


@torch.no_grad()
def test_what_python_between_raises_is_raised_and_the_profiler_is_free_again(ingot):
    model = Reader(21)
    step, inputs = ingot.compile(model), torch.randn(30, 3, 21)
    for x in inputs:
        with pytest.raises(KeyError, match="between"):
            step(x, fail=True)
        step(x)
    assert sys.getprofile() is None
    with pytest.raises(KeyError, match="between"):
        step(inputs[0], fail=True)
    torch.testing.assert_close(step(inputs[0]), model(inputs[0]))


@torch.no_grad()
@pytest.mark.parametrize("is_given_up_there", [False, True])
def test_under_a_profiler_a_program_stays_whole(ingot, is_given_up_there):
    width = 41 if is_given_up_there else 22
    model, events = Reader(width), []
    step, inputs = ingot.compile(model), torch.randn(30, 3, width)
    if is_given_up_there:
        step(inputs[0])
        assert step.wait(60)
    sys.setprofile(lambda frame, event, _: events.append(event) if not events else None)
    try:
        found = [step(x) for x in inputs]
    finally:
        sys.setprofile(None)
    torch.testing.assert_close(found, [model(x) for x in inputs])
    assert events and not any("_compiled_call_impl" in vars(module) for module in model.modules())
    call_until_in_parts(step, inputs)
    assert "_compiled_call_impl" in vars(model.first)


@torch.no_grad()
def test_nothing_keeps_the_model_alive(ingot):
    model, step, _ = in_parts(ingot, 23)
    gone = weakref.ref(model.first)
    del model, step
    gc.collect()
    assert gone() is None


@torch.no_grad()
def test_threads(ingot):
    model = Reader(24)
    step, inputs = ingot.compile(model), torch.randn(40, 3, 24)
    expected, wrong = [model(x) for x in inputs], []

    def work() -> None:
        with torch.no_grad():
            for _ in range(3):
                for x, wanted in zip(inputs, expected):
                    if not torch.allclose(step(x), wanted, atol=1e-5):
                        wrong.append(x)

    threads = [threading.Thread(target=work) for _ in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not wrong
    call_until_in_parts(step, inputs)
    _, native = gained(ingot, lambda: [step(x) for x in inputs], "native_calls")
    assert native == 2 * len(inputs)


def test_gradients_flow(ingot):
    model, step, inputs = in_parts(ingot, 25)
    x = inputs[0].clone().requires_grad_()
    for _ in range(4):
        step(x).sum().backward()
    expected, plain = x.grad / 4, inputs[0].clone().requires_grad_()
    model.zero_grad()
    model(plain).sum().backward()
    torch.testing.assert_close(expected, plain.grad)


@torch.no_grad()
def test_other_tracers_see_the_plain_model(ingot):
    model, step, inputs = in_parts(ingot, 26)
    expected = model.second(model.first(inputs[0]))

    class Both(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = model.first, model.second

        def forward(self, x):
            return self.second(self.first(x))

    both = Both()
    torch.testing.assert_close(torch.jit.trace(both, inputs[0])(inputs[0]), expected)
    torch.testing.assert_close(torch.fx.symbolic_trace(both)(inputs[0]), expected)
    torch.testing.assert_close(torch.export.export(both, (inputs[0],)).module()(inputs[0]), expected)
    torch.testing.assert_close(torch.compile(both, backend="eager", fullgraph=True)(inputs[0]), expected)
    torch.testing.assert_close(torch.vmap(both)(inputs[:2]), torch.stack([both(x) for x in inputs[:2]]))


@torch.no_grad()
def test_errors_where_they_are_asked_for(ingot):
    model = Reader(27)
    step = ingot.compile(model, on_unsupported="error")
    with pytest.raises(ingot.Unsupported):
        call_until_in_parts(step, torch.randn(30, 3, 27))
    assert "_compiled_call_impl" not in vars(model.first)


@torch.no_grad()
def test_functions_and_methods_have_parts_too(ingot):
    model = Reader(28)
    for step in (ingot.compile(model.forward), ingot.compile(lambda x: model(x).relu())):
        call_until_in_parts(step, torch.randn(30, 3, 28))
    _, native = gained(ingot, lambda: step(torch.randn(3, 28)), "native_calls")
    assert native >= 2


@torch.no_grad()
@pytest.mark.parametrize("name", escapes.ESCAPES)
def test_most_of_each_escaping_program_is_native(ingot, name):
    model, inputs = escapes.program(name, calls=30)
    step = ingot.compile(model)
    native, captures = 0, 1
    for _ in range(40):  # How many values it must see to give up is the machine's to say: calls in between find a compile under way.
        if native >= 1.8 * len(inputs) and captures == 0:
            break
        _, native, captures = gained(ingot, lambda: escapes.run(step, inputs), "native_calls", "captures")
        assert step.wait(60)
    assert native >= 1.8 * len(inputs) and captures == 0, (native, captures, step.report())


PROGRAM = """
import json, sys, torch, ingot
sys.path.insert(0, ".")
import net
torch.manual_seed(0)
model = net.Reader(31)
step, inputs = ingot.compile(model), torch.randn(30, 3, 31)
with torch.no_grad():
    right = []
    for _ in range({rounds}):
        right += [bool(torch.allclose(step(x), model(x), rtol=1e-4, atol=1e-4)) for x in inputs]
        step.wait()
print(json.dumps(dict(same=all(right), why=step.why_miss(), report=step.report(), **ingot.stats())))
"""
NET = """
import torch
class Reader(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        torch.manual_seed(width)
        self.first, self.second = block(width), block(width)
    def forward(self, x):
        x = self.first(x)
        return self.second(x) * scale(x)
def block(width):
    return torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.GELU(), torch.nn.LayerNorm(width)).eval()
def scale(x):
    return {scale}
"""
LENGTH = "len(f'{float(x.abs().max()):.3f}')"


def test_the_next_process_need_not_find_it_out(store, tmp_path):
    (tmp_path / "net.py").write_text(NET.replace("{scale}", LENGTH))
    first = store.python(PROGRAM.format(rounds=5), tmp_path)
    assert first["same"] and first["parts"] == 2, first["report"]
    second = store.python(PROGRAM.format(rounds=1), tmp_path)
    counts = [second.get(name, 0) for name in ("parts", "captures", "compiles")]
    assert second["same"] and counts == [2, 0, 0] and second["native_calls"] >= 2 * 28, second["report"]
    [entry] = [e for e in store.json("list")["entries"] if e["function"] == "net.Reader.forward"]
    assert "value guards failed" in store.cli("inspect", entry["key"])
    store.cli("retry", entry["key"])
    third = store.python(PROGRAM.format(rounds=1), tmp_path)
    assert third["same"] and third["value_guard_failures"] > 0, third["report"]


def test_a_program_that_was_changed_is_looked_at_anew(store, tmp_path):
    (tmp_path / "net.py").write_text(NET.replace("{scale}", LENGTH))
    assert store.python(PROGRAM.format(rounds=5), tmp_path)["parts"] == 2
    (tmp_path / "net.py").write_text(NET.replace("{scale}", "x.abs().max()"))
    changed = store.python(PROGRAM.format(rounds=3), tmp_path)
    assert changed["same"] and changed.get("parts", 0) == 0 and changed["native_calls"] >= 30, changed["report"]
