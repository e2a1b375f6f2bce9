# SPDX-License-Identifier: Apache-2.0
"""The public names where Ingot's native code does not fit this process: what would be compiled runs eagerly.

Options are checked as ever, so that a program is not accepted here and refused elsewhere. What needs native code itself (``load``, ``tune``, ...)
raises Incompatible with the reason. Nothing here may import ``ingot._native``.
"""

import abc
import copy
import functools
import importlib.metadata
import types
import typing

import torch

from ingot import compatibility, errors
from ingot import config as configuration

_P = typing.ParamSpec("_P")
_R = typing.TypeVar("_R", covariant=True)


try:
    __version__ = importlib.metadata.version("ingot")
except importlib.metadata.PackageNotFoundError:  # Sources in the path.
    __version__ = "unknown"


def _why() -> str:
    return compatibility.misfit() or ""


class Compiled(typing.Generic[_P, _R]):
    """What ``compile`` gives: it has the attributes of what it wraps, and behind them those of `_Verbs`."""


class _Verbs:
    """What can be asked of a compiled callable."""

    def __init__(self, config: configuration.Config) -> None:
        self.config = config
        self.variants: "list[typing.Any]" = []

    def wait(self, timeout: "float | None" = None) -> bool:
        """Nothing is ever under way."""
        return True

    def prepare(self, /, *args: typing.Any, **kwargs: typing.Any) -> None:
        """Nothing is made ready."""

    def report(self, /, *args: typing.Any, **kwargs: typing.Any) -> str:
        """Why everything is eager."""
        return f"eager: {_why()}"

    def why_miss(self, *, as_dict: bool = False) -> typing.Any:
        """Why everything is eager."""
        return {"reason": "refused", "why": _why()} if as_dict else _why()

    def soundness(self) -> str:
        """Nothing depends on anything."""
        return "nothing recorded yet"

    def _refuse(self, *args: typing.Any, **kwargs: typing.Any) -> typing.Any:
        raise errors.Incompatible(_why())

    as_text = export = save_capture = _refuse  # There is no code, and nothing can be recorded.


_VERBS = frozenset(name for name in (*vars(_Verbs), "config", "variants") if not name.startswith("_"))


class _Function(Compiled[..., typing.Any]):
    """A function or another callable object."""

    def __init__(self, function: typing.Any, config: configuration.Config) -> None:
        functools.update_wrapper(self, function)
        self._verbs = _Verbs(config)

    def __call__(self, *args: typing.Any, **kwargs: typing.Any) -> typing.Any:
        return self.__wrapped__(*args, **kwargs)

    def __get__(self, instance: typing.Any, owner: typing.Any = None) -> typing.Any:
        return self if instance is None else types.MethodType(self, instance)

    def __getattr__(self, name: str) -> typing.Any:
        if name in ("__wrapped__", "_verbs"):  # As while it is unpickled.
            raise AttributeError(name)
        return getattr(self._verbs if name in _VERBS and not hasattr(self.__wrapped__, name) else self.__wrapped__, name)


class CompiledModule(Compiled[..., typing.Any]):
    """Base of the classes of modules that ``compile`` gives back, which share their ``__dict__`` with what they wrap (see facade.py)."""

    _ingot_verbs: _Verbs
    _ingot_target: "tuple[torch.nn.Module]"
    """In a tuple: as an attribute of a class a module would be looked at as its part."""

    def __init_subclass__(cls) -> None:
        """Keeps the module's class from taking this one for a class of the program's."""

    def __getattr__(self, name: str) -> typing.Any:
        try:
            return super().__getattr__(name)  # type: ignore[misc]
        except AttributeError:
            if name not in _VERBS:
                raise
        return getattr(self._ingot_verbs, name)

    def __reduce_ex__(self, protocol: typing.Any) -> typing.Any:
        return self._ingot_target[0].__reduce_ex__(protocol)

    def __deepcopy__(self, memo: "dict[int, typing.Any]") -> typing.Any:
        return _module(copy.deepcopy(self._ingot_target[0], memo), self._ingot_verbs.config)


def _module(module: torch.nn.Module, config: configuration.Config) -> typing.Any:
    kind = type(module)
    # By `__class__` it is the module's, so that it pickles as that.
    names = {"__class__": property(lambda _: kind), "__module__": kind.__module__, "__qualname__": kind.__qualname__, "__doc__": kind.__doc__,
             "_ingot_target": (module,), "_ingot_verbs": _Verbs(config)}
    # Not through the metaclass: one that keeps a list of its classes must not find this one.
    made = type.__new__(type(kind), kind.__name__, (CompiledModule, kind), names)
    if isinstance(made, abc.ABCMeta):
        abc._abc_init(made)  # type: ignore[attr-defined]
    compiled = object.__new__(made)
    object.__setattr__(compiled, "__dict__", module.__dict__)
    return compiled


def _wrap(function: typing.Any, config: configuration.Config) -> typing.Any:
    if isinstance(function, type) or not callable(function):
        raise errors.Invalid(f"ingot.compile takes a function, module or bound method, found {function!r}")
    if isinstance(function, Compiled):
        return function
    return _module(function, config) if isinstance(function, torch.nn.Module) else _Function(function, config)


def compile(fn: typing.Any = None, *, config: typing.Any = None, cache_dir: typing.Any = None, custom_decompositions: typing.Any = None,
            **options: typing.Any) -> typing.Any:
    """``fn``, which runs eagerly."""
    del custom_decompositions
    resolved = configuration.resolve(config, store_dir=cache_dir, **options)
    return (lambda decorated: _wrap(decorated, resolved)) if fn is None else _wrap(fn, resolved)


def cache_compile(func: typing.Any, *, backend: typing.Any = None, ge_cache: bool = False, **options: typing.Any) -> typing.Any:
    """``func``, which runs eagerly."""
    del backend, ge_cache
    return compile(func, **options)


def accelerate(model: typing.Any, **options: typing.Any) -> typing.Any:
    """``model``, as it is."""
    configuration.resolve(None, **options)
    return model


def mark_pure(function: typing.Any) -> typing.Any:
    """``function``: nothing is recorded that could ask."""
    return function


def register_pattern(*args: typing.Any, **kwargs: typing.Any) -> typing.Any:
    """No graph is compiled that would be rewritten."""


def unregister_pattern(pattern: typing.Any) -> None:
    """No graph is compiled that would be rewritten."""


def stats() -> "dict[str, typing.Any]":
    """No call is native: ``eager`` says why."""
    return {"native_calls": 0, "captures": 0, "compiles": 0, "eager": _why()}


def _refused(name: str) -> typing.Any:
    def refuse(*args: typing.Any, **kwargs: typing.Any) -> typing.Any:
        raise errors.Incompatible(f"ingot.{name}: {_why()}")

    return refuse


build_kernel, register_kernel, load, profile, roofs, tune = map(_refused, ("build_kernel", "register_kernel", "load", "profile", "roofs", "tune"))


class Contest:
    """Named in annotations; `tune` makes none here."""


class Profile:
    """Named in annotations; `profile` makes none here."""


class Roofs:
    """Named in annotations; `roofs` makes none here."""
