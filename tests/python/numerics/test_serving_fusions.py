# SPDX-License-Identifier: Apache-2.0
"""What serving code writes between products becomes few kernels: how many, and none of PyTorch's operators."""

import pytest
import torch
import torch.nn.functional as F


def rms(x, w):
    wide = x.float()
    return w * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


def quantized(x, scale):
    return torch.clamp(torch.round(x / scale), -128, 127).to(torch.int8)


def turned(x):
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), -1)


def rope(x, cos, sin):
    return x * cos[:, None] + turned(x) * sin[:, None]


def norm_then_quantize(x, r, w, scale):
    total = x + r
    return quantized(rms(total, w), scale), total


def silu_mul_then_quantize(gate, up, scale):
    return quantized(F.silu(gate) * up, scale)


def norm_then_rope(q, k, qw, kw, cos, sin):
    batch, tokens, size = *q.shape[:2], qw.shape[0]
    q = rms(q.view(batch, tokens, 4, size), qw).transpose(1, 2)
    k = rms(k.view(batch, tokens, 2, size), kw).transpose(1, 2)
    return rope(q, cos, sin), rope(k, cos, sin)


def rope_then_cache(q, k, v, keys, values, cos, sin):
    keys[:, :, 3:3 + k.shape[2]] = rope(k, cos, sin)
    values[:, :, 3:3 + v.shape[2]] = v
    return rope(q, cos, sin)


def norm_rope_then_cache(q, k, v, qw, kw, cos, sin, keys, values, at):
    """A layer of Qwen3 before its attention."""
    batch, tokens, size = *q.shape[:2], qw.shape[0]
    q = rms(q.view(batch, tokens, 4, size), qw).transpose(1, 2)
    k = rms(k.view(batch, tokens, 2, size), kw).transpose(1, 2)
    keys.index_copy_(2, at, rope(k, cos, sin))
    values.index_copy_(2, at, v.view(batch, tokens, 2, size).transpose(1, 2))
    return rope(q, cos, sin)


CASES = [
    (norm_then_quantize, [(6, 64), (6, 64), (64,), ()], 1, 0),
    (silu_mul_then_quantize, [(6, 64), (6, 64), ()], 1, 0),
    (norm_then_rope, [(2, 8, 64), (2, 8, 32), (16,), (16,), (2, 8, 16), (2, 8, 16)], 2, 0),
    # The caches are written where they lie.
    (rope_then_cache, [(2, 4, 3, 16), (2, 2, 3, 16), (2, 2, 3, 16), (2, 2, 20, 16), (2, 2, 20, 16), (2, 3, 16), (2, 3, 16)], 3, 0),
    (norm_rope_then_cache, [(2, 3, 64), (2, 3, 32), (2, 3, 32), (16,), (16,), (2, 3, 16), (2, 3, 16), (2, 2, 20, 16), (2, 2, 20, 16), [4, 9, 2]], 3, 0),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("function, sizes, kernels, copies", CASES, ids=[case[0].__name__ for case in CASES])
def test_kernels(ingot, function, sizes, kernels, copies, dtype):
    torch.manual_seed(0)
    args = [torch.tensor(size) if isinstance(size, list) else torch.randn(*size).to(dtype) if size else torch.tensor(0.05) for size in sizes]
    given, expected = [value.clone() for value in args], [value.clone() for value in args]
    step = ingot.compile(function, wait=True)
    with torch.no_grad():
        step(*[value.clone() for value in args])
        got, wanted = step(*given), function(*expected)
    counts = step.variants[-1]
    assert counts["aten_steps"] == 0 and counts["native_steps"] <= kernels and counts["copy_steps"] <= copies, step.as_text("plan")
    for one, other in zip([*given, *(got if isinstance(got, tuple) else [got])], [*expected, *(wanted if isinstance(wanted, tuple) else [wanted])]):
        # A value between two steps of the quantisation falls to either.
        tolerance = {"rtol": 0, "atol": 1} if one.dtype is torch.int8 else {"rtol": 2e-2, "atol": 2e-2} if dtype is torch.bfloat16 else {}
        torch.testing.assert_close(one, other, **tolerance)
