# SPDX-License-Identifier: Apache-2.0
"""What runs wherever Python happens to be, and is no part of the call in which it does: handlers of signals, and what collections of garbage
start (their callbacks, finalizers, generators that nobody has finished)."""

import contextlib
import gc
import signal
import typing


def codes() -> "list[typing.Any]":
    """The code objects of the handlers that are set now."""
    found = (_code(signal.getsignal(number)) for number in signal.valid_signals())
    return [code for code in found if code is not None]


def is_one(error: BaseException) -> bool:
    """Whether a handler of a signal has raised it: then it is the program's, not ours to swallow."""
    handlers, at = codes(), error.__traceback__
    while at is not None:
        if at.tb_frame.f_code in handlers:
            return True
        at = at.tb_next
    return False


@contextlib.contextmanager
def none_of_collections() -> "typing.Iterator[None]":
    """No garbage is collected meanwhile, but what goes by itself."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _code(handler: typing.Any) -> typing.Any:
    """Of a function, a method or an object that can be called."""
    for function in (handler, getattr(handler, "__func__", None), getattr(type(handler), "__call__", None)):
        if hasattr(function, "__code__"):
            return function.__code__
    return None
