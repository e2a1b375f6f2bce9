# SPDX-License-Identifier: Apache-2.0
"""Exported files: what a function was compiled for, with its weights (docs/format/export.md)."""

import json
import logging
import os
import pathlib
import subprocess
import typing

import torch

from ingot import _native, errors, profiling
from ingot.reasons import advice
from ingot.site import binding
from ingot.trace import paths, signatures, tree

log = logging.getLogger("ingot")

Structure = tuple[str | errors.Unsupported | None, typing.Sequence[binding.Variant]]
"""An argument structure as JSON, or why a file cannot hold it, with its bound variants."""


def save(path: "str | os.PathLike[str]", name: str, structures: "typing.Iterable[Structure]",
         weights: "str | os.PathLike[str]" = "inside", sign: "str | os.PathLike[str] | bool" = False) -> None:
    """Writes the file, and its signature if that is asked for. Weights are those that are bound now, each once: ``inside`` it; with ``reference`` in a safetensors file
    beside it; or a safetensors file that exists, whose tensors are referred to where they are equal (others are inside).

    Unsupported names what a file cannot check or do without Python; NotFound: nothing has been compiled yet.
    """
    found: "dict[str, list[binding.Variant]]" = {}
    for structure, variants in structures:
        if not variants:
            log.warning("%s: a file leaves out calls that are not served natively: %s", name, structure)
            continue
        if not isinstance(structure, str):
            raise errors.Unsupported(f"{name}: an exported file cannot check that {structure}")
        listed = found.setdefault(structure, [])
        known, given = ({variant.graph for variant in some} for some in (listed, variants))
        if known and not (known <= given or given <= known):
            raise errors.Unsupported(f"{name} does other things with the same arguments in another mode of PyTorch (gradients, inference, "
                                     "default dtype), which an exported file cannot check; call it in one mode only before exporting it")
        listed += [variant for variant in variants if variant not in listed]
    if not found:
        raise errors.NotFound(f"{name} has no variant yet: call it first, then wait()")
    gathered = _Weights()
    written = [(structure, [gathered.variant(name, variant) for variant in variants]) for structure, variants in found.items()]
    place, writes = ("", False) if weights == "inside" else (os.fspath(weights), False)
    if weights == "reference":
        place, writes = str(pathlib.Path(path).with_suffix(".safetensors")), True
    inside = _native.write_exported(os.fspath(path), name, written, gathered.tensors, place, writes)
    if place and inside:
        log.warning("%s: %s of %s weights are not in %s; they are inside %s", name, inside, len(gathered.tensors), place, path)
    if sign:
        _sign(path, None if isinstance(sign, bool) else os.fspath(sign))


class _Weights:
    """The weights of all variants, each tensor once."""

    def __init__(self) -> None:
        self.tensors: "list[tuple[str, torch.Tensor]]" = []
        self._numbers: "dict[int, int]" = {}

    def variant(self, name: str, variant: binding.Variant) -> "tuple[typing.Any, ...]":
        """As the extension writes it; Unsupported names what keeps it from being exported."""
        _check(name, variant)
        for step, weight in zip(variant.signature["weights"], variant._weights):
            if id(weight) not in self._numbers:
                self._numbers[id(weight)] = len(self.tensors)
                self.tensors.append((paths.to_text(step), weight.detach()))
        return (json.dumps(variant.signature["outputs"]), variant.proven, variant.range,
                [self._numbers[id(weight)] for weight in variant._weights], variant.artifact)


def _check(name: str, variant: binding.Variant) -> None:
    for step in variant.signature["inputs"]:
        if step is not None:
            raise errors.Unsupported(f"{name} takes tensors inside an object argument ({paths.to_text(step)}); pass them as tensors to export it")
    if variant.signature.get("groups"):
        raise errors.Unsupported(f"{name} communicates in process groups ({', '.join(variant.signature['groups'])}), which an exported file cannot bind")
    if variant.signature["writes"]:
        raise errors.Unsupported(f"{name} stores tensors in Python objects, which an exported file cannot do")
    held = _held(variant.signature["outputs"])
    if held is not None:
        raise errors.Unsupported(f"{name} returns {paths.to_text(held)}, an object of this process, which an exported file cannot hold")


def _held(spec: tree.Spec) -> "paths.Path | None":
    """The path of the first thing in a result that lives in the program."""
    if spec["t"] == "path":
        return typing.cast(paths.Path, spec["p"])
    children = [*spec.get("ic", ()), *spec.get("c", ()), *([spec["f"]] if "f" in spec else ())]
    return next((held for held in map(_held, children) if held is not None), None)


