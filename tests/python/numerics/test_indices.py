# SPDX-License-Identifier: Apache-2.0
"""Indices read from a tensor: native code takes those that eager takes, and eager's exception reaches the user for the others."""

import pytest
import torch

aten = torch.ops.aten

CASES = {
    "index": lambda x, i: x[i] + 1,
    "index_of_two_dims": lambda x, i: x[i, i - i] + 1,
    "index_select": lambda x, i: aten.index_select(x, 0, i) + 1,
    "gather": lambda x, i: aten.gather(x, 0, i[:, None]) + 1,
    "embedding": lambda x, i: aten.embedding(x, i) + 1,
    "rows_of_index": lambda x, i: x[i][1:3] + 1,
    "columns_of_embedding": lambda x, i: aten.embedding(x, i)[:, 1:] + 1,
    "part_of_cat": lambda x, i: torch.cat([x, x[i]])[:-1] + 1,
}
UNUSED = {
    "index": lambda x, i: (x[i], x * 2)[1],
    "index_and_embedding": lambda x, i: (x[i] + 1, aten.embedding(x, i), x * 2)[2],
    "gather_into_unused": lambda x, i: (torch.relu(aten.gather(x, 0, i[:, None])), x * 2)[1],
    "scatter": lambda x, i: (x[:, 0].scatter(0, i.long(), 1.0), x * 2)[1],
    "division": lambda x, i: (7 // i, x * 2)[1],
    "remainder": lambda x, i: (i % i, x * 2)[1],
    "sorter": lambda x, i: (torch.searchsorted(x[:, 0].contiguous(), x[0], sorter=torch.cat([i, i[:1]])), x * 2)[1],
    "window": lambda x, i: (torch.istft(torch.ones(5, 4, dtype=torch.cfloat), 8, 2, window=(i[1] != 0) * torch.ones(8)), x * 2)[1],
    "all_overwritten": lambda x, i: torch.slice_scatter(aten.gather(x, 0, i[:, None].expand(4, 3)), torch.ones(4, 3), 0, 0, 4),
}
ROWS = 5


def result_or_error(function, *args):
    """What a call gives; an exception as its type and message."""
    try:
        return function(*args).tolist()
    except (IndexError, RuntimeError) as error:
        return type(error), str(error).splitlines()[0]


@pytest.fixture(autouse=True)
def without_gradients():
    with torch.no_grad():
        yield


@pytest.mark.parametrize("dtype", (torch.int32, torch.int64))
@pytest.mark.parametrize("name", CASES)
def test_native_code_refuses_what_eager_refuses(ingot, name, dtype):
    function = CASES[name]
    x, good = torch.randn(ROWS, 3), torch.tensor([4, 0, 2, 1], dtype=dtype)
    step = ingot.compile(function, wait=True, on_unsupported="error")
    step(x, good)
    for value in (0, ROWS - 1, -1, -ROWS, ROWS, -ROWS - 1, 2**31 - 1, -2**31):
        for at in (0, 3):
            index = good.clone()
            index[at] = value
            want = result_or_error(function, x, index)
            before = ingot.stats()["native_calls"]
            assert result_or_error(step, x, index) == want, (value, at)
            served = ingot.stats()["native_calls"] - before
            assert served == isinstance(want, list), (value, at, step.report())
    assert [v["aten_steps"] for v in step.variants] == [0], step.as_text("plan")


@pytest.mark.parametrize("name", UNUSED)
def test_what_eager_refuses_is_refused_where_nobody_uses_it(ingot, name):
    function = UNUSED[name]
    x, good = torch.randn(ROWS, 3), torch.tensor([4, 3, 2, 1])
    step = ingot.compile(function, wait=True, on_unsupported="error")
    step(x, good)
    for value in (0, ROWS - 1, -1, ROWS, -ROWS - 1):
        index = good.clone()
        index[1] = value
        want = result_or_error(function, x, index)
        before = ingot.stats()["native_calls"]
        assert result_or_error(step, x, index) == want, value
        assert ingot.stats()["native_calls"] - before == isinstance(want, list), (value, step.report())


@pytest.mark.filterwarnings("ignore:indexing with dtype torch.uint8")
@pytest.mark.parametrize("dtype", (torch.uint8, torch.bool))
def test_bytes_are_a_mask(ingot, dtype):
    def masked(x, mask):
        return x[mask] * 2

    x = torch.randn(ROWS, 3)
    step = ingot.compile(masked, wait=True)
    for rows in ([1, 0, 1, 0, 1], [1, 0, 1, 0, 1], [0, 1, 0, 1, 1], [0, 0, 0, 1, 0]):
        mask = torch.tensor(rows, dtype=dtype)
        assert step(x, mask).tolist() == masked(x, mask).tolist()
    assert "aten::index.Tensor" in step.as_text("plan"), step.as_text("plan")
