# SPDX-License-Identifier: Apache-2.0
"""Deferred recordings: the steps of a run that computes nothing, and its results once somebody asks for them."""

import itertools
import re

import pytest
import torch
import torch.nn.functional as F

from op_cases import FAMILIES, Inputs
from recorded import Run, leaves, parts, record  # noqa: F401  (fixtures)
from test_values import inputs

# PyTorch's meta kernels give these other strides than the CPU's, for inputs that are not contiguous or sizes of one. The
# daemon then proves nothing, and a run that computes takes the place of the deferred one.
ELSEWHERE = {f"aten.{op}" for op in ("batch_norm", "log_sigmoid", "logical_and", "logical_or", "logical_xor")}
TYPES = ("float32", "bfloat16", "int64", "bool")


@pytest.fixture
def defer(parts):
    with torch.no_grad():
        yield lambda fn, *tensors, above=0: Run(parts, fn, *tensors, deferred_above=above)


def same(got, want):
    torch.testing.assert_close(list(leaves(got)), list(leaves(want)), rtol=0, atol=0, equal_nan=True)


def recorded(run, without_strides=False):
    """A recording without its times."""
    decoded = run.decode()
    values = [{**value, "strides": None} if without_strides else value for value in decoded["values"]]
    return {**decoded, "eager_ns": 0, "values": values, "steps": [{**step, "eager_ns": 0} for step in decoded["steps"]]}


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("family", FAMILIES)
def test_every_operator_gives_the_steps_of_a_run_and_then_its_values(family, dtype, record, defer):
    for place in (lambda t: t, lambda t: t.t().contiguous().t()):
        given = inputs(dtype, (5, 9), 3, wild=False, place=place)
        full = [t for t in given if t.numel() > 0]
        for case in FAMILIES[family]:
            if dtype not in case.types:
                continue

            def fn(*tensors):
                # Of two steps the second needs what the first has not computed.
                return case.call(Inputs(*(t.clone() if t.dim() == 2 else t for t in tensors)))

            try:
                ran = record(fn, *full)
            except RuntimeError:
                continue  # Not every layout has every view.
            deferred = defer(fn, *full)
            assert ran.refusal == deferred.refusal, case.name
            if ran.refusal is not None:
                continue
            deferred.recorder.complete_if_kept()
            try:
                same(deferred.result, ran.result)
            except AssertionError as e:
                raise AssertionError(f"{case.name}: {e}") from None
            assert recorded(deferred, case.op in ELSEWHERE) == recorded(ran, case.op in ELSEWHERE), case.name


ORDINARY = {
    **{fn.__name__: lambda x, y, fn=fn: fn(x) for fn in (F.gelu, F.silu, F.relu, torch.tanh, torch.sigmoid, torch.exp, torch.neg,
                                                         torch.rsqrt, torch.sin, torch.cos)},
    "add": lambda x, y: x + y, "add scaled": lambda x, y: torch.add(x, y, alpha=2), "add a number": lambda x, y: x + 2,
    "number first": lambda x, y: 2.5 + x, "sub": lambda x, y: x - y, "number less": lambda x, y: 2 - x, "mul": lambda x, y: x * y,
    "mul by a number": lambda x, y: x * 2.5, "mul by itself": lambda x, y: x * x, "div": lambda x, y: x / y, "div by a number": lambda x, y: x / 3,
    "linear": lambda x, y: F.linear(x, y), "linear with bias": lambda x, y: F.linear(x, y, y[0]),
    "layer norm": lambda x, y: F.layer_norm(x, x.shape[-1:]), "layer norm of all": lambda x, y: F.layer_norm(x, x.shape),
    "layer norm with weights": lambda x, y: F.layer_norm(x, x.shape[-1:], y, y),
    "embedding": lambda x, y: F.embedding(y.long() % 2, x), "embedding by int": lambda x, y: F.embedding(y.int() % 2, x),
}
PLACES = {
    "contiguous": lambda dtype: torch.rand(2, 4, 4).to(dtype), "a matrix": lambda dtype: torch.rand(4, 4).to(dtype),
    "a row": lambda dtype: torch.rand(4).to(dtype), "no dims": lambda dtype: torch.tensor(2).to(dtype),
    "transposed": lambda dtype: torch.rand(4, 4).to(dtype).t(), "every second": lambda dtype: torch.rand(4, 8).to(dtype)[:, ::2],
    "sizes of one": lambda dtype: torch.rand(4, 1, 4).to(dtype).as_strided((4, 1, 4), (4, 99, 1)),
    "repeated": lambda dtype: torch.rand(1, 4).to(dtype).expand(4, 4), "empty": lambda dtype: torch.rand(0, 4).to(dtype),
}


