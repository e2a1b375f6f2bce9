# SPDX-License-Identifier: Apache-2.0
"""Functions that are no one graph run in pieces: what lies between the statements in which values leave is native."""

import concurrent.futures
import functools
import gc
import os
import random
import sys
import tempfile
import weakref

import pytest
import torch

W = torch.linspace(-1, 1, 16 * 16).reshape(16, 16).sin()
TABLE = [torch.full((16,), float(i)) for i in range(8)]
LINES = []
CALLS = 30


def distinct(x):
    return torch.unique((x * 3).round())


def log(x):
    h = torch.tanh(x @ W) * 2 + 1
    LINES.append(f"{h.mean().item():.4f}")
    return torch.relu(h @ W).sum(-1)


def counted_slice(x):
    h = torch.tanh(x @ W)
    n = 1 + int((h.sum(-1) > 0).sum()) % 7
    return (h - h[:, :n].mean(1, keepdim=True)) @ W


def row_of_a_table(x):
    h = torch.tanh(x @ W)
    h = h + TABLE[int(h.abs().sum()) % 8]
    return torch.relu(h @ W)


def with_a_helper(x, scale=2.0, *, shift=1):
    h = torch.tanh(x @ W) * scale
    u = distinct(h)
    return torch.relu(h @ W) * u.mean() + u.shape[0] + shift


def drawn(x):
    h = torch.tanh(x @ W)
    s = 2.0 if random.random() < 0.5 else 3.0
    return torch.relu(h * s @ W)


def loop(x):
    h = x
    for _ in range(4):
        h = torch.tanh(h @ W)
        k = h.argmax(-1).tolist()
        h = h + TABLE[k[0] % 8]
        if len(set(k)) == 1:
            break
    return h @ W


def routed(x):
    out, m = torch.zeros_like(x), (x @ W).argmax(-1) % 4
    for e in range(4):
        rows = (m == e).nonzero().flatten()
        if rows.numel() == 0:
            continue
        out.index_add_(0, rows, torch.tanh(x[rows] @ W) * (e + 1))
    return out


def through_numpy(x):
    h = torch.tanh(x @ W)
    h = torch.from_numpy(h.numpy().cumsum(-1))
    return torch.relu(h @ W)


def closed(factor):
    def inner(x):
        h = torch.tanh(x @ W) * factor
        LINES.append(str(round(float(h.sum()), 3)))
        return h @ W + factor

    return inner


def halved(function):
    @functools.wraps(function)
    def inner(*args, **kwargs):
        return function(*args, **kwargs) / 2

    return inner


@halved
@torch.no_grad()
def decorated(x):
    h = torch.tanh(x @ W)
    LINES.append(str(round(float(h.sum()), 3)))
    return torch.relu(h @ W)


def loops(x):
    """What is first made inside of a loop is read behind it."""
    for i in range(2):
        for j in range(2):
            h = torch.tanh(x @ W + j)
            h = h * int(h.sum().numpy() > 0)
    try:
        h = h + 1
    except ValueError:
        for _ in range(2):
            h = h * 2
    return torch.relu(h @ W)


class Net(torch.nn.Module):
    """Operators of its own between its modules, and a value that leaves between them."""

    def __init__(self, fails=False):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second, self.count, self.fails = torch.nn.Linear(16, 16), torch.nn.Linear(16, 16), 0, fails

    @torch.no_grad()
    def forward(self, x):
        h = torch.relu(self.first(x)) * 3 - 1
        n = int(h.argmax()) % 5
        if self.fails and n == 3:
            raise KeyError("between")
        self.count = self.count + n
        return torch.softmax(self.second(h) + n, -1).sum(0)


PROGRAMS = {"log": lambda: log, "slice": lambda: counted_slice, "table": lambda: row_of_a_table, "helper": lambda: with_a_helper,
            "drawn": lambda: drawn, "loop": lambda: loop, "routed": lambda: routed, "numpy": lambda: through_numpy,
            "closed": lambda: closed(1.5), "decorated": lambda: decorated, "loops": lambda: loops, "module": Net, "method": lambda: Net().forward}


def answers(function, inputs, seed=0):
    """(what a function answers, the lines that it writes)."""
    random.seed(seed)
    LINES.clear()
    with torch.no_grad():
        return [function(x) for x in inputs], list(LINES)


def in_pieces(ingot, make):
    """(compiled, plain, inputs) of a program whose pieces are there, whether they pay or not."""
    torch.manual_seed(1)
    plain, step, inputs = make(), ingot.compile(make()), torch.randn(CALLS, 6, 16)
    for turn in range(5):
        wanted, found = answers(plain, inputs, turn), answers(step, inputs, turn)
        torch.testing.assert_close(found[0], wanted[0], rtol=1e-4, atol=1e-4)
        assert found[1] == wanted[1]
        assert step.wait(60)
    return step, plain, inputs


