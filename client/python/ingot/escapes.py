# SPDX-License-Identifier: Apache-2.0
"""Catches what leaves the graph through Python while a recording runs.

The recorder sees every operator, and so every number that Python reads through one (`item`,
`bool(x)`, `int(x)`): those become value guards. Some calls read or share a tensor's memory without
any operator. They are refused here, by name; the function itself runs on unchanged.
"""

from __future__ import annotations

from typing import Any, Callable, Protocol

import torch
from torch._C import _len_torch_function_stack
from torch._ops import HigherOrderOperator
from torch.nn.parameter import UninitializedTensorMixin
from torch.overrides import TorchFunctionMode, _pop_mode, _push_mode

__all__ = ["Escapes"]

# More elements than this are data, not a decision: a value guard for each would only fail.
_TOLIST_ELEMENTS_MAX = 64


_DATA_GETTER = torch.Tensor.data.__get__


class _Recorder(Protocol):
    def refuse(self, name: str, detail: str) -> None: ...


class _Unwrapper(Protocol):
    def call(self, inner: Callable[..., Any], func: Any, types: Any, args: Any, kwargs: Any) -> Any: ...


def _escapes() -> dict[Any, str]:
    """Function as a torch-function mode sees it -> name of the refusal."""
    methods = {
        "numpy": "escape-numpy",
        "__array__": "escape-numpy",
        "data_ptr": "escape-data-ptr",
        "__dlpack__": "escape-dlpack",
        "storage": "escape-storage",
        "untyped_storage": "escape-storage",
        "_typed_storage": "escape-storage",
        "share_memory_": "escape-storage",
        "is_shared": "escape-storage",
        "__reduce_ex__": "escape-pickle",
        "__reduce__": "escape-pickle",
        "__setstate__": "escape-pickle",
        "__deepcopy__": "escape-copy",
        "__repr__": "escape-repr",
        "__format__": "escape-repr",
        "register_hook": "escape-autograd",
        "register_post_accumulate_grad_hook": "escape-autograd",
        "backward": "escape-autograd",
        "set_": "metadata-change",
        "resize_": "metadata-change",
        "resize_as_": "metadata-change",
    }
    table = {
        getattr(torch.Tensor, method): name
        for method, name in methods.items()
        if hasattr(torch.Tensor, method)
    }
    properties = {
        "__cuda_array_interface__": ("__get__", "escape-data-ptr"),
        "_cdata": ("__get__", "escape-data-ptr"),
        "_version": ("__get__", "escape-version"),
        "grad": ("__set__", "escape-autograd"),
        "data": ("__set__", "metadata-change"),
    }
    for attribute, (accessor, name) in properties.items():
        found = getattr(torch.Tensor, attribute, None)
        if hasattr(found, accessor):
            table[getattr(found, accessor)] = name
    for function in (torch.save, torch.frombuffer, torch.utils.dlpack.from_dlpack):
        table[function] = "escape-memory"
    return table


def _shares_memory(data: Any) -> bool:
    """Whether a constructor's data is an array or buffer of somebody else."""
    if isinstance(data, (torch.Tensor, bool, int, float, complex, str)):
        return False
    if isinstance(data, (list, tuple)):
        return any(_shares_memory(item) for item in data[:1])
    return True


def _list_of(tensor: torch.Tensor) -> Any:
    """`tolist` by operators the recorder sees: each element becomes a value guard."""
    if tensor.dim() == 0:
        return tensor.item()
    return [_list_of(row) for row in tensor.unbind(0)]


def _name_of(func: Callable[..., Any]) -> str:
    owner = getattr(func, "__self__", None)
    if getattr(func, "__name__", "") in ("__get__", "__set__") and owner is not None:
        return f"Tensor.{getattr(owner, '__name__', owner)}"
    return getattr(func, "__qualname__", None) or getattr(func, "__name__", str(func))


def _detail(func: Callable[..., Any], args: tuple[Any, ...]) -> str:
    for argument in args:
        if isinstance(argument, torch.Tensor):
            return f"{_name_of(func)} of {argument.dtype} {list(argument.shape)}"
    return _name_of(func)


