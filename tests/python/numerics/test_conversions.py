# SPDX-License-Identifier: Apache-2.0
"""Numbers in memory that become numbers of another type: PyTorch raises for those that do not fit, whoever uses the result."""

import pytest
import torch

MASK = torch.tensor([True, False, True])
FILLS = {
    "masked_fill": lambda x, value: x.masked_fill(MASK, value) + 0,
    "nothing is filled": lambda x, value: x.masked_fill(~MASK & MASK, value) + 0,
    "unused": lambda x, value: (x.masked_fill(MASK, value), x + x)[1],
    "in place": lambda x, value: x.masked_fill_(MASK, value),
    "of a result": lambda x, value: (x + x).masked_fill_(MASK, value),
}
VALUES = [torch.tensor(number, dtype=dtype)
          for dtype in (torch.float64, torch.float32, torch.bfloat16) for number in (2.0, -3.5, 300.0, 7e4, 1e10, 1e300, float("inf"), float("nan"))] + \
    [torch.tensor(number, dtype=dtype) for dtype in (torch.int64, torch.int32) for number in (2, -1, 300, -300, 70000)] + [torch.tensor(2**40), torch.tensor(True)]


def outcome(function, *args):
    try:
        return function(*args)
    except RuntimeError as error:
        return str(error).splitlines()[0]


@pytest.mark.parametrize("dtype", (torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int8, torch.uint8, torch.bool))
@pytest.mark.parametrize("name", FILLS)
def test_a_filled_number_fits_or_is_refused_as_by_eager(ingot, name, dtype):
    step = ingot.compile(FILLS[name], wait=True, config=ingot.Config(agree="off"))
    with torch.no_grad():
        for value in VALUES:
            wanted = outcome(FILLS[name], torch.ones(3, dtype=dtype), value)
            for _ in range(2):
                found = outcome(step, torch.ones(3, dtype=dtype), value)
                if isinstance(wanted, str):   # Of what is written in place more is said.
                    assert str(found).startswith(wanted), value
                else:
                    assert torch.equal(found.nan_to_num(7), wanted.nan_to_num(7)), value
    assert ingot.stats()["native_calls"] > 0
