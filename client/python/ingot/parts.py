# SPDX-License-Identifier: Apache-2.0
"""A program that is no one graph, in parts: the modules that it calls are served natively, with Python between them.

A part stands where ``torch.nn.Module.compile`` keeps its own, in ``_compiled_call_impl``: it goes where its module goes, and is neither
copied nor pickled with it. Calls of the program alone see it (``_native.call``): for everyone else the module is what it was.
"""

import sys
import types
import typing

import torch

from ingot import _native

if typing.TYPE_CHECKING:
    from ingot.engine import Engine

_CALL = torch.nn.Module._wrapped_call_impl.__code__


def survey(function: typing.Any, args: "tuple[typing.Any, ...]", kwargs: "dict[str, typing.Any]") -> "tuple[typing.Any, list[torch.nn.Module]]":
    """The eager answer of a call, and the modules that it called, without those that these called. None under somebody's profiler."""
    called: "dict[int, torch.nn.Module]" = {}
    depth = 0

    def note(frame: types.FrameType, event: str, _: object) -> None:
        nonlocal depth
        if frame.f_code is not _CALL or event not in ("call", "return"):
            return
        module = frame.f_locals["self"]
        if module is function:
            return
        if event == "call" and depth == 0:
            called[id(module)] = module
        depth += 1 if event == "call" else -1

    if sys.getprofile() is None:
        sys.setprofile(note)
        try:
            return function(*args, **kwargs), list(called.values())
        finally:
            sys.setprofile(None)
    return function(*args, **kwargs), []


def gains(module: torch.nn.Module) -> bool:
    """Whether a part may stand in a module: it is no single operator, and nobody else has compiled it."""
    is_operator = type(module).__module__.startswith("torch.nn.") and not module._modules
    is_compiled = isinstance(module, torch.jit.ScriptModule) or _native.engine_of(module) is not None
    return not is_operator and not is_compiled and "_compiled_call_impl" not in vars(module)


def make(module: torch.nn.Module, whole: "Engine") -> "Engine":
    """The engine of a module as a part of ``whole``."""
    from ingot.engine import Engine

    kind = type(module)
    part = Engine(module._call_impl, whole.config, f"{kind.__module__}.{kind.__qualname__} in {whole.name}")
    part.be_part()
    vars(module)["_compiled_call_impl"] = part.site
    return part
