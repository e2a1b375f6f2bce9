# SPDX-License-Identifier: Apache-2.0
"""Weights that torchao has quantised become plain tensors: the same numbers, native code, and the rest is left with a reason."""

import json
import pathlib
import sys
import types

import pytest
import torch

APART = pathlib.Path(sys.prefix) / "apart"

EACH = """
import copy, json, sys, warnings
sys.path.append({apart!r})
import torch, ingot
import torchao.quantization as ao
from torchao.quantization import PerGroup, PerTensor

def row(made, **also):
    print("ROW " + json.dumps(dict(also, layer=type(made).__name__, kind=getattr(made, "kind", ""), group_size=getattr(made, "group_size", None))))

WAYS = {{
    "int8 rows": ao.Int8WeightOnlyConfig(), "int8 groups": ao.Int8WeightOnlyConfig(granularity=PerGroup(64)),
    "int8 tensor": ao.Int8WeightOnlyConfig(granularity=PerTensor()), "int8 products": ao.Int8DynamicActivationInt8WeightConfig(),
    "int4 groups": ao.IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerGroup(32)), "int3 rows": ao.IntxWeightOnlyConfig(weight_dtype=torch.int3),
    "rounded rows": ao.Int8DynamicActivationIntxWeightConfig(weight_dtype=torch.int4, weight_granularity=PerGroup(32)),
    "float8": ao.Float8WeightOnlyConfig(),
}}
with torch.no_grad():
    for dtype in (torch.float32, torch.bfloat16):
        for way, config in WAYS.items():
            torch.manual_seed(0)
            theirs = torch.nn.Sequential(torch.nn.Linear(256, 192), torch.nn.ReLU(), torch.nn.Linear(192, 64, bias=False)).eval().to(dtype)
            ao.quantize_(theirs, config)
            ours = ingot.adopt_(copy.deepcopy(theirs))
            step = ingot.compile(ours, wait=True)
            off, eager_off, native = 0.0, 0.0, 0
            for rows in (5, 5, 1, 1, 40, 40):
                x = torch.randn(rows, 256, dtype=dtype)
                x[0] = 0
                want = theirs(x)
                before = ingot.stats()["native_calls"]
                got = step(x)
                native += ingot.stats()["native_calls"] - before
                eager_off = max(eager_off, float((ours(x) - want).abs().max() / want.abs().max()))
                off = max(off, float((got - want).abs().max() / want.abs().max()))
            row(ours[0], way=way, dtype=str(dtype), off=off, eager_off=eager_off, native=native, bytes=ours[0].weight.nbytes)
    # Not taken: every run goes through torchao, and says what to do.
    theirs = torch.nn.Sequential(torch.nn.Linear(256, 192)).eval()
    ao.quantize_(theirs, ao.Int8WeightOnlyConfig())
    x = torch.randn(3, 256)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        step = ingot.compile(theirs, wait=True)
        same = bool((step(x) == theirs(x)).all())
    row(theirs[0], way="untouched", same=same, why=ingot.stats().get("refused_subclass", 0), report=step.report())
"""


def rows_of(store):
    process = store.start(EACH.format(apart=str(APART)))
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return {(row["way"], row.get("dtype")): row for row in (json.loads(line[4:]) for line in out.splitlines() if line.startswith("ROW "))}, err


