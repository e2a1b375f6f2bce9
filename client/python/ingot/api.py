# SPDX-License-Identifier: Apache-2.0
"""The public calls."""

import functools
import os
import types
import typing

import torch

from ingot import _native, errors, facade
from ingot.breaks import code_objects
from ingot.site import engine
from ingot.trace import keys
from ingot import config as configuration
from ingot.config import Config

if typing.TYPE_CHECKING:
    from typing_extensions import ParamSpec, Unpack

    from ingot.exported import Loaded
    from ingot.types import CacheOptions, CompiledModule, Decorator, Options

    _P = ParamSpec("_P")
    _R = typing.TypeVar("_R")


def _wrap(fn: typing.Any, config: Config) -> typing.Any:
    if isinstance(fn, type) or not callable(fn):
        kind = "a class" if isinstance(fn, type) else f"{type(fn).__name__}"
        raise errors.Invalid(f"ingot.compile takes a function, module or bound method, found {kind}: pass an instance")
    if keys.is_builtin(fn):
        raise errors.Invalid(f"ingot.compile cannot see into the builtin {fn.__name__!r}: wrap it in a Python function")
    fn = _native.target_of(fn)
    if type(fn) is types.MethodType:  # Its function may be compiled already.
        fn = types.MethodType(_native.target_of(fn.__func__), fn.__self__)
    if isinstance(fn, (torch.jit.ScriptModule, torch.jit.ScriptFunction)):
        raise errors.Unsupported(f"ingot.compile found a TorchScript program ({fn.original_name if hasattr(fn, 'original_name') else fn.name}), "
                                 "whose code it cannot see: pass the module or function that was scripted")
    if isinstance(fn, functools.partial):
        fn = _unfold(fn)
    return facade.of(engine.Engine(fn, config))


def _unfold(partial: "functools.partial[typing.Any]") -> typing.Any:
    """A partial as a plain function, of which it is an ordinary closure cell."""
    def call(*args: typing.Any, **kwargs: typing.Any) -> typing.Any:
        return partial(*args, **kwargs)

    # Code of this package is not looked at; what this reads, the bound arguments, is the program's.
    call.__code__ = code_objects.replace(call.__code__, co_filename="<partial>")
    return call


@typing.overload
def compile(fn: torch.nn.Module, **options: "Unpack[Options]") -> "CompiledModule": ...
@typing.overload
def compile(fn: "typing.Callable[_P, _R]", **options: "Unpack[Options]") -> "_native.Compiled[_P, _R]": ...
@typing.overload
def compile(fn: None = None, **options: "Unpack[Options]") -> "Decorator": ...
def compile(fn: typing.Any = None, *, dynamic: "bool | None" = None, capture: "str | None" = None, wait: "bool | None" = None,
            config: "Config | typing.Mapping[str, typing.Any] | None" = None, guards: "str | None" = None,
            on_miss: "str | None" = None, on_unsupported: "str | None" = None, opaque: "str | None" = None,
            cache_dir: "str | os.PathLike[str] | None" = None, global_rank: "int | None" = None, tp_rank: "int | None" = None,
            pp_rank: "int | None" = None, sequence_parallel: typing.Any = None, passes: "typing.Sequence[configuration.Pass] | None" = None,
            custom_decompositions: typing.Any = None) -> typing.Any:
    """Wraps a function, ``nn.Module`` or bound method for inference; same signature, same results. A module comes back as a
    module: its attributes, parameters and methods are those of the one that was given, and it can be part of another.

    The first call runs eagerly and is recorded; native code is made in the background (``wait=True`` blocks
    until it is there) and kept by the daemon for every process. Anything that cannot be captured runs eagerly,
    with one warning. Options are those of :class:`ingot.Config`. Also usable as a decorator, with or without
    arguments. Raises :class:`ingot.Invalid` for what is not callable and for options it does not know.
    """
    if capture == "dynamo":
        raise errors.Unsupported("capture='dynamo': use torch.compile(backend='ingot') for programs with graph breaks")
    if custom_decompositions:
        raise errors.Unsupported("custom_decompositions: recordings keep operators whole, so there is nothing to decompose")
    resolved = configuration.resolve(config, capture=capture, dynamic=dynamic, wait=wait, guards=guards, on_miss=on_miss,
                                     on_unsupported=on_unsupported, opaque=opaque, store_dir=cache_dir,
                                     global_rank=global_rank, tp_rank=tp_rank, pp_rank=pp_rank, sequence_parallel=sequence_parallel, passes=passes)
    if resolved.sequence_parallel is not False and resolved.capture == "export":
        raise errors.Invalid("sequence_parallel with capture='export': what is exported runs at more sizes, on one rank and not on another; use capture='record'")
    if resolved.passes and resolved.capture != "export":
        raise errors.Invalid(f"passes are of capture='export', whose programs are torch.fx graphs; capture is {resolved.capture!r}")
    if fn is None:
        return lambda decorated: _wrap(decorated, resolved)
    return _wrap(fn, resolved)


