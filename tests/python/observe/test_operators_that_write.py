# SPDX-License-Identifier: Apache-2.0
"""Operators that are not PyTorch's and write their arguments: each runs in its place, as eager runs it, between native code."""

import contextlib
import copy
import functools
import pathlib
import subprocess
import sys

import pytest
import torch
from conftest import BIN

CASES = pathlib.Path(__file__).parents[1] / "cases"
sys.path.insert(0, str(CASES))

import writing  # noqa: E402

SIZES = (4, 4, 9, 5, 5)


def outcome(function, args):
    """All that a call leaves: its result or exception, its arguments, what operators noted, and who shares memory with whom."""
    writing.LOG.clear()
    try:
        with torch.no_grad():
            result, error = function(*args), None
    except Exception as raised:
        result, error = None, (type(raised), str(raised))
    results = [result] if isinstance(result, torch.Tensor) else list(result or ())
    tensors = [*args, *results]
    shared = [[a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr() and (a.data_ptr() - b.data_ptr(), a is b) for b in tensors] for a in tensors]
    return [t.clone() for t in tensors], error, list(writing.LOG), shared, [(t.shape, t.stride()) for t in tensors]


def check(found, wanted):
    for a, b in zip(found[0], wanted[0], strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)
    for i in (1, 3, 4):
        assert found[i] == wanted[i]
    assert len(found[2]) == len(wanted[2])
    for a, b in zip(found[2], wanted[2]):
        if isinstance(a, tuple):
            assert a[0] == b[0]
            a, b = a[1], b[1]
        assert a == b if isinstance(a, str) else a == pytest.approx(b, rel=1e-4, abs=1e-5)


def check_all(ingot, step, function, make, sizes=SIZES):
    for n in sizes:
        check(outcome(step, make(n)), outcome(function, make(n)))


@pytest.mark.parametrize("name", writing.PROGRAMS)
def test_is_native_and_eager_s(ingot, name):
    function, make = writing.PROGRAMS[name]
    step = ingot.compile(function, wait=True)
    check_all(ingot, step, function, make)
    stats = ingot.stats()
    assert stats["native_calls"] >= 2, step.why_miss()
    assert stats["compiles"] <= stats["captures"] <= 3, stats


def fakes():
    """Dynamo asks for what operators that give something back give."""
    writing.note.register_fake(torch.empty_like)
    writing.maybe.register_fake(lambda x, scale: torch.empty_like(x))
    writing.scaled.register_fake(lambda x, amax: (torch.empty_like(x), x.new_empty(x.shape[:-1])))


@pytest.mark.parametrize("name", writing.PROGRAMS)
def test_through_dynamo(ingot, name):
    from ingot.backend import ingot as backend

    torch._dynamo.reset()
    function, make = writing.PROGRAMS[name]
    fakes()
    step = torch.compile(function, backend=functools.partial(backend, options={"wait": True}), dynamic=False)
    check_all(ingot, step, function, make, (4, 4, 4))
    assert ingot.stats()["native_calls"] >= 2, ingot.stats()


SECOND = """
import json, sys
sys.path.insert(0, {cases!r})
import torch, writing, ingot
found = {{}}
for name, (function, make) in writing.PROGRAMS.items():
    step = ingot.compile(function, wait=True)
    before = ingot.stats()
    same = True
    for n in (5, 9, 5):
        args, others = make(n), make(n)
        with torch.no_grad():
            a, b = step(*args), function(*others)
        a, b = ([x] if isinstance(x, torch.Tensor) else list(x) for x in (a, b))
        same = same and all(torch.allclose(x, y, atol=1e-5) for x, y in zip([*a, *args], [*b, *others]))
    after = ingot.stats()
    found[name] = dict(same=same, why=step.why_miss(), **{{key: after[key] - before[key] for key in ("captures", "compiles", "native_calls")}})
print(json.dumps(found))
"""


def test_in_a_second_process(store):
    code = SECOND.format(cases=str(CASES))
    first, second = store.python(code), store.python(code)
    for name, found in second.items():
        assert first[name]["same"] and found["same"], (name, first[name], found)
        assert (found["captures"], found["compiles"], found["native_calls"]) == (0, 0, 3), (name, first[name], found)


