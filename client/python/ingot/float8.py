# SPDX-License-Identifier: Apache-2.0
"""Weights of 8-bit floats for models that have none: ``ingot.quantize_(model, "fp8")``."""

import torch

TYPES = {"fp8": torch.float8_e4m3fn, "fp8_e5m2": torch.float8_e5m2}


class Float8Linear(torch.nn.Module):
    """A linear layer whose weight is float8, each times the scale of its output, or of its group of ``group_size`` inputs.

    ``weight``: [out_features, in_features], or [out_features, groups, group_size]. ``scale``: f32 [out_features], or [out_features, groups, 1];
    the largest weight of each is the largest number of the type. ``bias``: as before, or None. Native code reads the weight as it is and
    nothing wider; eager decodes it at each call.
    """

    weight: torch.Tensor
    scale: torch.Tensor

    def __init__(self, linear: torch.nn.Linear, kind: str = "fp8", group_size: "int | None" = None) -> None:
        super().__init__()
        weight = linear.weight.detach().float()
        if group_size is not None:
            weight = weight.reshape(linear.out_features, -1, group_size)
        most = torch.finfo(TYPES[kind]).max
        greatest = weight.abs().amax(-1, keepdim=True)
        # What is nothing but zeros has any scale. A quotient may be above the largest number by its rounding, which float8 does not hold.
        scale = torch.where(greatest != 0, greatest / most, torch.ones_like(greatest))
        self._hold(linear, kind, (weight / scale).clamp(-most, most).to(TYPES[kind]), scale)

    @classmethod
    def of_levels(cls, linear: torch.nn.Linear, kind: str, weight: torch.Tensor, scale: torch.Tensor) -> "Float8Linear":
        """The layer in the place of ``linear`` whose weight is ``weight * scale``; ``scale``: as ``weight``, with 1 for the last."""
        layer = cls.__new__(cls)
        torch.nn.Module.__init__(layer)
        layer._hold(linear, kind, weight, scale)
        return layer

    def _hold(self, linear: torch.nn.Linear, kind: str, weight: torch.Tensor, scale: torch.Tensor) -> None:
        self.in_features, self.out_features, self.kind = linear.in_features, linear.out_features, kind
        self.group_size = weight.shape[-1] if weight.dim() == 3 else None
        self.register_buffer("weight", weight)
        self.register_buffer("scale", scale if self.group_size is not None else scale.squeeze(-1))
        self.bias = linear.bias
        self.train(linear.training)

    def decoded(self, dtype: torch.dtype) -> torch.Tensor:
        """The weight as ``dtype`` [out_features, in_features]."""
        scale = self.scale if self.group_size is not None else self.scale.unsqueeze(-1)
        return (self.weight.float() * scale).reshape(self.out_features, self.in_features).to(dtype)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        # Sums of what is not scaled yet leave the range of f16.
        if self.group_size is not None or x.dtype == torch.float16:
            return torch.nn.functional.linear(x, self.decoded(x.dtype), self.bias)
        scaled = torch.nn.functional.linear(x, self.weight.to(x.dtype)) * self.scale.to(x.dtype)
        return scaled if self.bias is None else scaled + self.bias

    def extra_repr(self) -> str:
        groups = "" if self.group_size is None else f", group_size={self.group_size}"
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}, {self.kind}{groups}"
