# SPDX-License-Identifier: Apache-2.0
"""Weights that torchao has quantised, as plain tensors: :func:`ingot.adopt_`."""

import typing
import warnings

import torch

from ingot import errors, float8, quantizing

# What a weight that torchao holds in bf16 may be off by: it multiplies in that type, a layer of ours in f32.
_TOLERANCE = {torch.float32: 1e-6, torch.bfloat16: 1e-2, torch.float16: 2e-3}


class Int8ProductLinear(quantizing.QuantizedLinear):
    """A :class:`QuantizedLinear` that rounds what it multiplies as torchao does: 255 steps of 1/127.5 of the greatest of each row."""

    def _with_integers(self, x: torch.Tensor) -> torch.Tensor:
        # eps: a row of nothing but zeros has a scale too.
        scale = (x.abs().amax(-1, keepdim=True) / 127.5).clamp(min=torch.finfo(torch.float32).eps).float()
        integers = (x * (1.0 / scale)).round().clamp(-128, 127).to(torch.int8)
        sums = torch._int_mm(integers.reshape(-1, self.in_features), self.weight.t()).reshape(*x.shape[:-1], self.out_features)
        product = (sums.float() * scale).to(x.dtype) * self.scale
        return (product if self.bias is None else product + self.bias).to(x.dtype)


