# SPDX-License-Identifier: Apache-2.0
"""Chains of nodes: arithmetic on sizes that ends as the shape of something, branches and loops, and layers one after the other."""

import typing

import numpy as np
import onnx
from case import Drawn
from onnx import helper



class Sizes:
    """Integers that are known without data: scalars as lists of one, from the shape of an input on."""

    def __init__(self, d: Drawn, x: str) -> None:
        self.d, shape = d, d.inputs[x].shape
        self.shape = d.node("Shape", x)
        self.values: "list[tuple[str, int]]" = []
        for i, size in enumerate(shape):
            index = d.constant(np.array([i - len(shape) if d.chance(0.3) else i]))
            self.values.append((d.node("Gather", self.shape, index, axis=0) if d.chance(0.6) else
                                d.node("Slice", self.shape, d.constant(np.array([i])), d.constant(np.array([i + 1]))), size))
        self.values.append((d.node("Reshape", d.node("Size", x), d.constant(np.array([1]))), int(np.prod(shape, dtype=np.int64))))

    def any(self) -> "tuple[str, int]":
        if self.d.chance(0.3):
            n = self.d.random.randint(1, 4)
            return self.d.constant(np.array([n])), n
        return self.d.choice(self.values)

    def step(self) -> None:
        d, (a, x), (b, y) = self.d, self.any(), self.any()
        op = d.choice(("Add", "Sub", "Mul", "Div", "Mod", "Min", "Max", "Neg", "Abs", "Where", "Cast", "Reduce", "Identity", "Clip"))
        if op in ("Div", "Mod") and y <= 0:
            return
        if op in ("Add", "Sub", "Mul", "Div", "Mod", "Min", "Max"):
            value = {"Add": x + y, "Sub": x - y, "Mul": x * y, "Div": int(x / y) if y else 0, "Mod": x % y if y else 0, "Min": min(x, y), "Max": max(x, y)}[op]
            made = d.node(op, a, b)
        elif op == "Where":
            test = d.choice(("Less", "Greater", "Equal"))
            holds = {"Less": x < y, "Greater": x > y, "Equal": x == y}[test]
            made, value = d.node("Where", d.node(test, a, b), a, b), x if holds else y
        elif op == "Cast":
            made, value = d.node("Cast", d.node("Cast", a, to=onnx.TensorProto.INT32), to=onnx.TensorProto.INT64), x
        elif op == "Reduce":
            both, how = d.node("Concat", a, b, axis=0), d.choice(("ReduceSum", "ReduceProd", "ReduceMax", "ReduceMin"))
            made = d.node(how, both, keepdims=1)
            value = {"ReduceSum": x + y, "ReduceProd": x * y, "ReduceMax": max(x, y), "ReduceMin": min(x, y)}[how]
        elif op == "Clip":
            made, value = d.node("Clip", a, d.constant(np.int64(1)), d.constant(np.int64(6))), min(max(x, 1), 6)
        else:
            made, value = d.node(op, a), {"Neg": -x, "Abs": abs(x), "Identity": x}[op]
        if abs(value) < 1 << 20:
            self.values.append((made, value))

    def between(self, low: int, high: int) -> "tuple[str, int]":
        fits = [v for v in self.values if low <= v[1] <= high]
        if fits and self.d.chance(0.85):
            return self.d.choice(fits)
        n = self.d.random.randint(low, high)
        return self.d.constant(np.array([n])), n


def use(d: Drawn, sizes: Sizes, x: str) -> "list[str]":
    """What is made with the sizes."""
    shape = d.inputs[x].shape
    kind = d.choice(("expand", "reshape", "slice", "range", "fill", "tile", "pad", "split", "sizes", "topk", "compare", "resize"))
    if kind == "expand":
        (a, _), (b, _) = sizes.between(0, 6), sizes.between(1, 6)
        return [d.node("Expand", d.constant(np.ones((1, 1), np.float32)), d.node("Concat", a, b, axis=0))]
    if kind == "reshape":
        total = int(np.prod(shape, dtype=np.int64))
        fits = [v for v in sizes.values if v[1] > 0 and total % v[1] == 0 and total]
        if not fits:
            return [sizes.shape]
        return [d.node("Reshape", x, d.node("Concat", d.choice(fits)[0], d.constant(np.array([-1])), axis=0))]
    if kind == "slice":
        (a, _), (b, _) = sizes.between(-4, 4), sizes.between(-8, 8)
        return [d.node("Slice", x, a, b, d.constant(np.array([d.random.randrange(len(shape))])), d.constant(np.array([d.choice((1, 1, 2, -1))])))]
    if kind == "range":
        (a, _), (b, _) = sizes.between(-3, 3), sizes.between(0, 12)
        flat = d.constant(np.array([], np.int64))
        return [d.node("Range", d.node("Reshape", a, flat), d.node("Reshape", b, flat), d.constant(np.int64(d.choice((1, 2)))))]
    if kind == "fill":
        return [d.node("ConstantOfShape", d.node("Concat", *(sizes.between(0, 6)[0] for _ in range(2)), axis=0))]
    if kind == "tile":
        return [d.node("Tile", x, d.node("Concat", *(sizes.between(0, 3)[0] for _ in shape), axis=0))]
    if kind == "pad":
        return [d.node("Pad", x, d.node("Concat", *(sizes.between(0, 4)[0] for _ in shape * 2), axis=0))]
    if kind == "split" and d.opset >= 13:
        axis = d.random.randrange(len(shape))
        part, n = sizes.between(0, shape[axis])
        whole = d.node("Gather", sizes.shape, d.constant(np.array([axis])), axis=0)
        return list(d.node("Split", x, d.node("Concat", part, d.node("Sub", whole, part), axis=0), count=2, axis=axis))
    if kind == "topk":
        axis = d.random.randrange(len(shape))
        count, n = sizes.between(0, shape[axis])
        return list(d.node("TopK", x, count, count=2, axis=axis))
    if kind == "compare":
        return [d.node("Mul", x, d.node("Cast", d.node("Greater", *(v for v, _ in (sizes.any(), sizes.any()))), to=onnx.TensorProto.FLOAT))]
    return [v for v, _ in d.random.sample(sizes.values, 1)]