def test_of_a_module_s_buffers_and_weights(ingot):
    model, twin = writing.Model().eval(), writing.Model().eval()
    step = ingot.compile(model, wait=True)
    with torch.no_grad():
        for n in (4, 4, 4, 6, 6):
            x = writing._rows(n, 8)
            torch.testing.assert_close(step(x), twin(x))
            for name, value in twin.state_dict().items():
                torch.testing.assert_close(model.state_dict()[name], value)
    assert ingot.stats()["native_calls"] >= 2, step.why_miss()


def test_of_an_exported_program(ingot):
    step = ingot.compile(writing.fresh, wait=True, capture="export")
    check_all(ingot, step, writing.fresh, writing._one)
    assert ingot.stats()["native_calls"] >= 2, step.why_miss()


@pytest.mark.parametrize("name", ["argument", "base_of_a_written_view", "list_of_parts", "fresh", "optional"])
def test_of_a_functionalized_graph(ingot, name):
    """AOTAutograd has made ``auto_functionalized`` of it. (What an operator reads of memory that it writes is another answer there by itself.)"""
    from torch._dynamo.backends.common import aot_autograd

    from ingot.backend import ingot as backend

    torch._dynamo.reset()
    fakes()
    function, make = writing.PROGRAMS[name]
    seen = []

    def compiler(graph, example):
        seen.extend(str(node.target) for node in graph.graph.nodes)
        return backend(graph, example, options={"wait": True})

    step = torch.compile(function, backend=aot_autograd(fw_compiler=compiler), dynamic=False)
    for n in (4, 4, 4):
        found, wanted = outcome(step, make(n)), outcome(function, make(n))
        for a, b in zip(found[0], wanted[0], strict=True):
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)
    assert any("auto_functionalized" in target for target in seen)
    assert ingot.stats()["native_calls"] >= 2, ingot.stats()


def test_an_archive_says_why_it_is_refused(tmp_path):
    """Archives are compiled without Python, and need not be trusted: operators that are not PyTorch's are not run."""
    class Double(torch.nn.Module):
        def forward(self, x):
            y = x + 1
            writing.ops.double(y)
            return y

    torch.export.save(torch.export.export(Double(), (torch.ones(3),)), str(tmp_path / "double.pt2"))
    done = subprocess.run([str(BIN / "ingot"), "compile", str(tmp_path / "double.pt2"), "-o", str(tmp_path / "double.ingot")], capture_output=True, text=True)
    assert done.returncode != 0 and "writing" in done.stderr and "custom operators need Python" in done.stderr


REFUSED = {
    "another tensor than its schema says": ("schema-alias", lambda x: torch.ops.writing_plain.wrong(x, x * 2) + 1),
    "a number": ("gives a number back", lambda x: torch.ops.writing_plain.counted(x, x * 2)[0] + x),
}


@pytest.mark.parametrize("name", REFUSED)
def test_is_refused_by_name(ingot, name):
    why, function = REFUSED[name]
    step = ingot.compile(function, wait=True)
    check_all(ingot, step, function, writing._one, (4, 4))
    assert why in step.why_miss()


def test_what_an_operator_does_besides_is_done_once_in_each_call(ingot):
    """Also where a value is read behind it, which another call may find to be another."""
    def function(x):
        y = x * 2
        writing.ops.tell(y, "before")
        return y + 1 if y.sum() > 0 else y - 1

    step = ingot.compile(function, wait=True)
    for sign in (1, 1, -1, 1, -1, -1):
        check(outcome(step, [torch.ones(3) * sign]), outcome(function, [torch.ones(3) * sign]))


def test_arguments_of_a_call_that_are_one_tensor(ingot):
    """Native code was made for arguments that lie apart."""
    def function(x, y):
        writing.ops.shift(x, y)
        return x + y

    step = ingot.compile(function, wait=True)
    for _ in range(3):
        for make in (lambda: [torch.ones(3), torch.ones(3)], lambda: [torch.ones(3)] * 2, lambda: (lambda t: [t[:3], t[1:4]])(torch.ones(5))):
            check(outcome(step, copy.deepcopy(make())), outcome(function, copy.deepcopy(make())))


