# SPDX-License-Identifier: Apache-2.0
"""A program that is no one graph, in parts: the modules that it calls are served natively, with Python between them.

A part stands where ``torch.nn.Module.compile`` keeps its own, in ``_compiled_call_impl``: it goes where its module goes, and is neither
copied nor pickled with it. Calls of the program alone see it (``_native.call``): for everyone else the module is what it was.
"""

import json
import sys
import types
import typing

import torch

from ingot import _native, paths

if typing.TYPE_CHECKING:
    from ingot.engine import Engine

_CALL = torch.nn.Module._wrapped_call_impl.__code__


class Note(typing.NamedTuple):
    """What the next process is told of a program that runs in parts, so that it need not find it out."""

    why: str
    codes: "dict[str, list[str]]"
    """Digests of the code that ran between the modules, by the names of its functions."""

    def to_text(self) -> str:
        return json.dumps(self._asdict())

    def agrees(self, other: "Note") -> bool:
        """Whether no function of both has changed: the reason lies in one of them."""
        return all(set(digests) & set(other.codes[name]) for name, digests in self.codes.items() if name in other.codes)


def note_of(text: str) -> "Note | None":
    """None for what no client of this version has written."""
    try:
        note = Note(**json.loads(text))
        return note if isinstance(note.why, str) and all(isinstance(digests, list) for digests in note.codes.values()) else None
    except (ValueError, TypeError, AttributeError):
        return None


class Survey:
    """One eager call of a function, with the modules that it called, without those that these called. Takes the place of this thread's profiler."""

    def __init__(self, function: typing.Any) -> None:
        self._function, self._depth = function, 0
        self._modules: "dict[int, torch.nn.Module]" = {}
        self._codes: "dict[types.CodeType, str]" = {}

    def run(self, args: "tuple[typing.Any, ...]", kwargs: "dict[str, typing.Any]") -> typing.Any:
        """The function's answer."""
        sys.setprofile(self._see)
        try:
            return self._function(*args, **kwargs)
        finally:
            sys.setprofile(None)

    def _see(self, frame: types.FrameType, event: str, _: object) -> None:
        if event not in ("call", "return"):
            return
        if frame.f_code is not _CALL:
            if event == "call" and self._depth == 0:
                name = getattr(frame.f_code, "co_qualname", frame.f_code.co_name)
                self._codes[frame.f_code] = f"{frame.f_globals.get('__name__')}.{name}"
            return
        module = frame.f_locals["self"]
        if module is self._function:
            return
        if event == "call" and self._depth == 0:
            self._modules[id(module)] = module
        self._depth += 1 if event == "call" else -1

    def modules(self) -> "list[torch.nn.Module]":
        """Those in which a part may stand."""
        return [module for module in self._modules.values() if gains(module)]

    def note(self, why: str) -> Note:
        codes: "dict[str, list[str]]" = {}
        for code, name in self._codes.items():
            if not name.startswith("torch."):  # Of its version the key knows.
                codes.setdefault(name, []).append(_native.digest_code(code))
        return Note(why, codes)


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
    from ingot.engine import Engine

    kind = type(module)
    part = Engine(module._call_impl, whole.config, f"{kind.__module__}.{kind.__qualname__} in {whole.name}")
    part.be_part()
    vars(module)["_compiled_call_impl"] = part.site
    return part
