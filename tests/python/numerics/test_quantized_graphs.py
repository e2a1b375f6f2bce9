# SPDX-License-Identifier: Apache-2.0
"""Graphs that others quantised: torch.ops.quantized_decomposed, nibbles by shifts, integer products; weights stay as they are."""

import pytest
import torch
import torch.ao.quantization.fx._decomposed   # registers the operators

F = torch.nn.functional
OPS = torch.ops.quantized_decomposed
N, K, GROUP = 48, 64, 32


@pytest.fixture(autouse=True)
def without_gradients():
    with torch.no_grad():
        yield


class Weights(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.register_buffer("weight", torch.randint(-128, 128, (N, K), dtype=torch.int8))
        self.register_buffer("packed", torch.randint(0, 256, (N, K // 2), dtype=torch.uint8))
        self.register_buffer("words", torch.randint(-2**31, 2**31, (K // 8, N), dtype=torch.int32))
        self.register_buffer("scale", torch.rand(N) / 50 + 0.01)
        self.register_buffer("zero", torch.randint(-8, 8, (N,)))
        self.register_buffer("scales", torch.rand(N, K // GROUP) / 50 + 0.01)
        self.register_buffer("zeros", torch.randint(-8, 8, (N, K // GROUP)).float())
        self.register_buffer("word_scales", torch.rand(K // GROUP, N) / 50)

    def forward(self, x):
        return self.run(x)


class PerChannel(Weights):
    def run(self, x):
        return F.linear(x, OPS.dequantize_per_channel(self.weight, self.scale, self.zero, 0, -128, 127, torch.int8))


class PerGroup(Weights):
    def run(self, x):
        return F.linear(x, OPS.dequantize_per_channel_group(self.weight, self.scales, self.zeros, -128, 127, torch.int8, GROUP, torch.float32))


class PerGroupWithoutZeros(Weights):
    def run(self, x):
        return F.linear(x, OPS.dequantize_per_channel_group(self.weight, self.scales, None, -128, 127, torch.int8, GROUP, torch.float32))


class PerTensor(Weights):
    def run(self, x):
        return F.linear(x, OPS.dequantize_per_tensor(self.weight, 0.02, 3, -128, 127, torch.int8))


class NeighboursInOneByte(Weights):
    """Elements 2i and 2i + 1 share byte i, as many packers have it."""

    def run(self, x):
        wide = torch.stack((self.packed & 15, self.packed >> 4), dim=-1).reshape(N, K // GROUP, GROUP)
        return F.linear(x, ((wide.to(x.dtype) - 8) * self.scales[:, :, None]).reshape(N, K))


class HalvesInOneByte(Weights):
    def run(self, x):
        shifts = torch.tensor([0, 4], dtype=torch.uint8)
        wide = (self.packed.reshape(N, K // GROUP, 1, GROUP // 2) >> shifts[:, None]) & 0xF
        return F.linear(x, ((wide.to(x.dtype) - 8) * self.scales[:, :, None, None]).reshape(N, K))


class EightInAWord(Weights):
    """Columns side by side, eight steps of the depth in one word."""

    def run(self, x):
        shifts = torch.arange(0, 32, 4, dtype=torch.int32)
        wide = ((self.words[:, None] >> shifts[None, :, None]) & 15).reshape(K // GROUP, GROUP, N)
        return x @ ((wide.to(x.dtype) - 8) * self.word_scales[:, None]).reshape(K, N)


class ScaledAfterwards(Weights):
    def run(self, x):
        return (x @ self.weight.t().to(x.dtype)) * self.scale.to(x.dtype)


KINDS = (PerChannel, PerGroup, PerGroupWithoutZeros, PerTensor, NeighboursInOneByte, HalvesInOneByte, EightInAWord, ScaledAfterwards)


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.__name__)
def test_weights_are_decoded_as_they_are_read(ingot, kind):
    model = kind().eval()
    step = ingot.compile(model, wait=True)
    for rows in (4, 1, 5, 70):
        x = torch.randn(rows, K)
        step(x)
        before = ingot.stats()["native_calls"]
        want, got = model(x), step(x)
        assert ingot.stats()["native_calls"] == before + 1, step.report()
        assert (got - want).abs().max() <= 1e-5 * want.abs().max()
    assert {(v["native_steps"], v["aten_steps"]) for v in step.variants} == {(1, 0)}, step.as_text("plan")
    assert f"[{N * K}]" not in "".join(line for line in step.as_text("loop").splitlines(True) if "param" in line and "f32" in line)


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16, torch.float16), ids=str)
def test_levels_are_those_of_pytorch(ingot, dtype):
    scale, zero, ones = torch.rand(K) / 20 + 0.01, torch.randint(-8, 8, (K,)), torch.ones(K, dtype=dtype)
    low, high = torch.tensor(-100), torch.tensor(90)

    def levels(x):
        x = x * ones   # which says how many columns there are
        by_tensor = OPS.quantize_per_tensor(x, 0.031, 3, -128, 127, torch.int8)
        by_value = OPS.quantize_per_tensor.tensor(x, scale[:1], zero[0], 0, 255, torch.uint8)
        by_values = OPS.quantize_per_tensor.tensor2(x, scale[:1], zero[0], low, high, torch.int8)
        by_channel = OPS.quantize_per_channel(x, scale, zero, 1, -128, 127, torch.int8)
        wide = OPS.dequantize_per_tensor.tensor(by_value, scale[:1], zero[0], 0, 255, torch.uint8), \
            OPS.dequantize_per_tensor.tensor2(by_values, scale[:1], zero[0], low, high, torch.int8)
        return by_tensor, by_value, by_values, by_channel, *wide, OPS.dequantize_per_tensor(by_tensor, 0.031, 3, -128, 127, torch.int8), \
            OPS.dequantize_per_channel(by_channel, scale, zero, 1, -128, 127, torch.int8)

    step = ingot.compile(levels, wait=True)
    x = torch.randn(33, K, dtype=dtype) * 3
    x[0, :4] = torch.tensor([float("inf"), -float("inf"), 1e9, -0.0], dtype=dtype)
    step(x)
    for got, want in zip(step(x), levels(x)):
        assert torch.equal(got, want)
    assert step.variants[0]["aten_steps"] == 0, step.as_text("plan")


def test_tokens_choose_their_scales(ingot):
    def token(x):
        scale, zero = OPS.choose_qparams_per_token_asymmetric(x, torch.int8)
        levels = OPS.quantize_per_token(x, scale, zero, -128, 127, torch.int8)
        even, nothing = OPS.choose_qparams_per_token(x, torch.int8)
        return scale, zero, levels, OPS.dequantize_per_token(levels, scale, zero, -128, 127, torch.int8, torch.float32), even, nothing

    step = ingot.compile(token, wait=True)
    for x in (torch.randn(9, K), torch.rand(9, K) + 1, -torch.rand(9, K), torch.zeros(9, K)):
        step(x)
        for got, want in zip(step(x), token(x)):
            assert torch.equal(got, want)
    assert step.variants[0]["aten_steps"] == 0, step.as_text("plan")


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16), ids=str)
def test_norms_and_gates_quantise_in_one_kernel(ingot, dtype):
    weight = torch.rand(K, dtype=dtype)

    def norm(x, residual):
        x = x + residual
        normed = (x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6)).to(dtype) * weight
        scale = normed.float().abs().amax(-1, keepdim=True) / 127
        return x, (normed.float() / scale).round().clamp(-127, 127).to(torch.int8), scale

    def gate(x, residual):
        gated = F.silu(x) * residual
        scale = gated.float().abs().amax(-1, keepdim=True) / 127
        return (gated.float() / scale).round().clamp(-127, 127).to(torch.int8), scale

    def static(x, residual):
        return OPS.quantize_per_tensor(F.silu(x) * residual, 0.02, 0, -128, 127, torch.int8)

    for function in (norm, gate, static):
        step = ingot.compile(function, wait=True)
        x = torch.randn(2, 33, K, dtype=dtype)
        step(*x)
        got, want = step(*x), function(*x)
        for a, b in zip(got, want) if isinstance(got, tuple) else ((got, want),):
            # What lies on the edge between two levels may fall to either.
            assert (a.double() - b.double()).abs().max() <= (1 if a.dtype == torch.int8 else 2e-2 * b.abs().max()), function.__name__
        assert [(v["native_steps"], v["aten_steps"]) for v in step.variants] == [(1, 0)], step.as_text("plan")
