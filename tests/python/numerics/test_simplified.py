# SPDX-License-Identifier: Apache-2.0
"""What is simplified gives eager's answer."""

import pytest
import torch
import torch.nn.functional as F


def padded_conv(x, w, b):
    return F.conv2d(F.pad(x, (2, 2, 1, 1)), w, padding=1) + b[:, None, None]


def split_and_joined(x, w, b):
    first, second, third = x.split([1, 1, x.shape[1] - 2], 1)
    return torch.cat([first, second, third], 1) + torch.cat([torch.cat([third, first], 1), second], 1)


def part_of_cat(x, w, b):
    both = torch.cat([x, x.neg()], 1)
    return both[:, x.shape[1]:].exp() + both[:, :x.shape[1]], both[:, x.shape[1]:]


def transposed_there_and_back(x, w, b):
    y = x.permute(0, 2, 3, 1)
    return (F.silu(y) * y + 1).permute(0, 3, 1, 2), (y * b[:y.shape[-1]]).permute(0, 3, 1, 2)


def divided(x, w, b):
    return (x / 8).floor().floor() / -0.25, x / 3, F.pad(x, (0, 0)) / 4, x.repeat(1, 1, 1, 1) / 2


@pytest.mark.parametrize("function", [padded_conv, split_and_joined, part_of_cat, transposed_there_and_back, divided])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_simplified_programs(ingot, function, dtype):
    torch.manual_seed(0)
    args = [torch.randn(2, 3, 8, 9), torch.randn(5, 3, 3, 3), torch.randn(5)]
    args = [value.to(dtype) for value in args]
    step = ingot.compile(function, wait=True)
    with torch.no_grad():
        step(*args)
        before = ingot.stats()["native_calls"]
        got, expected = step(*args), function(*args)
    assert ingot.stats()["native_calls"] == before + 1
    tolerance = {} if function is not padded_conv else {"rtol": 3e-2, "atol": 6e-2} if dtype is torch.bfloat16 else {"rtol": 1e-4, "atol": 1e-4}
    torch.testing.assert_close(got, expected, **tolerance)
    for one, other in zip(*(value if isinstance(value, tuple) else (value,) for value in (got, expected))):
        assert one.stride() == other.stride()
