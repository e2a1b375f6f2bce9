# SPDX-License-Identifier: Apache-2.0
"""Convolutions and pooling, natively, against what float64 operands give: no further from it than eager and a few digits."""

import random

import pytest
import torch

F = torch.nn.functional


@pytest.fixture(autouse=True)
def without_gradients():
    with torch.no_grad():
        yield


def close(got, want, exact):
    """Whether a result has eager's layout and is as near to the exact one, or within a few digits of the largest sum."""
    assert got.dtype == want.dtype and got.shape == want.shape and got.stride() == want.stride()
    error, eager = (got.double() - exact).abs(), (want.double() - exact).abs()
    slack = 16 * torch.finfo(got.dtype).eps * exact.abs().max() if exact.numel() else 0
    return bool((error <= 2 * eager + slack).all())


def doubled(args):
    return tuple(a.double() if torch.is_tensor(a) else a for a in args)


def served(ingot, function, args):
    """What native code gives, and what is known of it."""
    step = ingot.compile(function, wait=True, on_unsupported="error")
    step(*args)
    before = ingot.stats()["native_calls"]
    got = step(*args)
    assert ingot.stats()["native_calls"] == before + 1, step.report()
    return got, step


def same(ingot, function, args):
    got, step = served(ingot, function, args)
    assert close(got, function(*args), function(*doubled(args))), step.as_text("plan")
    return step


