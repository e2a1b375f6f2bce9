# SPDX-License-Identifier: Apache-2.0
"""Verification (``INGOT_VERIFY=sample:N``): every N-th native call of a call site also runs eagerly, and the two answers are compared.

The native code runs on copies of the tensors it writes, then the user's function runs on the real ones: its
answer and its effects are what the caller gets, whatever the comparison says.
"""

import json
import logging
import typing

import torch

from ingot import _native, counters, errors
from ingot.trace import calls, interrupts, paths, tree

if typing.TYPE_CHECKING:
    from ingot.site import binding

log = logging.getLogger("ingot")

SCALE = 10.0
"""Kernels add up in another order than eager: so many times ``torch.testing.assert_close``'s tolerances are allowed."""

TOLERANCE = {torch.float16: (1e-3, 1e-5), torch.bfloat16: (1.6e-2, 1e-5), torch.float32: (1.3e-6, 1e-5), torch.float64: (1e-7, 1e-7),
              torch.complex64: (1.3e-6, 1e-5), torch.complex128: (1e-7, 1e-7)}
"""dtype -> (relative, absolute), as ``torch.testing.assert_close`` has them."""

quarantined: "dict[str, str]" = {}
"""Artifact digest -> why: found wrong by this process, used by none of its call sites again."""


class Skipped(Exception):
    """This call cannot be compared."""


class Check:
    """One call that is answered twice. ``difference`` is None where both agree."""

    def __init__(self, function: typing.Any, variant: "binding.Variant", inputs: "list[torch.Tensor]", call: calls.Call) -> None:
        self._function, self._variant, self._inputs, self._call = function, variant, inputs, call
        self.difference: "str | None" = None

    def run(self) -> typing.Any:
        """The eager answer; exceptions of the function pass through."""
        generator = torch.get_rng_state()
        try:
            native, written = self._run_native()
        except Exception as e:
            if interrupts.is_one(e):
                raise
            if not isinstance(e, Skipped):  # a bug of ours must not become the user's
                log.exception("verifying a call failed")
            counters.add("verify_skipped")
            return _native.call(self._function, self._call.args, self._call.kwargs, False)
        finally:
            torch.set_rng_state(generator)
        result = _native.call(self._function, self._call.args, self._call.kwargs, False)
        if not torch.equal(generator, torch.get_rng_state()):
            counters.add("verify_skipped")  # Two draws of random numbers say nothing of each other.
            return result
        counters.add("verified")
        self.difference = self._compare(result, native, written)
        return result

    def _run_native(self) -> "tuple[list[torch.Tensor], list[tuple[str, torch.Tensor, torch.Tensor]]]":
        """Outputs, and (name, the real tensor, what the code left in its copy) of everything it writes."""
        facts = self._variant.artifact.writes()
        inputs = _copy_storages(self._inputs, facts["inputs"])
        weights = [self._variant._weights[i] for i in facts["weights"]]
        before = [weight.detach().clone() for weight in weights]
        try:
            outputs = [_apart(out, weights) for out in self._variant.program.run(inputs)]
            after = [weight.detach().clone() for weight in weights]
        except errors.Error:
            raise Skipped from None  # A value guard: native code would not have served this call.
        finally:
            with torch.no_grad():
                for weight, value in zip(weights, before):
                    weight.copy_(value)
        written = [(self._input_name(i), self._inputs[i], inputs[i]) for i in facts["inputs"]]
        return outputs, written + [(paths.to_text(self._variant.signature["weights"][i]), weight, value)
                                   for i, weight, value in zip(facts["weights"], weights, after)]

    def _known_objects(self) -> "dict[int, str]":
        """Objects from before that the recorded result holds, by identity."""
        found: "dict[int, str]" = {}
        roots = paths.Roots(self._function, self._call.objects)

        def visit(spec: tree.Spec) -> None:
            if "p" in spec:
                found[id(paths.resolve(spec["p"], roots))] = spec["p"]
            for child in (*spec.get("ic", ()), *spec.get("c", ())):
                visit(child)

        visit(self._variant.signature["outputs"])
        return found

    def _input_name(self, number: int) -> str:
        path = self._variant.signature["inputs"][number]
        return paths.to_text(path) if path is not None else self._call.names[number]

    def _compare(self, result: typing.Any, native: "list[torch.Tensor]",
                 written: "list[tuple[str, torch.Tensor, torch.Tensor]]") -> "str | None":
        known = self._known_objects()
        encoder = tree.Encoder(lambda value: known.get(id(value)), self._inputs)
        try:
            spec = encoder.encode(result)
        except errors.Unsupported as e:
            return f"the result cannot be taken apart: {e}"
        numbers = _Numbers(native)
        outputs = numbers.put_into(self._variant.signature["outputs"], spec)
        if json.loads(json.dumps(spec)) != outputs or len(encoder.leaves) + len(numbers.leaves) != len(native):
            return "the result has another structure"
        tolerance = loosest((*self._inputs, *self._variant._weights, *encoder.leaves))
        pairs = [(f"output {name}", expected, found) for name, expected, found in zip(leaf_names(spec), encoder.leaves, native)]
        for name, expected, found in pairs + numbers.pairs + written:
            why = compare(expected, found, tolerance)
            if why is not None:
                return f"{name} {why}"
        return None


