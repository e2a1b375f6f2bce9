# SPDX-License-Identifier: Apache-2.0
"""What stands between a producer and its consumer: one kind of view each, as texts of Python that hold at every size."""

import functools
import typing

KINDS: "dict[str, tuple[str, ...]]" = {
    "none": ("v",),
    "transpose": ("v.transpose(-1, -2)", "v.transpose(0, -1)", "v.permute(*range(1, v.dim()), 0)"),
    "merge": ("v.reshape(-1, v.shape[-1])", "v.flatten(-2)", "v.reshape(v.shape[0], -1)", "v.flatten()", "v.transpose(-1, -2).reshape(-1, v.shape[-2])"),
    "split": ("v.reshape(*v.shape[:-1], -1, 3)", "v.reshape(5, -1, *v.shape[1:])", "v.reshape(5, -1)", "v.reshape(*v.shape[:-1], 3, -1)", "v.transpose(0, -1).reshape(5, -1)",
              "v.reshape(-1, 5)"),
    "ones": ("v.unsqueeze(-1)", "v[:, :, None, None]", "v.unsqueeze(0)", "v.unsqueeze(1)", "v.reshape(-1, v.shape[-1], 1, 1)", "v[None, :, None]", "v.squeeze()"),
    "expand": ("v.expand(5, *v.shape)", "v[..., :1].expand(v.shape)", "v[:1].expand(5, *v.shape[1:])", "v.unsqueeze(-1).expand(*v.shape, 3)",
               "v.unsqueeze(1).expand(-1, 2, *v.shape[1:])"),
    "slice": ("v[..., ::2]", "v[..., 1:]", "v[::2]", "v[:, :-1]", "v[1:]", "v[..., 1::3]", "v[..., :1]"),
}

# What makes a tensor of other sizes one that a consumer takes: first of all nothing.
FITS = ("v", "v.reshape(-1, v.shape[-1])", "v.expand(5, -1)", "v.expand(5, 3)", "v.reshape(5, -1)", "v.unsqueeze(-1)", "v.reshape(5, -1).transpose(0, 1)", "v.repeat(5, 1)")


@functools.lru_cache(None)
def compiled(text: str) -> "typing.Callable[[typing.Any], typing.Any]":
    return typing.cast("typing.Callable[[typing.Any], typing.Any]", eval(f"lambda v: {text}"))
