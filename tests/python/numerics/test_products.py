# SPDX-License-Identifier: Apache-2.0
"""Products of matrices and attention, natively, against what float64 operands give: no further from it than eager and a few digits."""

import pytest
import torch

TYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
F = torch.nn.functional


@pytest.fixture(autouse=True)
def without_gradients():
    with torch.no_grad():
        yield


def close(function, args, got):
    """Whether each result is as near to the exact one as eager's, or within a few digits of the largest sum."""
    want = function(*args)
    exact = function(*(a.double() if torch.is_tensor(a) and a.is_floating_point() else a for a in args))
    assert got.dtype == want.dtype and got.shape == want.shape and got.stride() == want.stride()
    error, eager = (got.double() - exact).abs(), (want.double() - exact).abs()
    slack = 8 * torch.finfo(got.dtype).eps * exact.abs().max() if exact.numel() else 0
    return bool((error <= 2 * eager + slack).all())


def mlp(x, gate, up, down):
    return F.linear(F.silu(F.linear(x, gate)) * F.linear(x, up), down) + x


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_layers_at_many_numbers_of_rows(ingot, dtype):
    torch.manual_seed(0)
    weights = [torch.randn(*size, dtype=dtype) / 8 for size in ((72, 40), (72, 40), (40, 72))]
    step = ingot.compile(mlp, wait=True, on_unsupported="error")
    for rows in (2, 1, 3, 5, 17, 64, 65, 130, 0):
        args = (torch.randn(rows, 40, dtype=dtype), *weights)
        step(*args)
        before = ingot.stats()["native_calls"]
        assert close(mlp, args, step(*args)), rows
        assert ingot.stats()["native_calls"] == before + 1, step.report()
    assert {v["aten_steps"] for v in step.variants} == {0}, step.as_text("plan")
    assert "contract 0: lanes k" in step.as_text("schedule")
    # Two products, as SiLU-mul is one: enough for the GIL to be given up, however small the inputs are.
    assert {v["product_steps"] for v in step.variants} == {2}


def attention(q, k, v, mask):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def causal(q, k, v, mask):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3)


def shared(q, k, v, mask):
    return F.scaled_dot_product_attention(q, k[:, :2], v[:, :2], attn_mask=mask, enable_gqa=True)


def transposed(q, k, v, mask):
    q, k, v = q.transpose(1, 2).contiguous(), k.transpose(1, 2).contiguous(), v.transpose(1, 2).contiguous()
    out = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), attn_mask=mask)
    return out.transpose(1, 2)


@pytest.mark.parametrize("scale", (None, 0.5))
def test_attention_of_rows_without_elements(ingot, scale):
    """All scores are alike, whatever the scale: 1 over the root of no elements is none."""
    step = ingot.compile(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, scale=scale), wait=True, on_unsupported="error")
    with torch.no_grad():
        for width in (4, 6, 0):
            q, k, v = torch.randn(1, 2, 5, width), torch.randn(1, 2, 7, width), torch.randn(1, 2, 7, 3)
            for _ in range(2):
                found = step(q, k, v)
            torch.testing.assert_close(found, F.scaled_dot_product_attention(q, k, v, scale=scale))
    assert ingot.stats()["native_calls"] >= 3


@pytest.mark.parametrize("dtype", TYPES[:3], ids=str)
@pytest.mark.parametrize("function", (attention, causal, shared, transposed), ids=lambda f: f.__name__)
@pytest.mark.parametrize("kind", ("none", "bool", "number"))
def test_attention(ingot, function, dtype, kind):
    if kind != "none" and function is causal:
        pytest.skip("a mask of its own")
    torch.manual_seed(1)
    step = ingot.compile(function, wait=True, on_unsupported="error")
    for rows, keys in ((4, 9), (1, 33), (70, 70)):
        q, k, v = (torch.randn(2, 4, count, 16, dtype=dtype) for count in (rows, keys, keys))
        mask = {"none": None, "bool": torch.rand(rows, keys) < 0.7, "number": torch.randn(2, 1, rows, keys, dtype=dtype)}[kind]
        if kind == "bool":
            mask[0] = False   # of this row nothing is left
        step(q, k, v, mask)
        got = step(q, k, v, mask)
        want = function(q, k, v, mask)
        assert got.stride() == want.stride()
        assert (got.double() - want.double()).abs().max() <= 16 * torch.finfo(dtype).eps * want.abs().max(), (rows, keys)
    assert {v["aten_steps"] for v in step.variants} == {0}, step.as_text("plan")


def hidden(kind, rows, keys, dtype):
    """Masks that leave a row a part of the keys, of which nothing else is read: where, and as what it says so."""
    row, key = torch.arange(rows)[:, None], torch.arange(keys)[None]
    seen = {"diagonal": key <= row + keys - rows, "window": (key <= row + 3) & (key > row - 5), "cache": (key < keys // 3).expand(rows, keys), "one": key == 2,
            "rows": (row % 3 == 1).expand(rows, keys), "holes": (key % 4 == 1) & (key > row // 2)}[kind]
    seen = seen.expand(rows, keys)
    return [seen.contiguous(), torch.zeros(rows, keys, dtype=dtype).masked_fill(~seen, -torch.inf), torch.zeros(rows, keys, dtype=dtype).masked_fill(~seen, torch.finfo(dtype).min)]


@pytest.mark.parametrize("dtype", TYPES[:3], ids=str)
@pytest.mark.parametrize("kind", ("diagonal", "window", "cache", "one", "rows", "holes"))
def test_attention_of_a_part_of_the_keys(ingot, dtype, kind):
    torch.manual_seed(1)
    step = ingot.compile(shared, wait=True, on_unsupported="error")
    for rows, keys in ((1, 130), (70, 70), (5, 64)):
        q, k, v = (torch.randn(1, 4, count, 16, dtype=dtype) for count in (rows, keys, keys))
        for mask in hidden(kind, rows, keys, dtype):
            step(q, k, v, mask)
            got, want = step(q, k, v, mask), shared(q.double(), k.double(), v.double(), mask if mask.dtype is torch.bool else mask.double())
            assert (got.double() - want).abs().max() <= 16 * torch.finfo(dtype).eps * want.abs().max(), (rows, keys, mask.dtype)
        # Under a mask that hides, nobody looks at what lies behind the last key.
        if kind == "cache":
            k[:, :, keys // 3:], v[:, :, keys // 3:] = torch.nan, torch.nan
            assert not step(q, k, v, hidden(kind, rows, keys, dtype)[0]).isnan().any()
    assert {v["aten_steps"] for v in step.variants} == {0}, step.as_text("plan")


def test_eager_numerics_keep_pytorchs_products(ingot):
    step = ingot.compile(mlp, wait=True, config=ingot.Config(numerics="eager"))
    args = tuple(torch.randn(*size) for size in ((5, 8), (16, 8), (16, 8), (8, 16)))
    step(*args)
    torch.testing.assert_close(step(*args), mlp(*args))
    assert step.variants[0]["aten_steps"] == 3


def test_threads_change_nothing(ingot):
    args = tuple(torch.randn(*size) for size in ((96, 64), (200, 64), (200, 64), (64, 200)))
    step = ingot.compile(mlp, wait=True)
    step(*args)
    threads = torch.get_num_threads()
    one = step(*args)
    torch.set_num_threads(1)
    try:
        assert torch.equal(step(*args), one)
    finally:
        torch.set_num_threads(threads)