def of_sizes(d: Drawn) -> None:
    x = d.input(d.sizes(1, 3, empty=0.05))
    sizes = Sizes(d, x)
    for _ in range(d.random.randint(1, 7)):
        sizes.step()
    made = []
    for _ in range(d.random.randint(1, 3)):
        made += use(d, sizes, x)
    d.give(*dict.fromkeys(made))


def layers(d: Drawn) -> None:
    """Elementwise, products, norms and movements, one after the other, with results used twice."""
    rows, width = d.choice((1, 2, 3, 5)), d.choice((2, 4, 6))
    known = [d.input((d.choice((1, 2)), rows, width)) for _ in range(d.random.randint(1, 2))]
    shape: "dict[str, tuple[int, ...]]" = {k: d.inputs[k].shape for k in known}
    for _ in range(d.random.randint(2, 8)):
        x = d.choice(known)
        s = shape[x]
        way = d.choice(("unary", "binary", "product", "softmax", "norm", "reduce", "transpose", "concat", "slice", "levels", "where", "gather"))
        if way == "unary":
            y, t = d.node(d.choice(("Relu", "Tanh", "Sigmoid", "Erf", "Neg", "Abs", "Exp" if len(known) < 3 else "Tanh", "Softplus", "Floor")), x), s
        elif way == "binary":
            other = d.choice([k for k in known if shape[k] == s] + [d.constant(Inputs.floats(d, d.broadcast(s)))])
            y, t = d.node(d.choice(("Add", "Sub", "Mul", "Max", "Min")), x, other), s
        elif way == "product":
            n = d.choice((2, 4, 6))
            y, t = d.node("MatMul", x, d.constant(Inputs.floats(d, (s[-1], n)))), (*s[:-1], n)
        elif way == "softmax":
            y, t = d.node("Softmax", x, axis=-1), s
        elif way == "norm" and d.opset >= 17:
            y, t = d.node("LayerNormalization", x, d.constant(Inputs.floats(d, s[-1:])), d.constant(Inputs.floats(d, s[-1:])), axis=-1), s
        elif way == "reduce":
            y = d.node("ReduceSum", x, d.constant(np.array([-1])), keepdims=1)
            t = (*s[:-1], 1)
        elif way == "transpose":
            y, t = d.node("Transpose", x, perm=[0, 2, 1]), (s[0], s[2], s[1])
        elif way == "concat":
            y, t = d.node("Concat", x, x, axis=-1), (*s[:-1], 2 * s[-1])
        elif way == "slice" and s[-1] > 1:
            y, t = d.node("Slice", x, d.constant(np.array([1])), d.constant(np.array([2**31 - 1])), d.constant(np.array([-1]))), (*s[:-1], s[-1] - 1)
        elif way == "levels":
            scale, zero = d.constant(np.float32(0.1)), d.constant(np.uint8(d.choice((0, 128))))
            y, t = d.node("DequantizeLinear", d.node("QuantizeLinear", x, scale, zero), scale, zero), s
        elif way == "where":
            y, t = d.node("Where", d.node("Greater", x, d.constant(np.float32(0.2))), x, d.constant(np.float32(-1))), s
        else:
            y, t = d.node("Gather", x, d.constant(d.numbers.integers(-s[1], s[1], (2,))), axis=1), (s[0], 2, s[2])
        shape[y] = t
        known.append(y)
    d.give(*dict.fromkeys([known[-1], d.choice(known)]))


class Inputs:
    @staticmethod
    def floats(d: Drawn, shape: "typing.Sequence[int]") -> np.ndarray:
        return d.numbers.standard_normal(tuple(shape)).astype(np.float32)


