# SPDX-License-Identifier: Apache-2.0
"""The dependency record: what outside its inputs a recording depended on, and whether it still holds here."""

import os
import sys
import types
import typing

import torch

from ingot import _native, codes, custom_ops, names, paths

Dependency = typing.Tuple[str, str, str, str]
"""(kind, where, digest as hex, short text); kinds as in proto/service.fbs."""

_STATE_KINDS = frozenset(["attribute", "global", "class"])


class Observed(typing.NamedTuple):
    """What a recording saw besides operators."""

    codes: "list[tuple[types.CodeType, str]]"
    """Code that ran and the names of its modules."""
    environment: "dict[str, str | None]"
    """Variables read through ``os.environ``."""
    asked: "set[str]"
    """Attributes asked for through getattr."""
    operators: "list[str]"
    """Operators called that are neither aten's nor prims'."""


def _state_roots(roots: paths.Roots) -> "dict[str, typing.Any]":
    """Where state is read from: the object called and what the function closes over."""
    found: "dict[str, typing.Any]" = {}
    owner = paths.self_of(roots.function)
    if owner is not None:
        found["self"] = owner
    found.update((f"closure:{name}", value) for name, value in sorted(paths.closure_of(roots.function).items()))
    found.update((f"object:{i}", value) for i, value in enumerate(roots.objects) if isinstance(value, torch.nn.Module))
    return found


def _space(module: str) -> "dict[str, typing.Any]":
    return getattr(sys.modules.get(module), "__dict__", {})


def collect(observed: Observed, roots: paths.Roots) -> "list[Dependency]":
    """The record of one recording."""
    # The standard library belongs to the Python version, which the environment component names.
    # Code made by exec may name no module (Dynamo's pieces); its own digest is all there is.
    ran = [(code, module or "") for code, module in observed.codes if not names.is_standard(module)]
    uttered = names.of_codes(observed.codes, observed.asked)
    state, opaque, covered = _native.read_state(uttered, _state_roots(roots), [(_space(module), code) for code, module in ran])
    record: "dict[tuple[str, str], Dependency]" = {(kind, where): (kind, where, digest, text) for kind, where, digest, text in state}
    text = "*" if uttered is None else " ".join(sorted(uttered))
    # What is there under these names is part of it: an attribute that one recording lacks contradicts another's.
    present = "".join(f"{kind} {where}\n" for kind, where, _, _ in state)
    record["names", ""] = ("names", "", _native.digest_text(text + "\n" + present), text)
    for path in opaque:
        record["opaque", path] = ("opaque", path, _native.digest_text(path), "its value cannot be digested")
    operators = [op for op in observed.operators if custom_ops.is_custom(op)]
    kernels = [codes.code_of(fn) for op in operators for fn in custom_ops.python_kernels(op.partition(".")[0]).values()]
    inside = codes.with_nested([*covered, *(code for code in kernels if code is not None)])
    for code, module in ran:
        _add_code(record, code, module, code in inside)
    for name, value in observed.environment.items():
        record["env", name] = ("env", name, _native.digest_text(repr(value)), str(value)[:60])
    for op in operators:
        found = custom_ops.digest(op)
        record["custom_op", op] = ("custom_op", op, *found) if found else ("opaque", f"custom_op {op}", _native.digest_text(op),
                                                                          "no code or library was found that implements it")
    return sorted(record.values())


def _add_code(record: "dict[tuple[str, str], Dependency]", code: types.CodeType, module: str, is_covered: bool) -> None:
    """By name where a name leads to it; else by what the state covers, or by its whole file."""
    qualname = codes.qualname(code)
    digest = _native.digest_code(code)
    where = f"{module}:{qualname}"
    if any(_native.digest_code(found) == digest for found in codes.find_codes(module, qualname)):
        # Overloads of one name (a lambda on each line) are all part of the name's digest.
        known = record.get(("code", where))
        if known is not None and known[2] != digest:
            digest = _native.digest_text("".join(sorted({known[2], digest})))
        record["code", where] = ("code", where, digest, "")
    elif is_covered or qualname.startswith("__create_fn__.") or module.startswith("namedtuple_"):
        return  # A lambda in an attribute; what dataclasses and named tuples generate follows from the class.
    elif os.path.exists(code.co_filename):
        record["file", code.co_filename] = ("file", code.co_filename, _file_digest(code.co_filename), qualname)
    else:
        record["opaque", where] = ("opaque", where, digest, "code that no name or file leads to")


