# SPDX-License-Identifier: Apache-2.0
"""One piece of a program that Dynamo cut, compiled; it can be saved with what torch compiles ahead of time."""

import dataclasses
import json
import struct
import typing

from ingot import config as configuration
from ingot import _native, errors
from ingot.site import engine
from ingot.trace import dynamo_piece
from ingot.config import Config

try:
    from torch._dynamo.aot_compile_types import SerializableCallable as _Serializable
except ImportError:  # Before torch 2.10 there is nothing that would save it.
    _Serializable = object  # type: ignore[assignment, misc]

_MAGIC = b"INGOTDYN"
_VERSION = 1
_HEAD = struct.Struct("<8sII32s")  # magic, version, bytes of the JSON header, digest of what follows: header, pickled graph


class CompiledPiece(_Serializable):
    """One piece of a program as Dynamo calls it: the positional arguments it declared, in order.

    torch's own ``aot_compile`` saves it as graph and options, without code or weights, and makes it again in a
    process that has not traced anything: there it finds its entry in the store.
    """

    def __init__(self, piece: dynamo_piece.Piece, config: Config) -> None:
        if config.sequence_parallel is not False:
            raise errors.Invalid("sequence_parallel with torch.compile: each rank cuts the program by itself, so that calls do not meet; use ingot.compile")
        self._piece, self._config = piece, config
        self._kept = piece.kept
        self._engine = engine.Engine(piece.function, config, name=piece.name)
        self._site = self._engine.site

    def __call__(self, *args: typing.Any) -> typing.Any:
        if self._kept is None:
            return self._site(*args)
        return self._site(*[args[i] for i in self._kept])

    def __getattr__(self, name: str) -> typing.Any:
        """``report()``, ``why_miss()`` and the like, as on every compiled callable."""
        if name.startswith("_") or name == "serialize":  # torch asks for `serialize` to tell AOTAutograd's results.
            raise AttributeError(name)
        return getattr(self._site, name)

    @classmethod
    def serialize_compile_artifacts(cls, fn: "CompiledPiece") -> bytes:
        """What ``save_compiled_function`` writes for this piece."""
        header = {"name": fn._piece.name, "kept": fn._kept, "config": dataclasses.asdict(fn._config)}
        text = json.dumps(header, separators=(",", ":")).encode()
        body = text + fn._piece.dump()
        return _HEAD.pack(_MAGIC, _VERSION, len(text), _native.digest_bytes(body).encode()) + body

    @classmethod
    def deserialize_compile_artifacts(cls, data: bytes) -> "CompiledPiece":
        """Corrupt or Incompatible when the bytes are not from here or of another version.

        The store and socket are those of the loading process's environment where it names some.
        """
        header, graph = _read(data)
        piece = dynamo_piece.load(header["name"], header["kept"], graph)
        return cls(piece, configuration.resolve(header["config"], **configuration.places()))


def _read(data: bytes) -> "tuple[dict[str, typing.Any], bytes]":
    """(header, pickled graph), once both are known to be as they were written."""
    if len(data) < _HEAD.size or data[:8] != _MAGIC:
        raise errors.Corrupt("these bytes are not a piece that ingot saved")
    _, version, size, digest = _HEAD.unpack_from(data)
    if version != _VERSION:
        raise errors.Incompatible(f"the saved piece has format version {version}, this build reads {_VERSION}")
    body = data[_HEAD.size:]
    if size > len(body) or _native.digest_bytes(body).encode() != digest:
        raise errors.Corrupt("the saved piece does not match its digest")
    return json.loads(body[:size]), body[size:]
