# SPDX-License-Identifier: Apache-2.0
"""Weights of few bits for models that have none: :func:`ingot.quantize_`."""

import dataclasses
import typing
import warnings

import torch

from ingot import errors, float8


@dataclasses.dataclass(frozen=True)
class Kind:
    """Levels of ``bits`` bits; ``group_size``: elements of one scale where nothing else is said, None: a whole row."""

    bits: int
    group_size: "int | None"


KINDS = {"int8": Kind(8, None), "int4": Kind(4, 64), **dict.fromkeys(float8.TYPES, Kind(8, None))}


class QuantizedLinear(torch.nn.Module):
    """A linear layer whose weight is integers in groups of ``group_size`` along its rows, each ``(integer - zero) * scale``.

    ``weight``: of 8 bits int8 [out_features, groups, group_size], without groups [out_features, in_features]; of 4 bits uint8
    [out_features, groups, group_size / 2], whose byte i holds element i in its low half and element i + group_size / 2 in its high one.
    ``scale``: f32 [out_features, groups, 1], without groups [out_features]; ``zero``: of the weight's type and the scale's shape, or None (0;
    of 4 bits 8). ``bias``: as before, or None. ``activations``: "int8" rounds each row of x to 255 levels and multiplies integers, exactly.
    Native code reads the weight as it is and nothing wider; eager decodes it at each call.
    """

    weight: torch.Tensor
    scale: torch.Tensor
    zero: "torch.Tensor | None"

    def __init__(self, linear: torch.nn.Linear, kind: str = "int8", group_size: "int | None" = None, zero_points: bool = False,
                 activations: "str | None" = None) -> None:
        super().__init__()
        weight = linear.weight.detach().float()
        if group_size is not None:
            weight = weight.reshape(linear.out_features, -1, group_size)
        bits = KINDS[kind].bits
        lowest, highest = (-128, 127) if bits == 8 else (0, 15)
        zero: "torch.Tensor | None" = None
        if zero_points:
            # Zero is one of the levels: what is zero stays so.
            low, high = weight.amin(-1, keepdim=True).clamp(max=0), weight.amax(-1, keepdim=True).clamp(min=0)
            scale = _without_zeros((high - low) / (highest - lowest))
            zero = (lowest - low / scale).round().clamp(lowest, highest)
        elif bits == 8:
            lowest = -127   # The range is the same on both sides.
            scale = _without_zeros(weight.abs().amax(-1, keepdim=True) / highest)
        else:
            # The greatest of either sign is the level that has no opposite: a scale may be negative.
            greatest = weight.gather(-1, weight.abs().argmax(-1, keepdim=True))
            scale = _without_zeros(greatest / -8)
        level_of_zero = zero if zero is not None else 0 if bits == 8 else 8
        self._hold(linear, kind, (weight / scale + level_of_zero).round().clamp(lowest, highest), scale, zero, activations)

    @classmethod
    def of_levels(cls, linear: torch.nn.Linear, kind: str, levels: torch.Tensor, scale: torch.Tensor, zero: "torch.Tensor | None" = None,
                  activations: "str | None" = None) -> "QuantizedLinear":
        """The layer in the place of ``linear`` whose weight is ``(levels - zero) * scale``.

        ``levels``: whole numbers, of "int8" from -128 to 127, of "int4" from 0 to 15 [out_features, groups, group_size], without groups
        [out_features, in_features]. ``scale``, ``zero``: as ``levels``, with 1 for the last; without ``zero`` it is 0, of "int4" 8.
        """
        layer = cls.__new__(cls)
        torch.nn.Module.__init__(layer)
        layer._hold(linear, kind, levels, scale, zero, activations)
        return layer

    def _hold(self, linear: torch.nn.Linear, kind: str, levels: torch.Tensor, scale: torch.Tensor, zero: "torch.Tensor | None",
              activations: "str | None") -> None:
        self.activations, self.kind, self.bits = activations, kind, KINDS[kind].bits
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.group_size = levels.shape[-1] if levels.dim() == 3 else None
        dtype = torch.int8 if self.bits == 8 else torch.uint8
        integers = levels.to(dtype)
        if self.bits == 4:
            low_half, high_half = integers.chunk(2, dim=-1)
            integers = low_half | high_half << 4
        sizes = scale.shape if self.group_size is not None else scale.shape[:-1]
        self.register_buffer("weight", integers)
        self.register_buffer("scale", scale.reshape(sizes).float())
        self.register_buffer("zero", None if zero is None else zero.to(dtype).reshape(sizes))
        self.bias = linear.bias
        self.train(linear.training)

    def decoded(self, dtype: torch.dtype) -> torch.Tensor:
        """The weight as ``dtype`` [out_features, in_features]."""
        integers, scale, zero = self.weight, self.scale, self.zero
        if self.bits == 4:
            integers = torch.stack((integers & 15, integers >> 4), dim=-2).flatten(-2)
        if self.group_size is None:
            scale, zero = scale.unsqueeze(-1), None if zero is None else zero.unsqueeze(-1)
        wide = integers.float()
        if zero is not None:
            wide = wide - zero.float()
        elif self.bits == 4:
            wide = wide - 8
        return (wide * scale).reshape(self.out_features, self.in_features).to(dtype)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.activations is not None:
            return self._with_integers(x)
        if self.group_size is not None or self.zero is not None:
            return torch.nn.functional.linear(x, self.decoded(x.dtype), self.bias)
        product = torch.nn.functional.linear(x, self.weight.to(x.dtype))
        scaled = product * self.scale.to(x.dtype)
        return scaled if self.bias is None else scaled + self.bias

    def _with_integers(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        scale = _without_zeros(wide.abs().amax(-1, keepdim=True) / 127)
        integers = (wide / scale).round().clamp(-127, 127).to(torch.int8)
        sums = torch._int_mm(integers.reshape(-1, self.in_features), self.weight.t()).reshape(*x.shape[:-1], self.out_features)
        product = sums.float() * (scale * self.scale)
        return (product if self.bias is None else product + self.bias.float()).to(x.dtype)

    def extra_repr(self) -> str:
        groups = "" if self.group_size is None else f", group_size={self.group_size}"
        zeros = "" if self.zero is None else ", zero_points=True"
        if self.activations is not None:
            zeros += f", activations={self.activations}"
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}, {self.kind}{groups}{zeros}"


