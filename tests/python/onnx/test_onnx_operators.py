# SPDX-License-Identifier: Apache-2.0
"""ONNX operators that stand for several of PyTorch's: quantised ones, recurrent layers, attention, branches and loops, com.microsoft."""

import pytest
import torch
from onnx_writer import Model
from test_onnx import assert_close, compiled
from torch.nn import functional as F

MICROSOFT = "com.microsoft"


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)
    with torch.no_grad():
        yield


def only(results):
    (value,) = results.values()
    return value


@pytest.mark.parametrize("channels, group", ((3, 1), (96, 1), (8, 8), (1200, 2)))
def test_convolutions_of_levels_are_exact(tmp_path, channels, group):
    """Of more products than f32 adds up exactly as well: with all levels at their bounds every rounding would show."""
    model = Model(opset=17)
    weight = torch.randint(-128, 128, (2 * group, channels // group, 3, 3), dtype=torch.int8)
    weight[0] = -128
    x = torch.randint(0, 256, (1, channels, 6, 5), dtype=torch.uint8)
    x[:, :, :3] = 255
    model.input("x", 1, channels, 6, 5, dtype=torch.uint8)
    zero = torch.tensor(3, dtype=torch.uint8)
    model.output(model.node("ConvInteger", "x", model.constant("w", weight), model.constant("zero", zero), group=group, pads=[1, 0, 1, 1]))
    _, loaded = compiled(model, tmp_path)
    padded = F.pad(x.double() - 3, (0, 1, 1, 1))
    want = F.conv2d(padded, weight.double(), groups=group)
    assert torch.equal(only(loaded(x)).double(), want)


def test_convolutions_between_levels(tmp_path):
    weight, bias = torch.randint(-128, 128, (4, 3, 3, 3), dtype=torch.int8), torch.randint(-500, 500, (4,), dtype=torch.int32)
    x_scale, w_scale, y_scale = torch.tensor(0.02), torch.rand(4) / 100 + 0.001, torch.tensor(0.05)
    model = Model(opset=17)
    model.input("x", "batch", 3, 8, 8, dtype=torch.uint8)
    parts = [model.constant(f"p{i}", p) for i, p in enumerate((x_scale, torch.tensor(120, dtype=torch.uint8), weight, w_scale, torch.zeros(4, dtype=torch.int8),
                                                              y_scale, torch.tensor(128, dtype=torch.uint8), bias))]
    model.output(model.node("QLinearConv", "x", *parts, strides=[2, 2]))
    _, loaded = compiled(model, tmp_path)
    for batch in (1, 3):
        x = torch.randint(0, 256, (batch, 3, 8, 8), dtype=torch.uint8)
        sums = F.conv2d(x.double() - 120, weight.double(), bias.double(), stride=2)
        level = (sums.float() * (x_scale * w_scale / y_scale)[:, None, None]).round() + 128
        assert torch.equal(only(loaded(x)), level.clamp(0, 255).to(torch.uint8))


@pytest.mark.parametrize("signed", (True, False))
@pytest.mark.parametrize("columns", (48, 7))
def test_weights_of_four_bits(tmp_path, signed, columns):
    rows, block = 64, 32
    low = -8 if signed else 0
    weight = torch.randint(low, low + 16, (rows, columns), dtype=torch.int8 if signed else torch.uint8)
    scale = torch.rand(rows // block, columns) / 10 + 0.01
    model = Model(opset=21)
    model.input("x", "batch", rows)
    wide = model.node("DequantizeLinear", model.nibbles("w", weight), model.constant("scale", scale), axis=0, block_size=block)
    model.output(model.node("MatMul", "x", wide))
    _, loaded = compiled(model, tmp_path)
    want = weight.float() * scale.repeat_interleave(block, 0)
    for batch in (2, 5):
        x = torch.randn(batch, rows)
        assert_close(only(loaded(x)), x @ want)


@pytest.mark.parametrize("bits, zeros, depth", ((4, None, 64), (4, "levels", 64), (4, "floats", 50), (8, None, 64), (8, "levels", 50)))
def test_products_with_blocks_of_few_bits(tmp_path, bits, zeros, depth):
    outputs, block = 24, 16
    blocks = -(-depth // block)
    levels = torch.randint(0, 1 << bits, (outputs, blocks * block), dtype=torch.uint8)
    scale, zero = torch.rand(outputs, blocks) / 10 + 0.01, torch.full((outputs, blocks), float(1 << bits - 1))
    packed = levels if bits == 8 else levels[:, ::2] | levels[:, 1::2] << 4
    model = Model(opset=17)
    model.input("x", "batch", depth)
    inputs = [model.constant("w", packed.reshape(outputs, blocks, -1)), model.constant("scale", scale.flatten())]
    if zeros == "floats":
        zero = torch.rand(outputs, blocks) * 10
        inputs.append(model.constant("zero", zero))
    elif zeros == "levels":
        zero = torch.randint(0, 1 << bits, (outputs, blocks)).float()
        even = F.pad(zero.to(torch.uint8), (0, blocks % 2))
        inputs.append(model.constant("zero", (even if bits == 8 else even[:, ::2] | even[:, 1::2] << 4).flatten()))
        if bits == 8:
            inputs[-1] = model.constant("zeros", zero.to(torch.uint8).flatten())
    model.output(model.node("MatMulNBits", "x", *inputs, domain=MICROSOFT, K=depth, N=outputs, bits=bits, block_size=block))
    said, loaded = compiled(model, tmp_path)
    want = ((levels.float().reshape(outputs, blocks, block) - zero[:, :, None]) * scale[:, :, None]).reshape(outputs, -1)[:, :depth]
    for batch in (1, 5):
        x = torch.randn(batch, depth)
        assert_close(only(loaded(x)), x @ want.t())


@pytest.mark.parametrize("direction", ("forward", "reverse", "bidirectional"))
@pytest.mark.parametrize("op", ("LSTM", "GRU", "RNN"))
def test_recurrent_layers(tmp_path, op, direction):
    steps, hidden, inputs = 5, 6, 4
    both = direction == "bidirectional"
    layer = getattr(torch.nn, op)(inputs, hidden, bidirectional=both)
    order = {"LSTM": [0, 3, 1, 2], "GRU": [1, 0, 2], "RNN": [0]}[op]   # ONNX's gates by PyTorch's

    def gates(tensor):
        parts = tensor.chunk(len(order))
        return torch.cat([parts[i] for i in order])

    suffixes = ("", "_reverse")[:1 + both]
    w = torch.stack([gates(getattr(layer, f"weight_ih_l0{s}")) for s in suffixes])
    r = torch.stack([gates(getattr(layer, f"weight_hh_l0{s}")) for s in suffixes])
    b = torch.stack([torch.cat([gates(getattr(layer, f"bias_{k}_l0{s}")) for k in ("ih", "hh")]) for s in suffixes])
    model = Model(opset=17)
    model.input("x", "steps", "batch", inputs)
    attributes = {"linear_before_reset": 1} if op == "GRU" else {}
    outputs = model.node(op, "x", *(model.constant(n, t) for n, t in (("w", w), ("r", r), ("b", b))), outputs=2, hidden_size=hidden, direction=direction, **attributes)
    model.output(*outputs)
    _, loaded = compiled(model, tmp_path)
    for count, batch in ((steps, 2), (3, 4)):
        x = torch.randn(count, batch, inputs)
        want, state = layer(x.flip(0) if direction == "reverse" else x)
        state = state[0] if op == "LSTM" else state
        want = want.flip(0) if direction == "reverse" else want
        y, last = loaded(x).values()
        assert_close(y, want.reshape(count, batch, 1 + both, hidden).transpose(1, 2))
        assert_close(last, state)


def test_a_loop_whose_turns_a_size_counts(tmp_path):
    body = Model()
    body.input("turn", dtype=torch.int64)
    body.input("goes_on", dtype=torch.bool)
    body.input("state", "batch", 3)
    row = body.node("Gather", "x", "turn", axis=1)
    more = body.node("Add", "state", row)
    body.output("goes_on", more, row)
    model = Model()
    model.input("x", "batch", "rows", 3)
    first = model.node("Gather", "x", model.constant("zero", torch.tensor(0)), axis=1)
    count = model.node("Gather", model.node("Shape", "x"), model.constant("one", torch.tensor(1)))
    total, rows = model.node("Loop", count, "", first, outputs=2, body=body)
    model.output(total, rows)
    _, loaded = compiled(model, tmp_path, "--static", "rows=4")
    for batch in (1, 2, 5):
        x = torch.randn(batch, 4, 3)
        got, every = loaded(x).values()
        assert_close(got, x.sum(1) + x[:, 0])
        assert torch.equal(every, x.transpose(0, 1))


def test_a_scan(tmp_path):
    body = Model()
    body.input("sum", 3)
    body.input("row", 3)
    total = body.node("Add", "sum", "row")
    body.output(total, body.node("Mul", total, total))
    model = Model()
    model.input("start", 3)
    model.input("x", 3, 6)
    last, squares = model.node("Scan", "start", "x", outputs=2, body=body, num_scan_inputs=1, scan_input_axes=[1], scan_input_directions=[1], scan_output_axes=[1])
    model.output(last, squares)
    _, loaded = compiled(model, tmp_path)
    start, x = torch.randn(3), torch.randn(3, 6)
    sums = start[:, None] + x.flip(1).cumsum(1)
    got, every = loaded(start, x).values()
    assert_close(got, sums[:, -1])
    assert_close(every, sums.square())


def test_branches(tmp_path):
    def with_condition(is_input):
        yes, no = Model(), Model()
        yes.output(yes.node("Exp", "x"))
        no.output(no.node("Neg", "x"))
        model = Model()
        model.input("x", "n", 3)
        if is_input:
            model.input("c", dtype=torch.bool)
        size = model.node("Gather", model.node("Shape", "x"), model.constant("zero", torch.tensor(0)))
        truth = "c" if is_input else model.node("Greater", size, model.constant("one", torch.tensor(1)))
        model.output(model.node("If", truth, then_branch=yes, else_branch=no))
        return model

    said, loaded = compiled(with_condition(False), tmp_path)
    for rows in (1, 2, 9):
        x = torch.randn(rows, 3)
        assert_close(only(loaded(x)), x.exp() if rows > 1 else -x)
    folder = tmp_path / "other"
    folder.mkdir()
    _, loaded = compiled(with_condition(True), folder)
    for rows, truth in ((1, True), (2, False), (9, True), (4, False)):
        x = torch.randn(rows, 3)
        assert_close(only(loaded(x, torch.tensor(truth))), x.exp() if truth else -x)
    _, loaded = compiled(with_condition(True), folder, "--value", "c=1")
    assert_close(only(loaded(x)), x.exp())


def rotated(x, cos, sin, interleaved):
    half = x.shape[-1] // 2
    a, b = (x[..., ::2], x[..., 1::2]) if interleaved else (x[..., :half], x[..., half:])
    parts = (cos * a - sin * b, sin * a + cos * b)
    return torch.stack(parts, -1).flatten(-2) if interleaved else torch.cat(parts, -1)


@pytest.mark.parametrize("interleaved", (0, 1))
def test_rotations(tmp_path, interleaved):
    cos, sin = torch.randn(20, 4), torch.randn(20, 4)
    model = Model(opset=17)
    model.input("x", "batch", "tokens", 24)
    model.input("at", "batch", "tokens", dtype=torch.int64)
    tables = [model.constant("cos", cos), model.constant("sin", sin)]
    model.output(model.node("RotaryEmbedding", "x", "at", *tables, domain=MICROSOFT, interleaved=interleaved, num_heads=3))
    _, loaded = compiled(model, tmp_path)
    for batch, tokens in ((2, 5), (1, 7)):
        x, at = torch.randn(batch, tokens, 24), torch.randint(20, (batch, tokens))
        want = rotated(x.reshape(batch, tokens, 3, 8), cos[at][:, :, None], sin[at][:, :, None], interleaved).flatten(2)
        assert_close(only(loaded(x, at)), want)


def attended(q, k, v, heads, mask=None):
    q, k, v = (t.unflatten(2, (heads, -1)).transpose(1, 2) for t in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, mask).transpose(1, 2).flatten(2)


def test_attention_of_onnxruntime(tmp_path):
    weight, bias = torch.randn(12, 36) / 4, torch.randn(36)
    model = Model(opset=17)
    model.input("x", "batch", "tokens", 12)
    model.input("mask", "batch", "tokens", dtype=torch.int32)
    model.output(model.node("Attention", "x", model.constant("w", weight), model.constant("b", bias), "mask", domain=MICROSOFT, num_heads=3))
    _, loaded = compiled(model, tmp_path)
    for batch, tokens in ((2, 5), (1, 9)):
        x, mask = torch.randn(batch, tokens, 12), torch.ones(batch, tokens, dtype=torch.int32)
        mask[:, -1] = 0
        q, k, v = (x @ weight + bias).chunk(3, -1)
        assert_close(only(loaded(x, mask)), attended(q, k, v, 3, mask.bool()[:, None, None]))


@pytest.mark.parametrize("causal", (0, 1))
def test_attention_of_onnx(tmp_path, causal):
    model = Model(opset=23)
    model.input("q", "batch", "tokens", 32)
    for name in ("k", "v"):
        model.input(name, "batch", "tokens", 16)
    model.output(model.node("Attention", "q", "k", "v", q_num_heads=4, kv_num_heads=2, is_causal=causal))
    _, loaded = compiled(model, tmp_path)
    for batch, tokens in ((2, 5), (1, 9)):
        q, k, v = torch.randn(batch, tokens, 32), torch.randn(batch, tokens, 16), torch.randn(batch, tokens, 16)
        wide = [t.unflatten(2, (2, 8)).repeat_interleave(2, 2).flatten(2) for t in (k, v)]
        mask = torch.ones(tokens, tokens).tril().bool() if causal else None
        assert_close(only(loaded(q, k, v)), attended(q, *wide, 4, mask))


def test_norms_and_activations(tmp_path):
    scale, beta, bias = torch.randn(8), torch.randn(8), torch.randn(8)
    model = Model(opset=17)
    for name in ("x", "skip"):
        model.input(name, "batch", "tokens", 8)
    s, b, c = (model.constant(n, t) for n, t in (("scale", scale), ("beta", beta), ("bias", bias)))
    model.output(model.node("SkipLayerNormalization", "x", "skip", s, b, c, domain=MICROSOFT, epsilon=1e-5),
                 model.node("SkipSimplifiedLayerNormalization", "x", "skip", s, domain=MICROSOFT, epsilon=1e-5),
                 model.node("SimplifiedLayerNormalization", "x", s, epsilon=1e-5),
                 model.node("BiasGelu", "x", b, domain=MICROSOFT), model.node("FastGelu", "x", b, domain=MICROSOFT),
                 model.node("QuickGelu", "x", domain=MICROSOFT))
    _, loaded = compiled(model, tmp_path)
    x, skip = torch.randn(2, 5, 8), torch.randn(2, 5, 8)
    wants = (F.layer_norm(x + skip + bias, (8,), scale, beta), F.rms_norm(x + skip, (8,), scale, 1e-5), F.rms_norm(x, (8,), scale, 1e-5), F.gelu(x + beta),
             F.gelu(x + beta, approximate="tanh"), x * torch.sigmoid(1.702 * x))
    for got, want in zip(loaded(x, skip).values(), wants):
        assert_close(got, want)


@pytest.mark.parametrize("dtype", (torch.float8_e4m3fn, torch.float8_e5m2), ids=str)
def test_float8(tmp_path, dtype):
    weight = torch.randn(16, 8).to(dtype)
    scale = torch.rand(8) + 0.5
    model = Model(opset=21)
    model.input("x", "batch", 16)
    wide = model.node("DequantizeLinear", model.constant("w", weight), model.constant("scale", scale), axis=1)
    y = model.node("MatMul", "x", wide)
    number = 17 if dtype == torch.float8_e4m3fn else 19
    model.output(y, model.node("Cast", y, to=number), model.node("Cast", y, to=number, saturate=0))
    _, loaded = compiled(model, tmp_path)
    for batch in (2, 5):
        x = torch.randn(batch, 16) * 300
        want, most = x @ (weight.float() * scale), torch.finfo(dtype).max
        got, held, free = loaded(x).values()
        assert_close(got, want)
        assert torch.equal(held.float(), got.clamp(-most, most).to(dtype).float())
        unheld = got.where(got.abs() <= 464, float("nan")) if dtype == torch.float8_e4m3fn else got
        assert torch.equal(free.float().nan_to_num(nan=1e9), unheld.to(dtype).float().nan_to_num(nan=1e9))