TYPE_PAIRS = (("float32", "float32"), ("bfloat16", "float32"), ("float16", "float16"), ("int64", "float64"), ("float64", "bool"))


@pytest.mark.parametrize("name", ORDINARY)
def test_common_operators_on_every_kind_of_argument(name, record, defer):
    """Results of these have rules of their own (client/native/trace/plain_results.cpp)."""
    compared = 0
    for first, second, (one, other) in itertools.product(PLACES, PLACES, TYPE_PAIRS):
        x, y = PLACES[first](getattr(torch, one)), PLACES[second](getattr(torch, other))
        try:
            ran = record(ORDINARY[name], x, y)
        except (RuntimeError, IndexError):
            with pytest.raises((RuntimeError, IndexError)):
                deferred = defer(ORDINARY[name], x, y)
                deferred.recorder.complete_if_kept()  # Some errors are the kernel's.
            continue
        deferred = defer(ORDINARY[name], x, y)
        # PyTorch's shape functions and its kernels differ in strides there.
        is_odd = {first, second} & {"sizes of one", "repeated"}
        assert recorded(deferred, is_odd) == recorded(ran, is_odd), (first, second, one, other)
        deferred.recorder.complete_if_kept()
        same(deferred.result, ran.result)
        compared += 1
    assert compared > 10, compared


def model(x, w, b):
    x = F.layer_norm(F.linear(x, w, b), (16,), b, b)
    q, k, v = F.linear(x, torch.cat([w, w, w])).view(2, 6, 3, 4, 4).permute(2, 0, 3, 1, 4)
    return F.gelu(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(2, 6, 16)) + x


def test_a_model_is_computed_only_when_its_answer_is_kept(defer, record):
    tensors = torch.randn(2, 6, 16), torch.randn(16, 16), torch.randn(16)
    deferred, ran = defer(model, *tensors), record(model, *tensors)
    assert recorded(deferred) == recorded(ran)
    assert deferred.recorder.complete_if_kept()
    same(deferred.result, ran.result)
    deferred = defer(model, *tensors)
    del deferred.result
    assert not deferred.recorder.complete_if_kept()


@pytest.mark.parametrize("keep", [lambda y: y, lambda y: y.t()[1:], lambda y: y.view(-1), lambda y: y.detach(), lambda y: y.unbind()[0]],
                         ids=["itself", "transposed", "flat", "detached", "row"])
def test_what_the_function_keeps_is_computed(defer, keep):
    x, cache = torch.randn(4, 4), []

    def fn(x):
        y = x @ x
        cache.append(keep(y))
        return y.exp()

    run = defer(fn, x)
    del run.result
    assert run.recorder.complete_if_kept()
    same(cache[0], keep(x @ x))
    assert not run.recorder.complete_if_kept()


def test_numbers_that_python_reads_are_computed(defer, record):
    def fn(x):
        y = (x @ x).relu()
        return y * 2 if y.sum() > 0 else y - int(y.argmax())

    for x in (torch.ones(3, 3), -torch.eye(3)):
        run, ran = defer(fn, x), record(fn, x)
        assert recorded(run) == recorded(ran)
        run.recorder.complete_if_kept()
        same(run.result, ran.result)


def test_sizes_that_depend_on_elements_are_computed(defer, record):
    def fn(x):
        y = (x @ x).relu()
        return y[y > 1], y.nonzero()

    x = torch.randn(5, 5)
    run, ran = defer(fn, x), record(fn, x)
    assert recorded(run) == recorded(ran)
    same(run.result, ran.result)


def test_random_numbers_are_drawn_in_order(defer):
    def fn(x):
        y = F.dropout(x @ x, 0.5, training=True)
        return y + torch.rand_like(y)

    x = torch.randn(8, 8)
    torch.manual_seed(0)
    run = defer(fn, x)
    run.recorder.complete_if_kept()
    torch.manual_seed(0)
    same(run.result, fn(x))
    after = torch.rand(1)
    torch.manual_seed(0)
    fn(x)
    same(after, torch.rand(1))


def test_a_dropout_outside_training_is_its_argument(defer, record):
    def fn(x):
        return F.dropout(x @ x, 0.5, training=False) + 1

    x = torch.randn(4, 4)
    run = defer(fn, x)
    assert recorded(run) == recorded(record(fn, x))
    run.recorder.complete_if_kept()
    same(run.result, fn(x))


def test_what_a_step_reads_is_not_overtaken_by_a_write(defer):
    x = torch.randn(4, 4)
    before = x.clone()

    def fn(x):
        y = x @ x
        x.add_(1)
        return y, x @ x

    run = defer(fn, x)
    same(x, before)  # Memory of others is left alone ...
    run.recorder.complete_if_kept()
    want = before.clone()
    y, z = fn(want)
    same((x, run.result[0], run.result[1]), (want, y, z))  # ... until the run is completed.


