# SPDX-License-Identifier: Apache-2.0
"""Single nodes: each operator with each of its attributes. A generator adds one node and gives its outputs."""

import typing

import numpy as np
from case import Drawn

Generator = typing.Callable[[Drawn], None]
FLOATS = ("float32", "float32", "float32", "float64", "float16")
INTS = ("int64", "int32", "int8", "uint8", "int16")
EDGES = (-(2**63), -(2**63) + 1, -(2**31), 2**31 - 1, 2**63 - 1)


def unary(op: str, since: int = 13, types: "tuple[str, ...]" = FLOATS, **attributes: "tuple[typing.Any, ...]") -> "tuple[str, int, Generator]":
    def generate(d: Drawn) -> None:
        given = {k: d.choice(v) for k, v in attributes.items() if d.chance(0.6)}
        d.give(d.node(op, d.input(d.sizes(0), d.choice(types), d.choice(("normal", "special"))), **given))

    return op, since, generate


def pair(op: str, types: "tuple[str, ...]", since: int = 13) -> "tuple[str, int, Generator]":
    def generate(d: Drawn) -> None:
        shape, dtype = d.sizes(0), d.choice(types)
        d.give(d.node(op, *(d.either(d.broadcast(shape), dtype, d.choice(("normal", "special"))) for _ in range(2))))

    return op, since, generate


def several(op: str, types: "tuple[str, ...]") -> "tuple[str, int, Generator]":
    def generate(d: Drawn) -> None:
        shape, dtype = d.sizes(0), d.choice(types)
        d.give(d.node(op, *(d.either(d.broadcast(shape), dtype, d.choice(("normal", "special"))) for _ in range(d.random.randint(1, 3)))))

    return op, 13, generate


def div(d: Drawn) -> None:
    shape, dtype = d.sizes(0), d.choice((*FLOATS, "int32", "int64"))
    if dtype.startswith("int"):
        d.give(d.node("Div", d.input(shape, dtype), d.input(d.broadcast(shape), dtype, "between", 1, 9)))
    else:
        d.give(d.node("Div", d.input(shape, dtype, "special"), d.either(d.broadcast(shape), dtype, "special")))


def mod(d: Drawn) -> None:
    shape, whole = d.sizes(0), d.chance(0.7)
    dtype = d.choice(("int32", "int64", "int8", "uint8") if whole else ("float32", "float64"))
    other = d.input(d.broadcast(shape), dtype, "between", 1, 7) if whole else d.input(d.broadcast(shape), dtype)
    if whole and not dtype.startswith("u") and d.chance(0.5):
        other = d.node("Neg", other) if dtype != "int16" else other
    d.give(d.node("Mod", d.input(shape, dtype), other, fmod=0 if whole else 1))


def power(d: Drawn) -> None:
    shape = d.sizes(0)
    base, exponent = d.choice((("float32", "float32"), ("float32", "int64"), ("int64", "int64"), ("int32", "float32"), ("int64", "float32"), ("float64", "float32")))
    x = d.input(shape, base, "between", 0 if "float" in exponent else -6, 6) if d.chance(0.8) else d.input(shape, base)
    if base.startswith("float") and exponent.startswith("float") and d.chance(0.3):
        d.give(d.node("Pow", d.input(shape, base, "special"), d.constant(d.choice((0.5, -0.5, -1, -2, 1.5)), exponent)))
        return
    y = d.constant(d.choice((2, 3, 0, 1)), exponent) if d.chance(0.4) else d.either(d.broadcast(shape), exponent, "between", 0, 4)
    d.give(d.node("Pow", x, y))


def shift(d: Drawn) -> None:
    shape = d.sizes(0)
    d.give(d.node("BitShift", d.input(shape, "uint8", "between", 0, 255), d.input(d.broadcast(shape), "uint8", "between", 0, 7), direction=d.choice(("LEFT", "RIGHT"))))


def where(d: Drawn) -> None:
    shape, dtype = d.sizes(0), d.choice((*FLOATS, "int64", "bool"))
    d.give(d.node("Where", d.input(d.broadcast(shape), "bool"), d.either(d.broadcast(shape), dtype), d.either(d.broadcast(shape), dtype)))


