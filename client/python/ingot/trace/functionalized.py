# SPDX-License-Identifier: Apache-2.0
"""What functionalization puts in the place of an operator that writes its arguments (``auto_functionalized``), as a plain call."""

import typing

import torch


def plain(target: typing.Any) -> typing.Any:
    """The function of this file that does what a node's target does; the target itself where there is none."""
    higher_order = torch.ops.higher_order
    if target is getattr(higher_order, "auto_functionalized", None):
        return on_copies
    return on_copies_of_bases if target is getattr(higher_order, "auto_functionalized_v2", None) else target


def on_copies(op: typing.Any, **kwargs: typing.Any) -> "tuple[typing.Any, ...]":
    """The operator on copies of what it writes; its results, then the copies."""
    names = [argument.name for argument in op._schema.arguments if argument.alias_info is not None and argument.alias_info.is_write]
    copies = {name: _copy(kwargs[name]) for name in names}
    return (*_as_tuple(op(**{**kwargs, **copies})), *copies.values())


def on_copies_of_bases(op: typing.Any, **kwargs: typing.Any) -> "tuple[typing.Any, ...]":
    """As `on_copies`, of tensors of which several arguments may be views."""
    from torch._higher_order_ops import auto_functionalize as of_torch

    if not isinstance(op, torch._ops.OpOverload) or torch._library.utils.is_out(op):
        return typing.cast("tuple[typing.Any, ...]", torch.ops.higher_order.auto_functionalized_v2(op, **kwargs))
    names, kinds = of_torch.get_mutable_args_from_schema(op._schema)
    bases = kwargs.pop("_all_bases", [])
    views = of_torch.read_view_information_from_args(names, kinds, kwargs, bases)
    copies = _copy(list(bases))

    def taken(view: typing.Any) -> typing.Any:
        if isinstance(view, list):
            return [taken(one) for one in view]
        return None if view is None else view.regenerate_view(copies)

    return (*_as_tuple(op(**kwargs, **{name: taken(view) for name, view in views.items()})), *copies)


def _as_tuple(results: typing.Any) -> "tuple[typing.Any, ...]":
    return results if isinstance(results, tuple) else (results,)


def _copy(value: typing.Any) -> typing.Any:
    """With the strides that it has."""
    if isinstance(value, (list, tuple)):
        return [_copy(one) for one in value]
    return None if value is None else torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device).copy_(value)
