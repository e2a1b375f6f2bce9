# SPDX-License-Identifier: Apache-2.0
"""What users hold: for a function its call site, for a module an object that still is that module."""

import abc
import copy
import sys
import typing

import torch

from ingot import _native

if typing.TYPE_CHECKING:
    from ingot.site.engine import Engine


class CompiledModule(_native.ModuleCall):
    """Base of the classes of compiled modules; each also inherits the class of the module it wraps.

    Object and module share one ``__dict__``, so parameters, hooks, ``state_dict``, ``to`` and ``train`` are the module's own,
    and methods that return ``self`` return the compiled object. Methods find the compiled object as ``self`` too: a
    ``generate`` that calls ``self(...)`` is served natively. ``forward`` itself stays the plain one.
    """

    def __new__(cls, *args: typing.Any, **kwargs: typing.Any) -> typing.Any:
        """``type(model)(config)`` makes another plain module."""
        return cls._ingot_kind(*args, **kwargs)  # type: ignore[attr-defined]

    def __init_subclass__(cls) -> None:
        """Keeps the module's class from taking this one for a class of the program's."""

    def __repr__(self) -> str:
        return f"ingot.compile({_native.target_of(self)!r})"

    def __dir__(self) -> "typing.Iterable[str]":
        return sorted({*dir(_native.target_of(self)), *_native.verbs})

    def __reduce_ex__(self, protocol: typing.Any) -> typing.Any:
        """Pickles as the plain module: what loads it needs no Ingot."""
        return _native.target_of(self).__reduce_ex__(protocol)

    def __copy__(self) -> typing.Any:
        return _like(self, copy.copy(_native.target_of(self)))

    def __deepcopy__(self, memo: "dict[int, typing.Any]") -> typing.Any:
        return _like(self, copy.deepcopy(_native.target_of(self), memo))

    def _replicate_for_data_parallel(self) -> typing.Any:
        return _native.target_of(self)._replicate_for_data_parallel()


def of(engine: "Engine") -> typing.Any:
    """The callable of an engine, as users get it."""
    if not isinstance(engine.target, torch.nn.Module):
        return engine.site
    made = _native.ModuleCall.__new__(_class_of(type(engine.target)), engine.site)
    object.__setattr__(made, "__dict__", engine.target.__dict__)
    return made


def _class_of(kind: type) -> type:
    """The class of compiled modules of a class, made once while there are such modules."""
    known: type
    for known in type.__subclasses__(kind):
        if vars(known).get("_ingot_kind") is kind:
            return known
    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "__doc__": kind.__doc__, "_ingot_kind": kind}
    try:
        # Not through the metaclass: one that keeps a list of its classes must not find this one.
        made = type.__new__(type(kind), kind.__name__, (CompiledModule, kind), names)
    except TypeError:  # Its objects have slots: it can be a module, and says it is of that class, but cannot inherit it.
        made = type.__new__(type, kind.__name__, (CompiledModule, torch.nn.Module), names)
    if isinstance(made, abc.ABCMeta):
        abc._abc_init(made)  # type: ignore[attr-defined]
    return made


def follow(compiled: typing.Any, kind: type) -> None:
    """The module's class has become ``kind``."""
    object.__dict__["__class__"].__set__(compiled, _class_of(kind))


def reduced(site: typing.Any, target: typing.Any, protocol: typing.Any) -> typing.Any:
    """How a call site is pickled: by name where it stands in the place of a function, else as what it wraps."""
    found: typing.Any = sys.modules.get(getattr(target, "__module__", None) or "")
    name = getattr(target, "__qualname__", "?")
    for part in name.split("."):
        found = getattr(found, part, None)
    return name if found is site else (itself, (target,))


def itself(value: typing.Any) -> typing.Any:
    """Pickled in front of what a call site wraps."""
    return value


def deep_copied(site: typing.Any, memo: "dict[int, typing.Any]") -> typing.Any:
    """A copy of what is wrapped, compiled; functions are their own copies."""
    target = _native.target_of(site)
    copied = copy.deepcopy(target, memo)
    return site if copied is target else _like(site, copied)


def _like(compiled: typing.Any, target: typing.Any) -> typing.Any:
    from ingot.site.engine import Engine

    return of(Engine(target, _native.engine_of(compiled).config))