class _Numbers:
    """Python numbers of a result that native code gives as sizes or elements of leaves."""

    def __init__(self, native: "list[torch.Tensor]") -> None:
        self._native = native
        self.leaves: "set[int]" = set()
        self.pairs: "list[tuple[str, torch.Tensor, torch.Tensor]]" = []
        """Elements to be compared: name, eager's, native code's."""

    def put_into(self, recorded: tree.Spec, found: tree.Spec) -> tree.Spec:
        """A recorded result with its numbers; those that are compared as tensors are eager's."""
        kind = recorded["t"]
        if kind in ("sized", "item"):
            self.leaves.add(recorded["i"])
            leaf = self._native[recorded["i"]]
            if kind == "sized":
                return {"t": "const", "v": leaf.shape[-1]}
            is_float = leaf.dtype == torch.float64
            if found["t"] != ("float" if is_float else "const") or not is_float and type(found["v"]) is not int:
                return recorded
            value = tree.float_of(found) if is_float else found["v"]
            self.pairs.append(("a number", torch.tensor(value, dtype=leaf.dtype), leaf))
            return found
        made = dict(recorded)
        for part in ("ic", "c"):
            if part in recorded:
                others = found.get(part, ())
                made[part] = [self.put_into(child, others[i] if i < len(others) else {"t": ""}) for i, child in enumerate(recorded[part])]
        return made


_ELEMENTS = 1 << 20
"""So many are held against each other at a time: what that takes is a few times as large as they are."""


def loosest(tensors: "typing.Iterable[torch.Tensor]") -> "tuple[float, float]":
    """What the types of all that a call computes with allow its results."""
    return max((TOLERANCE[t.dtype] for t in tensors if t.dtype in TOLERANCE), default=(0.0, 0.0))


def compare(expected: torch.Tensor, found: torch.Tensor, tolerance: "tuple[float, float]", moved: "torch.Tensor | None" = None,
            may_overflow: bool = False, is_open: bool = False) -> "str | None":
    """Why two tensors are not the same answer, or None.

    Integers and bools must be equal. Of others no element may differ by more than ``SCALE * (absolute + relative *
    largest magnitude of the tensor)``: sums that cancel are off by what went into them. NaN and infinities must be
    where eager has them; with ``may_overflow`` they may be missing, and anything may be where eager has a NaN;
    with ``is_open`` they may be anywhere. ``moved``: by how much each element may differ besides.
    """
    if expected.shape != found.shape or expected.dtype != found.dtype:
        return f"is {found.dtype} {list(found.shape)}, eager has {expected.dtype} {list(expected.shape)}"
    if expected.numel() == 0:
        return None
    pieces = list(zip(_pieces(expected), _pieces(found)))
    free = _pieces(moved) if moved is not None else [None] * len(pieces)
    if expected.dtype not in TOLERANCE:
        wrong = sum(_count_unequal(a, b, by) for (a, b), by in zip(pieces, free))
        return f"differs in {wrong} of {expected.numel()} elements" if wrong else None
    relative, absolute = tolerance
    magnitude = max(_largest(a) for a, _ in pieces)
    allowed = SCALE * (absolute + relative * magnitude)
    largest = 0.0
    for (a, b), by in zip(pieces, free):
        if not is_open and not _are_special_alike(a, b, by, may_overflow):
            return "has NaN or infinities where eager has none, or the reverse"
        both = torch.isfinite(a) & torch.isfinite(b)
        if bool(both.any()):
            off = (_wide(a)[both] - _wide(b)[both]).abs()
            largest = max(largest, float((off if by is None else off - by[both]).max()))
    return f"differs by up to {largest:.4g}, allowed are {allowed:.4g}" if largest > allowed else None