def gained(ingot, run, *names):
    before = ingot.stats()
    result = run()
    after = ingot.stats()
    return result, *(after.get(name, 0) - before.get(name, 0) for name in names)


@pytest.mark.parametrize("name", PROGRAMS)
def test_answers_and_lines_are_eagers_and_the_rest_is_native(ingot, name):
    step, plain, inputs = in_pieces(ingot, PROGRAMS[name])
    found, native = gained(ingot, lambda: answers(step, inputs), "native_calls")
    wanted = answers(plain, inputs)
    torch.testing.assert_close(found[0], wanted[0], rtol=1e-4, atol=1e-4)
    assert found[1] == wanted[1]
    assert native >= len(inputs), step.report()
    if name not in ("loop", "routed", "helper"):  # Of other programs nothing is left to be found out.
        _, captures, fallbacks = gained(ingot, lambda: answers(step, inputs), "captures", "fallbacks")
        assert (captures, fallbacks) == (0, 0), step.report()


def test_state_is_eagers(ingot):
    step, plain, inputs = in_pieces(ingot, Net)
    assert step.count == plain.count > 0


def test_defaults_keywords_and_changed_code(ingot, monkeypatch):
    step, plain, inputs = in_pieces(ingot, lambda: with_a_helper)
    with torch.no_grad():
        for arguments in ({"scale": 0.5}, {"shift": 4}, {"scale": 3.0, "shift": -1}):
            for x in inputs:
                torch.testing.assert_close(step(x, **arguments), plain(x, **arguments), rtol=1e-4, atol=1e-4)
        monkeypatch.setattr(with_a_helper, "__defaults__", (7.0,))
        torch.testing.assert_close(step(inputs[0]), plain(inputs[0]), rtol=1e-4, atol=1e-4)
        monkeypatch.setattr(with_a_helper, "__code__", (lambda x, scale=2.0, *, shift=1: x * 9).__code__)
        torch.testing.assert_close(step(inputs[0]), inputs[0] * 9)


def test_hooks_and_another_forward_are_seen(ingot):
    step, plain, inputs = in_pieces(ingot, Net)
    with torch.no_grad():
        handles = [net.register_forward_hook(lambda module, args, result: result * 3) for net in (step, plain)]
        torch.testing.assert_close(step(inputs[0]), plain(inputs[0]), rtol=1e-4, atol=1e-4)
        for handle in handles:
            handle.remove()
        for net in (step, plain):
            net.second.weight.mul_(2)
        torch.testing.assert_close(step(inputs[1]), plain(inputs[1]), rtol=1e-4, atol=1e-4)
        step.forward = lambda x: x + 1
        torch.testing.assert_close(step(inputs[0]), inputs[0] + 1)


def test_what_is_raised_between_is_raised(ingot):
    torch.manual_seed(3)
    plain, step, inputs = Net(True), ingot.compile(Net(True)), torch.randn(CALLS, 6, 16)
    seen = []
    for _ in range(5):
        for x in inputs:
            outcomes = []
            for net in (plain, step):
                try:
                    outcomes.append(answers(net, [x])[0][0])
                except KeyError as e:
                    outcomes.append(str(e))
            assert isinstance(outcomes[0], str) == isinstance(outcomes[1], str)
            seen.append(isinstance(outcomes[0], str))
            if not seen[-1]:
                torch.testing.assert_close(outcomes[1], outcomes[0], rtol=1e-4, atol=1e-4)
        step.wait(60)
    assert any(seen) and not all(seen) and step.count == plain.count


def test_threads_share_the_pieces(ingot):
    step, plain, inputs = in_pieces(ingot, lambda: counted_slice)

    def serve(x):
        with torch.no_grad():
            return step(x)

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for _ in range(4):
            found = list(pool.map(serve, inputs))
            torch.testing.assert_close(found, answers(plain, inputs)[0], rtol=1e-4, atol=1e-4)


def test_nothing_keeps_the_model_alive(ingot):
    step, plain, inputs = in_pieces(ingot, Net)
    gone = weakref.ref(step.first)
    del step
    gc.collect()
    assert gone() is None


class Resource:
    """Usable by its number as long as it lives."""

    live = set()

    def __init__(self, number):
        self.number = number
        self.live.add(number)

    def __del__(self):
        self.live.discard(self.number)


def uses(x):
    n = int(x.argmax())
    resource = Resource(n)
    number = resource.number
    h = torch.tanh(x @ W)
    LINES.append(f"{number} {number in Resource.live} {h.sum().item() > 1e9}")
    return h * 2


def opens(x):
    n = int(x.argmax())
    with tempfile.NamedTemporaryFile() as file:
        pass
    held = open(os.devnull)
    h = torch.tanh(x @ W) * len(file.name[:3]) * len(LINES)
    LINES.append(f"{held.closed} {n}")
    return h * 2


