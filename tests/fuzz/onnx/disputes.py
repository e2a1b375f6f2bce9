# SPDX-License-Identifier: Apache-2.0
"""Where the answer of a judge does not count: it breaks the operator's text, or the text leaves it open and the answer here is another one
(docs/onnx.md, "Where texts and runtimes differ"). A row is a predicate on a node; what it explains is counted with its reason."""

import dataclasses
import typing

import onnx
from case import Case
from onnx import helper


@dataclasses.dataclass(frozen=True)
class Seen:
    """A node as a row looks at it."""

    op: str
    attributes: "dict[str, typing.Any]"
    case: Case
    node: onnx.NodeProto

    def shape(self, i: int = 0) -> "tuple[int, ...] | None":
        """The sizes of an input or constant; None of what a node gives."""
        name = self.node.input[i] if i < len(self.node.input) else ""
        given, constant = self.case.drawn.inputs.get(name), self.case.drawn.constants.get(name)
        return given.shape if given else constant.shape if constant is not None else None

    def sizes(self, i: int) -> "list[int]":
        """The integers of a constant or of a Constant node; none of others."""
        name = self.node.input[i]
        if name in self.case.drawn.constants:
            return [int(v) for v in self.case.drawn.constants[name].flatten()]
        made = [n for n in self.case.drawn.nodes if name in n.output and n.op_type == "Constant"]
        return [v for n in made for v in n.attribute[0].ints]

    def halves(self, i: int) -> bool:
        value = self.case.drawn.constants.get(self.node.input[i])
        return value is not None and value.dtype.kind == "f" and bool((abs(value) == 0.5).any())

    def has(self, i: int) -> bool:
        return i < len(self.node.input) and bool(self.node.input[i])

    def gives(self, i: int) -> bool:
        return i < len(self.node.output) and bool(self.node.output[i])

    def special(self) -> bool:
        return any(i.kind == "special" for i in self.case.drawn.inputs.values())

    def __getitem__(self, name: str) -> typing.Any:
        value = self.attributes.get(name)
        return value.decode() if isinstance(value, bytes) else value


@dataclasses.dataclass(frozen=True)
class Dispute:
    judges: "tuple[str, ...]"
    ops: "tuple[str, ...]"
    when: "typing.Callable[[Seen], bool]"
    why: str


BOTH, REFERENCE, RUNTIME = ("reference", "onnxruntime"), ("reference",), ("onnxruntime",)
POOLS = ("MaxPool", "AveragePool", "LpPool")


def _same(seen: Seen) -> bool:
    return str(seen["auto_pad"]).startswith("SAME")


def _pads(seen: Seen) -> bool:
    return bool(seen["pads"] and any(seen["pads"])) or _same(seen)


def _dilated(seen: Seen) -> bool:
    return bool(seen["dilations"] and max(seen["dilations"]) > 1)


DISPUTES = [
    # What the text leaves open, or runtimes have in several ways.
    Dispute(REFERENCE, ("Slice",), lambda s: True, "backwards from before the first: nothing, where the text clamps to the first element"),
    Dispute(BOTH, ("Resize",), lambda s: s.has(2), "sizes and positions by a factor are those of PyTorch"),
    Dispute(REFERENCE, ("Resize",), lambda s: s["mode"] == "nearest", "positions in f64, where PyTorch has f32"),
    Dispute(BOTH, ("AffineGrid",), lambda s: bool(s["align_corners"]) and 1 in s.sizes(1), "the middle of a dim of size 1 is 0, as in PyTorch"),
    Dispute(BOTH, ("Pow",), lambda s: s.halves(1), "by a half is PyTorch's root: NaN of minus infinity, and a zero keeps its sign"),
    Dispute(REFERENCE, ("HardSwish", "Gelu"), lambda s: True, "its constants are f32"),
    Dispute(RUNTIME, ("Clip",), Seen.special, "infinities are cut where there is no bound"),
    Dispute(RUNTIME, ("DynamicQuantizeLinear",), lambda s: True, "the scale of zeros is 1"),
    Dispute(RUNTIME, ("ReduceMean",), lambda s: 0 in (s.shape() or ()), "the mean of nothing is 0"),
    # What breaks the text.
    Dispute(RUNTIME, ("Resize",), lambda s: bool(s["keep_aspect_ratio_policy"]) and min(s["axes"] or [0]) < 0, "axes from the end are left out of what keeps the ratio"),
    Dispute(REFERENCE, ("GridSample",), lambda s: s["mode"] in ("cubic", "bicubic") and s["padding_mode"] != "zeros", "the middle is moved before its neighbours are taken"),
    Dispute(REFERENCE, ("Shape",), lambda s: True, "an end before the first dim counts from the last"),
    Dispute(REFERENCE, ("Attention",), lambda s: bool(s["softcap"]) and not s["qk_matmul_output_mode"] and s.gives(3), "scores of mode 0 are bounded"),
    Dispute(RUNTIME, ("Attention",), lambda s: bool(s["is_causal"]) and s.has(4), "what is causal sees other keys of a past"),
    Dispute(RUNTIME, ("Attention",), lambda s: s["qk_matmul_output_mode"] == 2, "what is masked is the smallest number, not minus infinity"),
    Dispute(REFERENCE, ("Loop",), lambda s: True, "lists that a loop gives are joined, not stacked"),
    Dispute(REFERENCE, ("LpNormalization",), lambda s: s["p"] == 1, "the norm of order 1 is a sum of signed numbers"),
    Dispute(REFERENCE, ("LRN",), lambda s: True, "its window is another"),
    Dispute(REFERENCE, ("GlobalMaxPool",), lambda s: len(s.shape() or ()) != 4, "knows 4 dims"),
    Dispute(REFERENCE, ("Resize",), lambda s: s["coordinate_transformation_mode"] == "pytorch_half_pixel", "a single position is not 0"),
    Dispute(REFERENCE, POOLS, lambda s: bool(s["ceil_mode"]), "what is rounded up is padded in front as well"),
    Dispute(REFERENCE, POOLS, lambda s: bool(s["pads"]) and len(set(s["pads"])) > 1, "pads are taken in another order"),
    Dispute(REFERENCE, ("MaxPool",), lambda s: s.gives(1), "positions count within a plane"),
    Dispute(REFERENCE, ("LpPool",), _pads, "padding does not count"),
    Dispute(RUNTIME, POOLS, lambda s: _dilated(s) and _same(s), "dilations are left out of the padding"),
    Dispute(REFERENCE, POOLS, lambda s: _dilated(s) and (_same(s) or s["auto_pad"] == "VALID"), "dilations are left out of the padding"),
    Dispute(REFERENCE, ("ConvTranspose",), lambda s: (s["group"] or 1) > 1, "groups mix channels up"),
    Dispute(RUNTIME, ("ConvTranspose",), lambda s: _same(s) or bool(s["output_shape"]), "a negative padding is none"),
]


def explained(case: Case, judge: str) -> "str | None":
    """Why an answer of this judge does not count against this model; None: it does."""
    graphs: "list[typing.Iterable[onnx.NodeProto]]" = [case.drawn.nodes]
    while graphs:
        for node in graphs.pop():
            seen = Seen(node.op_type, {a.name: helper.get_attribute_value(a) for a in node.attribute}, case, node)
            for row in DISPUTES:
                if judge in row.judges and node.op_type in row.ops and row.when(seen):
                    return f"{node.op_type}: {row.why}"
            graphs += [a.g.node for a in node.attribute if a.type == onnx.AttributeProto.GRAPH]
    return None
