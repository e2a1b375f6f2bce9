# SPDX-License-Identifier: Apache-2.0
"""Which names a program can read attributes by: those in its code, and those it asks for through getattr."""

import builtins
import dis
import functools
import importlib
import sys
import threading
import types
import typing

from ingot import _native, codes, noting

# Code that says these may read any attribute of the object it says them of.
_ANY = frozenset(["__dict__", "vars", "__getstate__"])

# What nn.Module.__call__ reads, whose own code no record holds.
_CALLED = frozenset(["forward"])

Codes = typing.Iterable[typing.Tuple[types.CodeType, str]]


def is_standard(module: "str | None") -> bool:
    """Python's own library, which belongs to the Python version that the key names."""
    return (module or "").partition(".")[0] in sys.stdlib_module_names and module != "__main__"


def _of_constant(value: typing.Any) -> "typing.Iterator[str]":
    if isinstance(value, str):
        if len(value) < 128 and value.replace(".", "").isidentifier():
            yield from value.split(".")
    elif isinstance(value, (tuple, frozenset)):
        for item in value:
            yield from _of_constant(item)


def _class_read_whole(code: types.CodeType, module: str) -> "str | None":
    """``*module:Class`` when a method reads all attributes of its own object only; None when of others too."""
    outer = codes.qualname(code).partition(".<locals>.")[0]
    owner = outer.rpartition(".")[0]
    instructions = [i for i in dis.get_instructions(code) if i.opname not in ("PUSH_NULL", "CACHE")]
    for number, found in enumerate(instructions):
        if found.argval in _ANY:
            beside = instructions[number + (1 if found.opname == "LOAD_GLOBAL" else -1)]
            if beside.argval != "self":
                return None
    return f"*{module}:{owner}" if owner else None


@functools.lru_cache(maxsize=8192)
def _of_code(code: types.CodeType, module: str) -> "frozenset[str] | None":
    """The names one code object utters; None when it may read any attribute of any object."""
    found = set(code.co_names)
    if not _ANY.isdisjoint(code.co_names):
        owner = _class_read_whole(code, module)
        if owner is None:
            return None
        found.add(owner)
    for constant in code.co_consts:
        found.update(_of_constant(constant))
    return frozenset(found)


def of_codes(ran: Codes, noted: "typing.Iterable[str]") -> "frozenset[str] | None":
    """Every name the executed code utters, and ``*module:Class`` for classes whose objects it reads whole; None when it
    may read any attribute of any object."""
    found = {*_CALLED, *noted}
    if not _ANY.isdisjoint(found):
        return None
    for code, module in ran:
        if is_standard(module):
            continue
        uttered = _of_code(code, module or "")
        if uttered is None:
            return None
        found |= uttered
    return frozenset(found)


_plain_getattr, _plain_hasattr = builtins.getattr, builtins.hasattr


def _note(name: typing.Any) -> None:
    found = noted.here()
    if found is None or _native.in_meta_kernel():
        return
    asking = str(sys._getframe(2).f_globals.get("__name__", ""))
    # functools.wraps and its like copy whole objects without looking at them.
    if asking.partition(".")[0] != "torch" and not (name in _ANY and is_standard(asking)):
        found.add(name)


def _noting_getattr(value: typing.Any, name: str, *default: typing.Any) -> typing.Any:
    _note(name)
    return _plain_getattr(value, name, *default)


def _noting_hasattr(value: typing.Any, name: str) -> bool:
    _note(name)
    return _plain_hasattr(value, name)


class _Patch:
    """Noting builtins in the place of Python's own, but not for modules that are being loaded: some keep what they find, and
    torch._dynamo knows builtins by identity for as long as the process lives."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._wanted = self._notes = False
        self._loading = 0
        self._load: "typing.Callable[..., typing.Any] | None" = None

    def want(self, wanted: bool) -> None:
        with self._lock:
            if self._load is None:
                # What an import statement calls for a module that is not there yet, in every thread. Our step in it
                # stays: somebody may have put theirs before it.
                self._load = importlib._bootstrap._find_and_load  # type: ignore[attr-defined]
                importlib._bootstrap._find_and_load = self._load_plainly  # type: ignore[attr-defined]
            self._wanted = wanted
            self._apply()

    def _apply(self) -> None:
        notes = self._wanted and self._loading == 0
        if notes == self._notes:
            return
        self._notes = notes
        builtins.getattr = _noting_getattr if notes else _plain_getattr
        builtins.hasattr = _noting_hasattr if notes else _plain_hasattr

    def _load_plainly(self, name: str, import_: typing.Any) -> typing.Any:
        with self._lock:
            self._loading += 1
            self._apply()
        try:
            for found in noted.elsewhere():
                found.update(_ANY)  # What other threads ask for meanwhile nobody sees.
            assert self._load is not None
            return self._load(name, import_)
        finally:
            with self._lock:
                self._loading -= 1
                self._apply()


noted: "noting.Noting[set[str]]" = noting.Noting(_Patch().want)
"""What a thread asks for through ``getattr`` and ``hasattr``; calls from PyTorch's code are not noted."""
