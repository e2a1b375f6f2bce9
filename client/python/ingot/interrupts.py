# SPDX-License-Identifier: Apache-2.0
"""Exceptions that a program's signal handlers raise wherever Python happens to be: they are the program's, not ours to swallow."""

import signal
import typing


def is_one(error: BaseException) -> bool:
    """Whether a handler that is set now has raised it. Asked where a bug of ours would be caught: it costs tens of microseconds."""
    handlers = {_code(signal.getsignal(number)) for number in signal.valid_signals()} - {None}
    at = error.__traceback__
    while at is not None:
        if at.tb_frame.f_code in handlers:
            return True
        at = at.tb_next
    return False


def _code(handler: typing.Any) -> typing.Any:
    """Of a function, a method or an object that can be called."""
    for function in (handler, getattr(handler, "__func__", None), getattr(type(handler), "__call__", None)):
        if hasattr(function, "__code__"):
            return function.__code__
    return None
