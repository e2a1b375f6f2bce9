# SPDX-License-Identifier: Apache-2.0
"""Windows over the edges of what a kernel computes itself: what lies around an image is zeros, or what a pool has there, whatever
the image is made of. Each program beside eager; what is wrong at a border is wrong by whole elements."""

import pytest
import torch

F = torch.nn.functional


@pytest.fixture(autouse=True)
def without_gradients():
    torch.manual_seed(0)
    with torch.no_grad():
        yield


def check(ingot, programs):
    """Each program, `name: (function, arguments)`, natively and in eager."""
    wrong = []
    for name, (function, args) in programs.items():
        step = ingot.compile(function, wait=True, on_unsupported="error")
        step(*args)
        before = ingot.stats()["native_calls"]
        got, want = step(*args), function(*args)
        assert ingot.stats()["native_calls"] == before + 1, (name, step.report())
        assert got.dtype == want.dtype and got.shape == want.shape and got.stride() == want.stride(), name
        digits = {torch.float16: 4e-3, torch.bfloat16: 3e-2}.get(want.dtype, 1e-5)
        if not torch.allclose(got, want, rtol=digits, atol=digits, equal_nan=True):
            wrong.append(f"{name}: {got.flatten()[:8].tolist()} instead of {want.flatten()[:8].tolist()}")
    assert not wrong, "\n".join(wrong)


def depthwise(channels=16, window=3, dims=1, **more):
    return getattr(torch.nn, f"Conv{dims}d")(channels, channels, window, groups=channels, **({"padding": 1} | more))


ELEMENTWISE = {
    "x + 1": lambda x: x + 1,
    "1 - x": lambda x: 1 - x,
    "1 / x": lambda x: 1 / x,
    "x / x": lambda x: x / (x * 1),
    "x <= 0": lambda x: (x <= 0).float(),
    "clamp": lambda x: x.clamp(0.5, 2),
    "where": lambda x: torch.where(x > 0, x, -3.0),
    "masked_fill": lambda x: x.masked_fill(x > 0, 2.0),
    "rsqrt": lambda x: (x * x + 1).rsqrt(),
    "relu + .5": lambda x: F.relu(x) + 0.5,
    "ones_like": lambda x: torch.ones_like(x) + 0 * x,
    "exp": lambda x: x.exp(),
    "cos": lambda x: x.cos(),
    "sigmoid": lambda x: x.sigmoid(),
    # f(0) is 0 of these: they were right.
    "x * x": lambda x: x * x,
    "relu": lambda x: F.relu(x),
    "hardswish": lambda x: F.hardswish(x),
    "silu": lambda x: F.silu(x),
    "gelu": lambda x: F.gelu(x),
    "tanh": lambda x: x.tanh(),
    "-x": lambda x: -x,
}


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise_results(ingot, name):
    made = ELEMENTWISE[name]
    d, d2 = depthwise(), depthwise(dims=2)
    x, image = torch.randn(2, 16, 9), torch.randn(2, 16, 6, 7)
    check(ingot, {
        "depthwise": (lambda x: d(made(x)), (x,)),
        "avg_pool1d": (lambda x: F.avg_pool1d(made(x), 3, 1, 1), (x,)),
        "avg_pool2d": (lambda x: F.avg_pool2d(made(x), 2, 1, 1), (image,)),
        "max_pool1d": (lambda x: F.max_pool1d(made(x), 3, 1, 1), (x,)),
        "3x3": (lambda x: d2(made(x)), (image,)),
    })


