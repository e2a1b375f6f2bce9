# SPDX-License-Identifier: Apache-2.0
"""The dependency record: what outside its inputs a recording depended on, and whether it still holds here."""

import os
import sys
import types
import typing

import torch

from ingot import _native, paths

Dependency = typing.Tuple[str, str, str, str]
"""(kind, where, digest as hex, short text); kinds as in proto/service.fbs."""

_SIMPLE = (type(None), bool, int, float, complex, str, bytes, torch.dtype, torch.device)
_CONTAINER_MAX = 64


def _is_simple(value: typing.Any, depth: int = 0) -> bool:
    if isinstance(value, _SIMPLE):
        return True
    if isinstance(value, (tuple, list, frozenset, set)):
        return depth < 3 and len(value) <= _CONTAINER_MAX and all(_is_simple(v, depth + 1) for v in value)
    if isinstance(value, dict) and type(value) is dict:
        return depth < 3 and len(value) <= _CONTAINER_MAX and all(_is_simple(v, depth + 1) for v in value.values())
    return False


def _code_of(value: typing.Any) -> "types.CodeType | None":
    for name in ("__func__", "fget"):
        value = getattr(value, name, value)
    return getattr(value, "__code__", None)


def _candidates(value: typing.Any) -> "typing.Iterator[types.CodeType]":
    """Code of a function and of everything it wraps."""
    for _ in range(16):
        code = _code_of(value)
        if code is not None:
            yield code
        for cell in getattr(value, "__closure__", None) or ():
            try:
                inner = _code_of(cell.cell_contents)
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


def _qualname(code: types.CodeType) -> str:
    return getattr(code, "co_qualname", code.co_name)


