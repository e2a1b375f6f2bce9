# SPDX-License-Identifier: Apache-2.0
"""Kernels of operators of the user's own: C, C++ or LLVM IR behind a small header, called without Python."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import threading
import typing

import torch

from ingot import _native, errors

INCLUDE = str(pathlib.Path(__file__).resolve().parent / "include")
"""Where ``ingot/kernel.h`` lies."""
_FLAGS = ("-O3", "-march=native", "-fPIC", "-shared", "-fvisibility=hidden")
_LANGUAGES = {".c": ("-xc", "-std=c11"), ".cc": ("-xc++", "-std=c++17"), ".cpp": ("-xc++", "-std=c++17"), ".ll": ("-xir",)}
_BUILD_S_MAX = 600
_digests: "dict[str, str]" = {}
_fragments: "list[typing.Any]" = []
_lock = threading.Lock()


def register_kernel(op: str, source: "str | os.PathLike[str]", *, symbol: "str | None" = None,
                    fake: "typing.Callable[..., typing.Any] | None" = None) -> None:
    """Makes ``source`` what computes an operator on the CPU, in eager mode and in native code, where it runs without Python.

    ``op`` is a name (``"my::scale"``) of an operator that is defined, or a schema (``"my::scale(Tensor x, float by) -> Tensor"``),
    which is defined then. It takes tensors and numbers, changes none of them and gives new tensors. ``source`` is the path of a
    shared object, or of a ``.c``, ``.cpp`` or ``.ll`` (LLVM IR) file, or C++ text itself, which are built by :func:`build_kernel`; the
    kernel in it begins with ``INGOT_KERNEL(symbol)`` of ``ingot/kernel.h``, where ``symbol`` is the operator's own name
    if nothing else is said. ``fake`` says sizes of results to torch.export and torch.compile.

    What is stored names the operator and the digest of the shared object: a process whose own object has another digest,
    or has none, is not served. The object is loaded from this process's own files, and never from a store.

    Raises :class:`ingot.Invalid` for what is no such operator or is registered already with another object,
    :class:`ingot.NotFound` where a file or the kernel in it is missing, :class:`ingot.Incompatible` for a kernel of another version of the
    header, :class:`ingot.Unavailable` where there is no compiler, :class:`ingot.Unsupported` with the compiler's words where it refuses.
    """
    name = op.partition("(")[0].strip()
    space, _, bare = name.partition("::")
    if not bare or not space:
        raise errors.Invalid(f"register_kernel: {op!r} is no operator: expected 'namespace::name', or that with a schema")
    library = _kept(_library_of(source))
    digest = f"{_native.digest_bytes(library.read_bytes())} {symbol or bare.partition('.')[0]}"
    with _lock:
        if name in _digests:
            if _digests[name] == digest:
                return
            raise errors.Invalid(f"register_kernel: {name} has a kernel already, and a process keeps the one it has: start another process")
        if "(" in op and not _is_defined(name):
            _define(space, op)
        _native.register_kernel(name, str(library), symbol or bare.partition(".")[0])
        _digests[name] = digest
    if fake is not None:
        torch.library.register_fake(name.partition(".")[0], fake)


def build_kernel(source: "str | os.PathLike[str]") -> pathlib.Path:
    """Compiles a ``.c``, ``.cpp`` or ``.ll`` file, or C++ text, with ``ingot/kernel.h`` in reach, and gives the shared object. What has been
    built before is not built again.

    The compiler is what ``CXX`` names, else ``c++``; LLVM IR takes clang. Raises as :func:`register_kernel` does.
    """
    suffix, text = _text_of(source)
    compiler = _compiler(suffix)
    command = [compiler, *_LANGUAGES[suffix], *_FLAGS, f"-I{INCLUDE}"]
    header = (pathlib.Path(INCLUDE) / "ingot" / "kernel.h").read_text()
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True, timeout=_BUILD_S_MAX).stdout
    # Built for this processor: a home that several machines share has one object for each.
    built = _folder() / f"{_native.digest_text(repr((command, version, sorted(_native.cpu_features()), header, text)))}.so"
    if built.exists():
        return built
    with tempfile.TemporaryDirectory(dir=_folder()) as scratch:
        made = pathlib.Path(scratch) / "kernel.so"
        done = subprocess.run([*command, "-o", str(made), "-"], input=text, capture_output=True, text=True, timeout=_BUILD_S_MAX)
        if done.returncode != 0:
            raise errors.Unsupported(f"build_kernel: {compiler} refuses it:\n{done.stderr.strip()[:4000]}")
        os.replace(made, built)
    return built


def digest_of(name: str) -> "str | None":
    """Of an operator ``pkg::name`` that has a registered kernel: which."""
    return _digests.get(name)


def _is_defined(name: str) -> bool:
    space, _, bare = name.partition("::")
    return hasattr(getattr(torch.ops, space), bare.partition(".")[0])


def _define(space: str, schema: str) -> None:
    fragment: typing.Any = torch.library.Library(space, "FRAGMENT")  # type: ignore[no-untyped-call]
    try:
        fragment.define(schema.partition("::")[2], tags=(torch.Tag.pt2_compliant_tag,))
    except RuntimeError as e:
        raise errors.Invalid(f"register_kernel: {schema!r} is no schema: {str(e).strip().splitlines()[0]}") from None
    _fragments.append(fragment)


def _text_of(source: "str | os.PathLike[str]") -> "tuple[str, str]":
    """(suffix, text)"""
    if isinstance(source, str) and ("\n" in source or "INGOT_KERNEL" in source):
        return ".cpp", source
    path = pathlib.Path(source)
    if path.suffix not in _LANGUAGES:
        raise errors.Invalid(f"build_kernel: {str(path)!r} is {'no file of a known kind' if path.suffix else 'neither a file nor C++ text'}: "
                             f"expected {', '.join(_LANGUAGES)} or text with INGOT_KERNEL")
    try:
        return path.suffix, path.read_text()
    except OSError as e:
        raise errors.NotFound(f"build_kernel: {path}: {e.strerror}") from None


def _library_of(source: "str | os.PathLike[str]") -> pathlib.Path:
    if not (isinstance(source, str) and "\n" in source) and pathlib.Path(source).suffix == ".so":
        path = pathlib.Path(source)
        if not path.is_file():
            raise errors.NotFound(f"register_kernel: {path} is no file")
        return path
    return build_kernel(source)


def _kept(library: pathlib.Path) -> pathlib.Path:
    """A copy that is named by its digest: what is digested is what is loaded, whatever becomes of the file."""
    content = library.read_bytes()
    kept = _folder() / f"{_native.digest_bytes(content)}.so"
    if not kept.exists() or kept.read_bytes() != content:
        descriptor, scratch = tempfile.mkstemp(dir=_folder())
        with open(descriptor, "wb") as file:
            file.write(content)
        os.replace(scratch, kept)
    return kept


def _folder() -> pathlib.Path:
    """This user's own, and nobody else's to write."""
    folder = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "ingot" / "kernels"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    facts = folder.stat()
    if facts.st_uid != os.getuid() or facts.st_mode & 0o022:
        raise errors.Unavailable(f"register_kernel: {folder} can be written by others: code that is loaded may not lie there")
    return folder


def _compiler(suffix: str) -> str:
    wanted = ["clang", "clang-22", "clang-19", "clang-18", "clang-17"] if suffix == ".ll" else [os.environ.get("CXX", ""), "c++", "g++", "clang++"]
    found = next((path for name in wanted if name and (path := shutil.which(name))), None)
    if found is None:
        raise errors.Unavailable(f"build_kernel: there is no {' or '.join(name for name in wanted if name)}: give the path of a shared object")
    return found