def _body(nodes: "list[onnx.NodeProto]", inputs: "list[tuple[str, int, int]]", outputs: "list[str]", constants: "dict[str, np.ndarray] | None" = None) -> onnx.GraphProto:
    given = [helper.make_tensor_value_info(n, t, [None] * rank) for n, t, rank in inputs]
    from onnx import numpy_helper

    return helper.make_graph(nodes, "body", given, [onnx.ValueInfoProto(name=o) for o in outputs], [numpy_helper.from_array(v, n) for n, v in (constants or {}).items()])


def branches(d: Drawn) -> None:
    shape = d.sizes(1, 3, empty=0)
    x = d.input(shape)
    sides = []
    for side in ("then", "else"):
        k = f"{side}_k" if d.chance(0.5) else "k"  # initializers of one name are two
        nodes = [helper.make_node(d.choice(("Mul", "Div", "Add")), [x, k], [f"{side}_1"]), helper.make_node(d.choice(("Relu", "Tanh", "Identity")), [f"{side}_1"], [f"{side}_2"])]
        sides.append(_body(nodes, [], [f"{side}_{d.choice((1, 2))}"], {k: np.array([d.choice((2, 0.5, -1, -0.0))], np.float32)}))
    way = d.choice(("data", "size", "input"))
    if way == "data":
        test = d.node("Greater", d.node("ReduceSum", x, keepdims=0), d.constant(np.float32(0)))
    elif way == "size":
        test = d.node("Greater", d.node("Gather", d.node("Shape", x), d.constant(np.int64(0)), axis=0), d.constant(np.int64(2)))
    else:
        test = d.input((), "bool")
    d.give(d.node("If", test, then_branch=sides[0], else_branch=sides[1]))


def loops(d: Drawn) -> None:
    shape = d.sizes(1, 2, empty=0)
    x = d.input(shape)
    nodes = [helper.make_node(d.choice(("Add", "Mul", "Max")), ["state", x], ["made"]), helper.make_node("Tanh", ["made"], ["next"]),
             helper.make_node("Identity", ["goes_on"], ["still"])]
    outputs = ["still", "next"] + (["made"] if d.chance(0.5) else [])
    body = _body(nodes, [("turn", onnx.TensorProto.INT64, 0), ("goes_on", onnx.TensorProto.BOOL, 0), ("state", onnx.TensorProto.FLOAT, len(shape))], outputs)
    count = d.constant(np.int64(d.random.randint(1, 4))) if d.chance(0.5) else d.node("Gather", d.node("Shape", x), d.constant(np.int64(0)), axis=0)
    names = d.node("Loop", count, d.constant(np.array(True)), x, count=len(outputs) - 1, body=body)
    d.give(*([names] if len(outputs) == 2 else names))


def scans(d: Drawn) -> None:
    steps, width = d.choice((1, 2, 3)), d.choice((1, 2, 4))
    state, x = d.input((width,)), d.input((steps, width))
    nodes = [helper.make_node(d.choice(("Add", "Mul", "Sub")), ["s", "part"], ["t"]), helper.make_node("Identity", ["t"], ["u"])]
    body = _body(nodes, [("s", onnx.TensorProto.FLOAT, 1), ("part", onnx.TensorProto.FLOAT, 1)], ["t", "u"])
    d.give(*d.node("Scan", state, x, count=2, body=body, num_scan_inputs=1, scan_input_directions=d.choice((None, [0], [1])), scan_output_directions=d.choice((None, [0], [1])),
                   scan_output_axes=d.choice((None, [0], [1], [-1]))))


def old(d: Drawn) -> None:
    """Sets before 13, of operators that have not changed since."""
    d.opset = d.choice((8, 9, 10, 11, 12))
    rows, width = d.choice((1, 2, 3)), d.choice((2, 4))
    x = d.input((rows, width))
    for _ in range(d.random.randint(1, 4)):
        op = d.choice(("Relu", "Tanh", "Sigmoid", "Exp", "Abs", "Neg", "Floor", "Add", "Mul", "Sub", "MatMul", "Concat", "Transpose", "Reshape", "Dense"))
        if op in ("Add", "Mul", "Sub"):
            x = d.node(op, x, d.constant(np.float32(d.choice((2, 0.5, -1)))))
        elif op == "MatMul":
            x = d.node(op, x, d.node("Transpose", x, perm=[1, 0]))
        elif op == "Dense":
            x = d.node("Tanh", x)
        elif op == "Concat":
            x = d.node(op, x, x, axis=d.choice((0, 1)))
        elif op == "Transpose":
            x = d.node(op, x, perm=[1, 0])
        elif op == "Reshape":
            shape = d.node("Shape", x)
            x = d.node("Reshape", x, d.node("Gather", shape, d.constant(np.array([1, 0])), axis=0))
        else:
            x = d.node(op, x)
    d.give(x)


TABLE = [("sizes", of_sizes), ("sizes", of_sizes), ("layers", layers), ("branches", branches), ("loops", loops), ("scans", scans), ("old", old)]
