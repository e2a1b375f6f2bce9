# SPDX-License-Identifier: Apache-2.0
"""float8: every number converts as PyTorch converts it, and weights of it are read as they are."""

import itertools
import re

import pytest
import torch

F = torch.nn.functional
TYPES = (torch.float8_e4m3fn, torch.float8_e5m2)
WIDE = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


@pytest.fixture(autouse=True)
def without_gradients():
    with torch.no_grad():
        yield


def served(ingot, step, *args):
    step(*args)
    before = ingot.stats()["native_calls"]
    got = step(*args)
    assert ingot.stats()["native_calls"] == before + 1, step.report()
    assert {v["aten_steps"] for v in step.variants} == {0}, step.as_text("plan")
    return got


def same(got, want):
    """Equal, NaN included; float8 is told apart by its bits."""
    got, want = (t.float() if t.dtype in TYPES else t for t in (got, want))
    return torch.equal(got.nan_to_num(nan=-1e30), want.nan_to_num(nan=-1e30)) and torch.equal(got.isnan(), want.isnan()) \
        and torch.equal(got.signbit()[~got.isnan()], want.signbit()[~got.isnan()])


def edges(dtype):
    """Every number of a float8, each middle between neighbours with what lies next to it, and what is beyond the largest."""
    numbers = torch.arange(256, dtype=torch.uint8).view(dtype).float()
    finite = numbers[numbers.isfinite()].unique()
    middles = (finite[1:] + finite[:-1]) / 2
    around = torch.cat([middles, middles.nextafter(torch.tensor(1e9)), middles.nextafter(torch.tensor(-1e9))])
    far = torch.tensor([464.0, 464.1, 480, 1e9, 61439, 61440, 61441, 65536, 3e38, float("inf"), float("nan"), 1e-40, 1e-45, 0.0])
    return torch.cat([numbers, around, far, -far])


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("wide", WIDE, ids=str)
def test_every_number_converts_as_in_pytorch(ingot, dtype, wide):
    both = ingot.compile(lambda x: (x.to(dtype), x.to(dtype).to(wide)), wait=True, on_unsupported="error")
    x = edges(dtype).to(wide)
    narrow, back = served(ingot, both, x)
    assert same(narrow, x.to(dtype)) and same(back, x.to(dtype).to(wide))
    decode = ingot.compile(lambda x: x.to(wide) * 1, wait=True, on_unsupported="error")
    every = torch.arange(256, dtype=torch.uint8).view(dtype)
    assert same(served(ingot, decode, every), every.to(wide))


@pytest.mark.parametrize("source, target", list(itertools.permutations(TYPES, 2)), ids=str)
def test_one_float8_converts_to_the_other(ingot, source, target):
    convert = ingot.compile(lambda x: x.to(target), wait=True, on_unsupported="error")
    every = torch.arange(256, dtype=torch.uint8).view(source)
    assert same(served(ingot, convert, every), every.to(target))


def test_arithmetic_on_float8_is_pytorchs(ingot):
    step = ingot.compile(lambda x, y: (x * y).float() + 1, wait=True, on_unsupported="error")
    x, y = (torch.randn(40).to(torch.float8_e4m3fn) for _ in range(2))
    step(x, y)
    assert torch.equal(step(x, y), (x * y).float() + 1)
    assert step.variants[0]["aten_steps"] > 0 and "float8" in step.report(x, y), step.report(x, y)


N, K, GROUP = 48, 64, 32