def test_arguments_that_come_to_share_memory_with_what_is_written(ingot):
    """Native code that was made for arguments that lie apart reads one of them when the other has been written."""
    def before(x, y):
        z = y * 1.5
        writing.ops.double(x)
        return z + y

    def behind(x, y):
        z = x * 2
        writing.ops.double(y)
        writing.ops.double(x[1:])
        return x - y + z

    def rows(first, second):
        whole = writing._rows(12)
        return [whole[first:first + 4], whole[second:second + 4]]

    for function in (before, behind):
        step, native = ingot.compile(function, wait=True), ingot.stats()["native_calls"]
        for first, second in ((0, 4), (0, 4), (0, 1), (1, 0), (4, 0), (0, 1)):
            check(outcome(step, rows(first, second)), outcome(function, rows(first, second)))
        assert ingot.stats()["native_calls"] >= native + 2, step.why_miss()


def test_what_an_operator_writes_is_of_another_version(ingot):
    """By which autograd finds what was changed since it was saved."""
    def function(x):
        writing.ops.double(x)
        return x + 1

    step = ingot.compile(function, wait=True)
    for _ in range(3):
        x = torch.ones(3)
        with torch.no_grad():
            step(x)
        assert x._version > 0
    assert ingot.stats()["native_calls"] >= 1, step.why_miss()


_attacked = torch.library.Library("attacked", "DEF")
_attacked.define("twice(Tensor(a!) x) -> ()")
_attacked.impl("twice", lambda x: (x.mul_(2), None)[1], "CompositeExplicitAutograd")
_attacked.define("into(Tensor(a!) out, Tensor y) -> ()")
_attacked.impl("into", lambda out, y: (out.resize_(y.shape), out.copy_(y), None)[2], "CompositeExplicitAutograd")
_attacked.define("add_length(Tensor(a!) x, str text) -> ()")
_attacked.impl("add_length", lambda x, text: (x.add_(len(text)), None)[1], "CompositeExplicitAutograd")
_attacked.define("add_to(Tensor(a!) x, Tensor y) -> ()")
_attacked.impl("add_to", lambda x, y: (x.add_(y), None)[1], "CompositeExplicitAutograd")


@pytest.mark.parametrize("count", [8, 24])
def test_many_of_them_at_sizes_that_vary(ingot, count):
    def chain(x):
        for _ in range(count):
            x = x * 0.75
            torch.ops.attacked.twice(x)
        return x

    chain.__qualname__ = f"chain of {count}"
    step, before = ingot.compile(chain, wait=True), ingot.stats()["native_calls"]
    for n in (4, 9, 5, 6, 7, 8, 4, 9):
        torch.testing.assert_close(step(torch.ones(n, 6)), chain(torch.ones(n, 6)))
    assert ingot.stats()["captures"] <= 3 and ingot.stats()["native_calls"] >= before + 5, step.why_miss()


def test_what_resizes_an_intermediate_is_eager_s_and_leaves_no_plan_as_it_was_not_made(ingot):
    def resizing(x):
        out = torch.empty(4, 6)
        torch.ops.attacked.into(out, x.sum(1, keepdim=True).expand(x.shape))
        return (out + 1).sum()

    step, before = ingot.compile(resizing, wait=True), ingot.stats()["native_calls"]
    for n in (4, 4, 9, 9, 2000, 2000, 3, 4):
        torch.testing.assert_close(step(torch.ones(n, 6)), resizing(torch.ones(n, 6)))
    assert ingot.stats()["native_calls"] >= before + 2


def test_a_text_may_be_empty(ingot):
    def named(x):
        y = x * 1
        torch.ops.attacked.add_length(y, "")
        torch.ops.attacked.add_length(y, "abc")
        return y

    step, before = ingot.compile(named, wait=True), ingot.stats()["native_calls"]
    for _ in range(3):
        assert torch.equal(step(torch.ones(3)), torch.full((3,), 4.0))
    assert ingot.stats()["native_calls"] == before + 2, step.why_miss()


def test_elements_that_lie_in_one_place_are_refused_by_name(ingot):
    def expanded(x, y):
        torch.ops.attacked.add_to(x[0], y[0])
        return x + y

    step = ingot.compile(expanded, wait=True)
    for _ in range(3):
        x = torch.ones(1, 6).expand(4, 6)
        assert torch.equal(step(x, torch.ones(4, 6)), torch.full((4, 6), 3.0))
    assert "names an element of memory twice" in step.why_miss()


