# SPDX-License-Identifier: Apache-2.0
"""Exported files: one variant, its signature and its weights (docs/format/export.md)."""

import json
import struct
import typing

import torch

from ingot import _native, binding, errors, paths, tree

_MAGIC = b"INGOTEXP"
_VERSION = 1
_HEAD = struct.Struct("<8sIQ")  # magic, version, bytes of the JSON header; its digest and the parts follow


def _tensor_bytes(tensor: torch.Tensor) -> bytes:
    flat = tensor.detach().contiguous().reshape(-1)
    return bytes(flat.view(torch.uint8).numpy()) if flat.numel() else b""


def save(path: str, name: str, variant: binding.Variant) -> None:
    """Writes the file; weights are stored as they are bound now."""
    for step in variant.signature["inputs"]:
        if step is not None:
            raise errors.Unsupported(f"{name} takes tensors inside an object argument ({paths.to_text(step)}); pass them as tensors to export it")
    if variant.signature["epilogues"]:
        raise errors.Unsupported(f"{name} stores tensors in Python objects, which an exported file cannot do")
    artifact = variant.artifact.bytes()
    blobs = [artifact, *(_tensor_bytes(weight) for weight in variant._weights)]
    header = {"name": name, "outputs": variant.signature["outputs"], "proven": variant.proven,
              "weights": [{"path": paths.to_text(p), "dtype": str(w.dtype).removeprefix("torch."), "sizes": list(w.shape),
                           "strides": list(w.stride())} for p, w in zip(variant.signature["weights"], variant._weights)],
              "blobs": [{"bytes": len(b), "digest": _digest(b)} for b in blobs]}
    text = json.dumps(header, separators=(",", ":")).encode()
    with open(path, "wb") as file:
        file.write(_HEAD.pack(_MAGIC, _VERSION, len(text)) + _digest(text).encode() + text)
        for blob in blobs:
            file.write(blob)


def _digest(blob: bytes) -> str:
    return str(_native.digest_bytes(blob))


def _read(path: str) -> "tuple[dict[str, typing.Any], list[bytes]]":
    with open(path, "rb") as file:
        data = file.read()
    if len(data) < _HEAD.size + 32 or data[:8] != _MAGIC:
        raise errors.Corrupt(f"{path} is not an exported Ingot file")
    _, version, size = _HEAD.unpack_from(data)
    if version != _VERSION:
        raise errors.Incompatible(f"{path} has format version {version}, this build reads {_VERSION}")
    at = _HEAD.size + 32
    text = data[at:at + size]
    if len(text) != size or _digest(text).encode() != data[_HEAD.size:at]:
        raise errors.Corrupt(f"{path}: the header does not match its digest")
    header = json.loads(text)
    at += size
    blobs = []
    for number, blob in enumerate(header["blobs"]):
        blobs.append(data[at:at + blob["bytes"]])
        at += blob["bytes"]
        if _digest(blobs[-1]) != blob["digest"]:
            raise errors.Corrupt(f"{path}: part {number} does not match its digest")
    return header, blobs


class Loaded:
    """A callable from an exported file; takes the tensors of the recorded call in order. Thread-safe."""

    def __init__(self, path: str) -> None:
        header, blobs = _read(path)
        self.name: str = header["name"]
        self._proven = {tuple(symbols) for symbols in header["proven"]}
        self._weights = [_weight(spec, blob) for spec, blob in zip(header["weights"], blobs[1:])]
        self._program = _native.Program.bind(_native.Artifact.open_bytes(blobs[0]), self._weights)
        self._outputs = tree.decode(header["outputs"], paths.Roots(self, ()))

    def __call__(self, *args: typing.Any, **kwargs: typing.Any) -> typing.Any:
        """Raises Invalid, naming the argument, when an input is not what the file accepts."""
        tensors, _, objects, unsupported = _native.flatten(args, kwargs, ())
        if unsupported or objects:
            raise errors.Invalid(f"{self.name}: an exported file takes tensors, found {unsupported or type(objects[0]).__name__}")
        symbols = self._program.accepts(tensors)
        if symbols is None:
            raise errors.Invalid(f"{self.name}: {self._program.explain(tensors)}")
        if symbols and tuple(symbols) not in self._proven:
            raise errors.Invalid(f"{self.name}: sizes {symbols} were not proved by a recording; proved: {sorted(self._proven)}")
        return _build(self._outputs, self._program.run(tensors))

    def __repr__(self) -> str:
        return f"<ingot.load {self.name}>"


def _weight(spec: "dict[str, typing.Any]", blob: bytes) -> torch.Tensor:
    dtype = getattr(torch, spec["dtype"])
    flat = torch.frombuffer(bytearray(blob), dtype=dtype) if blob else torch.empty(0, dtype=dtype)
    made = torch.empty_strided(spec["sizes"], spec["strides"], dtype=dtype)
    return made.copy_(flat.view(spec["sizes"]))


def _build(node: "tuple[typing.Any, ...]", leaves: "list[torch.Tensor]") -> typing.Any:
    kind = node[0]
    if kind == "leaf":
        return leaves[node[1]]
    if kind == "const":
        return node[1]
    inner = [_build(child, leaves) for child in node[-1]]
    if kind == "dict":
        return dict(zip(node[1], inner))
    if kind == "call":
        return node[1](inner)
    return tuple(inner) if kind == "tuple" else inner


def load(path: str) -> Loaded:
    """Reads, checks and binds an exported file."""
    return Loaded(path)
