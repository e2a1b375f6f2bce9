# SPDX-License-Identifier: Apache-2.0
"""Operators of nobody's that write their arguments, of each form that a schema has: ``torch.ops.fuzz``."""

import typing

import torch

_library = torch.library.Library("fuzz", "DEF")


def _operator(schema: str) -> "typing.Callable[[typing.Callable[..., typing.Any]], None]":
    _library.define(schema)
    return lambda function: _library.impl(schema.partition("(")[0], function, "CompositeExplicitAutograd")


@_operator("scale_(Tensor(a!) x, Scalar by) -> Tensor(a!)")
def _scale(x: torch.Tensor, by: typing.Any) -> torch.Tensor:
    return x.mul_(by)


@_operator("add_into(Tensor(a!) out, Tensor x, Tensor y) -> ()")
def _add_into(out: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> None:
    for i in range(out.shape[0] if out.dim() else 0):   # row by row, so that order decides where they share memory
        out[i] = x[i] + (y[i] if y.shape == x.shape else y)


@_operator("shift(Tensor(a!) x, Tensor(b!) y) -> ()")
def _shift(x: torch.Tensor, y: torch.Tensor) -> None:
    x.mul_(2)
    y.add_(1)
    x.sub_(1)


@_operator("fill(Tensor(a!)[] outs, Tensor x) -> ()")
def _fill(outs: "list[torch.Tensor]", x: torch.Tensor) -> None:
    for i, out in enumerate(outs):
        out.copy_(x + i)


@_operator("both(Tensor(a!) x, Tensor y) -> Tensor")
def _both(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x.copy_(y)
    return y * 2


@_operator("maybe(Tensor x, Tensor(a!)? scale) -> Tensor")
def _maybe(x: torch.Tensor, scale: "torch.Tensor | None") -> torch.Tensor:
    return x * 1 if scale is None else x + scale.mul_(2)