def test_operands_of_other_sizes_and_types(ingot):
    d = depthwise()
    x, b, i = torch.randn(2, 16, 9), torch.randn(1, 16, 1), torch.randint(0, 5, (2, 16, 9))
    table, q = torch.randn(5), torch.randint(-9, 9, (2, 16, 9), dtype=torch.int8)
    norm = torch.nn.BatchNorm1d(16).eval()
    norm.running_mean.normal_()
    pointwise, half = torch.nn.Conv1d(16, 16, 1), depthwise().half()
    check(ingot, {
        "x + bias": (lambda x, b: d(x + b), (x, b)),
        "x / y": (lambda x, y: d(x / y), (x, x + 1)),
        "b + 1": (lambda x, b: d((1 + b) * (x + 1)), (x, b)),
        "int8": (lambda q: d((q.float() - 3) * 0.5), (q,)),
        "int8 pool": (lambda q: F.avg_pool1d((q.float() - 3) * 0.5, 3, 1, 1), (q,)),
        "gather": (lambda t, i: d(t[i] + 1), (table, i)),
        "gather of a sum": (lambda t, i: d(t[(i + 1) % 5]), (table, i)),
        "arange": (lambda x: F.avg_pool1d(torch.arange(9.0).expand(2, 16, 9) + x * 0, 3, 1, 1), (x,)),
        "ones": (lambda x: F.avg_pool1d(torch.ones(2, 16, 9), 3, 1, 1) + x, (x,)),
        "batch norm": (lambda x: d(norm(x)), (x,)),
        "1x1 convolution": (lambda x: d(pointwise(x) + 1), (x,)),
        "pad": (lambda x: d(F.pad(x + 1, (1, 1))), (x,)),
        "pad by 2": (lambda x: d(F.pad(x + 1, (2, 2), value=2.0)), (x,)),
        "cat": (lambda x: d(torch.cat([x + 1, 1 - x], 2)), (x,)),
        "f16": (lambda x: half(x + 1), (x.half(),)),
        "bf16": (lambda x: F.avg_pool1d(x + 1, 3, 1, 1), (x.bfloat16(),)),
    })


@pytest.mark.parametrize("window", (1, 2, 3, 4))
def test_windows_strides_and_dilations(ingot, window):
    x = torch.randn(2, 16, 11)
    programs = {}
    for stride, dilation, padding in ((1, 1, 1), (2, 1, 1), (1, 2, 2), (1, 1, window - 1)):
        d = depthwise(window=window, stride=stride, dilation=dilation, padding=padding)
        programs[f"{stride=} {dilation=} {padding=}"] = (lambda x, d=d: d(x + 1), (x,))
        if padding <= window // 2:
            programs[f"pool {stride=} {padding=}"] = (lambda x, s=stride, p=padding: F.avg_pool1d(x + 1, window, s, p), (x,))
    same = torch.nn.Conv1d(16, 16, window, padding="same", groups=16)
    programs["same"] = (lambda x: same(x + 1), (x,))
    check(ingot, programs)


def test_windows_of_two_dims(ingot):
    x = torch.randn(2, 16, 5, 6)
    programs = {}
    for window, padding in (((1, 3), (0, 1)), ((3, 1), (1, 0)), ((2, 2), 1), ((1, 1), 1), ((3, 3), 1)):
        d = depthwise(window=window, dims=2, padding=padding)
        last = depthwise(window=window, dims=2, padding=padding).to(memory_format=torch.channels_last)
        programs[f"{window}"] = (lambda x, d=d: d(x + 1), (x,))
        programs[f"{window} channels last"] = (lambda x, d=last: d(1 - x), (x.to(memory_format=torch.channels_last),))
    dense = torch.nn.Conv2d(16, 8, 3, padding=1)
    programs["dense"] = (lambda x: dense(x + 1), (x,))
    programs["dense of a pool"] = (lambda x: dense(F.avg_pool2d(x + 1, 2, 1, 1)), (x,))
    check(ingot, programs)