def drawn(seed):
    """A convolution of two dims with random numbers, as arguments and a function of those."""
    draw = random.Random(seed)
    depthwise = draw.random() < 0.25
    channels, outputs = draw.choice((1, 2, 3, 5, 16, 20, 33, 64)), draw.choice((1, 2, 7, 16, 31, 48, 80))
    groups = 1
    if depthwise:
        outputs = groups = channels
    elif draw.random() < 0.3:
        groups = draw.choice((2, 3, 4))
        channels, outputs = groups * channels, groups * outputs
    window = [draw.choice((1, 2, 3, 3, 5)) for _ in range(2)]
    stride = [draw.choice((1, 1, 2, 3)) for _ in range(2)]
    dilation = [draw.choice((1, 1, 1, 2)) for _ in range(2)]
    padding = [draw.choice((0, 0, 1, 2, 4)) for _ in range(2)]
    least = [d * (w - 1) + 1 - 2 * p for d, w, p in zip(dilation, window, padding)]
    sizes = [max(1, n) + draw.choice((0, 1, 2, 5, 9, 14)) for n in least]
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(draw.choice((1, 1, 2, 3)), channels, *sizes, generator=generator)
    weight = torch.randn(outputs, channels // groups, *window, generator=generator)
    if draw.random() < 0.3:
        x = x.to(memory_format=torch.channels_last)
    if draw.random() < 0.3:
        weight = weight.to(memory_format=torch.channels_last)
    if draw.random() < 0.1:
        x = x.transpose(2, 3).contiguous().transpose(2, 3)
    bias = torch.randn(outputs, generator=generator) if draw.random() < 0.5 else None
    tail = draw.choice(("none", "relu", "residual"))

    def run(x, weight, bias):
        y = F.conv2d(x, weight, bias, stride, padding, dilation, groups)
        return y if tail == "none" else F.relu(y) if tail == "relu" else F.relu(y + y.flip(0))

    return run, (x, weight, bias), f"{tuple(x.shape)} by {tuple(weight.shape)}, {stride=} {padding=} {dilation=} {groups=} {tail}"


def drawn_transposed(seed):
    """A transposed convolution of one to three dims with random numbers."""
    draw = random.Random(seed)
    dims = draw.choice((1, 2, 2, 2, 3))
    groups = draw.choice((1, 1, 1, 2, 3))
    channels, outputs = groups * draw.choice((1, 4, 8, 20)), draw.choice((1, 2, 4, 7, 16, 20))
    stride, padding, extra, dilation, window = [], [], [], [], []
    for _ in range(dims):
        step = draw.choice((1, 1, 2, 2, 2, 3, 4))
        width = step * draw.choice((1, 2, 2, 3)) if draw.random() < 0.8 else draw.choice((1, 2, 3, 5))
        apart = draw.choice((1, 1, 1, 2))
        stride.append(step)
        window.append(width)
        dilation.append(apart)
        padding.append(draw.choice((0, 0, step // 2, step, draw.randrange(0, 4))))
        extra.append(draw.choice((0, 0, draw.randrange(max(step, apart)))))
    least = [max(1, -(-(1 + 2 * p - e - d * (w - 1) - 1) // s) + 1) for p, e, d, w, s in zip(padding, extra, dilation, window, stride)]
    sizes = [n + draw.choice((0, 1, 2, 4, 6)) for n in least]
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(draw.choice((1, 1, 2, 3)), channels, *sizes, generator=generator)
    weight = torch.randn(channels, outputs, *window, generator=generator)
    if dims == 2 and draw.random() < 0.3:
        x = x.to(memory_format=torch.channels_last)
    bias = torch.randn(groups * outputs, generator=generator) if draw.random() < 0.5 else None
    tail = draw.choice(("none", "relu", "residual"))
    convolve = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[dims - 1]

    def run(x, weight, bias):
        y = convolve(x, weight, bias, stride, padding, extra, groups, dilation)
        return y if tail == "none" else F.relu(y) if tail == "relu" else F.relu(y + y.flip(0))

    return run, (x, weight, bias), f"{tuple(x.shape)} by {tuple(weight.shape)}, {stride=} {padding=} {extra=} {dilation=} {groups=} {tail}"


@pytest.mark.parametrize("first", range(0, 60, 10))
@pytest.mark.parametrize("draws", (drawn, drawn_transposed), ids=lambda draws: draws.__name__)
def test_random_convolutions(ingot, draws, first):
    wrong = []
    for seed in range(first, first + 10):
        function, args, what = draws(seed)
        got, _ = served(ingot, function, args)
        if not close(got, function(*args), function(*doubled(args))):
            wrong.append(f"{seed}: {what}")
    assert not wrong, "\n".join(wrong)


def test_padding_is_read_as_zero_whatever_lies_around(ingot):
    x, weight = torch.randn(1, 16, 5, 5), torch.randn(16, 16, 3, 3)
    x[0, :, 0] = float("inf")
    x[0, 3, 4, 4] = float("nan")
    got, step = served(ingot, lambda x, w: F.conv2d(x, w, None, 1, 2), (x, weight))
    want = F.conv2d(x, weight, None, 1, 2)
    assert torch.equal(got.isfinite(), want.isfinite()), step.as_text("plan")


def test_one_template_for_batches_and_sizes(ingot):
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3, 2, 1), torch.nn.BatchNorm2d(16), torch.nn.ReLU(), torch.nn.MaxPool2d(3, 2, 1),
                                torch.nn.Conv2d(16, 24, 3, 1, 1)).eval()
    step = ingot.compile(model, wait=True, on_unsupported="error")
    for batch, height, width in ((2, 32, 32), (3, 40, 24), (2, 33, 47), (5, 64, 31), (1, 32, 32)):
        x = torch.randn(batch, 3, height, width)
        for _ in range(3):
            got = step(x)
        want = model(x)
        assert torch.allclose(got, want, atol=1e-5, rtol=1e-5) and got.stride() == want.stride(), (batch, height, width)
    assert max(v["aten_steps"] for v in step.variants) == 0, step.as_text("plan")


class Block(torch.nn.Module):
    """As MobileNet's: channels up, each by itself, down, and around them."""

    def __init__(self, width: int, wide: int, stride: int) -> None:
        super().__init__()
        self.up, self.each, self.down = torch.nn.Conv2d(width, wide, 1, bias=False), torch.nn.Conv2d(wide, wide, 3, stride, 1, groups=wide), torch.nn.Conv2d(wide, width, 1)
        self.norm, self.around = torch.nn.BatchNorm2d(wide), stride == 1

    def forward(self, x):
        y = self.down(F.relu6(self.each(F.relu6(self.norm(self.up(x))))))
        return x + y if self.around else y


class Unet(torch.nn.Module):
    """Down, up, and what went down beside what comes up."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.below, self.last = torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.Conv2d(16, 32, 3, padding=1), torch.nn.Conv2d(48, 4, 3, padding=1)

    def forward(self, x):
        x = F.silu(self.first(x))
        below = F.interpolate(F.silu(self.below(F.avg_pool2d(x, 2))), scale_factor=2.0, mode="nearest")
        return self.last(torch.cat([x, below], 1))


def networks():
    torch.manual_seed(3)
    mobile = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3, 2, 1), Block(16, 64, 1), Block(16, 48, 2), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(16, 10))
    patches = torch.nn.Sequential(torch.nn.Conv2d(3, 32, 8, 8), torch.nn.Flatten(2), torch.nn.LayerNorm(16))
    return {"mobile": mobile.eval(), "unet": Unet().eval(), "patches": patches.eval()}


@pytest.mark.parametrize("layout", (torch.contiguous_format, torch.channels_last), ids=str)
@pytest.mark.parametrize("name", ("mobile", "unet", "patches"))
def test_networks(ingot, name, layout):
    model = networks()[name]
    if name != "patches":
        model = model.to(memory_format=layout)
    x = torch.randn(2, 3, 32, 32).to(memory_format=layout)
    step = ingot.compile(model, wait=True, on_unsupported="error")
    for _ in range(3):
        got = step(x)
    want = model(x)
    assert torch.allclose(got, want, atol=1e-4, rtol=1e-4) and got.stride() == want.stride()
    again = ingot.compile(model, wait=True, on_unsupported="error")
    assert torch.equal(again(x), got)


def test_weights_may_change_between_calls(ingot):
    conv = torch.nn.Conv2d(16, 16, 3, padding=1)
    step = ingot.compile(conv, wait=True, on_unsupported="error")
    x = torch.randn(1, 16, 8, 8)
    step(x), step(x)
    conv.weight.data.mul_(2)
    conv.bias.data.zero_()
    assert torch.allclose(step(x), conv(x), atol=1e-5)


def test_results_of_layers_keep_their_layout(ingot):
    def both(x, w):
        y = F.conv2d(x, w, None, 1, 1)
        return y, F.relu(y), y.flatten(1), y.permute(0, 2, 3, 1), y.as_strided((4,), (2,), 1)

    args = torch.randn(2, 16, 6, 6), torch.randn(16, 16, 3, 3)
    got, _ = served(ingot, both, args)
    for a, b in zip(got, both(*args)):
        assert a.stride() == b.stride() and torch.allclose(a, b, atol=1e-4)


def test_eager_numerics_leave_convolutions_to_pytorch(ingot):
    args = torch.randn(1, 16, 9, 9), torch.randn(16, 16, 3, 3)
    step = ingot.compile(lambda x, w: F.conv2d(x, w, None, 1, 1), wait=True, config={"numerics": "eager"})
    for _ in range(2):
        got = step(*args)
    assert torch.equal(got, F.conv2d(*args, None, 1, 1))
    assert {v["aten_steps"] for v in step.variants} == {1}


@pytest.mark.parametrize("dtype", (torch.bfloat16, torch.float64), ids=str)
def test_other_types_are_pytorchs_with_channels_innermost(ingot, dtype):
    args = torch.randn(2, 32, 9, 9, dtype=dtype), torch.randn(32, 32, 3, 3, dtype=dtype) / 8

    def chain(x, w):
        return F.relu(F.conv2d(F.relu(F.conv2d(x, w, None, 1, 1)), w, None, 1, 1))

    same(ingot, chain, args)


def aten_steps(ingot, function, args):
    return same(ingot, function, args).variants[0]["aten_steps"]


@pytest.mark.parametrize("window, stride, padding, extra", ((2, 2, 0, 0), (4, 2, 1, 0), (8, 4, 2, 0), (16, 8, 4, 0), (3, 1, 1, 0), (6, 3, 3, 0), (4, 2, 2, 0)))
@pytest.mark.parametrize("groups", (1, 4))
def test_transposed_ones_are_compiled_where_all_phases_have_as_many_taps(ingot, window, stride, padding, extra, groups):
    weight, bias = torch.randn(32, 8, window, window), torch.randn(8 * groups)
    args = torch.randn(2, 32, 5, 6), weight, bias
    assert aten_steps(ingot, lambda x, w, b: F.relu(F.conv_transpose2d(x, w, b, stride, padding, extra, groups)), args) == 0


@pytest.mark.parametrize("window, stride, padding, extra", ((3, 2, 1, 1), (5, 2, 2, 1), (4, 4, 1, 0), (2, 2, 0, 1), (2, 1, 2, 0)))
def test_transposed_ones_of_other_phases_stay_pytorchs(ingot, window, stride, padding, extra):
    args = torch.randn(2, 16, 5, 6), torch.randn(16, 8, window, window)
    assert aten_steps(ingot, lambda x, w: F.conv_transpose2d(x, w, None, stride, padding, extra), args) == 1


@pytest.mark.parametrize("groups, channels, outputs, steps", ((4, 8, 16, 0), (8, 4, 4, 1), (8, 2, 8, 1), (16, 1, 2, 1), (2, 6, 1, 1)))
def test_groups_are_compiled_where_they_have_channels_enough(ingot, groups, channels, outputs, steps):
    args = torch.randn(2, groups * channels, 7, 6), torch.randn(groups * outputs, channels, 3, 3), torch.randn(groups * outputs)
    assert aten_steps(ingot, lambda x, w, b: F.silu(F.conv2d(x, w, b, 2, 1, 1, groups)), args) == steps


def test_one_template_for_groups_and_phases_of_all_sizes(ingot):
    model = torch.nn.Sequential(torch.nn.Conv2d(16, 32, 3, 1, 1, groups=2), torch.nn.ReLU(), torch.nn.ConvTranspose2d(32, 16, 4, 2, 1), torch.nn.ReLU(),
                                torch.nn.ConvTranspose2d(16, 16, 2, 2, groups=2), torch.nn.Conv2d(16, 4, 1)).eval()
    step = ingot.compile(model, wait=True, on_unsupported="error")
    for batch, height, width in ((2, 8, 8), (3, 10, 7), (2, 9, 13), (5, 1, 4), (1, 8, 8)):
        x = torch.randn(batch, 16, height, width)
        for _ in range(3):
            got = step(x)
        want = model(x)
        assert torch.allclose(got, want, atol=1e-5, rtol=1e-5) and got.stride() == want.stride(), (batch, height, width)
    assert max(v["aten_steps"] for v in step.variants) == 0, step.as_text("plan")
    assert len(step.variants) <= 3


def test_what_lies_outside_an_image_reaches_nothing_transposed(ingot):
    x, weight = torch.randn(1, 16, 5, 5), torch.randn(16, 8, 4, 4)
    x[0, :, 0] = float("inf")
    x[0, 3, 4, 4] = float("nan")
    got, step = served(ingot, lambda x, w: F.conv_transpose2d(x, w, None, 2, 1), (x, weight))
    want = F.conv_transpose2d(x, weight, None, 2, 1)
    assert torch.equal(got.isfinite(), want.isfinite()), step.as_text("plan")


def test_half_precision_is_computed_in_single(ingot):
    half = torch.float16
    x, weight, bias = torch.randn(2, 16, 9, 7).to(half), torch.randn(20, 16, 3, 3).to(half) / 8, torch.randn(20).to(half)
    assert aten_steps(ingot, lambda x, w, b: F.relu(F.conv2d(x, w, b, 1, 1)), (x, weight, bias)) == 0
    assert aten_steps(ingot, lambda x, w: F.conv2d(x, w, None, 2, 1, 1, 16), (x, torch.randn(16, 1, 3, 3).to(half))) == 0
    assert aten_steps(ingot, lambda x, w: F.conv_transpose2d(x, w, None, 2), (x, torch.randn(16, 8, 2, 2).to(half))) == 0
