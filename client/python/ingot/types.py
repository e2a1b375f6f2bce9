# SPDX-License-Identifier: Apache-2.0
"""Names for annotations: what ``ingot.compile`` takes and gives."""

import typing

import torch

from ingot._native import Compiled as Compiled
from ingot.config import Config, Pass

if typing.TYPE_CHECKING:
    import os

    from typing_extensions import ParamSpec

    _P = ParamSpec("_P")
    _R = typing.TypeVar("_R")

    class CompiledModule(torch.nn.Module, Compiled[..., typing.Any]):
        """A module as ``ingot.compile`` gives it back: any attribute of the wrapped one, and Ingot's verbs."""

        def __getattr__(self, name: str) -> typing.Any: ...

    class Decorator(typing.Protocol):
        """``ingot.compile(wait=True)`` before it has met its function."""

        @typing.overload
        def __call__(self, fn: torch.nn.Module) -> CompiledModule: ...
        @typing.overload
        def __call__(self, fn: "typing.Callable[_P, _R]") -> Compiled[_P, _R]: ...

    class _Common(typing.TypedDict, total=False):
        config: "Config | typing.Mapping[str, typing.Any] | None"
        cache_dir: "str | os.PathLike[str] | None"
        global_rank: "int | None"
        tp_rank: "int | None"
        pp_rank: "int | None"
        custom_decompositions: typing.Any

    class Options(_Common, total=False):
        """Keywords of ``ingot.compile``."""

        dynamic: "bool | None"
        capture: "str | None"
        passes: "typing.Sequence[Pass] | None"
        wait: "bool | None"
        guards: "str | None"
        on_miss: "str | None"
        on_unsupported: "str | None"
        sequence_parallel: typing.Any
        opaque: "str | None"

    class CacheOptions(_Common, total=False):
        """Keywords of ``ingot.cache_compile``."""

        backend: typing.Any
        dynamic: bool
        ge_cache: bool
else:
    from ingot.facade import CompiledModule
