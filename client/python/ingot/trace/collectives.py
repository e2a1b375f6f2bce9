# SPDX-License-Identifier: Apache-2.0
"""Results of collectives that are still under way.

Eager PyTorch hands them out as AsyncCollectiveTensor, which waits when it is first used. A recording waits at the
same place, by an operator the recorder sees; what is returned stays such a tensor, finished.
"""

import importlib
import sys
import typing

import torch
from torch.overrides import TorchFunctionMode

from ingot.trace import kinds

_MODULE = "torch.distributed._functional_collectives"
# What these read is the same before and after the wait.
_METADATA = frozenset(getattr(torch.Tensor, name).__get__ for name in ("shape", "dtype", "device", "ndim", "layout",
                                                                       "is_leaf", "requires_grad", "is_cuda")
                      ) | {torch.Tensor.size, torch.Tensor.dim, torch.Tensor.stride, torch.Tensor.numel,
                           torch.Tensor.is_floating_point, torch.Tensor.is_contiguous, torch.Tensor.element_size}


def async_type() -> "type | None":
    """AsyncCollectiveTensor, where the module that has it is loaded."""
    return getattr(sys.modules.get(_MODULE), "AsyncCollectiveTensor", None)


def wrap_operator() -> typing.Any:
    """The operator by which newer versions of torch make an AsyncCollectiveTensor; None in others."""
    space = getattr(torch.ops, "_c10d_functional", None)
    packet = getattr(space, "_wrap_tensor_autograd", None) if async_type() is not None else None
    return getattr(packet, "default", None)


def finished(value: typing.Any) -> typing.Any:
    """The plain tensor in an AsyncCollectiveTensor, after its wait; containers are taken apart; others as they are."""
    return _map(value, lambda tensor: tensor.trigger_wait())


def unwrapped(value: typing.Any) -> typing.Any:
    """As ``finished``, without waiting."""
    return _map(value, lambda tensor: tensor.elem)


def settle(value: typing.Any) -> None:
    """Waits for every AsyncCollectiveTensor in a result, in place."""
    finished(value)


def holds_any(value: typing.Any) -> bool:
    """Whether there is an AsyncCollectiveTensor in it."""
    found: "list[typing.Any]" = []
    _map(value, found.append)
    return bool(found)


def done(elem: torch.Tensor) -> torch.Tensor:
    """A finished tensor in the type that eager PyTorch returns."""
    kind = async_type()
    if kind is None:
        return elem
    made = kind(elem)
    made.completed = True
    return typing.cast(torch.Tensor, made)


def _map(value: typing.Any, change: "typing.Callable[[typing.Any], typing.Any]", depth: int = 0) -> typing.Any:
    kind = async_type()
    if kind is None or depth > 8:
        return value
    if kinds.is_a(value, kind):
        return change(value)
    if type(value) in (tuple, list):
        return type(value)(_map(item, change, depth + 1) for item in value)
    if type(value) is dict:
        return {key: _map(item, change, depth + 1) for key, item in value.items()}
    return value


class Unwrapping(TorchFunctionMode):
    """Does for each recorded torch call what AsyncCollectiveTensor does for an eager one: it is made on plain tensors, waited
    for unless only metadata is read, and views of them are handed out as eager does."""

    def __init__(self) -> None:
        super().__init__()
        importlib.import_module(_MODULE)
        self._kind: typing.Any = async_type()
        self._wrap = wrap_operator()

    def __torch_function__(self, func: typing.Any, types: typing.Any, args: typing.Any = (), kwargs: typing.Any = None) -> typing.Any:
        if func is self._wrap and func is not None:
            return self._kind(args[0])
        taken: "list[torch.Tensor]" = []

        def take(tensor: typing.Any) -> torch.Tensor:
            taken.append(tensor.elem if func in _METADATA else tensor.trigger_wait())
            return taken[-1]

        result = func(*_map(args, take), **_map(kwargs or {}, take))
        return self._as_eager(result, taken) if taken else result

    def _as_eager(self, result: typing.Any, taken: "list[torch.Tensor]") -> typing.Any:
        if type(result) in (tuple, list):
            return type(result)(self._as_eager(item, taken) for item in result)
        if type(result) is not torch.Tensor or not any(torch._C._is_alias_of(result, tensor) for tensor in taken):  # type: ignore[attr-defined]
            return result
        return done(result)