@pytest.mark.skipif(not APART.exists(), reason="tools/setup has not put torchao beside the other packages")
def test_torchao_weights_run_natively_with_their_numbers(store):
    rows, err = rows_of(store)
    assert len(rows) == 17, err
    layers = {way: (row["layer"], row["kind"], row["group_size"], row["bytes"]) for (way, dtype), row in rows.items() if dtype == "torch.float32"}
    assert layers == {
        "int8 rows": ("QuantizedLinear", "int8", None, 256 * 192), "int8 groups": ("QuantizedLinear", "int8", 64, 256 * 192),
        "int8 tensor": ("QuantizedLinear", "int8", None, 256 * 192), "int8 products": ("Int8ProductLinear", "int8", None, 256 * 192),
        "int4 groups": ("QuantizedLinear", "int4", 32, 128 * 192), "int3 rows": ("QuantizedLinear", "int4", 256, 128 * 192),
        "rounded rows": ("RoundedRowsLinear", "int4", 32, 128 * 192), "float8": ("Float8Linear", "fp8", None, 256 * 192)}
    for (way, dtype), row in rows.items():
        if way == "untouched":
            continue
        most = 1e-5 if dtype == "torch.float32" else 2e-2
        assert row["native"] >= 3 and row["eager_off"] <= most and row["off"] <= most, row
    for dtype in ("torch.float32", "torch.bfloat16"):
        assert rows["int8 products", dtype]["off"] == 0, "sums of integers, rounded as torchao rounds"
    untouched = rows["untouched", None]
    assert untouched["same"] and "ingot.adopt_" in err + untouched["report"], (err, untouched)


class Weight(torch.Tensor):
    """As much of a torchao weight as adopt_ asks for."""

    @staticmethod
    def __new__(cls, **parts):
        return torch.Tensor._make_wrapper_subclass(cls, parts["qdata"].shape, dtype=torch.float32)

    def __init__(self, **parts):
        self.__dict__.update(parts)

    def dequantize(self):
        return self.value

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return args[0] if "detach" in str(func) or "alias" in str(func) else NotImplemented


def model_with(kind="Int8Tensor", **changes):
    qdata, scale = torch.arange(-32, 32, dtype=torch.int8).reshape(8, 8), torch.full((8, 1), 0.5)
    parts = dict(qdata=qdata, scale=scale, zero_point=None, act_quant_kwargs=None, act_pre_scale=None, act_quant_scale=None, value=qdata * 0.5)
    made = type(kind, (Weight,), {"__module__": "torchao.stand_in"})(**{**parts, **changes})
    model = torch.nn.Sequential(torch.nn.Linear(8, 8))
    model[0].weight = torch.nn.Parameter(made, requires_grad=False)
    return model


def test_what_fits_is_taken(ingot):
    model = ingot.adopt_(model_with(zero_point=torch.zeros(8, 1)))
    assert type(model[0]) is ingot.QuantizedLinear and model[0].zero is None
    assert torch.equal(model[0].decoded(torch.float32), torch.arange(-32, 32).reshape(8, 8) * 0.5)


@pytest.mark.parametrize("changes, reason", (
    ({"kind": "Int4TilePackedTo4dTensor"}, "packed as Int4TilePackedTo4dTensor"),
    ({"value": torch.ones(8, 8)}, "plain tensors would differ by"),
    ({"value": torch.full((8, 8), float("nan"))}, "plain tensors would differ by nan"),
    ({"scale": torch.full((4, 1), 0.5)}, r"scales are of blocks, \(4, 1\) for 8 x 8"),
    ({"scale": torch.full((8, 3), 0.5)}, "scales are of blocks"),
    ({"act_pre_scale": torch.ones(8)}, "scales of its own"),
    ({"act_quant_kwargs": types.SimpleNamespace(granularity=object(), mapping_type=types.SimpleNamespace(name="ASYMMETRIC"), reduce_range=False)},
     "rounded in another way"),
    ({"act_quant_kwargs": object()}, "granularity"),
    ({"kind": "Float8Tensor"}, "its weight is torch.int8"),
), ids=lambda value: str(value)[:40] if isinstance(value, str) else "")
def test_the_rest_stays_with_a_reason(ingot, changes, reason):
    model = model_with(**changes)
    before = model[0]
    with pytest.warns(UserWarning, match=f"adopt_: 0 stays as it is: .*{reason}"):
        assert ingot.adopt_(model) is model
    assert model[0] is before


def test_a_layer_alone_cannot_be_replaced(ingot):
    with pytest.raises(ingot.Invalid, match="put it into a module"):
        ingot.adopt_(torch.nn.Linear(8, 8))
    plain = torch.nn.Sequential(torch.nn.Linear(8, 8))
    assert type(ingot.adopt_(plain)[0]) is torch.nn.Linear