def test_writes_into_others_are_dropped_with_the_run(defer):
    x, buffer = torch.randn(4, 4), torch.zeros(4, 4)

    def fn(x):
        buffer.copy_(x @ x)
        return buffer + 1

    run = defer(fn, x)
    del run.result
    assert not run.recorder.complete_if_kept()
    same(buffer, torch.zeros(4, 4))


def test_writes_into_views_of_what_is_not_computed(defer):
    def fn(x):
        y = x @ x
        y[1:].mul_(2)
        y.t()[0] = 5
        return y.reshape(-1), y.sum(0)

    x = torch.randn(4, 4)
    run = defer(fn, x)
    run.recorder.complete_if_kept()
    same(run.result, fn(x))


@pytest.mark.parametrize("escape", [lambda y: y.numpy().sum(), lambda y: y.tolist(), lambda y: repr(y), lambda y: y.data_ptr()],
                         ids=["numpy", "tolist", "repr", "data_ptr"])
def test_memory_that_escapes_is_computed_first(defer, escape):
    found = []

    def fn(x):
        y = x @ x
        found.append((y, escape(y)))
        return y + 1

    x = torch.ones(9, 9)
    run = defer(fn, x)
    assert run.refusal is not None and run.refusal.startswith("escape-")
    same(run.result, x @ x + 1)
    y, seen = found[0]
    same(y, x @ x)
    if not isinstance(seen, int):
        assert str(seen) == str(escape(x @ x))


def test_errors_are_the_operators_own(defer):
    def fn(x):
        y = x @ x
        return y @ torch.zeros(3, 3)

    with pytest.raises(RuntimeError, match=re.escape("mat1 and mat2 shapes cannot be multiplied (4x4 and 3x3)")):
        defer(fn, torch.randn(4, 4))


def test_results_of_another_size_are_computed(defer):
    def fn(x):
        y, out = x @ x, torch.empty(0)
        return torch.exp(y, out=out)

    x = torch.randn(4, 4)
    run = defer(fn, x)
    assert run.refusal == "metadata-change"
    same(run.result, (x @ x).exp())


def test_layouts_that_kernels_choose(defer, record):
    def fn(x, w):
        y = F.conv2d((x * 2).to(memory_format=torch.channels_last), w, padding=1)
        return F.scaled_dot_product_attention(y, y, y, is_causal=True)

    tensors = torch.randn(2, 3, 8, 8), torch.randn(4, 3, 3, 3)
    run, ran = defer(fn, *tensors), record(fn, *tensors)
    assert recorded(run) == recorded(ran)
    run.recorder.complete_if_kept()
    same(run.result, ran.result)


def test_what_is_cheap_runs_at_once(defer):
    seen = []

    def fn(x, ids):
        mask = (ids > 3).all()
        seen.append(bool(mask))
        return (x @ x) * ids[0]

    x, ids = torch.randn(40, 40), torch.arange(4, 8)
    run = defer(fn, x, ids, above=100)
    assert seen == [True]
    del run.result
    assert not run.recorder.complete_if_kept()


def test_the_users_torch_functions_see_no_meta_kernel(defer):
    names = []

    class Log(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            names.append(func.__name__)
            return func(*args, **(kwargs or {}))

    x = torch.randn(4, 4)
    with Log():
        run = defer(lambda x: F.layer_norm(F.gelu(x @ x), (4,)), x)
    assert [name for name in names if name in ("matmul", "gelu", "layer_norm", "empty_strided", "broadcast_tensors")] in (
        [], ["matmul", "gelu", "layer_norm"])
    assert run.refusal is None


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_every_mode_without_gradients(parts, mode):
    tensors = torch.randn(2, 6, 16), torch.nn.Parameter(torch.randn(16, 16)), torch.nn.Parameter(torch.randn(16))
    with mode():
        deferred, ran = Run(parts, model, *tensors, deferred_above=0), Run(parts, model, *tensors)
        assert recorded(deferred) == recorded(ran)
        assert deferred.recorder.complete_if_kept()
        same(deferred.result, ran.result)
        deferred = Run(parts, model, *tensors, deferred_above=0)
        del deferred.result
        assert not deferred.recorder.complete_if_kept()
        assert torch.is_inference_mode_enabled() == ran.result.is_inference()


def test_a_recording_with_gradients_is_refused_and_computed(parts):
    weight = torch.randn(4, 4, requires_grad=True)
    run = Run(parts, lambda x: (x @ x) @ weight, torch.randn(4, 4), deferred_above=0)
    assert run.refusal == "requires-grad" and run.result.requires_grad
    run.result.sum().backward()
    assert weight.grad is not None