@torch.library.custom_op("attacked::below", mutates_args=())
def below(x: torch.Tensor, limit: float) -> torch.Tensor:
    if x.max().item() > limit:
        raise ArithmeticError(f"more than {limit}")
    return x * 2


def _large_where_even(n):
    return [writing._rows(n).clamp(-2, 2) + (0 if n % 2 else 90)]


@contextlib.contextmanager
def _own_context(x):
    try:
        yield
    finally:
        x.add_(1000)


class _OwnContext:
    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        return kind is ArithmeticError


def excepts(x):
    try:
        writing.ops.picky(x, 50.0)
    except ArithmeticError:
        return x - 7
    return x + 1


def excepts_in_a_caller(x):
    def helper(y):
        with torch.no_grad():
            return [writing.ops.picky(one, 50.0) for one in (y, y)]

    try:
        helper(x)
    except (TypeError, ArithmeticError):
        x.fill_(3)
    return x * 2


def excepts_around_a_context(x):
    try:
        with contextlib.nullcontext(), torch.no_grad():
            writing.ops.picky(x, 50.0)
    except ArithmeticError:
        x.fill_(3)
    return x * 2


def excepts_around_a_generator(x):
    def each():
        for one in (x, x + 1):
            writing.ops.picky(one, 50.0)
            yield one * 2

    try:
        return sum(each())
    except ArithmeticError:
        return x * 5


def finally_writes(x):
    try:
        writing.ops.picky(x, 50.0)
    finally:
        x.mul_(10)
    return x + 1


def suppresses(x):
    with contextlib.suppress(ArithmeticError):
        writing.ops.picky(x, 50.0)
    return x + 1


def in_a_context_of_its_own(x):
    with _own_context(x):
        writing.ops.picky(x, 50.0)
    return x + 1


def in_an_object_s_context(x):
    with _OwnContext():
        writing.ops.picky(x, 50.0)
    return x + 1


def excepts_what_only_computes(x):
    x.add_(1)
    try:
        y = torch.ops.attacked.below(x, 50.0)
    except ArithmeticError:
        y = x * 0
    x.add_(1)
    return y


@pytest.mark.parametrize("function", [excepts, excepts_in_a_caller, excepts_around_a_context, excepts_around_a_generator, finally_writes, suppresses,
                                      in_a_context_of_its_own, in_an_object_s_context, excepts_what_only_computes])
def test_what_handles_an_exception_gets_it(ingot, function):
    """A native call could neither go on in the handler, nor begin anew when something has been written."""
    step = ingot.compile(function, wait=True)
    check_all(ingot, step, function, _large_where_even, (5, 5, 4, 4, 7, 5, 4))
    assert "custom-op-handled" in step.why_miss()


def in_contexts_of_torch(x):
    with torch.no_grad(), contextlib.nullcontext(), torch.set_grad_enabled(False):
        writing.ops.picky(x, 50.0)
        return x + 1


def in_a_generator(x):
    def each():
        for factor in (1, 2):
            writing.ops.picky(x, 50.0)
            yield x * factor

    return sum(each())


def behind_a_handler(x):
    try:
        y = x + len(x.shape)
    except ArithmeticError:
        y = x
    writing.ops.picky(y, 50.0)
    return x + y


def excepts_where_nothing_is_written(x):
    try:
        return torch.ops.attacked.below(x, 50.0) + 1
    except ArithmeticError:
        return x * 0


class _Picky(torch.nn.Module):
    def __init__(self, **hook):
        super().__init__()
        self.register_forward_hook(self.done, **hook)

    @staticmethod
    def done(module, args, result):
        return None if result is None else result * 2

    def forward(self, x):
        writing.ops.picky(x, 50.0)
        return x + 1


_hooked = _Picky()


def of_a_module_with_a_hook(x):
    return _hooked(x) * 2


@pytest.mark.parametrize("function", [in_contexts_of_torch, in_a_generator, behind_a_handler, excepts_where_nothing_is_written,
                                      of_a_module_with_a_hook])
def test_what_handles_no_exception_keeps_nothing_from_being_native(ingot, function):
    step, before = ingot.compile(function, wait=True), ingot.stats()["native_calls"]
    check_all(ingot, step, function, _large_where_even, (5, 5, 4, 5, 4, 5))
    assert ingot.stats()["native_calls"] >= before + 3, step.why_miss()


