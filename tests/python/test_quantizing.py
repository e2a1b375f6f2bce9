# SPDX-License-Identifier: Apache-2.0
"""Weights of 8 bits: read as they are by native code, close to the float model, wrong arguments named."""

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


def test_it_is_close_to_the_float_model(ingot):
    torch.manual_seed(1)
    model = Mlp().eval()
    x = torch.randn(100, 64)
    exact = model(x)
    got = ingot.quantize_(model)(x)
    assert (got - exact).abs().max() < 0.02 * exact.abs().max()


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
    with pytest.raises(ingot.Invalid, match="kind 'int3', known: int8"):
        ingot.quantize_(Mlp(), "int3")
    with pytest.raises(ingot.Invalid, match="put it into a module"):
        ingot.quantize_(torch.nn.Linear(3, 4))
