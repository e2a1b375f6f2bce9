# SPDX-License-Identifier: Apache-2.0
"""Weights of few bits: read as they are by native code, close to the float model, wrong arguments named."""

import re

import pytest
import torch


@pytest.fixture(autouse=True)
def without_gradients():
    with torch.no_grad():
        yield


class Mlp(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.up, self.down = (torch.nn.Linear(a, b, bias=b == 64) for a, b in ((64, 160), (64, 160), (160, 64)))
        self.head = self.down

    def forward(self, x):
        return self.head(torch.nn.functional.silu(self.gate(x)) * self.up(x))


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16), ids=str)
def test_native_code_reads_eight_bits(ingot, dtype):
    torch.manual_seed(0)
    model = Mlp().eval().to(dtype)
    assert ingot.quantize_(model) is model
    assert model.down is model.head and model.gate.weight.dtype == torch.int8
    step = ingot.compile(model, wait=True)
    for rows in (5, 1, 3, 70):
        x = torch.randn(rows, 64, dtype=dtype)
        step(x)
        before = ingot.stats()["native_calls"]
        want, got = model(x), step(x)
        assert ingot.stats()["native_calls"] == before + 1, step.report()
        assert (got.double() - want.double()).abs().max() <= (1e-5 if dtype == torch.float32 else 3e-2) * want.abs().max()
    assert {v["aten_steps"] for v in step.variants} == {0}, step.as_text("plan")
    text = step.as_text("loop")
    assert text.count("in i8[") >= 2 and "out i8" not in text and f"out {'f32' if dtype == torch.float32 else 'bf16'}[10240" not in text, text


def wide_buffers(text):
    """Elements of floats, in what kernels take and give, that could be a weight of the model: x and results have 160 columns at most."""
    return [size for size in re.findall(r"(?:in|out) (?:f32|bf16|f16)\[(\d+)\]", text) if int(size) >= 64 * 160]


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16, torch.float16), ids=str)
@pytest.mark.parametrize("zero_points", (False, True), ids=("symmetric", "zeros"))
@pytest.mark.parametrize("kind, group_size", (("int4", 32), ("int4", None), ("int4", 16), ("int8", 32), ("int8", None)), ids=str)
def test_groups_and_halves_are_decoded_in_products(ingot, kind, group_size, zero_points, dtype):
    torch.manual_seed(0)
    model = torch.nn.Sequential(Mlp(), torch.nn.ReLU()).eval().to(dtype)
    if kind == "int4" and group_size is None:   # 64, of which 160 is no multiple
        with pytest.warns(UserWarning, match="0.head stays as it is|0.down stays as it is"):
            ingot.quantize_(model, kind, group_size=group_size, zero_points=zero_points)
        assert type(model[0].down) is torch.nn.Linear
    else:
        ingot.quantize_(model, kind, group_size=group_size, zero_points=zero_points)
    step = ingot.compile(model, wait=True)
    for rows in (5, 1, 3, 30):
        x = torch.randn(rows, 64, dtype=dtype)
        step(x)
        before = ingot.stats()["native_calls"]
        want, got = model(x), step(x)
        assert ingot.stats()["native_calls"] == before + 1, step.report()
        assert (got.double() - want.double()).abs().max() <= {torch.float32: 1e-5, torch.float16: 4e-3}.get(dtype, 3e-2) * want.abs().max()
    assert {v["aten_steps"] for v in step.variants} == {0}, step.as_text("plan")
    assert {v["native_steps"] for v in step.variants} == {2}, step.as_text("plan")
    text = step.as_text("loop")
    narrow = sum(type(layer) is ingot.QuantizedLinear for layer in (model[0].gate, model[0].up, model[0].down))
    # Variants share kernels or not; each that reads a weight reads it as it is.
    assert text.count("in u8[" if kind == "int4" else "in i8[") >= narrow, text
    assert len(wide_buffers(text)) == (0 if narrow == 3 else len(step.variants)), text