_Handler = Callable[[_Recorder, Callable[..., Any], "tuple[Any, ...]", "dict[str, Any]"], Any]


def _refuses(name: str) -> _Handler:
    def handle(
        recorder: _Recorder, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        recorder.refuse(name, _detail(func, args))
        return func(*args, **kwargs)

    return handle


def _make_data_visible(
    recorder: _Recorder, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    # The getter of `data` makes an alias behind the dispatcher's back; detach makes the same
    # alias as a step.
    return args[0].detach()


def _make_list_visible(
    recorder: _Recorder, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    if type(args[0]) is torch.Tensor and args[0].numel() <= _TOLIST_ELEMENTS_MAX:
        return _list_of(args[0])
    recorder.refuse("escape-tolist", _detail(func, args))
    return func(*args, **kwargs)


def _check_data(
    recorder: _Recorder, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    # Python data becomes a constant; an array shares memory that no guard watches.
    if _shares_memory(args[0] if args else kwargs.get("data", kwargs.get("obj"))):
        recorder.refuse("escape-memory", f"{_name_of(func)} of an array or buffer")
    return func(*args, **kwargs)


def _handlers() -> dict[Any, _Handler]:
    handlers: dict[Any, _Handler] = {func: _refuses(name) for func, name in _escapes().items()}
    handlers[_DATA_GETTER] = _make_data_visible
    handlers[torch.Tensor.tolist] = _make_list_visible
    for constructor in (torch.tensor, torch.as_tensor, torch.asarray):
        handlers[constructor] = _check_data
    return handlers


_HANDLERS = _handlers()
# The kinds of nearly every function; higher-order operators have a metaclass that makes isinstance
# slow, so they are looked for among the others only.
_PLAIN_KINDS = frozenset(
    type(func) for func in (torch.Tensor.add, torch.add, torch.nn.functional.silu, _DATA_GETTER)
)
_PLAIN_TYPES = frozenset((torch.Tensor, torch.nn.Parameter, torch.nn.Buffer))


class Escapes(TorchFunctionMode):
    """Held while a recorder runs; refuses the recording at the first escape.

    It steps aside when nothing is recorded any more.
    With an unwrapper, tensors that a collective still fills become plain
    ones before a call sees them.
    """

    def __init__(
        self,
        recorder: _Recorder,
        unwrapper: _Unwrapper | None = None,
    ) -> None:
        super().__init__()
        self._recorder = recorder
        self._left = False
        self._unwrapper = unwrapper

    def __exit__(self, *exception: Any) -> None:
        if not self._left:
            super().__exit__(*exception)

    def step_aside(self) -> None:
        """Leaves the stack of modes: nothing is recorded any more, and torch.compile must not find it there."""
        above = []
        while _len_torch_function_stack() > 0:
            mode = _pop_mode()
            if mode is self:
                self._left = True
                break
            above.append(mode)
        for mode in reversed(above):
            _push_mode(mode)

    # Runs once for each torch call of the recorded function: the common case is two look-ups.
    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if self._unwrapper is not None:
            return self._unwrapper.call(self._call, func, types, args, kwargs)
        return self._call(func, types, args, kwargs)

    def _call(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any] | None,
    ) -> Any:
        if types:
            odd = [kind for kind in types if kind not in _PLAIN_TYPES]
            for kind in odd:
                name = "uninitialized" if issubclass(kind, UninitializedTensorMixin) else "subclass"
                self._recorder.refuse(name, f"{kind.__module__}.{kind.__qualname__}")
            if odd:
                return func(*args, **kwargs) if kwargs else func(*args)
        handler = _HANDLERS.get(func)
        if handler is not None:
            return handler(self._recorder, func, args, kwargs or {})
        if type(func) not in _PLAIN_KINDS and isinstance(func, HigherOrderOperator):
            self._recorder.refuse("higher-order", func.name())
        return func(*args, **kwargs) if kwargs else func(*args)
