# SPDX-License-Identifier: Apache-2.0
"""A random model with what it is called with, and what its generators draw from."""

import dataclasses
import random
import typing

import numpy as np
import onnx
from onnx import helper, numpy_helper

TYPES = {np.dtype(name): getattr(onnx.TensorProto, name.upper()) for name in ("double", "float16", "int8", "int16", "int32", "int64", "uint8", "bool")}
TYPES[np.dtype("float32")] = onnx.TensorProto.FLOAT
SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, -2.5, 1e-30, 3e4, 1e10)


@dataclasses.dataclass
class Input:
    """A tensor of the call: how large, and of what kind its elements are."""

    shape: "tuple[int, ...]"
    dtype: str = "float32"
    kind: str = "normal"
    low: float = 0
    high: float = 0

    def made(self, draw: np.random.Generator, shape: "tuple[int, ...]") -> np.ndarray:
        if self.dtype == "bool":
            return np.asarray(draw.random(shape) < 0.5)
        if self.kind == "between":
            whole = np.dtype(self.dtype).kind in "iu"
            made = draw.integers(int(self.low), int(self.high) + 1, shape) if whole else draw.uniform(self.low, self.high, shape)
            return made.astype(self.dtype)
        if np.dtype(self.dtype).kind in "iu":
            low, high = (0, 9) if np.dtype(self.dtype).kind == "u" else (-9, 9)
            made = draw.integers(low, high + 1, shape).astype(self.dtype)
            if self.kind == "special":
                extremes = np.array([np.iinfo(self.dtype).min, np.iinfo(self.dtype).max, 0, 1, np.iinfo(self.dtype).max - 1]).astype(self.dtype)
                made = np.where(draw.random(shape) < 0.3, draw.choice(extremes, shape), made)
            return np.asarray(made, self.dtype)
        made = draw.standard_normal(shape) * 2
        if self.kind == "special":
            made = np.where(draw.random(shape) < 0.4, draw.choice(np.array(SPECIAL), shape), made)
        with np.errstate(over="ignore"):
            return np.asarray(made).astype(self.dtype)


class Drawn:
    """What one model is made of while it is drawn."""

    def __init__(self, seed: int, opset: "int | None" = None) -> None:
        self.random = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.opset = opset or self.random.choice((13, 14, 15, 16, 17, 18, 18, 19, 20, 21, 22, 23))
        self.nodes: "list[onnx.NodeProto]" = []
        self.inputs: "dict[str, Input]" = {}
        self.constants: "dict[str, np.ndarray]" = {}
        self.outputs: "list[str]" = []
        self._count = 0

    def name(self, prefix: str = "v") -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def choice(self, items: typing.Sequence[typing.Any]) -> typing.Any:
        return self.random.choice(items)

    def sizes(self, low: int = 1, high: int = 4, most: int = 6, empty: float = 0.03) -> "tuple[int, ...]":
        rank = self.random.randint(low, high)
        return tuple(0 if self.chance(empty) else self.random.choice((1, 2, 3, 4, 5, 7)[:most]) for _ in range(rank))

    def input(self, shape: typing.Sequence[int], dtype: str = "float32", kind: str = "normal", low: float = 0, high: float = 0) -> str:
        name = self.name("x")
        self.inputs[name] = Input(tuple(shape), dtype, kind, low, high)
        return name

    def constant(self, value: typing.Any, dtype: "str | None" = None) -> str:
        name = self.name("c")
        self.constants[name] = np.array(value, dtype)
        return name

    def either(self, shape: typing.Sequence[int], dtype: str = "float32", kind: str = "normal", low: float = 0, high: float = 0) -> str:
        """An input, or a constant of that kind."""
        if not self.chance(0.3):
            return self.input(shape, dtype, kind, low, high)
        return self.constant(Input(tuple(shape), dtype, kind, low, high).made(self.numbers, tuple(shape)))

    def ints(self, values: typing.Sequence[int], dtype: str = "int64") -> str:
        """Integers that are no data: an initializer, or a node that gives them."""
        if self.chance(0.2) and dtype == "int64":
            return self.node("Constant", value_ints=[int(v) for v in values]) if len(values) else self.constant(np.array(values, dtype))
        return self.constant(np.array(values, dtype))

    def node(self, op: str, *inputs: str, count: int = 1, domain: str = "", **attributes: typing.Any) -> typing.Any:
        names = [self.name() for _ in range(count)]
        self.nodes.append(helper.make_node(op, list(inputs), names, domain=domain, **{k: v for k, v in attributes.items() if v is not None}))
        return names[0] if count == 1 else names

    def give(self, *names: str) -> None:
        self.outputs += names

    def broadcast(self, shape: typing.Sequence[int]) -> "tuple[int, ...]":
        """Sizes that spread over these."""
        part = [1 if self.chance(0.25) else s for s in shape]
        return tuple(part[self.random.randint(0, len(part)):] if self.chance(0.3) else part)