@pytest.mark.parametrize("function", [uses, opens])
def test_a_function_that_holds_something_until_it_ends_is_not_cut(ingot, function):
    step, plain, inputs = in_pieces(ingot, lambda: function)
    _, lines = answers(step, inputs)
    assert lines == answers(plain, inputs)[1] and not Resource.live
    assert "from line" not in step.report()


def test_what_is_no_python_function_stays_whole(ingot):
    step, inputs = ingot.compile(torch.unique), torch.randn(CALLS, 6, 16)
    for x in inputs:
        torch.testing.assert_close(step(x), torch.unique(x))


SECOND = """
import json, random, sys, torch, ingot
sys.path[:0] = [FOLDER, FOLDER.rpartition("/")[0]]
import test_pieces as t
step, inputs, counts = ingot.compile(t.counted_slice), torch.randn(30, 6, 16, generator=torch.Generator().manual_seed(0)), []
wanted = t.answers(t.counted_slice, inputs)[0]
for _ in range(ROUNDS):
    before = ingot.stats()
    found = t.answers(step, inputs)[0]
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)
    step.wait()
    counts.append([ingot.stats()[k] - before[k] for k in ("captures", "compiles", "native_calls")])
print(json.dumps(counts))
"""


def test_the_next_process_finds_the_pieces(store):
    from conftest import ROOT

    text = SECOND.replace("FOLDER", repr(str(ROOT / "tests" / "python" / "programs")))
    first = store.python(text.replace("ROUNDS", "5"))
    assert first[-1][0] == 0 and first[-1][2] == 60
    captures, compiles, native = store.python(text.replace("ROUNDS", "1"))[0]
    assert (captures, compiles) == (0, 0) and native >= 2 * 20, native


def shares(x):
    k = 1
    scaled = {n: (lambda v: v * k) for n in "ab"}
    h = torch.tanh(x @ W)
    LINES.append(str(round(float(h.sum()), 3)))
    k = 2
    return scaled["a"](h @ W)


class Request:
    pass


ACTIVE = weakref.WeakValueDictionary()


def watched(x):
    request = Request()
    ACTIVE["a"] = request
    h = torch.tanh(x @ W)
    LINES.append(str(round(float(h.sum()), 3)))
    return h @ W + (1 if "a" in ACTIVE else 5)


def asks():
    return sys._getframe(1).f_locals.get("scale", 0)


def asked(x):
    scale = 3
    h = torch.tanh(x @ W)
    LINES.append(str(round(float(h.sum()), 3)))
    return torch.relu(h @ W) * asks()


@pytest.mark.parametrize("function", [shares, watched, asked], ids=lambda function: function.__name__)
def test_what_needs_the_whole_frame_stays_whole(ingot, function):
    step, plain, inputs = in_pieces(ingot, lambda: function)
    wanted, found = answers(plain, inputs), answers(step, inputs)
    torch.testing.assert_close(found[0], wanted[0], rtol=1e-4, atol=1e-4)
    assert found[1] == wanted[1]


def test_a_decorator_that_calls_something_else_by_now_is_seen(ingot):
    step, plain, inputs = in_pieces(ingot, lambda: decorated)
    cell = decorated.__closure__[0]
    inner = cell.cell_contents
    try:
        cell.cell_contents = lambda x: x + 1
        torch.testing.assert_close(step(inputs[0]), (inputs[0] + 1) / 2)
    finally:
        cell.cell_contents = inner


def test_a_piece_that_cannot_be_made_goes_on_in_python(ingot, monkeypatch):
    from ingot.breaks import cutting

    piece = cutting.Cuttable.piece

    def fails(self, entry, exits, *args, keeps_iterators=False, **kwargs):
        if entry is not None and not keeps_iterators:
            raise cutting.NotCuttable("for the test")
        return piece(self, entry, exits, *args, keeps_iterators=keeps_iterators, **kwargs)

    monkeypatch.setattr(cutting.Cuttable, "piece", fails)
    step, plain, inputs = in_pieces(ingot, lambda: counted_slice)
    torch.testing.assert_close(answers(step, inputs)[0], answers(plain, inputs)[0], rtol=1e-4, atol=1e-4)


def test_why_a_function_is_not_cut_is_said(ingot, monkeypatch):
    from ingot.breaks import code_objects

    def fails(code):
        raise code_objects.Malformed("line table: for the test")

    monkeypatch.setattr(code_objects, "check", fails)
    step, plain, inputs = in_pieces(ingot, lambda: counted_slice)
    torch.testing.assert_close(answers(step, inputs)[0], answers(plain, inputs)[0], rtol=1e-4, atol=1e-4)
    assert "the function is not cut: line table: for the test" in step.why_miss()
    assert "line table: for the test" in step.report()