def _file_digest(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return str(_native.digest_bytes(file.read()))
    except OSError:
        return ""


Executed = typing.List[typing.Tuple[typing.Dict[str, typing.Any], types.CodeType]]


def executed(record: "typing.Iterable[Dependency]") -> Executed:
    """(globals, code) of everything the recording ran, as this process has it."""
    return [pair for kind, where, digest, _ in record if kind == "code" for pair in _code_here(where, digest)[1]]


def _code_here(where: str, digest: str) -> "tuple[str | None, Executed]":
    """The digest of the code of a name, None where there is none, and the code meant with its globals."""
    module, _, qualname = where.partition(":")
    found = [(_native.digest_code(code), code) for code in codes.find_codes(module, qualname)]
    # A name leads to what its function wraps as well, which may live in another module.
    same = [code for known, code in found if known == digest]
    pairs = [(_space(module), code) for code in same or [code for _, code in found]]
    if same or not found:
        return (digest if same else None), pairs
    return str(_native.digest_text("".join(sorted({known for known, _ in found})))), pairs


def _global_names(record: "typing.Iterable[Dependency]") -> "typing.Iterator[tuple[dict[str, typing.Any], str]]":
    """(globals, name) of every global of the record that a module here has; what lies inside them left out."""
    for kind, where, _, _ in record:
        if kind == "global":
            module, _, name = where.partition(":")
            if name.isidentifier() and module in sys.modules:
                yield vars(sys.modules[module]), name


def uttered_names(record: "typing.Iterable[Dependency]") -> "frozenset[str] | None":
    """The names by which the recording could read attributes; None = any."""
    text = next((text for kind, _, _, text in record if kind == "names"), "*")
    return None if text == "*" else frozenset(text.split(" "))


def definitions(record: "typing.Iterable[Dependency]") -> "typing.Iterator[tuple[typing.Any, str, typing.Any]]":
    """(dict or type, name, value): where the functions, globals and class attributes of a record are defined here."""
    for kind, where, _, _ in record:
        module, _, qualname = where.partition(":")
        if kind not in ("code", "global", "class") or module not in sys.modules:
            continue
        owner: typing.Any = vars(sys.modules[module])
        for name in qualname.partition(".<locals>")[0].split("."):
            table = vars(owner) if isinstance(owner, type) else owner
            if not isinstance(table, (dict, types.MappingProxyType)) or name not in table:
                break
            yield owner, name, table[name]
            owner = table[name]


def first_mismatch(record: "list[Dependency]", roots: paths.Roots) -> "str | None":
    """The first dependency that does not hold in this process, in words; None when all hold."""
    ran: Executed = []
    for kind, where, digest, text in record:
        if kind in _STATE_KINDS:
            continue
        if kind == "code":
            found, pairs = _code_here(where, digest)
            ran += pairs
        else:
            found = _digest_here(kind, where, digest)
        if found is None:
            return f"{kind} {where}: not found in this process"
        if found != digest:
            return f"{kind} {_words(where)} changed" + (f" (was {text})" if text else "")
    return _state_mismatch(record, roots, ran)


def _words(where: str) -> str:
    return where if "::" in where else where.replace(":", ".", 1)  # pkg::operator is a name of its own.


def _state_mismatch(record: "list[Dependency]", roots: paths.Roots, ran: Executed) -> "str | None":
    stored = [one for one in record if one[0] in _STATE_KINDS]
    difference = _native.check_state(uttered_names(record), _state_roots(roots), ran, list(_global_names(stored)), stored)
    if difference is None:
        return None
    kind, where, there, here = difference
    if there is None:
        return f"{kind} {_words(where)} is new here (= {here})"
    if here is None:
        return f"{kind} {_words(where)}: not found in this process (was {there})"
    return f"{kind} {_words(where)} changed: " + (f"{there} -> {here}" if there != here else "its content")


def _digest_here(kind: str, where: str, digest: str) -> "str | None":
    if kind == "env":
        return str(_native.digest_text(repr(os.environ.get(where))))
    if kind == "file":
        return _file_digest(where) or None
    if kind == "custom_op":
        implementation = custom_ops.digest(where)
        return implementation and implementation[0]
    # Opaque things cannot be checked; the policy was applied when the record was made.
    return digest
