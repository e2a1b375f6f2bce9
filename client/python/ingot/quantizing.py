# SPDX-License-Identifier: Apache-2.0
"""Weights of few bits for models that have none: :func:`ingot.quantize_`."""

import typing

import torch

from ingot import errors

KINDS = ("int8",)
_LEVELS = 127   # of either sign, so that zero is one of them and the range is the same on both sides


class QuantizedLinear(torch.nn.Module):
    """A linear layer whose weight is int8 with one scale for each output: ``y = (x @ weight.T) * scale + bias``.

    ``weight``: int8 [out_features, in_features], ``scale``: f32 [out_features], ``bias``: as before, or None. Native code reads the
    int8 weight and nothing wider; eager converts it at each call.
    """

    weight: torch.Tensor
    scale: torch.Tensor

    def __init__(self, linear: torch.nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        weight = linear.weight.detach().float()
        scale = weight.abs().amax(dim=1) / _LEVELS
        # A row of zeros has any scale.
        scale = torch.where(scale > 0, scale, torch.ones_like(scale))
        self.register_buffer("weight", (weight / scale[:, None]).round().clamp(-_LEVELS, _LEVELS).to(torch.int8))
        self.register_buffer("scale", scale)
        self.bias = linear.bias
        self.train(linear.training)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        product = torch.nn.functional.linear(x, self.weight.to(x.dtype))
        scaled = product * self.scale.to(x.dtype)
        return scaled if self.bias is None else scaled + self.bias

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}, int8"


def quantize_(model: torch.nn.Module, kind: str = "int8", *,
              where: "typing.Callable[[str, torch.nn.Linear], bool] | None" = None) -> torch.nn.Module:
    """Replaces the linear layers of ``model``, in place, by layers with weights of few bits, and returns it.

    ``kind``: ``"int8"``, a scale for each output (a quarter of the memory of f32 weights, half of bf16). ``where(name, layer)`` says which
    layers; None means all. Layers of classes derived from ``torch.nn.Linear`` stay as they are, and so do embeddings: an output layer that
    shares its weight with one gets a copy of its own. Do it before the model is compiled: what has been compiled keeps its weights.

    :class:`ingot.Invalid`: another kind, or ``model`` is itself a linear layer, which nothing can replace.
    """
    if kind not in KINDS:
        raise errors.Invalid(f"quantize_: kind {kind!r}, known: {', '.join(KINDS)}")
    if type(model) is torch.nn.Linear:
        raise errors.Invalid("quantize_: the model is one linear layer; put it into a module (torch.nn.Sequential(layer))")
    made: "dict[int, QuantizedLinear]" = {}   # Layers that occur at several places stay one.
    for path, parent in list(model.named_modules()):
        for name, layer in list(parent._modules.items()):
            full = f"{path}.{name}" if path else name
            if type(layer) is not torch.nn.Linear or not layer.weight.is_floating_point() or (where is not None and not where(full, layer)):
                continue
            if id(layer) not in made:
                made[id(layer)] = QuantizedLinear(layer)
            setattr(parent, name, made[id(layer)])
    return model
