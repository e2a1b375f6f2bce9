# SPDX-License-Identifier: Apache-2.0
"""Which objects results are, and whose memory they lie in: what a caller can tell without looking at a value."""

import pytest
import torch


@pytest.fixture(autouse=True)
def without_gradients():
    with torch.no_grad():
        yield


def served(ingot, function, make):
    """The compiled function, after a call that was recorded; its next one is native."""
    step = ingot.compile(function, wait=True)
    step(*make())
    before, args = ingot.stats()["native_calls"], make()
    result = step(*args)
    assert ingot.stats()["native_calls"] == before + 1, step.report()
    return step, args, result


def test_a_returned_argument_is_the_argument_and_a_view_of_it_is_not(ingot):
    def function(x):
        return x, x.view_as(x), x.detach(), x

    _, (x,), result = served(ingot, function, lambda: [torch.ones(3, 4)])
    assert [r is x for r in result] == [True, False, False, True]
    assert all(r.untyped_storage().data_ptr() == x.untyped_storage().data_ptr() for r in result)
    result[1].unsqueeze_(0)
    assert list(x.shape) == [3, 4]


def test_a_result_returned_twice_is_one_object_and_equal_ones_are_two(ingot):
    def function(x):
        y = x + 1
        return y, {"again": y}, x + 1

    _, _, (y, again, equal) = served(ingot, function, lambda: [torch.ones(3)])
    assert again["again"] is y and equal is not y
    y.zero_()
    assert equal.tolist() == [2, 2, 2]


def test_a_parameter_is_itself_and_a_view_of_it_is_new_at_each_call(ingot):
    module = torch.nn.Linear(3, 4)

    def function(x):
        return module.weight, module.weight.t(), module(x)

    step, _, first = served(ingot, function, lambda: [torch.ones(2, 3)])
    second = step(torch.ones(2, 3))
    assert first[0] is module.weight and second[0] is module.weight
    assert first[1] is not second[1] and first[1].data_ptr() == module.weight.data_ptr()
    first[1].unsqueeze_(0)
    assert list(step(torch.ones(2, 3))[1].shape) == [3, 4]


def test_a_view_that_no_rule_knows_leaves_the_call_to_eager(ingot):
    def function(x):
        return torch.view_as_complex(x)

    step, x = ingot.compile(function, wait=True), torch.ones(3, 2)
    for _ in range(3):
        assert step(x).untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    assert "shares memory" in step.report()


def test_an_exported_file_returns_the_argument_itself(ingot, tmp_path):
    def function(x, y):
        x.add_(y)
        return x, x[1:], y

    step, _, _ = served(ingot, function, lambda: [torch.ones(3), torch.ones(3)])
    step.export(str(tmp_path / "f.ingot"))
    x, y = torch.ones(3), torch.ones(3)
    result = ingot.load(str(tmp_path / "f.ingot"))(x, y)
    assert result[0] is x and result[2] is y and result[1].data_ptr() == x[1:].data_ptr()
    assert x.tolist() == [2, 2, 2]