def _without_zeros(scale: torch.Tensor) -> torch.Tensor:
    """What is nothing but zeros has any scale."""
    return torch.where(scale != 0, scale, torch.ones_like(scale))


def quantize_(model: torch.nn.Module, kind: str = "int8", *, group_size: "int | None" = None, zero_points: bool = False,
              activations: "str | None" = None,
              where: "typing.Callable[[str, torch.nn.Linear], bool] | None" = None) -> torch.nn.Module:
    """Replaces the linear layers of ``model``, in place, by layers with weights of few bits, and returns it.

    ``kind``: ``"int8"``, a scale for each output (a quarter of the memory of f32 weights, half of bf16), or ``"int4"``, a scale for each 64
    inputs of each output (an eighth and a bit), or ``"fp8"``, float8_e4m3fn with a scale for each output (``"fp8_e5m2"``: the type with more range
    and less precision). ``group_size``: inputs that share a scale, an even number; a layer whose inputs are no multiple of it stays
    as it is, with a warning. ``zero_points``: a level for zero in each group, for weights that lie on one side of it. ``activations="int8"``
    rounds what is multiplied as well, each row to 255 levels of its own when it is there: of int8 without groups or zero points. ``where(name, layer)``
    says which layers; None means all. Layers of classes derived from ``torch.nn.Linear`` stay as they are, and so do embeddings: an output
    layer that shares its weight with one gets a copy of its own. Do it before the model is compiled: what has been compiled keeps its weights.

    :class:`ingot.Invalid`: another kind or group size, or ``model`` is itself a linear layer, which nothing can replace.
    """
    if kind not in KINDS:
        raise errors.Invalid(f"quantize_: kind {kind!r}, known: {', '.join(KINDS)}")
    if group_size is not None and (not isinstance(group_size, int) or group_size < 2 or group_size % 2):
        raise errors.Invalid(f"quantize_: group_size {group_size!r}, it is an even number such as 32, 64 or 128")
    if activations not in (None, "int8"):
        raise errors.Invalid(f"quantize_: activations {activations!r}, known: int8")
    if activations is not None and (kind != "int8" or group_size is not None or zero_points):
        raise errors.Invalid("quantize_: activations of int8 go with weights of int8 without groups and zero points")
    if kind in float8.TYPES and zero_points:
        raise errors.Invalid("quantize_: float8 has no zero points: its zero is its own")
    if type(model) is torch.nn.Linear:
        raise errors.Invalid("quantize_: the model is one linear layer; put it into a module (torch.nn.Sequential(layer))")
    size = group_size or KINDS[kind].group_size

    def takes(name: str, layer: torch.nn.Linear) -> bool:
        return type(layer) is torch.nn.Linear and layer.weight.is_floating_point() and (where is None or where(name, layer))

    def quantized(name: str, layer: torch.nn.Linear) -> "torch.nn.Module | None":
        if size is not None and layer.in_features % size != 0:
            warnings.warn(f"quantize_: {name} stays as it is: its {layer.in_features} inputs are no multiple of the group size {size}",
                          stacklevel=4)
            return None
        if kind in float8.TYPES:
            return float8.Float8Linear(layer, kind, size)
        return QuantizedLinear(layer, kind, size, zero_points, activations)

    replace_layers(model, takes, quantized)
    return model


def replace_layers(model: torch.nn.Module, takes: "typing.Callable[[str, torch.nn.Linear], bool]",
                   other: "typing.Callable[[str, torch.nn.Linear], torch.nn.Module | None]") -> None:
    """Puts ``other(name, layer)`` in the place of each linear layer that ``takes``; None leaves one. A layer at several places stays one."""
    made: "dict[int, torch.nn.Module | None]" = {}
    for path, parent in list(model.named_modules()):
        for name, layer in list(parent._modules.items()):
            full = f"{path}.{name}" if path else name
            if not isinstance(layer, torch.nn.Linear) or not takes(full, layer):
                continue
            if id(layer) not in made:
                made[id(layer)] = other(full, layer)
            if (another := made[id(layer)]) is not None:
                setattr(parent, name, another)