def test_a_hook_that_is_always_called_hears_of_an_exception(ingot):
    module = _Picky(always_call=True)
    step = ingot.compile(lambda x: module(x) * 2, wait=True)
    check_all(ingot, step, lambda x: module(x) * 2, _large_where_even, (5, 5, 4, 5))
    assert "custom-op-handled" in step.why_miss()


@torch.library.custom_op("attacked::hear", mutates_args=("x",))
def hear(x: torch.Tensor) -> None:
    x.add_(1 if torch.is_grad_enabled() else 2)
    x.mul_(3 if torch.is_inference_mode_enabled() else 5)


@torch.library.custom_op("attacked::heard", mutates_args=())
def heard(x: torch.Tensor) -> torch.Tensor:
    return x + (1 if torch.is_grad_enabled() else 2) + (10 if torch.is_inference_mode_enabled() else 20)


def hears(x):
    torch.ops.attacked.hear(x)
    return torch.ops.attacked.heard(x) * 2


def hears_its_own_mode(x):
    with torch.no_grad():
        torch.ops.attacked.hear(x)
        y = torch.ops.attacked.heard(x)
    return y * 2


def hears_that_gradients_are_on(x):
    with torch.enable_grad():
        torch.ops.attacked.hear(x)
        return torch.ops.attacked.heard(x) * 2


def hears_its_own_inference(x):
    with torch.inference_mode():
        y = torch.ops.attacked.heard(x)
        torch.ops.attacked.hear(y)
        return y * 2


def hears_two_modes(x):
    torch.ops.attacked.hear(x)
    with torch.no_grad():
        return torch.ops.attacked.heard(x)


def hears_an_inference_apart(x):
    with torch.inference_mode():
        y = torch.ops.attacked.heard(x)
    return x * 2 + y.sum().item()


@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("function", [hears, hears_its_own_mode, hears_that_gradients_are_on, hears_its_own_inference, hears_two_modes, hears_an_inference_apart])
def test_an_operator_hears_the_mode_of_autograd_that_eager_has(ingot, function, mode):
    step, before = ingot.compile(function, wait=True), ingot.stats()["native_calls"]
    for _ in range(4):
        x, y = torch.ones(3), torch.ones(3)
        with mode():
            found, wanted = step(x), function(y)
        assert torch.equal(found, wanted) and torch.equal(x, y) and found.is_inference() == wanted.is_inference()
    is_native = ingot.stats()["native_calls"] > before
    assert is_native or "custom-op-modes" in step.why_miss(), step.why_miss()
    assert is_native or function not in (hears, hears_its_own_mode)


def test_one_function_in_each_mode_in_turn(ingot):
    step, before = ingot.compile(hears, wait=True), ingot.stats()["native_calls"]
    for mode in (torch.no_grad, torch.enable_grad, torch.inference_mode) * 3:
        x, y = torch.ones(3), torch.ones(3)
        with mode():
            assert torch.equal(step(x), hears(y)) and torch.equal(x, y)
    assert ingot.stats()["native_calls"] >= before + 6


_attacked.define("descend(Tensor(a!) w, Tensor x) -> ()")


@functools.partial(_attacked.impl, "descend", dispatch_key="CPU")
def _descend(w, x):
    with torch.enable_grad():
        tracked = w.detach().clone().requires_grad_()
        gradient, = torch.autograd.grad((x @ tracked).square().sum(), tracked)
    w.sub_(gradient * 0.01)


@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad])
def test_an_operator_may_differentiate_by_itself(ingot, mode):
    def descends(w, x):
        torch.ops.attacked.descend(w, x)
        y = x @ w
        torch.ops.attacked.descend(w, x)
        return y + x @ w

    step, before = ingot.compile(descends, wait=True), ingot.stats()["native_calls"]
    for n in (4, 4, 5, 5, 4):
        args = [writing._rows(6, 3), writing._rows(n, 6)]
        with mode():
            found, wanted = outcome(step, copy.deepcopy(args)), outcome(descends, copy.deepcopy(args))
        check(found, wanted)
    assert ingot.stats()["native_calls"] >= before + 2, step.why_miss()
