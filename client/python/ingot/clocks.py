# SPDX-License-Identifier: Apache-2.0
"""Clocks that a traced program may read and print, and nothing else: proof that no time steers its result."""

import logging
import sys
import time
import types
import typing

import torch

from ingot import recording

NAMES = ("time", "perf_counter", "monotonic", "process_time", "thread_time")
_EXEMPT = (torch.__path__[0] + "/", logging.__path__[0] + "/")
_REAL = {getattr(time, name + suffix): f"time.{name}{suffix}" for name in NAMES for suffix in ("", "_ns")}


class Reading:
    """What a clock gave: sums and text are fine, looking at its value is refused."""

    def _refuse(self, *_: typing.Any) -> typing.Any:
        raise recording.Refused("impure-call", "the program's result depends on a clock")

    def _derived(self, *_: typing.Any) -> "Reading":
        return self

    def __format__(self, spec: str) -> str:
        return format(0.0, spec)

    def __repr__(self) -> str:
        return "0.0"

    __str__ = __repr__
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __floordiv__ = __neg__ = __abs__ = _derived
    __round__ = _derived
    __bool__ = __float__ = __int__ = __index__ = __hash__ = __len__ = _refuse  # type: ignore[assignment]
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse  # type: ignore[assignment]


def only_clocks(impure: "typing.Sequence[str]") -> bool:
    """Whether the impure calls of a run were reads of clocks of the module ``time`` alone."""
    return bool(impure) and all(name in _REAL.values() for name in impure)


def held_by(codes: "typing.Iterable[tuple[types.CodeType, str]]") -> "str | None":
    """A clock that executed code holds by a name of its own, which watching ``time`` cannot see; None: there is none."""
    for code, module in codes:
        space = getattr(sys.modules.get(module), "__dict__", {})
        for name in code.co_names:
            value = space.get(name)
            if isinstance(value, types.BuiltinFunctionType) and value in _REAL:
                return f"{module}.{name}"
    return None


class Watched:
    """While held, the clocks of the module ``time`` give readings, except to torch, which times itself, and to logging;
    ``count`` says how often others asked."""

    def __init__(self) -> None:
        self.count = 0

    def _watch(self, real: typing.Any) -> typing.Any:
        def read() -> typing.Any:
            if sys._getframe(1).f_code.co_filename.startswith(_EXEMPT):
                return real()
            self.count += 1
            return Reading()

        return read

    def __enter__(self) -> "Watched":
        for real, name in _REAL.items():
            setattr(time, name.removeprefix("time."), self._watch(real))
        return self

    def __exit__(self, *exc: typing.Any) -> None:
        for real, name in _REAL.items():
            setattr(time, name.removeprefix("time."), real)
