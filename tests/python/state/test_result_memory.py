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


@pytest.mark.parametrize("make", [lambda: torch.tensor(2), lambda: torch.tensor([2, 3, 4]), lambda: torch.tensor([[1.0, 2.0]])])
def test_views_of_one_constant_share_its_memory(ingot, make):
    def function(x):
        table = make()
        return table, table.squeeze(-1), table.reshape(-1)[:1], x + table.reshape(-1)[0], table

    def both(x):
        table = make()
        table.reshape(-1)[0] += 1
        return table.view_as(table), x * table, table

    step, _, first = served(ingot, function, lambda: [torch.ones(3)])
    again = step(torch.ones(3))
    assert [r.tolist() for r in first] == [r.tolist() for r in function(torch.ones(3))]
    assert first[0] is first[4]
    for result in (first, again):
        assert len({r.untyped_storage().data_ptr() for r in result}) == 2
        result[0].zero_()
        assert result[2].item() == 0
    assert first[0] is not again[0]
    _, _, (seen, product, table) = served(ingot, both, lambda: [torch.ones(1)])
    want = both(torch.ones(1))
    assert [r.tolist() for r in (seen, product, table)] == [r.tolist() for r in want]
    assert seen.untyped_storage().data_ptr() == table.untyped_storage().data_ptr() != product.untyped_storage().data_ptr()


@pytest.mark.parametrize("view", [lambda a: a.unfold(0, 2, 1), lambda a: a[None].expand(3, 4), lambda a: a.as_strided((3, 2), (1, 1))])
def test_a_write_to_a_part_of_a_view_that_overlaps_itself_reaches_every_place(ingot, view):
    def function(x):
        base = x + 0
        part = view(base)
        part[1].add_(1)
        return part.clone(), base

    step = ingot.compile(function, wait=True)
    for _ in range(3):
        result, want = step(torch.arange(4.0)), function(torch.arange(4.0))
        assert [r.tolist() for r in result] == [r.tolist() for r in want]


def test_a_write_that_reads_what_it_writes_is_as_eager_makes_it(ingot):
    def scalar(x):
        y = x.clone()
        y[:, 1] += y[0, 1]
        return y

    def rows(x):
        y = x.clone()
        y[:, 1:].add_(y[:, :-1])
        return y

    for function in (scalar, rows):
        step = ingot.compile(function, wait=True)
        for _ in range(3):
            assert step(torch.arange(12.0).reshape(3, 4)).tolist() == function(torch.arange(12.0).reshape(3, 4)).tolist()


def test_a_write_may_read_other_parts_of_its_memory(ingot):
    def function(x):
        y = x.clone()
        y[:, :2].mul_(y[:, 2:])
        y[0::2].add_(y[1::2])
        y.mul_(y)
        return y

    _, _, result = served(ingot, function, lambda: [torch.arange(16.0).reshape(4, 4)])
    assert result.tolist() == function(torch.arange(16.0).reshape(4, 4)).tolist()


def test_an_expanded_constant_is_given_away_expanded(ingot):
    table = torch.arange(3.0)

    def function(x):
        return torch.tensor(0.5).expand(x.shape), torch.tensor([1.0, 2.0])[:, None].expand(2, 4), x + 1

    _, (x,), result = served(ingot, function, lambda: [table.clone()])
    for got, want in zip(result, function(x)):
        assert got.tolist() == want.tolist() and got.stride() == want.stride()


def test_a_copy_in_another_format_of_one_pixel_is_memory_of_its_own(ingot):
    """Channels last of one channel and one pixel lies like any other: the copy is of its operand's type."""
    def function(x):
        y = x.mean((2, 3), keepdim=True)
        return y, y.to(memory_format=torch.channels_last), x[:, :, :1, :1].to(torch.float32, memory_format=torch.channels_last)

    step = ingot.compile(function, wait=True)
    for rows in (2, 2, 3, 5):
        x = torch.ones(rows, 1, 4, 5)
        a, b, c = step(x)
        for copy in (b, c):
            copy.add_(1)
        assert a.flatten().tolist() == [1.0] * rows and bool((x == 1).all()), step.report()
    assert ingot.stats()["native_calls"] > 0
