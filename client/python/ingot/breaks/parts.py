# SPDX-License-Identifier: Apache-2.0
"""A program that is no one graph, in parts: the modules that it calls are served natively, with Python between them.

A part stands where ``torch.nn.Module.compile`` keeps its own, in ``_compiled_call_impl``: it goes where its module goes, and is neither
copied nor pickled with it. Calls of the program alone see it (``_native.call``): for everyone else the module is what it was.
"""

import inspect
import re
import sys
import types
import typing
import weakref

import torch

from ingot import _native
from ingot.trace import kinds, paths

if typing.TYPE_CHECKING:
    from ingot.site.engine import Engine

_CALL = torch.nn.Module._wrapped_call_impl.__code__


_LEAVING = ("tolist", "numpy", "__array__", "data_ptr", "untyped_storage", "item", "nonzero")
"""Methods of tensors, made in C, that no operator is seen of, or one whose result decides what comes."""
_PLACE = re.compile(r"\(([\w.<> -]+):(\d+)\)")


class Survey:
    """One eager call of a function: the modules that it called, without those that these called, and where values left the graph, by the
    instruction of the function that was running (``cutting``). Takes the place of this thread's profiler."""

    def __init__(self, function: typing.Any, why: str, code: "types.CodeType | None" = None) -> None:
        self._function, self._depth, self._code = function, 0, code
        self._was_recorded = why.startswith(("value guards failed", "more than"))
        """Then every operator of it can be. Of what was refused, the reason says the line."""
        self._frame: "types.FrameType | None" = None
        self._modules: "dict[int, torch.nn.Module]" = {}
        found = _PLACE.search(why)
        self._file, self._line = (found[1], int(found[2])) if found else ("", 0)
        self.offsets: "set[int]" = set()
        """Of instructions that ran when a value left."""
        self.needs_whole: "str | None" = None
        """Why the function's frame has to stay what it is until it returns, or None."""

    def run(self, args: "tuple[typing.Any, ...]", kwargs: "dict[str, typing.Any]") -> typing.Any:
        """The function's answer."""
        recorder = _native.Recorder()
        sys.setprofile(self._see)
        if self._was_recorded:
            recorder.survey(self._mark)
            recorder.start()
        try:
            return self._function(*args, **kwargs)
        finally:
            recorder.stop()
            sys.setprofile(None)

    def _mark(self) -> None:
        if self._frame is not None:
            self.offsets.add(self._frame.f_lasti)

    def _see(self, frame: types.FrameType, event: str, what: typing.Any) -> None:
        if event == "c_call":
            if getattr(what, "__name__", "") in _LEAVING and isinstance(getattr(what, "__self__", None), torch.Tensor):
                self._mark()
            elif what is sys._getframe and not str(frame.f_globals.get("__name__")).startswith(_NAMES_FRAMES_ALONE):
                self.needs_whole = f"{frame.f_code.co_name} looks at the frames of its callers"
            return
        if event not in ("call", "return"):
            return
        if frame.f_code is self._code:
            if event == "call" and self._frame is None:
                self._frame = frame
            elif event == "return" and frame is self._frame:
                minding = (name for name, value in frame.f_locals.items() if _minds_going(value, name in _arguments(frame.f_code)))
                self.needs_whole = self.needs_whole or next((f"{name} lives as long as it runs" for name in minding), None)
                self._frame = None
        if event == "call" and self._is_at_reason(frame.f_code):
            self._mark()
        if frame.f_code is not _CALL:
            return
        module = frame.f_locals["self"]
        if module is self._function:
            return
        if event == "call" and self._depth == 0:
            self._modules[id(module)] = module
        self._depth += 1 if event == "call" else -1

    def _is_at_reason(self, code: types.CodeType) -> bool:
        if code is self._code or not self._line or code.co_filename.rpartition("/")[2] != self._file:
            return False
        return any(line == self._line for _, _, line in code.co_lines())

    def line_of_reason(self) -> "int | None":
        """The line of the function in which the reason lies, where it is one of its own."""
        code = self._code
        is_own = code is not None and self._line and code.co_filename.rpartition("/")[2] == self._file
        return self._line if is_own and any(line == self._line for _, _, line in code.co_lines()) else None  # type: ignore[union-attr]

    def modules(self) -> "list[torch.nn.Module]":
        """Those in which a part may stand."""
        return [module for module in self._modules.values() if gains(module)]


_MADE_IN_C = (torch.Tensor, int, float, complex, str, bytes, tuple, list, dict, set, frozenset, range, slice, type, types.FunctionType,
              types.BuiltinFunctionType, types.MethodType, types.ModuleType, torch.dtype, torch.device, torch.Generator, type(None))


_NAMES_FRAMES_ALONE = ("logging", "warnings", "torch")
"""Modules that ask a frame for its file and line, which pieces have too."""


def _arguments(code: types.CodeType) -> "tuple[str, ...]":
    count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return code.co_varnames[:count]


def _minds_going(value: typing.Any, is_argument: bool) -> bool:
    """Whether it may matter when an object goes: it has a finalizer, somebody is told of it (an argument's caller has it anyway), or
    nobody knows what C code does then."""
    kind = type(value)
    inner = value.values() if kind is dict else kinds.elements(value) if kinds.is_a(value, (tuple, list)) else ()
    if any(hasattr(type(one), "__del__") or not is_argument and weakref.getweakrefcount(one) > 0 for one in (value, *inner)):
        return True
    return not (isinstance(value, _MADE_IN_C) or _native.native_base(kind) is object or kind.__module__ == "numpy")


def gains(module: torch.nn.Module) -> bool:
    """Whether a part may stand in a module: it is no single operator, and nobody else has compiled it."""
    is_operator = type(module).__module__.startswith("torch.nn.") and not module._modules
    is_compiled = isinstance(module, torch.jit.ScriptModule) or _native.engine_of(module) is not None
    return not is_operator and not is_compiled and "_compiled_call_impl" not in vars(module)


def has_any(function: typing.Any) -> bool:
    """Whether something of a function stays native when it is given up, as far as can be said without calling it."""
    owner = paths.self_of(function)
    return isinstance(owner, torch.nn.Module) and any(gains(module) for module in owner.modules() if module is not owner)


def make(module: torch.nn.Module, whole: "Engine") -> "Engine":
    """The engine of a module as a part of ``whole``."""
    from ingot.site.engine import Engine

    kind = type(module)
    part = Engine(module._call_impl, whole.config, f"{kind.__module__}.{kind.__qualname__} in {whole.name}")
    part.be_part()
    vars(module)["_compiled_call_impl"] = part.site
    return part