@dataclasses.dataclass
class Case:
    """A model, what it is called with at first, and how its open sizes are called."""

    label: str
    drawn: Drawn
    open: "dict[int, str]" = dataclasses.field(default_factory=dict)  # a size of inputs: the name it is open by
    changed: bool = False  # by damage.py: it may be no model

    def model(self, fixed: bool = False) -> onnx.ModelProto:
        drawn = self.drawn
        names = {} if fixed else self.open
        given = [helper.make_tensor_value_info(n, TYPES[np.dtype(i.dtype)], [names.get(s, s) for s in i.shape]) for n, i in drawn.inputs.items()]
        constants = [numpy_helper.from_array(v, n) for n, v in drawn.constants.items()]
        outputs = [onnx.ValueInfoProto(name=n) for n in drawn.outputs]
        graph = helper.make_graph(drawn.nodes, "case", given, outputs, constants)
        domains = sorted({n.domain for n in drawn.nodes if n.domain})
        sets = [helper.make_opsetid("", drawn.opset)] + [helper.make_opsetid(d, 1) for d in domains]
        return helper.make_model(graph, opset_imports=sets, ir_version=min(10, 8 if drawn.opset < 21 else 10))

    def call(self, seed: int, sizes: "dict[int, int]") -> "dict[str, np.ndarray]":
        draw = np.random.default_rng(seed)
        return {n: i.made(draw, tuple(sizes.get(s, s) for s in i.shape)) for n, i in self.drawn.inputs.items()}

    def text(self) -> str:
        """The model as one reads it."""
        drawn = self.drawn
        lines = [f"{self.label}, opset {drawn.opset}" + (f", open {self.open}" if self.open else "")]
        lines += [f"  {n} = {i.dtype}{list(i.shape)} {i.kind}" for n, i in drawn.inputs.items()]
        lines += [f"  {n} = {v.dtype}{list(v.shape)} {v.flatten()[:8].tolist()}" for n, v in drawn.constants.items()]
        for node in drawn.nodes:
            attributes = ", ".join(f"{a.name}={_shown(a)}" for a in node.attribute)
            lines.append(f"  {', '.join(node.output)} = {node.op_type}({', '.join(node.input)}{'; ' if attributes else ''}{attributes})")
        return "\n".join([*lines, f"  -> {', '.join(drawn.outputs)}"])


def _shown(attribute: onnx.AttributeProto) -> str:
    value = helper.get_attribute_value(attribute)
    if isinstance(value, onnx.GraphProto):
        return "{" + "; ".join(f"{','.join(n.output)}={n.op_type}({','.join(n.input)})" for n in value.node) + f" -> {[o.name for o in value.output]}" + "}"
    if isinstance(value, onnx.TensorProto):
        array = numpy_helper.to_array(value)
        return f"{array.dtype}{array.tolist()}"
    return repr(value.decode() if isinstance(value, bytes) else value)