def distance(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """How far apart two answers are, by element; infinite between those that are discrete and not equal."""
    if one.dtype not in TOLERANCE:
        return torch.where(_bits(one) == _bits(other), 0.0, torch.inf).double()
    far = (_wide(one.detach()) - _wide(other.detach())).abs()
    return torch.where(_equal(one, other), 0.0, torch.nan_to_num(far, nan=torch.inf, posinf=torch.inf))


def _pieces(tensor: torch.Tensor) -> "list[torch.Tensor]":
    return list(torch.split(tensor.detach().reshape(-1), _ELEMENTS))


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    """What can be compared: PyTorch has no comparison of floats of 8 bits."""
    return tensor.contiguous().view(torch.uint8) if tensor.is_floating_point() else tensor


def _equal(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a == b) | torch.isnan(a) & torch.isnan(b)


def _count_unequal(a: torch.Tensor, b: torch.Tensor, moved: "torch.Tensor | None") -> int:
    differs = _bits(a) != _bits(b)
    return int((differs if moved is None else differs & (moved == 0)).sum())


def _largest(tensor: torch.Tensor) -> float:
    finite = tensor[torch.isfinite(tensor)]
    return float(_wide(finite).abs().max()) if finite.numel() else 0.0


def _are_special_alike(a: torch.Tensor, b: torch.Tensor, moved: "torch.Tensor | None", may_overflow: bool) -> bool:
    is_odd = ~(torch.isfinite(a) & torch.isfinite(b)) & ~_equal(a, b)
    if a.is_complex():  # An infinity and a NaN may share a number.
        is_odd = (torch.isfinite(a) != torch.isfinite(b)) | ~torch.isfinite(a) & (torch.nan_to_num(a) != torch.nan_to_num(b))
    if may_overflow:
        is_odd &= ~torch.isfinite(b) & ~torch.isnan(a)
    if moved is not None:
        is_odd &= moved != torch.inf
    return not bool(is_odd.any())


def _copy_storages(tensors: "list[torch.Tensor]", written: "list[int]") -> "list[torch.Tensor]":
    """The tensors, with copies in place of those that are written and of all that share memory with them."""
    copies = {tensors[i].untyped_storage().data_ptr(): tensors[i].untyped_storage().clone() for i in written}  # type: ignore[no-untyped-call]
    out = []
    for tensor in tensors:
        storage = copies.get(tensor.untyped_storage().data_ptr())
        if storage is None:
            out.append(tensor)
            continue
        copy = torch.empty(0, dtype=tensor.dtype)
        with torch.no_grad():
            out.append(copy.set_(storage, tensor.storage_offset(), tensor.size(), tensor.stride()))
    return out


def _apart(tensor: torch.Tensor, weights: "list[torch.Tensor]") -> torch.Tensor:
    """An output that is a view of a weight that is about to be put back keeps its value in a copy."""
    shared = {weight.untyped_storage().data_ptr() for weight in weights}
    return tensor.clone() if tensor.untyped_storage().data_ptr() in shared else tensor


def leaf_names(spec: tree.Spec) -> "list[str]":
    """Where each leaf is in the result: ``[0]``, ``.logits``, ``[1]['mask']``; a lone tensor is ``0``."""
    names: "list[str]" = []

    def visit(node: tree.Spec, name: str) -> None:
        if node["t"] == "leaf" and node["i"] == len(names):  # One that occurs again is named where it stands first.
            names.append(name or "0")
        keys: typing.Any = node.get("k")
        for number, child in enumerate(node.get("ic", ())):
            visit(child, f"{name}[{node['ik'][number]!r}]" if "ik" in node else f"{name}[{number}]")
        for number, child in enumerate(node.get("c", ())):
            if node["t"] in ("namespace", "object"):
                visit(child, f"{name}.{keys[number]}")
            else:
                visit(child, f"{name}[{keys[number]!r}]" if keys else f"{name}[{number}]")

    visit(spec, "")
    return names