class Loaded:
    """A callable from an exported file. It takes the arguments of the recorded calls, checked as a call site does: structure,
    names of keywords, scalars, element types, sizes and strides. Thread-safe."""

    def __init__(self, path: "str | os.PathLike[str]", content: "bytes | None" = None, weights: str = "beside") -> None:
        self._function = _native.ExportedFunction.load(os.fspath(path), content, weights == "anywhere")
        self.name: str = self._function.name
        roots = paths.Roots(self, ())
        self._outputs: "list[list[typing.Any]]" = [[tree.decode(json.loads(text), roots, loaded=True) for text in texts] for texts in self._function.outputs]
        self._known: "dict[bytes, _Match]" = {}

    @property
    def signatures(self) -> "list[str]":
        """What may be called, a line for each argument structure: ``(x: float32[2 dims], scale=0.5)``."""
        return self._function.signatures

    def __call__(self, /, *args: typing.Any, **kwargs: typing.Any) -> typing.Any:
        """Raises Invalid, naming the argument, when a call is not what the file accepts."""
        shape, tensors, unsupported = _native.arguments_of(args, kwargs)
        if unsupported is not None:
            raise errors.Unsupported(f"{self.name}: {advice.sentence(unsupported, '')}")
        match = self._known.get(shape) or self._match(shape, args, kwargs)
        if match.order is not None:
            tensors = [tensors[i] for i in match.order]
        number, leaves = self._function.run(match.structure, tensors)
        trees = self._outputs[match.structure]
        if isinstance(trees[number], tuple):
            trees[number] = _native.OutputTree(trees[number], len(leaves), len(tensors))
        return trees[number].build(leaves, tensors)

    def report(self, /, *args: typing.Any, **kwargs: typing.Any) -> str:
        """Measures calls with these arguments, step by step, against the machine's roofs, and says so in a table (``ingot.profile``)."""
        return str(profiling.measured(self, args, kwargs, lambda: None))

    def _match(self, shape: bytes, args: "tuple[typing.Any, ...]", kwargs: "dict[str, typing.Any]") -> "_Match":
        described = signatures.Describer()
        try:
            text = described.call(args, kwargs, ())
        except errors.Unsupported as e:
            raise errors.Invalid(f"{self.name}: {e}") from None
        structure, order = self._function.find(text)
        match = _Match(structure, None if order == sorted(order) else order, described.classes)
        self._known[shape] = match
        return match

    def __repr__(self) -> str:
        return f"<ingot.load {self.name}>"


class _Match(typing.NamedTuple):
    """The argument structure of calls of one shape."""

    structure: int
    order: "list[int] | None"
    """Where its tensors stand in the call; None: as they are."""
    classes: "list[type]"
    """Kept: shapes hold their addresses."""


def load(path: "str | os.PathLike[str]", trust: "str | os.PathLike[str] | bool | None" = None, weights: str = "beside") -> Loaded:
    """Reads, checks and binds an exported file; ``ingot.load`` says what the arguments mean."""
    if weights not in ("beside", "anywhere"):
        raise errors.Invalid(f"weights={weights!r}: only 'beside' or 'anywhere'")
    if trust is None or isinstance(trust, bool) and not trust:
        return Loaded(path, None, weights)
    with open(path, "rb") as file:
        content = file.read()
    _verify(os.fspath(path), content, None if isinstance(trust, bool) else os.fspath(trust))
    return Loaded(path, content, weights)


def _sign(path: "str | os.PathLike[str]", key: "str | None") -> None:
    """By the program that has the rules for private keys."""
    words = [] if key is None else ["--private-key", key]
    _run(["sign", os.fspath(path), *words], b"")


def _verify(path: str, content: bytes, trust: "str | None") -> None:
    """These very bytes: what lies under the path may be another file by the time at which it is looked at."""
    words = [] if trust is None else ["--trust", trust]
    _run(["verify", "-", "--name", path, "--signature", path + ".sig", *words], content)


def _run(words: "list[str]", content: bytes) -> None:
    native = pathlib.Path(_native.__file__)
    # In a wheel, and in a tree that was built.
    program = next((found for found in (native.parent / "bin" / "ingot", native.parents[2] / "bin" / "ingot") if found.exists()), None)
    if program is None:
        raise errors.NotFound(f"the program ingot, which looks at signatures, is not beside {native}")
    done = subprocess.run([str(program), *words], input=content, capture_output=True)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().removeprefix("ingot: ")
        raise errors.Invalid(said.removeprefix("invalid: "))
