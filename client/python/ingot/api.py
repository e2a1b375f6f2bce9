# SPDX-License-Identifier: Apache-2.0
"""The public calls."""

import functools
import typing

from ingot import config as configuration
from ingot import engine, errors, keys
from ingot.config import Config

_F = typing.TypeVar("_F", bound=typing.Callable[..., typing.Any])


def _wrap(fn: typing.Any, config: Config) -> typing.Any:
    if isinstance(fn, type) or not callable(fn):
        kind = "a class" if isinstance(fn, type) else f"{type(fn).__name__}"
        raise errors.Invalid(f"ingot.compile takes a function, module or bound method, found {kind}: pass an instance")
    if keys.is_builtin(fn):
        raise errors.Invalid(f"ingot.compile cannot see into the builtin {fn.__name__!r}: wrap it in a Python function")
    if isinstance(fn, functools.partial):
        fn = _unfold(fn)
    return engine.Engine(getattr(fn, "_target", fn), config).site


def _unfold(partial: "functools.partial[typing.Any]") -> typing.Any:
    """A partial as a plain function, of which it is an ordinary closure cell."""
    def call(*args: typing.Any, **kwargs: typing.Any) -> typing.Any:
        return partial(*args, **kwargs)

    return call


def compile(fn: typing.Any = None, *, dynamic: "bool | None" = None, capture: "str | None" = None, wait: "bool | None" = None,
            config: "Config | dict[str, typing.Any] | None" = None, guards: "str | None" = None,
            on_miss: "str | None" = None, on_unsupported: "str | None" = None, opaque: "str | None" = None,
            cache_dir: "str | None" = None, global_rank: "int | None" = None, tp_rank: "int | None" = None,
            pp_rank: "int | None" = None, custom_decompositions: typing.Any = None) -> typing.Any:
    """Wraps a function, ``nn.Module`` or bound method for inference; same signature, same results.

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
                                     global_rank=global_rank, tp_rank=tp_rank, pp_rank=pp_rank)
    if fn is None:
        return lambda decorated: _wrap(decorated, resolved)
    return _wrap(fn, resolved)


def cache_compile(func: typing.Any, *, config: "Config | dict[str, typing.Any] | None" = None, backend: typing.Any = None,
                  dynamic: bool = True, cache_dir: "str | None" = None, global_rank: "int | None" = None,
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


def load(path: str) -> typing.Any:
    """An exported artifact file as a callable: no daemon, no capture, weights included.

    Raises :class:`ingot.Corrupt` or :class:`ingot.Incompatible` with the reason.
    """
    from ingot import exported

    return exported.load(path)
