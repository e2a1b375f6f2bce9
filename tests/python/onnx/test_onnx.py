# SPDX-License-Identifier: Apache-2.0
"""ONNX models: compiled by `ingot compile`, loaded here, compared with the same in PyTorch."""

import json
import os
import subprocess

import pytest
import torch
from conftest import BIN
from onnx_writer import Model
from torch.nn import functional as F

import ingot

torch.manual_seed(0)


def run(*args, timeout=None):
    return subprocess.run([str(BIN / "ingot"), "compile", *map(str, args)], capture_output=True, text=True, timeout=timeout)


def compiled(model: Model, folder, *options):
    """(what the command said, the loaded file)"""
    path = model.save(folder / "model.onnx")
    done = run(path, "-o", folder / "model.ingot", "--json", *options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), ingot.load(folder / "model.ingot")


def refusal(model: Model, folder, *options):
    done = run(model.save(folder / "model.onnx"), "-o", folder / "model.ingot", *options)
    assert done.returncode != 0 and not (folder / "model.ingot").exists()
    return done.stderr


def assert_close(found, expected):
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def mlp():
    model, up, down, bias = Model(), torch.randn(8, 16), torch.randn(16, 4), torch.randn(4)
    model.input("x", "batch", 8)
    h = model.node("Relu", model.node("MatMul", "x", model.constant("up", up)))
    model.output(model.node("Gemm", h, model.constant("down", down), model.constant("bias", bias)))
    return model, lambda x: torch.relu(x @ up) @ down + bias


def test_dynamic_batch(tmp_path):
    model, eager = mlp()
    said, loaded = compiled(model, tmp_path)
    assert [(s["name"], s["place"]) for s in said["symbols"]] == [("batch", "x.0")] and said["weights"] == 3
    for rows in (1, 2, 3, 64, 1000):
        x = torch.randn(rows, 8)
        for results in (loaded(x), loaded(x=x)):
            assert list(results) == ["Gemm_3_0"]
            assert_close(results["Gemm_3_0"], eager(x))
    with pytest.raises(ingot.Invalid, match="'x': size 9 at dim 1"):
        loaded(torch.randn(4, 9))
    with pytest.raises(ingot.Invalid, match="'y' is passed by name"):
        loaded(torch.randn(4, 8), y=torch.randn(4, 8))


@pytest.mark.parametrize("options, rows", [(("--static", "batch=4"), [4]), (("--dynamic", "x.0=2..9"), range(2, 10))], ids=["static", "narrowed"])
def test_sizes_that_are_chosen(tmp_path, options, rows):
    model, eager = mlp()
    _, loaded = compiled(model, tmp_path, *options)
    for count in (1, 2, 4, 9, 10):
        x = torch.randn(count, 8)
        if count in rows:
            assert_close(loaded(x)["Gemm_3_0"], eager(x))
        else:
            with pytest.raises(ingot.Invalid):
                loaded(x)