@pytest.mark.parametrize("kind, group_size, tolerance", (("int8", None, 0.02), ("int8", 32, 0.02), ("int4", 32, 0.25)), ids=str)
@pytest.mark.parametrize("zero_points", (False, True), ids=("symmetric", "zeros"))
def test_it_is_close_to_the_float_model(ingot, kind, group_size, tolerance, zero_points):
    torch.manual_seed(1)
    model = Mlp().eval()
    x = torch.randn(100, 64)
    exact = model(x)
    got = ingot.quantize_(model, kind, group_size=group_size, zero_points=zero_points)(x)
    assert (got - exact).abs().max() < tolerance * exact.abs().max()


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16), ids=str)
def test_activations_of_eight_bits(ingot, dtype):
    torch.manual_seed(3)
    model = Mlp().eval().to(dtype)
    x = torch.randn(90, 64, dtype=dtype)
    exact = model(x)
    ingot.quantize_(model, "int8", activations="int8")
    assert (model(x) - exact).abs().max() < 0.05 * exact.abs().max()
    # One step: what is rounded twice may fall to either side in the second layer.
    layer = torch.nn.Sequential(model.gate, torch.nn.ReLU())
    step = ingot.compile(layer, wait=True)
    for rows in (5, 1, 90):
        step(x[:rows])
        before = ingot.stats()["native_calls"]
        want, got = layer(x[:rows]), step(x[:rows])
        assert ingot.stats()["native_calls"] == before + 1, step.report()
        assert (got.double() - want.double()).abs().max() <= 2 * torch.finfo(dtype).eps * want.abs().max()
    assert {v["aten_steps"] for v in step.variants} == {0}, step.as_text("plan")
    text = step.as_text("loop")
    assert "reduce_dot" in text and re.search(r"reduce_dot .* : i32", text) and "out i32" not in text, text


def test_products_of_integers_are_exact(ingot):
    torch.manual_seed(4)
    step = ingot.compile(lambda a, b: torch._int_mm(a, b), wait=True, on_unsupported="error")
    for rows, columns, depth in ((1, 33, 64), (5, 40, 100), (70, 17, 33), (3, 64, 1000)):
        for transposed in (True, False):
            a = torch.randint(-128, 128, (rows, depth), dtype=torch.int8)
            b = torch.randint(-128, 128, (columns, depth), dtype=torch.int8).t() if transposed else torch.randint(-128, 128, (depth, columns), dtype=torch.int8)
            a[0], b[:, 0] = -128, -128
            step(a, b)
            assert torch.equal(step(a, b), a.int() @ b.int())
    assert {v["aten_steps"] for v in step.variants} == {0}, step.as_text("plan")


def test_zero_points_keep_weights_of_one_sign(ingot):
    torch.manual_seed(2)
    layer = torch.nn.Linear(64, 32, bias=False)
    layer.weight.uniform_(1.0, 2.0)[:, :8] = 0
    for kind in ("int4", "int8"):
        plain, zeros = (ingot.quantize_(torch.nn.Sequential(layer), kind, group_size=32, zero_points=z)[0].decoded(torch.float32) for z in (False, True))
        assert (zeros - layer.weight).abs().max() < (plain - layer.weight).abs().max()
        assert zeros[:, :8].eq(0).all()


def test_each_integer_of_four_bits_is_read(ingot):
    layer = ingot.quantize_(torch.nn.Sequential(torch.nn.Linear(32, 1, bias=False)), "int4", group_size=32)[0]
    layer.weight.copy_(torch.arange(16, dtype=torch.uint8) * 16 + torch.arange(15, -1, -1, dtype=torch.uint8))
    layer.scale.fill_(0.5)
    want = torch.cat((torch.arange(7, -9, -1), torch.arange(-8, 8))) * 0.5
    assert layer.decoded(torch.float32)[0].tolist() == want.tolist()
    step = ingot.compile(torch.nn.Sequential(layer, torch.nn.Identity()), wait=True)
    x = torch.eye(32)
    step(x)
    assert step(x)[:, 0].tolist() == want.tolist()


def test_layers_are_chosen_and_zeros_stay_zero(ingot):
    model = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU(), torch.nn.Linear(4, 4, bias=False))
    model[2].weight.zero_()
    names = []
    ingot.quantize_(model, where=lambda name, layer: names.append(name) or name == "2")
    assert names == ["0", "2"] and type(model[0]) is torch.nn.Linear and type(model[2]) is ingot.QuantizedLinear
    assert model(torch.randn(3, 8)).eq(0).all()
    again = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU(), torch.nn.Linear(4, 4, bias=False))
    ingot.quantize_(again, where=lambda name, layer: name == "2").load_state_dict(model.state_dict())
    assert again[2].weight.eq(0).all()


def test_wrong_arguments_are_named(ingot):
    with pytest.raises(ingot.Invalid, match="kind 'int3', known: int8, int4"):
        ingot.quantize_(Mlp(), "int3")
    for size in (0, -2, 7, 2.0, "32"):
        with pytest.raises(ingot.Invalid, match="group_size .*, it is an even number"):
            ingot.quantize_(Mlp(), "int4", group_size=size)
    with pytest.raises(ingot.Invalid, match="activations 'int4', known: int8"):
        ingot.quantize_(Mlp(), "int8", activations="int4")
    for more in ({"kind": "int4"}, {"group_size": 32}, {"zero_points": True}):
        with pytest.raises(ingot.Invalid, match="without groups and zero points"):
            ingot.quantize_(Mlp(), **{"kind": "int8", **more}, activations="int8")
    with pytest.raises(ingot.Invalid, match="put it into a module"):
        ingot.quantize_(torch.nn.Linear(3, 4))