def _file_digest(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return str(_native.digest_text(file.read().decode("latin-1")))
    except OSError:
        return ""


def collect(codes: "typing.Iterable[tuple[types.CodeType, str]]", environment: "dict[str, str | None]",
            roots: "dict[str, typing.Any]") -> "list[Dependency]":
    """The record of one recording: code that ran, globals it names, environment variables it read, and the
    state of modules it reached through globals and closures (``roots``)."""
    record: "dict[tuple[str, str], Dependency]" = {}
    for code, module in codes:
        # The standard library belongs to the Python version, which the environment component names;
        # methods that dataclasses generate follow from the class.
        # Code made by exec may name no module (Dynamo's pieces); its own digest is all there is.
        top = (module or "").partition(".")[0]
        if top in sys.stdlib_module_names and top != "__main__" or _qualname(code).startswith("__create_fn__."):
            continue
        _add_code(record, code, module or "")
        _add_globals(record, code, module or "")
    for name, value in environment.items():
        record["env", name] = ("env", name, _native.digest_text(repr(value)), str(value)[:60])
    for name, root in roots.items():
        record["attribute", name] = ("attribute", name, _state_digest(root), type(root).__qualname__)
    return sorted(record.values())


def _add_code(record: "dict[tuple[str, str], Dependency]", code: types.CodeType, module: str) -> None:
    qualname = _qualname(code)
    digest = _native.digest_code(code)
    where = f"{module}:{qualname}"
    if any(_native.digest_code(found) == digest for found in find_codes(module, qualname)):
        # Overloads of one name (a lambda on each line) are all part of the name's digest.
        known = record.get(("code", where))
        if known is not None and known[2] != digest:
            digest = _native.digest_text("".join(sorted({known[2], digest})))
        record["code", where] = ("code", where, digest, "")
    elif os.path.exists(code.co_filename):
        record["file", code.co_filename] = ("file", code.co_filename, _file_digest(code.co_filename), qualname)
    else:
        record["opaque", where] = ("opaque", where, digest, "code that no name or file leads to")


def _add_globals(record: "dict[tuple[str, str], Dependency]", code: types.CodeType, module: str) -> None:
    """What the code's global names stand for, and the names it looks up in modules that they lead to."""
    space = getattr(sys.modules.get(module), "__dict__", {})
    names = _native.global_names(code)
    for name in names:
        _add_global(record, space, module, name)
    modules = [space[name] for name in names if isinstance(space.get(name), types.ModuleType)]
    for found in modules:
        for name in code.co_names:
            _add_global(record, vars(found), found.__name__, name)
            inner = vars(found).get(name)
            if isinstance(inner, types.ModuleType) and inner not in modules:
                modules.append(inner)


def _add_global(record: "dict[tuple[str, str], Dependency]", space: "dict[str, typing.Any]", module: str, name: str) -> None:
    where = f"{module}:{name}"
    if name in space and ("global", where) not in record:
        found = _global_digest(space[name])
        if found is not None:
            record["global", where] = ("global", where, *found)


def _global_digest(value: typing.Any) -> "tuple[str, str] | None":
    """(digest, short text) of a value or of which function it is (its code is a dependency of its own); None for others."""
    if isinstance(value, (types.FunctionType, types.BuiltinFunctionType)):
        text = f"{value.__module__}.{value.__qualname__}"
        return str(_native.digest_text(text)), text
    if _is_simple(value):
        digest, text, _ = _native.digest_value(value)
        return digest, text
    return None


def executed(record: "typing.Iterable[Dependency]") -> "typing.Iterator[tuple[dict[str, typing.Any], types.CodeType]]":
    """(globals, code) of everything the recording ran, as this process has it."""
    for kind, where, _, _ in record:
        module, _, qualname = where.partition(":")
        if kind == "code" and module in sys.modules:
            for code in find_codes(module, qualname):
                yield vars(sys.modules[module]), code


def definitions(record: "typing.Iterable[Dependency]") -> "typing.Iterator[tuple[typing.Any, str, typing.Any]]":
    """(dict or type, name, value): where the functions and globals of a record are defined in this process."""
    for kind, where, _, _ in record:
        module, _, qualname = where.partition(":")
        if kind not in ("code", "global") or module not in sys.modules:
            continue
        owner: typing.Any = vars(sys.modules[module])
        for name in qualname.partition(".<locals>")[0].split("."):
            table = vars(owner) if isinstance(owner, type) else owner
            if not isinstance(table, (dict, types.MappingProxyType)) or name not in table:
                break
            yield owner, name, table[name]
            owner = table[name]


def _state_digest(root: typing.Any) -> str:
    items, _ = _native.state_of(root, "")
    return str(_native.digest_text("".join(digest for _, digest, _ in items)))


def first_mismatch(record: "typing.Iterable[Dependency]", roots: paths.Roots) -> "str | None":
    """The first dependency that does not hold in this process, in words; None when all hold."""
    for kind, where, digest, text in record:
        found = _digest_here(kind, where, digest, roots)
        if found is None:
            return f"{kind} {where}: not found in this process"
        if found != digest:
            return f"{kind} {where.replace(':', '.', 1)} changed" + (f" (was {text})" if text else "")
    return None


def _digest_here(kind: str, where: str, digest: str, roots: paths.Roots) -> "str | None":
    module, _, name = where.partition(":")
    if kind == "code":
        found = {_native.digest_code(code) for code in find_codes(module, name)}
        if digest in found:
            return digest
        if not found:
            return None
        return str(_native.digest_text("".join(sorted(found))))
    if kind == "global":
        space = getattr(sys.modules.get(module), "__dict__", {})
        found_here = _global_digest(space[name]) if name in space else None
        return found_here and found_here[0]
    if kind == "env":
        return str(_native.digest_text(repr(os.environ.get(where))))
    if kind == "file":
        return _file_digest(where) or None
    if kind == "attribute":
        try:
            return _state_digest(roots.get(where))
        except KeyError:
            return None
    # Opaque things cannot be checked; the policy was applied when the record was made.
    return digest