def test_images_of_one_pixel(ingot):
    """All taps ask for one place, so that what makes it is in the window's kernel, whatever it costs."""
    d, d2, linear = depthwise(), depthwise(64, dims=2), torch.nn.Linear(16, 64)
    x, i, table = torch.randn(2, 16), torch.tensor([0, 0]), torch.randn(1, 64)
    wide, voxel = torch.randn(2, 64), depthwise(64, dims=3)
    programs = {
        "product": (lambda x: d2(linear(x)[:, :, None, None]), (x,)),
        "view of a product": (lambda x, w: d2((x @ w).view(-1, 64, 1, 1)), (x, torch.randn(16, 64))),
        "pooled product": (lambda x: F.avg_pool2d(linear(x).view(-1, 8, 1, 1), 3, 1, 1), (x,)),
        "voxel": (lambda x: voxel(linear(x)[:, :, None, None, None]), (x,)),
        "sum": (lambda x: F.avg_pool1d(x.sum(-1, keepdim=True), 3, 1, 1), (torch.randn(2, 16, 9),)),
        "mean": (lambda x: d(x.mean(1).view(-1, 16, 1)), (torch.randn(2, 5, 16),)),
        "amax": (lambda x: d(x.amax(-1).unsqueeze(-1)), (torch.randn(2, 16, 5),)),
        "scan": (lambda x: d(x.cumsum(0).view(-1, 16, 1)), (x,)),
        "softmax": (lambda x: d(x.softmax(1).view(-1, 16, 1)), (x,)),
        "exp": (lambda x: d2(x.exp().view(-1, 64, 1, 1)), (wide,)),
        "x + 1": (lambda x: d2((x + 1).view(-1, 64, 1, 1)), (wide,)),
        "table": (lambda t, i: d2((t[i] + 1).view(-1, 64, 1, 1)), (table, i)),
    }
    for window in (2, 3, 4):
        step, small = depthwise(window=window, padding=window - 1), torch.nn.Linear(16, 16)
        programs[f"step of {window}"] = (lambda x, s=step, w=small: s(w(x).unsqueeze(-1))[..., 0], (x,))
    check(ingot, programs)


def test_windows_inside_products(ingot):
    w, q = torch.randn(2, 24), torch.randint(-9, 9, (3, 16), dtype=torch.int8)
    linear, dense = torch.nn.Linear(17, 24), torch.nn.Conv1d(16, 24, 3, padding=1)
    scale = torch.rand(24, 16, 1)
    check(ingot, {
        "pooled bytes": (lambda q: F.avg_pool1d((q.float() + 1)[:, None, :1], 2, 1, 1)[:, 0] @ w, (q,)),
        "right operand": (lambda q, x: x @ F.avg_pool1d((q.float() + 1)[:, None, :1], 2, 1, 1)[:, 0], (q, torch.randn(5, 3))),
        "padded bytes": (lambda q: linear(F.pad(q.float() + 1, (0, 1))), (q,)),
        "convolved bytes": (lambda q: dense((q.float() + 1)[None].expand(16, 3, 16).transpose(0, 1)), (q,)),
        "stacked bytes": (lambda q, x: F.linear(x, torch.stack([q & 15, q >> 4], 2).reshape(3, -1).float() - 8), (q, torch.randn(5, 32))),
        "bytes of weights": (lambda x, p: F.conv1d(x, (p.float() - 3) * scale, padding=0),
                             (torch.randn(2, 16, 9), torch.randint(-9, 9, (24, 16, 1), dtype=torch.int8))),
    })


def test_the_padding_of_a_pool_is_not_the_next_ones(ingot):
    d, x = depthwise(), torch.randn(2, 16, 8)
    check(ingot, {
        "avg of max": (lambda x: F.avg_pool1d(F.max_pool1d(x, 2, 2, 1), 3, 1, 1), (x,)),
        "max of max": (lambda x: F.max_pool1d(-F.max_pool1d(x, 2, 2, 1), 3, 1, 1), (x,)),
        "convolved": (lambda x: d(F.max_pool1d(x, 2, 2, 1)), (x,)),
        "negated": (lambda x: d(-F.max_pool1d(x, 2, 2, 1)), (x,)),
        "max of avg": (lambda x: F.max_pool1d(F.avg_pool1d(x, 2, 2, 1), 2, 1, 1), (x,)),
        "avg of avg": (lambda x: F.avg_pool1d(F.avg_pool1d(x - 3, 2, 2, 1), 3, 1, 1), (x,)),
        "pad": (lambda x: d(F.pad(x, (1, 1), value=-torch.inf).clamp(-2, 2)), (x,)),
        "cat": (lambda x: F.avg_pool1d(torch.cat([F.max_pool1d(x, 2, 2, 1), x + 1], 2), 3, 1, 1), (x,)),
    })


def test_sizes_that_are_open(ingot):
    d = depthwise()
    step = ingot.compile(lambda x: d(1 - x), wait=True, on_unsupported="error")
    for length in (5, 7, 9, 1, 2, 3, 33):
        x = torch.randn(2, 16, length)
        torch.testing.assert_close(step(x), d(1 - x))
        torch.testing.assert_close(step(x), d(1 - x))
