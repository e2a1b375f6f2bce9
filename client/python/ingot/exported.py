# SPDX-License-Identifier: Apache-2.0
"""Exported files: the variants of an entry with their weights (docs/format/export.md)."""

import json
import typing

import torch

from ingot import _native, binding, errors, paths, tree


def save(path: str, name: str, variants: "typing.Sequence[binding.Variant]") -> None:
    """Writes the file; weights are stored as they are bound now, each once."""
    weights: "list[tuple[str, torch.Tensor]]" = []
    numbers: "dict[int, int]" = {}
    written = []
    for variant in variants:
        _check(name, variant)
        for step, weight in zip(variant.signature["weights"], variant._weights):
            if id(weight) not in numbers:
                numbers[id(weight)] = len(weights)
                weights.append((paths.to_text(step), weight.detach()))
        written.append((json.dumps(variant.signature["outputs"]), variant.proven, variant.range,
                        [numbers[id(weight)] for weight in variant._weights], variant.artifact))
    _native.write_exported(path, name, written, weights)


def _check(name: str, variant: binding.Variant) -> None:
    for step in variant.signature["inputs"]:
        if step is not None:
            raise errors.Unsupported(f"{name} takes tensors inside an object argument ({paths.to_text(step)}); pass them as tensors to export it")
    if variant.signature.get("groups"):
        raise errors.Unsupported(f"{name} communicates in process groups ({', '.join(variant.signature['groups'])}), which an exported file cannot bind")
    if variant.signature["writes"]:
        raise errors.Unsupported(f"{name} stores tensors in Python objects, which an exported file cannot do")


class Loaded:
    """A callable from an exported file; takes the tensors of the recorded call in order. Thread-safe."""

    def __init__(self, path: str) -> None:
        self._function = _native.ExportedFunction.load(path)
        self.name: str = self._function.name
        self._outputs = [tree.decode(json.loads(outputs), paths.Roots(self, ())) for outputs in self._function.outputs]

    def __call__(self, *args: typing.Any, **kwargs: typing.Any) -> typing.Any:
        """Raises Invalid, naming the argument, when an input is not what the file accepts."""
        tensors, _, objects, unsupported = _native.flatten(args, kwargs, ())
        if unsupported or objects:
            raise errors.Invalid(f"{self.name}: an exported file takes tensors, found {unsupported or type(objects[0]).__name__}")
        number, leaves = self._function.run(tensors)
        return _build(self._outputs[number], leaves, tensors)

    def __repr__(self) -> str:
        return f"<ingot.load {self.name}>"


def _build(node: "tuple[typing.Any, ...]", leaves: "list[torch.Tensor]", inputs: "list[torch.Tensor]") -> typing.Any:
    kind = node[0]
    if kind == "leaf":
        return leaves[node[1]]
    if kind == "input":
        return inputs[node[1]]
    if kind == "const":
        return node[1]
    inner = [_build(child, leaves, inputs) for child in node[-1]]
    if kind == "dict":
        return dict(zip(node[1], inner))
    if kind == "call":
        return node[1](inner)
    return tuple(inner) if kind == "tuple" else inner


def load(path: str) -> Loaded:
    """Reads, checks and binds an exported file."""
    return Loaded(path)