def clip(d: Drawn) -> None:
    dtype = d.choice((*FLOATS, "int32", "int64"))
    bounds = [d.constant(d.random.randint(-4, 3), dtype) if d.chance(0.7) else "" for _ in range(2)]
    d.give(d.node("Clip", d.input(d.sizes(0), dtype, "special"), *bounds))


def prelu(d: Drawn) -> None:
    shape = d.sizes(1)
    d.give(d.node("PRelu", d.input(shape, d.choice(("float32", "float64"))), d.either(d.broadcast(shape), d.inputs[next(iter(d.inputs))].dtype)))


def cast(d: Drawn) -> None:
    source, target = d.choice(("float32", "float64", "float16", *INTS, "bool")), d.choice(("float32", "float64", "float16", *INTS, "bool"))
    low, high = (0, 100) if target == "uint8" or source == "uint8" else (-100, 100)
    x = d.input(d.sizes(0), source) if source == "bool" or target == "bool" else d.input(d.sizes(0), source, "between", low, high)
    if d.chance(0.2) and d.opset >= 15:
        d.give(d.node("CastLike", x, d.input((1,), target)))
    else:
        from case import TYPES

        d.give(d.node("Cast", x, to=TYPES[np.dtype(target)]))


def dropout(d: Drawn) -> None:
    d.give(*d.node("Dropout", d.input(d.sizes(0)), count=2))


# -- moving -----------------------------------------------------------------------------------------------------------


def concat(d: Drawn) -> None:
    shape, dtype = d.sizes(1), d.choice((*FLOATS, "int64"))
    axis = d.random.randrange(len(shape))
    parts = [d.either([d.choice((0, 1, 2, 3)) if i == axis else s for i, s in enumerate(shape)], dtype) for _ in range(d.random.randint(1, 3))]
    d.give(d.node("Concat", *parts, axis=axis - len(shape) if d.chance(0.4) else axis))


def expand(d: Drawn) -> None:
    shape = d.sizes(0)
    to = [s if d.chance(0.5) else 1 for s in shape]
    x = d.input([s if t == 1 else 1 if d.chance(0.5) else s for s, t in zip(shape, to)])
    d.give(d.node("Expand", x, d.ints([2, 1][: d.random.randint(0, 2)] + to if d.chance(0.5) else to[d.random.randint(0, len(to)):])))


def flatten(d: Drawn) -> None:
    shape = d.sizes(0)
    d.give(d.node("Flatten", d.input(shape), axis=d.random.randint(-len(shape), len(shape)) if d.chance(0.8) else None))


def pad(d: Drawn) -> None:
    shape = d.sizes(1, empty=0)
    mode = d.choice(("constant", "constant", "reflect", "edge", "wrap" if d.opset >= 19 else "edge"))
    dtype = d.choice((*FLOATS, "int64", "int32")) if mode == "constant" else d.choice(("float32", "int64"))
    axes = sorted(d.random.sample(range(len(shape)), d.random.randint(1, len(shape)))) if d.opset >= 18 and d.chance(0.5) else None
    low = -1 if mode == "constant" and d.chance(0.5) else 0
    pads = [d.random.randint(low if shape[a] > 2 else 0, min(3, shape[a] - 1) if mode == "reflect" else 3) for a in (axes or range(len(shape))) * 2] if axes else [
        d.random.randint(low if s > 2 else 0, min(3, s - 1) if mode == "reflect" else 3) for s in (*shape, *shape)]
    value = d.constant(d.choice((0, 1, 3, 2**53 + 1 if dtype == "int64" else 2)), dtype) if mode == "constant" and d.chance(0.6) else ""
    inputs = [d.input(shape, dtype), d.ints(pads), value]
    if axes is not None:
        inputs.append(d.ints([a - len(shape) if d.chance(0.5) else a for a in axes]))
    d.give(d.node("Pad", *inputs, mode=mode))


def reshape(d: Drawn) -> None:
    shape = d.sizes(0)
    total = int(np.prod(shape, dtype=np.int64))
    to = list(d.choice(([total], [1, total], [total, 1], list(shape[::-1]), [-1], [*shape, 1], [0] * len(shape), [2, -1] if total % 2 == 0 and total else [-1, 1])))
    d.give(d.node("Reshape", d.input(shape, d.choice((*FLOATS, "int64"))), d.ints(to), allowzero=d.choice((0, 0, 1)) if d.opset >= 14 and 0 not in shape and 0 not in to else None))