def test_shapes_are_computed_from_dynamic_sizes(tmp_path):
    """As exporters write attention: heads are split by shapes, masks are expanded to them, positions are a range."""
    model = Model()
    model.input("x", "batch", "tokens", 12)
    model.input("mask", "batch", "tokens", dtype=torch.bool)
    shape = model.node("Shape", "x")
    batch, tokens = (model.node("Gather", shape, model.constant(f"at{i}", torch.tensor(i)), axis=0) for i in (0, 1))
    batch1, tokens1 = (model.node("Unsqueeze", n, model.ints(0)) for n in (batch, tokens))
    to = model.node("Concat", batch1, tokens1, model.ints(3), model.ints(-1), axis=0)
    heads = model.node("Transpose", model.node("Reshape", "x", to), perm=[0, 2, 1, 3])
    scores = model.node("MatMul", heads, model.node("Transpose", heads, perm=[0, 1, 3, 2]))
    seen = model.node("Unsqueeze", "mask", model.ints(1, 2))
    full = model.node("Concat", batch1, model.ints(3), tokens1, tokens1, axis=0)
    wide = model.node("Expand", seen, full)
    scores = model.node("Where", wide, scores, model.constant("low", torch.tensor(-1e9)))
    mixed = model.node("MatMul", model.node("Softmax", scores, axis=-1), heads)
    back = model.node("Concat", batch1, tokens1, model.node("Mul", model.ints(3), model.ints(4)), axis=0)
    flat = model.node("Reshape", model.node("Transpose", mixed, perm=[0, 2, 1, 3]), back)
    positions = model.node("Range", model.constant("zero", torch.tensor(0)), tokens, model.constant("step", torch.tensor(1)))
    table = model.constant("table", torch.randn(64, 12))
    half = model.node("Slice", model.node("Add", flat, model.node("Gather", table, positions)), model.ints(0),
                      model.node("Div", tokens1, model.ints(2)), model.ints(1))
    filled = model.node("ConstantOfShape", model.node("Concat", tokens1, batch1, axis=0), value=torch.tensor([7]))
    model.output(half, filled, shape)
    rows = torch.frombuffer(bytearray(table_bytes(model, 64 * 12)), dtype=torch.float32).view(64, 12)

    def eager(x, mask):
        b, t, _ = x.shape
        h = x.view(b, t, 3, 4).transpose(1, 2)
        s = torch.where(mask[:, None, None, :], h @ h.transpose(2, 3), torch.tensor(-1e9))
        y = (s.softmax(-1) @ h).transpose(1, 2).reshape(b, t, 12) + rows[:t]
        return [y[:, :t // 2], torch.full((t, b), 7), torch.tensor(x.shape)]

    said, loaded = compiled(model, tmp_path)
    assert {s["name"] for s in said["symbols"]} == {"batch", "tokens"}
    for b, t in ((2, 6), (3, 7), (1, 9), (4, 1), (1, 1), (2, 64)):
        x, mask = torch.randn(b, t, 12), torch.rand(b, t) > 0.3
        mask[:, 0] = True
        for found, expected in zip(loaded(x=x, mask=mask).values(), eager(x, mask)):
            assert_close(found, expected)
    with pytest.raises(ingot.errors.Error, match="lies outside"):
        loaded(torch.randn(2, 65, 12), torch.ones(2, 65, dtype=torch.bool))  # the table ends


def table_bytes(model: Model, elements: int) -> bytes:
    """The elements of the tensor 'table' as the model has them."""
    at = model.graph.index(b"table") + len(b"table")
    start = model.graph.index(b"\x4a", at)  # field 9
    size, shift, place = 0, 0, start + 1
    while True:
        byte = model.graph[place]
        size |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if byte < 0x80:
            break
    assert size == 4 * elements
    return model.graph[place:place + size]


def test_images_of_any_size(tmp_path):
    model, w1, w2 = Model(), torch.randn(8, 3, 3, 3) / 5, torch.randn(8, 1, 3, 3) / 3
    mean, var, scale, bias = torch.randn(8), torch.rand(8) + 0.5, torch.randn(8), torch.randn(8)
    model.input("x", None, 3, "height", "width")
    y = model.node("Conv", "x", model.constant("w1", w1), strides=[2, 2], pads=[1, 1, 1, 1])
    y = model.node("BatchNormalization", y, *(model.constant(n, t) for n, t in (("s", scale), ("b", bias), ("m", mean), ("v", var))), epsilon=1e-5)
    y = model.node("MaxPool", model.node("Relu", y), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    y = model.node("HardSwish", model.node("Conv", y, model.constant("w2", w2), group=8, auto_pad="SAME_UPPER", kernel_shape=[3, 3]))
    up = model.node("Resize", y, "", model.constant("factors", torch.tensor([1.0, 1.0, 2.0, 2.0])), mode="nearest",
                    coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    pooled = model.node("Flatten", model.node("GlobalAveragePool", y))
    model.output(up, pooled)

    def eager(x):
        y = F.batch_norm(F.conv2d(x, w1, None, 2, 1), mean, var, scale, bias)
        y = F.hardswish(F.conv2d(F.max_pool2d(torch.relu(y), 3, 2, 1), w2, None, 1, 1, 1, 8))
        return F.interpolate(y, scale_factor=2.0), y.mean((2, 3))

    _, loaded = compiled(model, tmp_path)
    for sizes in ((2, 64, 48), (1, 33, 33), (5, 37, 80)):
        x = torch.randn(sizes[0], 3, *sizes[1:])
        for found, expected in zip(loaded(x).values(), eager(x)):
            assert_close(found, expected)


def test_quantized_weights(tmp_path):
    model = Model(opset=21)
    weight, scale, zero = torch.randint(-128, 127, (512, 64), dtype=torch.int8), torch.rand(64) / 500, torch.randint(-5, 5, (64,), dtype=torch.int8)
    model.input("x", "n", 512)
    wide = model.node("DequantizeLinear", model.constant("w", weight), model.constant("scale", scale), model.constant("zero", zero), axis=1)
    model.output(model.node("MatMul", "x", wide))
    said, loaded = compiled(model, tmp_path)
    assert said["weight_bytes"] < 40_000  # as narrow as they came
    x = torch.randn(5, 512)
    assert_close(next(iter(loaded(x).values())), x @ ((weight.float() - zero) * scale))


def test_external_data(tmp_path):
    w = torch.randn(8, 3)
    (tmp_path / "w.data").write_bytes(b"\0" * 4096 + w.numpy().tobytes())
    model = Model()
    model.input("x", "n", 8)
    model.output(model.node("MatMul", "x", model.constant("w", w, {"location": "w.data", "offset": "4096", "length": "96"})))
    _, loaded = compiled(model, tmp_path)
    (tmp_path / "w.data").unlink()  # the file is whole
    x = torch.randn(4, 8)
    assert_close(next(iter(loaded(x).values())), x @ w)
    (tmp_path / "model.ingot").unlink()
    assert "not_found" in refusal(model, tmp_path)


def test_numbers_for_an_input(tmp_path):
    model = Model()
    model.input("x", 2, 6)
    model.input("to", 3, dtype=torch.int64)
    model.output(model.node("Reshape", "x", "to"))
    assert "input 1 ('to')" in (why := refusal(model, tmp_path)) and "--value" in why
    _, loaded = compiled(model, tmp_path, "--value", "to=3,-1,2")
    x = torch.randn(2, 6)
    assert_close(loaded(x)["Reshape_1_0"], x.reshape(3, 2, 2))


def test_results_are_tensors_of_their_own(tmp_path):
    model = Model()
    model.input("x", 4, 6)
    model.output(model.node("Transpose", "x"), model.node("Identity", "x"), model.constant("c", torch.ones(2)))
    _, loaded = compiled(model, tmp_path)
    x = torch.randn(4, 6)
    turned, same, c = loaded(x).values()
    assert_close(turned, x.t())
    assert_close(same, x)
    assert turned.data_ptr() != x.data_ptr() and same.data_ptr() != x.data_ptr()
    c.zero_()
    assert loaded(x)["c"].tolist() == [1, 1]


@pytest.mark.parametrize("op, domain, words", [("NonZero", "", "(NonZero, opset 17): no rule"), ("SparseAttention", "com.microsoft", "(SparseAttention of com.microsoft)"),
                                               ("RandomNormalLike", "", "docs/onnx.md")])
def test_what_has_no_rule_is_named(tmp_path, op, domain, words):
    model = Model()
    model.input("x", 4)
    model.output(model.node(op, "x", domain=domain))
    why = refusal(model, tmp_path)
    assert why.startswith("ingot: unsupported: ") and words in why and f"'{op}_1'" in why


def test_a_size_that_the_nodes_fix(tmp_path):
    model = Model()
    model.input("x", "n", 4)
    model.output(model.node("Add", "x", model.constant("c", torch.randn(7, 4))))
    assert "run at n=5: node 'Add_1' (Add" in (why := refusal(model, tmp_path)) and "--static 'n=N'" in why
    _, loaded = compiled(model, tmp_path, "--static", "n=7")
    assert loaded(torch.zeros(7, 4))


def test_files_that_are_no_models(tmp_path):
    whole = (tmp_path / "good.onnx", mlp()[0])[1].save(tmp_path / "good.onnx")
    content = open(whole, "rb").read()
    for name, damaged in (("cut", content[:len(content) // 2]), ("text", b"this is no model"), ("empty", b"")):
        (tmp_path / f"{name}.onnx").write_bytes(damaged)
        done = run(tmp_path / f"{name}.onnx", "-o", tmp_path / "x.ingot")
        assert done.returncode == 4 and f"{name}.onnx: no ONNX model" in done.stderr, done.stderr
    done = run(tmp_path / "none.onnx", "-o", tmp_path / "x.ingot")
    assert done.returncode == 3


@pytest.mark.parametrize("name", ("m.onnx", "m.pt2"))
@pytest.mark.parametrize("kind", ("pipe", "folder", "device"))
def test_what_is_no_file_is_not_waited_for(tmp_path, name, kind):
    path = tmp_path / name
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero")
    done = run(path, "-o", tmp_path / "x.ingot", timeout=60)
    assert done.returncode and f"{path} is a {kind}, no file" in done.stderr, done.stderr


@pytest.mark.parametrize("kind", ("pipe", "folder"))
def test_elements_that_lie_in_no_file(tmp_path, kind):
    (os.mkfifo if kind == "pipe" else os.mkdir)(tmp_path / "w.data")
    model = Model()
    model.input("x", 2)
    model.output(model.node("Add", "x", model.constant("w", torch.zeros(2), {"location": "w.data"})))
    done = run(model.save(tmp_path / "m.onnx"), "-o", tmp_path / "x.ingot", timeout=60)
    assert done.returncode and f"w.data is a {kind}, no file" in done.stderr, done.stderr


@pytest.mark.parametrize("names", (("self", "args"), ("kwargs", "structure"), ("tensors", "name")))
def test_inputs_may_have_any_name(tmp_path, names):
    model = Model()
    model.output(model.node("Sub", *[model.input(name, 2) for name in names]))
    _, loaded = compiled(model, tmp_path)
    a, b = torch.tensor([3.0, 4.0]), torch.tensor([1.0, 5.0])
    for answer in (loaded(a, b), loaded(**dict(zip(names, (a, b)))), loaded(a, **{names[1]: b})):
        assert_close(answer["Sub_1_0"], a - b)
    assert loaded.report(**dict(zip(names, (a, b))))
