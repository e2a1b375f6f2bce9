# SPDX-License-Identifier: Apache-2.0
"""Code objects by name: how a record's code is found again in another process."""

import sys
import types
import typing


def code_of(value: typing.Any) -> "types.CodeType | None":
    """The code of a function, or of the one inside a method or property."""
    for name in ("__func__", "fget"):
        value = getattr(value, name, value)
    return getattr(value, "__code__", None)


def _candidates(value: typing.Any) -> "typing.Iterator[types.CodeType]":
    """Code of a function and of everything it wraps."""
    for _ in range(16):
        code = code_of(value)
        if code is not None:
            yield code
        for cell in getattr(value, "__closure__", None) or ():
            try:
                inner = code_of(cell.cell_contents)
            except ValueError:
                continue
            if inner is not None:
                yield inner
        value = getattr(value, "__wrapped__", None)
        if value is None:
            return


def _nested(code: types.CodeType, names: "list[str]") -> "list[types.CodeType]":
    """Code objects defined inside a function, by the path of their names."""
    found = [code]
    for name in names:
        found = [const for outer in found for const in outer.co_consts
                 if isinstance(const, types.CodeType) and const.co_name == name]
    return found


def find_codes(module: str, qualname: str) -> "list[types.CodeType]":
    """The code objects of that name among what is loaded; decorated and nested functions included."""
    value: typing.Any = sys.modules.get(module)
    outer, *inner = qualname.split(".<locals>.")
    parts = outer.split(".")
    for part in parts:
        value = vars(value).get(part, getattr(value, part, None)) if hasattr(value, "__dict__") else getattr(value, part, None)
        if value is None:
            return []
    codes = list(_candidates(value))
    names = [name for chunk in inner for name in chunk.split(".")]
    return [nested for code in codes for nested in _nested(code, names)] if names else codes


def qualname(code: types.CodeType) -> str:
    """The name with its classes and functions around it."""
    return getattr(code, "co_qualname", code.co_name)


def with_nested(codes: "typing.Iterable[types.CodeType]") -> "set[types.CodeType]":
    """The codes and all that are defined inside them, whose digests are part of theirs."""
    found: "set[types.CodeType]" = set()
    waiting = list(codes)
    while waiting:
        code = waiting.pop()
        if code not in found:
            found.add(code)
            waiting += [const for const in code.co_consts if isinstance(const, types.CodeType)]
    return found