class RoundedRowsLinear(quantizing.QuantizedLinear):
    """A :class:`QuantizedLinear` that rounds each row of what it multiplies to 256 levels between its ends, and 0, as torchao does."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        low, high = x.amin(-1, keepdim=True).clamp(max=0), x.amax(-1, keepdim=True).clamp(min=0)
        # eps: a row of nothing but zeros has a scale too.
        scale = ((high - low) / 255.0).clamp(min=torch.finfo(x.dtype).smallest_normal)
        zero = (-128 - (low / scale).round()).clamp(-128, 127)
        levels = ((x * (1.0 / scale)).round() + zero).clamp(-128, 127)
        return torch.nn.functional.linear((levels - zero) * scale, self.decoded(x.dtype), self.bias)


class _Left(Exception):
    """Why a layer stays as it is."""


def adopt_(model: torch.nn.Module) -> torch.nn.Module:
    """Replaces the linear layers of ``model`` whose weights torchao has quantised, in place, by layers with the same numbers in plain
    tensors, and returns it. A torchao weight is a tensor class that computes in Python at each call, which no compiled call does.

    Taken: ``Int8WeightOnlyConfig`` (of rows, tensors and groups), ``IntxWeightOnlyConfig`` (weights of 4 bits and fewer are packed, two in a
    byte), ``Int8DynamicActivationInt8WeightConfig`` (rows, symmetric), ``Int8DynamicActivationIntxWeightConfig`` and
    ``Float8WeightOnlyConfig``. The others stay torchao's, with a warning that names the layer and the reason, and so does a layer whose
    numbers would differ. Do it before the model is compiled.

    :class:`ingot.Invalid`: ``model`` is itself a linear layer, which nothing can replace.
    """
    if isinstance(model, torch.nn.Linear):
        raise errors.Invalid("adopt_: the model is one linear layer; put it into a module (torch.nn.Sequential(layer))")

    def adopted(name: str, layer: torch.nn.Linear) -> "torch.nn.Module | None":
        try:
            return _plain(layer)
        except (_Left, AttributeError) as why:  # Another torchao may call things otherwise.
            warnings.warn(f"adopt_: {name} stays as it is: {why}", stacklevel=4)
            return None

    quantizing.replace_layers(model, lambda _, layer: _is_of_torchao(layer.weight), adopted)
    return model


def holds_any(target: typing.Any) -> bool:
    """Whether a module has weights that torchao computes with."""
    return isinstance(target, torch.nn.Module) and any(_is_of_torchao(weight) for weight in target.parameters())


def _is_of_torchao(weight: torch.Tensor) -> bool:
    return type(weight).__module__.split(".")[0] == "torchao"


def _plain(layer: torch.nn.Linear) -> torch.nn.Module:
    """The same layer with a weight that is plain tensors; _Left: there is none."""
    weight: typing.Any = layer.weight
    kind = type(weight).__name__
    makers = {"Int8Tensor": _of_int8, "IntxUnpackedToInt8Tensor": _of_intx, "Float8Tensor": _of_float8}
    if kind not in makers:
        raise _Left(f"its weight is packed as {kind}; known: {', '.join(makers)}")
    if type(layer).forward is not torch.nn.Linear.forward:
        raise _Left(f"{type(layer).__qualname__} is a linear layer of its own")
    if weight.qdata.dim() != 2:
        raise _Left(f"its weight has {weight.qdata.dim()} dims")
    made: typing.Any = makers[kind](layer, weight)
    expected = weight.dequantize().float()
    tolerance = _TOLERANCE.get(weight.dtype, 0.0) * float(expected.abs().max())
    off = float((made.decoded(torch.float32) - expected).abs().max())
    if not off <= tolerance:
        raise _Left(f"plain tensors would differ by {off:.3g}")
    return typing.cast(torch.nn.Module, made)


def _of_int8(layer: torch.nn.Linear, weight: typing.Any) -> quantizing.QuantizedLinear:
    if weight.act_pre_scale is not None or weight.act_quant_scale is not None:
        raise _Left("what it multiplies has scales of its own")
    levels, scale, zero = _in_groups(weight.qdata, weight.scale, weight.zero_point)
    asked = weight.act_quant_kwargs
    if asked is None:
        return quantizing.QuantizedLinear.of_levels(layer, "int8", levels, scale, zero)
    if type(asked.granularity).__name__ != "PerRow" or asked.mapping_type.name != "SYMMETRIC" or asked.reduce_range:
        raise _Left("what it multiplies is rounded in another way than by symmetric rows")
    if levels.dim() != 2 or zero is not None:
        raise _Left("it multiplies integers by groups or zero points")
    return Int8ProductLinear.of_levels(layer, "int8", levels, scale, activations="int8")


def _of_intx(layer: torch.nn.Linear, weight: typing.Any) -> quantizing.QuantizedLinear:
    rounds = weight.activation_quantization is not None
    if rounds and weight.activation_quantization != "int8_asym_per_token":
        raise _Left(f"what it multiplies is rounded by {weight.activation_quantization}")
    of = (RoundedRowsLinear if rounds else quantizing.QuantizedLinear).of_levels
    levels, scale, zero = _in_groups(weight.qdata, weight.scale, weight.zero_point)
    if zero is not None and not torch.equal(zero, zero.round()):
        raise _Left("its zero points are no whole numbers")
    lowest = min(int(levels.min()), 0 if zero is None else int(zero.min()))
    highest = max(int(levels.max()), 0 if zero is None else int(zero.max()))
    groups = levels if levels.dim() == 3 else levels.unsqueeze(1)
    if lowest < -8 or highest > 7 or groups.shape[-1] % 2:
        return of(layer, "int8", levels, scale, zero)
    sizes = (groups.shape[0], groups.shape[1], 1)
    return of(layer, "int4", groups + 8, scale.reshape(sizes), None if zero is None else zero.reshape(sizes) + 8)


def _of_float8(layer: torch.nn.Linear, weight: typing.Any) -> float8.Float8Linear:
    if weight.act_quant_kwargs is not None:
        raise _Left("it multiplies float8 by float8")
    kind = next((name for name, dtype in float8.TYPES.items() if dtype == weight.qdata.dtype), None)
    if kind is None:
        raise _Left(f"its weight is {weight.qdata.dtype}")
    levels, scale, _ = _in_groups(weight.qdata, weight.scale, None)
    return float8.Float8Linear.of_levels(layer, kind, levels, scale)


def _in_groups(levels: torch.Tensor, scale: torch.Tensor, zero: "torch.Tensor | None") -> "tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]":
    """Levels [out, groups, size] or, where a scale is of whole rows, [out, in]; scale and zero with 1 for the last."""
    rows, columns = levels.shape
    if scale.numel() == 1:
        scale = scale.reshape(1, 1)
    if scale.dim() != 2 or scale.shape[0] not in (1, rows) or columns % scale.shape[1]:
        raise _Left(f"its scales are of blocks, {tuple(scale.shape)} for {rows} x {columns}")
    groups = scale.shape[1]

    def each(numbers: torch.Tensor) -> torch.Tensor:
        numbers = numbers.reshape(scale.shape).expand(rows, groups).contiguous().float()
        return numbers.unsqueeze(-1) if groups > 1 else numbers

    if zero is not None and (zero.numel() == 0 or not zero.any()):
        zero = None
    levels = levels.reshape(rows, groups, -1) if groups > 1 else levels
    return levels, each(scale), None if zero is None else each(zero)
