# SPDX-License-Identifier: Apache-2.0
"""Handlers of signals: they run wherever Python happens to be, and are no part of the call in which they do."""

import _signal  # type: ignore[import-not-found]
import signal
import types
import typing


_known: "set[types.CodeType]" = set()
"""All that codes() has given: some handlers take themselves back before they raise."""


def codes() -> "set[types.CodeType]":
    """The code objects of the handlers that are set now."""
    handlers = map(_signal.getsignal, range(1, signal.NSIG))  # Those of `signal` make an enumeration's member of each: half a millisecond.
    found = {_code(handler) for handler in handlers if handler is not None and not isinstance(handler, int)} - {None}
    _known.update(found)
    return found


def is_one(error: BaseException) -> bool:
    """Whether a handler of a signal has raised it: then it is the program's, not ours to swallow."""
    codes()
    at = error.__traceback__
    while at is not None:
        if at.tb_frame.f_code in _known:
            return True
        at = at.tb_next
    return False


def _code(handler: typing.Any) -> typing.Any:
    """Of a function, a method or an object that can be called; None of what C code does."""
    in_class = next((vars(one)["__call__"] for one in type(handler).__mro__ if "__call__" in vars(one)), None)
    for function in (handler, getattr(handler, "__func__", None), in_class):
        if isinstance(function, types.FunctionType):
            return function.__code__
    return None
