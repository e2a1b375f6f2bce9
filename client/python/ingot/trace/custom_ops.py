# SPDX-License-Identifier: Apache-2.0
"""Who implements a custom operator: Python code, or a native library by its build id."""

import functools
import os
import struct
import sys
import typing

import torch

from ingot import _native, kernels

REGISTERED = "a registered kernel"


def is_python(op: str) -> bool:
    """Whether Python code implements an operator ``pkg::name.overload``, which may do more than compute."""
    name = op.partition(".")[0]
    return _native.is_foreign_operator(op) and (bool(python_kernels(name)) or bool(_registered(name)))


def digest(op: str) -> "tuple[str, str] | None":
    """(digest, short text) of what implements ``pkg::name`` in this process; None when nothing can be told.

    The code of Python kernels, or the build ids (else the contents) of the native libraries that define it.
    """
    name = op.partition(".")[0]
    registered_kernel = kernels.digest_of(op) or kernels.digest_of(name)
    if registered_kernel:
        return str(_native.digest_text(registered_kernel)), REGISTERED
    python = python_kernels(name)
    if python:
        found, text, opaque = _native.digest_value(python)
        return None if opaque else (found, f"{len(python)} Python kernels")
    registered = _registered(name)
    if registered:
        # The function itself is code that ran; this says for which backends there is one.
        return str(_native.digest_text(" ".join(registered))), "Python kernels"
    libraries = _libraries_of(name)
    if not libraries:
        return None
    texts = [f"{os.path.basename(path)} {library_digest(path)}" for path in libraries]
    return str(_native.digest_text(" ".join(texts))), texts[0][:60]


def _registered(name: str) -> "list[str]":
    """Kernels of an operator that ``torch.library.Library.impl`` has registered."""
    return sorted(key for key in torch.library._impls if key.startswith(name.replace("::", "/") + "/"))


def python_kernels(name: str) -> "dict[str, typing.Any]":
    """Functions of an operator made by ``torch.library.custom_op``, by backend; empty for any other."""
    from torch._library import custom_ops, simple_registry

    found: "dict[str, typing.Any]" = {}
    definition = custom_ops.OPDEFS.get(name)
    if definition is not None:
        found["init"] = definition._init_fn
        found.update((str(key), fn) for key, fn in sorted(definition._backend_fns.items(), key=lambda item: str(item[0])))  # None: any device.
    entry = simple_registry.singleton._data.get(name)
    fake = getattr(getattr(entry, "fake_impl", None), "kernel", None)
    if fake is not None:
        found["fake"] = getattr(fake, "func", fake)
    return found


def _libraries_of(name: str) -> "list[str]":
    """Loaded libraries outside PyTorch whose bytes name the operator, sorted by file name."""
    space, _, bare = name.partition("::")
    found = [path for path in _foreign_libraries() if _mentions(path, space.encode(), bare.encode())]
    return sorted(found, key=os.path.basename)


def _foreign_libraries() -> "set[str]":
    paths = set(torch.ops.loaded_libraries)
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None) or ""
        top = getattr(module, "__name__", "").partition(".")[0]
        if path.endswith(".so") and top not in ("torch", "ingot", "numpy") and top not in sys.stdlib_module_names:
            paths.add(path)
    return paths


def _mentions(path: str, *words: bytes) -> bool:
    content = _content(path, _stamp(path))
    return all(word in content for word in words)


def _stamp(path: str) -> "tuple[int, int]":
    try:
        stat = os.stat(path)
    except OSError:
        return (0, 0)
    return stat.st_mtime_ns, stat.st_size


@functools.lru_cache(maxsize=16)
def _content(path: str, stamp: "tuple[int, int]") -> bytes:
    del stamp
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def library_digest(path: str) -> str:
    """The build id of a shared object, else a digest of its bytes."""
    content = _content(path, _stamp(path))
    return build_id(content) or str(_native.digest_bytes(content))


_NOTE_HEAD = struct.Struct("<III")
_BUILD_ID = 3


def build_id(content: bytes) -> str:
    """The GNU build id in an ELF file as hex; empty when it has none."""
    at = content.find(b"GNU\0")
    while at >= _NOTE_HEAD.size:
        name_bytes, size, kind = _NOTE_HEAD.unpack_from(content, at - _NOTE_HEAD.size)
        if name_bytes == 4 and kind == _BUILD_ID and 8 <= size <= 64:
            return content[at + 4:at + 4 + size].hex()
        at = content.find(b"GNU\0", at + 1)
    return ""