@typing.overload
def cache_compile(func: torch.nn.Module, **options: "Unpack[CacheOptions]") -> "CompiledModule": ...
@typing.overload
def cache_compile(func: "typing.Callable[_P, _R]", **options: "Unpack[CacheOptions]") -> "_native.Compiled[_P, _R]": ...
def cache_compile(func: typing.Any, *, config: "Config | typing.Mapping[str, typing.Any] | None" = None, backend: typing.Any = None,
                  dynamic: bool = True, cache_dir: "str | os.PathLike[str] | None" = None, global_rank: "int | None" = None,
                  tp_rank: "int | None" = None, pp_rank: "int | None" = None, custom_decompositions: typing.Any = None,
                  ge_cache: bool = False) -> typing.Any:
    """torchair's ``cache_compile`` on the same engine.

    ``backend`` must be None or ``"ingot"``; ``ge_cache`` is accepted because device code is always cached.
    """
    if backend not in (None, "ingot"):
        raise errors.Unsupported(f"backend={backend!r}: only None or 'ingot'")
    del ge_cache
    return compile(func, config=config, dynamic=dynamic, cache_dir=cache_dir, global_rank=global_rank, tp_rank=tp_rank,
                   pp_rank=pp_rank, custom_decompositions=custom_decompositions)


def mark_pure(function: typing.Any) -> typing.Any:
    """Says of a callable made in C that what it gives depends on its arguments alone and that it changes nothing, and returns it.

    A recorded call refuses callables made in C that it does not know; of Python code it sees every instruction. Nothing
    checks this word: a wrong one gives wrong answers. Raises :class:`ingot.Invalid` for what is not callable.
    """
    if not callable(function):
        raise errors.Invalid(f"ingot.mark_pure takes a callable, found {type(function).__name__}")
    _native.mark_pure(function)
    return function


def load(path: "str | os.PathLike[str]", *, trust: "str | os.PathLike[str] | bool | None" = None, weights: str = "beside") -> "Loaded":
    """An exported file is machine code: whoever made it can do what this process can. As a callable it needs no daemon and no capture, its
    weights are included, and it checks its arguments as a call site does.

    ``trust``: a trust file (docs/trust.md), or True for ``~/.config/ingot/trust.toml``. Unless a key that may write files of this name has signed
    exactly these bytes (``PATH.sig``; ``f.export(path, sign=True)``, ``ingot compile --sign``, ``ingot sign``), nothing of the file is used.
    ``weights``: ``beside`` takes weights that are not inside from the file's folder alone, ``anywhere`` from where it says.

    Raises :class:`ingot.Corrupt` or :class:`ingot.Incompatible` with the reason, :class:`ingot.NotFound` where a weight is missing,
    :class:`ingot.Invalid` for a file that is not trusted, or weights elsewhere.
    """
    from ingot import exported

    return exported.load(path, trust, weights)