def slice_(d: Drawn) -> None:
    shape = d.sizes(1)
    axes = d.random.sample(range(len(shape)), d.random.randint(1, len(shape)))
    ends = [d.choice((*range(-9, 10), *EDGES)) for _ in axes]
    starts = [d.choice((*range(-9, 10), *EDGES)) for _ in axes]
    inputs = [d.input(shape), d.ints(starts), d.ints(ends)]
    if axes != list(range(len(axes))) or d.chance(0.7):
        inputs.append(d.ints([a - len(shape) if d.chance(0.4) else a for a in axes]))
        if d.chance(0.8):
            inputs.append(d.ints([d.choice((1, 1, 2, 3, -1, -1, -2, -3)) for _ in axes]))
    d.give(d.node("Slice", *inputs))


def split(d: Drawn) -> None:
    shape = d.sizes(1)
    axis = d.random.randrange(len(shape))
    count = d.random.randint(1, 3)
    cuts = sorted(d.random.randint(0, shape[axis]) for _ in range(count - 1))
    x = d.input(shape, d.choice((*FLOATS, "int64")))
    given = axis - len(shape) if d.chance(0.4) else axis
    if d.chance(0.4) and (d.opset >= 18 or shape[axis] % count == 0) and -(-shape[axis] // count) * (count - 1) <= shape[axis]:
        names = d.node("Split", x, count=count, axis=given, num_outputs=count if d.opset >= 18 else None)
    else:
        names = d.node("Split", x, d.ints(np.diff([0, *cuts, shape[axis]])), count=count, axis=given)
    d.give(*([names] if count == 1 else names))


def squeeze(d: Drawn) -> None:
    shape = [1 if d.chance(0.5) else s for s in d.sizes(0)]
    ones = [i for i, s in enumerate(shape) if s == 1]
    axes = d.random.sample(ones, d.random.randint(0, len(ones)))
    d.give(d.node("Squeeze", d.input(shape), *([d.ints([a - len(shape) if d.chance(0.4) else a for a in axes])] if axes else [])))


def tile(d: Drawn) -> None:
    shape = d.sizes(0)
    d.give(d.node("Tile", d.input(shape), d.ints([d.choice((0, 1, 1, 2, 3)) for _ in shape])))


def transpose(d: Drawn) -> None:
    shape = d.sizes(0)
    d.give(d.node("Transpose", d.input(shape), perm=d.random.sample(range(len(shape)), len(shape)) if d.chance(0.8) and shape else None))


def trilu(d: Drawn) -> None:
    k = [d.constant(np.int64(d.random.randint(-4, 4)))] if d.chance(0.7) else []
    d.give(d.node("Trilu", d.input(d.sizes(2), d.choice((*FLOATS, "int64", "bool"))), *k, upper=d.choice((0, 1, None))))


def unsqueeze(d: Drawn) -> None:
    shape = d.sizes(0, 3)
    count = d.random.randint(1, 2)
    axes = d.random.sample(range(len(shape) + count), count)
    d.give(d.node("Unsqueeze", d.input(shape), d.ints([a - len(shape) - count if d.chance(0.4) else a for a in axes])))


def depth_to_space(d: Drawn) -> None:
    block = d.random.randint(1, 3)
    n, c, h, w = d.choice((1, 2)), d.choice((1, 2)), d.choice((1, 2, 3)), d.choice((1, 2, 3))
    if d.chance(0.5):
        d.give(d.node("DepthToSpace", d.input((n, c * block * block, h, w)), blocksize=block, mode=d.choice(("DCR", "CRD", None))))
    else:
        d.give(d.node("SpaceToDepth", d.input((n, c, h * block, w * block)), blocksize=block))


# -- sizes ------------------------------------------------------------------------------------------------------------


def shape_of(d: Drawn) -> None:
    x = d.input(d.sizes(0))
    if d.opset >= 15 and d.chance(0.6):
        d.give(d.node("Shape", x, start=d.choice((None, -3, -1, 0, 1, 5)), end=d.choice((None, -3, -1, 0, 1, 5))))
    else:
        d.give(d.node("Shape", x), d.node("Size", x))


def constant_of_shape(d: Drawn) -> None:
    from onnx import numpy_helper

    value = numpy_helper.from_array(np.array([d.choice((0, 1, 5))], d.choice(("float32", "int64", "bool", "float16", "int32")))) if d.chance(0.7) else None
    d.give(d.node("ConstantOfShape", d.node("Shape", d.input(d.sizes(0))) if d.chance(0.5) else d.ints(d.sizes(0)), value=value))


def eye_like(d: Drawn) -> None:
    d.give(d.node("EyeLike", d.input(d.sizes(2, 2), d.choice(("float32", "int64"))), k=d.choice((None, 0, 1, -1, 3, -9)), dtype=d.choice((None, 1, 7, 11))))


def range_(d: Drawn) -> None:
    if d.chance(0.5):
        d.give(d.node("Range", *(d.constant(np.float32(v)) for v in (d.choice((0, 0.5, -2)), d.choice((0, 3, 4.25, -7)), d.choice((0.5, 1, -1, 0.3))))))
        return
    size = d.node("Size", d.input(d.sizes(1, 2)))
    zero, step = d.constant(np.int64(d.choice((0, 1, -2)))), d.constant(np.int64(d.choice((1, 2, 3))))
    d.give(d.node("Range", *((size, zero, d.node("Neg", step)) if d.chance(0.3) else (zero, size, step))))


TABLE: "list[tuple[str, int, Generator]]" = [
    *(unary(op) for op in ("Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Cos", "Cosh", "Erf", "Exp", "Floor", "Log", "Neg", "Reciprocal",
                           "Relu", "Round", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Tan", "Tanh", "Identity", "IsNaN")),
    unary("Abs", 13, INTS), unary("Neg", 13, ("int32", "int64", "int8")), unary("Sign", 13, INTS), unary("Not", 13, ("bool",)), unary("BitwiseNot", 18, INTS),
    unary("Relu", 14, ("int32", "int8", "int64")), unary("Mish", 18), unary("HardSwish", 14), unary("Gelu", 20, FLOATS, approximate=("none", "tanh")),
    unary("Elu", 13, FLOATS, alpha=(0.5, 2.0)), unary("Celu", 13, ("float32",), alpha=(0.5, 2.0)), unary("HardSigmoid", 13, FLOATS, alpha=(0.5, -0.3), beta=(0.1, 0.7)),
    unary("LeakyRelu", 13, FLOATS, alpha=(0.2, -0.5)), unary("Selu", 13, FLOATS, alpha=(1.5,), gamma=(0.7, 2.0)), unary("ThresholdedRelu", 13, FLOATS, alpha=(0.5, -1.0)),
    unary("Shrink", 13, ("float32", "float64"), bias=(0.3, -1.0), lambd=(0.2, 1.5)),
    unary("IsInf", 13, ("float32", "float64"), detect_negative=(0, 1), detect_positive=(0, 1)),
    *(pair(op, (*FLOATS, *INTS[:2])) for op in ("Add", "Mul", "Sub")), *(pair(op, INTS, 14) for op in ("Add", "Mul", "Sub")),
    *(pair(op, (*FLOATS, "int64", "int32")) for op in ("Equal", "Greater", "Less")), *(pair(op, (*FLOATS, "int64"), 16) for op in ("GreaterOrEqual", "LessOrEqual")),
    *(pair(op, ("bool",)) for op in ("And", "Or", "Xor", "Equal")), *(pair(op, INTS, 18) for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor")),
    *(several(op, (*FLOATS, "int64", "int32")) for op in ("Max", "Min")), *(several(op, FLOATS) for op in ("Mean", "Sum")),
    ("Div", 13, div), ("Mod", 13, mod), ("Pow", 15, power), ("BitShift", 13, shift), ("Where", 16, where), ("Clip", 13, clip), ("PRelu", 16, prelu),
    ("Cast", 13, cast), ("Dropout", 13, dropout),
    ("Concat", 13, concat), ("Expand", 13, expand), ("Flatten", 13, flatten), ("Pad", 13, pad), ("Reshape", 13, reshape), ("Slice", 13, slice_),
    ("Split", 13, split), ("Squeeze", 13, squeeze), ("Tile", 13, tile), ("Transpose", 13, transpose), ("Trilu", 14, trilu), ("Unsqueeze", 13, unsqueeze),
    ("DepthToSpace", 13, depth_to_space), ("Shape", 13, shape_of), ("ConstantOfShape", 13, constant_of_shape), ("EyeLike", 13, eye_like), ("Range", 13, range_),
]
