# SPDX-License-Identifier: Apache-2.0
"""Side effects in Python during a recorded call: what reachable objects held before and after.

A tensor attribute that now points to a tensor of the graph becomes an *epilogue* (set again on every replay);
any other change is refused.
"""

import os
import typing

import torch

from ingot import _native, noting, paths

_OBJECTS_MAX = 20_000


class Change(typing.NamedTuple):
    """``holder`` (a path) got a new value under ``key``."""

    holder: paths.Path
    kind: str
    key: typing.Any
    value: typing.Any


class Snapshot:
    """What every object reachable from the roots holds before the call."""

    def __init__(self, roots: "dict[str, typing.Any]") -> None:
        self.path_of: "dict[int, paths.Path]" = {}
        self.tensors: "list[tuple[paths.Path, torch.Tensor]]" = []
        self._before: "list[tuple[paths.Path, typing.Any, paths.Content]]" = []
        for name, root in roots.items():
            for path, value, content in paths.walk(name, root):
                if id(value) in self.path_of or len(self._before) > _OBJECTS_MAX:
                    continue
                self.path_of[id(value)] = path
                if isinstance(value, torch.Tensor):
                    self.tensors.append((path, value))
                else:
                    self._before.append((path, value, content))

    def changes(self) -> "list[Change]":
        """What differs now, equal values set anew left out; a removed key counts as set to None."""
        found = []
        for path, value, content in self._before:
            now = paths.children(value)
            if len(now) == len(content) and all(a[2] is b[2] and a[1] == b[1] for a, b in zip(now, content)):
                continue
            before = {(kind, key): child for kind, key, child in content}
            after = {(kind, key): child for kind, key, child in now}
            for kind, key in list(after) + [k for k in before if k not in after]:
                old, new = before.get((kind, key), _ABSENT), after.get((kind, key), _ABSENT)
                if old is not new and not _same(old, new):
                    found.append(Change(path, kind, key, None if new is _ABSENT else new))
        return found


_ABSENT = object()


def _same(old: typing.Any, new: typing.Any) -> bool:
    if isinstance(old, torch.Tensor) or isinstance(new, torch.Tensor) or old is _ABSENT or new is _ABSENT:
        return False
    return bool(_native.digest_value(old)[0] == _native.digest_value(new)[0])


_plain_environ = type(os.environ)


class _Watched(_plain_environ):  # type: ignore[misc, valid-type]
    def __getitem__(self, name: str) -> str:
        read = environment.here()
        try:
            value: str = super().__getitem__(name)
        except KeyError:
            if read is not None:
                read[name] = None
            raise
        if read is not None:
            read[name] = value
        return value


def _watch_environ(watch: bool) -> None:
    os.environ.__class__ = _Watched if watch else _plain_environ


environment: "noting.Noting[dict[str, str | None]]" = noting.Noting(_watch_environ)
"""The variables a thread reads through ``os.environ``, with what it found."""
