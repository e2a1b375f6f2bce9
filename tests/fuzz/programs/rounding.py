# SPDX-License-Identifier: Apache-2.0
"""How much of a difference may be rounding: eager, run again with the results of inexact operators off by a unit in the last place."""

import typing

import torch
from torch.utils._python_dispatch import TorchDispatchMode

# These round as IEEE 754 says, or only move, choose and make values. Others may round otherwise in native code.
EXACT = set("""abs add amax amin arange cat ceil clamp clone copy detach div embedding empty empty_like eye fill flip floor full full_like gather index
index_put index_select lift_fresh max maximum min minimum mul neg new_empty new_full new_ones new_zeros ones ones_like relu repeat round rsub scalar_tensor
scatter select_scatter sign sort sqrt stack sub topk trunc where zero zeros zeros_like _to_copy _unsafe_view""".split())


class Nudged(TorchDispatchMode):
    """Moves every other value that an inexact operator gives to its neighbour."""

    def __torch_dispatch__(self, func: typing.Any, types: typing.Any, args: typing.Any = (), kwargs: typing.Any = None) -> typing.Any:
        out = func(*args, **(kwargs or {}))
        name = func._schema.name.partition("::")[2]
        if not func.is_view and (name if name.endswith("__") else name.removesuffix("_")) not in EXACT:
            for tensor in out if isinstance(out, (tuple, list)) else [out]:
                if isinstance(tensor, torch.Tensor) and tensor.is_floating_point() and tensor.numel():
                    up = torch.arange(tensor.numel()).reshape(tensor.shape) % 2 == 0
                    tensor.copy_(torch.where(up, torch.nextafter(tensor, torch.full_like(tensor, torch.inf)), tensor))
        return out