class Scaled(torch.nn.Module):
    """Weights that a checkpoint brings, with scales as those have them."""

    def __init__(self, dtype, scales):
        super().__init__()
        torch.manual_seed(0)
        self.scales = scales
        self.register_buffer("weight", torch.randn(N, K).to(dtype))
        sizes = {"tensor": (), "output": (N, 1), "group": (N, K // GROUP, 1), "block": (N // 16, 1, K // GROUP, 1)}[scales]
        self.register_buffer("scale", torch.rand(sizes) / 10 + 0.01)

    def decoded(self):
        if self.scales == "group":
            return (self.weight.float().reshape(N, K // GROUP, GROUP) * self.scale).reshape(N, K)
        if self.scales == "block":
            return (self.weight.float().reshape(N // 16, 16, K // GROUP, GROUP) * self.scale).reshape(N, K)
        return self.weight.float() * self.scale

    def forward(self, x):
        return F.linear(x, self.decoded().to(x.dtype))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("scales", ("tensor", "output", "group", "block"))
def test_weights_are_decoded_as_they_are_read(ingot, dtype, scales):
    model = Scaled(dtype, scales).eval()
    step = ingot.compile(model, wait=True)
    for rows in (4, 1, 5, 70):
        x = torch.randn(rows, K)
        got, want = served(ingot, step, x), model(x)
        assert (got - want).abs().max() <= 1e-5 * want.abs().max()
    # Of blocks of a matrix the scales go along both dims: a kernel of its own decodes them.
    assert {v["native_steps"] for v in step.variants} == {2 if scales == "block" else 1}, step.as_text("plan")
    assert f"in {'f8e4m3' if dtype == TYPES[0] else 'f8e5m2'}[{N * K}]" in step.as_text("loop"), step.as_text("loop")


class Mlp(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.up, self.down = (torch.nn.Linear(a, b, bias=b == 64) for a, b in ((64, 160), (64, 160), (160, 64)))

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


@pytest.mark.parametrize("kind, group_size", (("fp8", None), ("fp8", 32), ("fp8_e5m2", None)), ids=str)
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16, torch.float16), ids=str)
def test_models_get_weights_of_float8(ingot, kind, group_size, dtype):
    torch.manual_seed(1)
    model = Mlp().eval().to(dtype)
    x = torch.randn(70, 64, dtype=dtype)
    exact = model(x)
    ingot.quantize_(model, kind, group_size=group_size)
    assert (model(x) - exact).abs().max() < (0.06 if kind == "fp8" else 0.12) * exact.abs().max()
    step = ingot.compile(model, wait=True)
    for rows in (5, 1, 3, 70):
        got, want = served(ingot, step, x[:rows]), model(x[:rows])
        assert (got.double() - want.double()).abs().max() <= {torch.float32: 1e-5, torch.float16: 4e-3}.get(dtype, 3e-2) * want.abs().max()
    text = step.as_text("loop")
    assert len(re.findall(r"in f8e\dm\d\[10240\]", text)) >= 2, text
    assert not re.findall(r"(?:in|out) (?:f32|bf16|f16)\[10240\]", text), text


def test_what_float8_has_not_is_named(ingot):
    with pytest.raises(ingot.Invalid, match="no zero points"):
        ingot.quantize_(Mlp(), "fp8", zero_points=True)
    model = Mlp()
    model.up.weight.zero_()
    layer = ingot.quantize_(model, "fp8").up
    assert layer.decoded(torch.float32).eq(0).all() and "fp8" in repr(layer)


@pytest.mark.parametrize("wide", (torch.float16, torch.bfloat16), ids=str)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_what_is_quantized_was_rounded_on_the_way(ingot, dtype, wide):
    """A step of float8 is much wider than the last digit that decides which of two neighbours a number becomes."""
    most = torch.finfo(dtype).max

    def per_row(x):
        scale = x.abs().amax(-1, keepdim=True).clamp(min=1e-6) / most
        return (x / scale).to(dtype), scale

    def through_views(x):
        y = (x * 3 + 0.1).reshape(-1, 2, 48).transpose(1, 2)
        return (y - 0.3).to(dtype).float() * 2

    def back_and_forth(x):
        return ((x + 0.1).to(dtype).to(wide) * 0.3 + x).to(dtype)

    x = torch.randn(64, 96, generator=torch.Generator().manual_seed(0)).to(wide)
    for function in (per_row, through_views, back_and_forth):
        got, want = served(ingot, ingot.compile(function, wait=True, on_unsupported="error"), x), function(x)
        for a, b in zip(got if isinstance(got, tuple) else (got,), want if isinstance(want, tuple) else (want,)):
            assert same(a, b), function.__name__
