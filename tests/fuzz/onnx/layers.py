# SPDX-License-Identifier: Apache-2.0
"""Single nodes, continued: positions, reductions, products, norms, windows, levels, attention and recurrent layers."""

import numpy as np
from case import Drawn, Input
from nodes import FLOATS, Generator


def _axis(d: Drawn, rank: int) -> int:
    return d.random.randint(-rank, rank - 1)


# -- positions --------------------------------------------------------------------------------------------------------


def gather(d: Drawn) -> None:
    shape = d.sizes(1, empty=0)
    axis = d.random.randrange(len(shape))
    where = d.choice(("input", "constant", "scalar"))
    low, high = -shape[axis], shape[axis] - 1
    sizes = () if where == "scalar" else d.sizes(0, 2)
    dtype = d.choice(("int64", "int32"))
    index = d.input(sizes, dtype, "between", low, high) if where == "input" else d.constant(d.numbers.integers(low, high + 1, sizes).astype(dtype))
    d.give(d.node("Gather", d.input(shape, d.choice((*FLOATS, "int64"))), index, axis=axis - len(shape) if d.chance(0.4) else axis))


def gather_elements(d: Drawn) -> None:
    shape = d.sizes(1, empty=0)
    axis = d.random.randrange(len(shape))
    sizes = [d.choice((1, 2, 5)) if i == axis else d.random.randint(1, s) for i, s in enumerate(shape)]
    index = d.either(sizes, d.choice(("int64", "int32")), "between", -shape[axis], shape[axis] - 1)
    d.give(d.node("GatherElements", d.input(shape), index, axis=axis - len(shape) if d.chance(0.4) else axis))


def gather_nd(d: Drawn) -> None:
    shape = d.sizes(1, empty=0)
    batch = d.random.randint(0, len(shape) - 1) if d.chance(0.5) else 0
    depth = d.random.randint(1, len(shape) - batch)
    low = min(shape[batch: batch + depth])
    index = d.either((*shape[:batch], *d.sizes(0, 2, empty=0), depth), "int64", "between", -low, low - 1)
    d.give(d.node("GatherND", d.input(shape), index, batch_dims=batch or None))


def _reduction(d: Drawn) -> "str | None":
    return d.choice((None, "none", "add", "mul", "max", "min") if d.opset >= 18 else (None, "none", "add", "mul") if d.opset >= 16 else (None,))


def scatter_elements(d: Drawn) -> None:
    shape = d.sizes(1, empty=0)
    axis, how = d.random.randrange(len(shape)), _reduction(d)
    sizes = [d.random.randint(1, s) for s in shape]
    dtype = d.choice(("float32", "float64", "int64"))
    if how in (None, "none"):  # each place once
        rows = np.argsort(d.numbers.random([shape[axis] if i == axis else s for i, s in enumerate(sizes)]), axis=axis)
        index = d.constant(np.take(rows, np.arange(sizes[axis]), axis=axis) - (shape[axis] if d.chance(0.3) else 0), "int64")
    else:
        index = d.either(sizes, "int64", "between", -shape[axis], shape[axis] - 1)
    d.give(d.node("ScatterElements", d.input(shape, dtype), index, d.either(sizes, dtype), axis=axis - len(shape) if d.chance(0.4) else axis, reduction=how))


def scatter_nd(d: Drawn) -> None:
    shape, how = d.sizes(1, empty=0), _reduction(d)
    depth = d.random.randint(1, len(shape))
    places = int(np.prod(shape[:depth]))
    count = d.random.randint(1, places)
    rows = d.random.sample(range(places), count) if how in (None, "none") else [d.random.randrange(places) for _ in range(count)]
    index = np.stack(np.unravel_index(rows, shape[:depth]), -1)
    if d.chance(0.3):
        index = index - np.array(shape[:depth])
    dtype = d.choice(("float32", "int64"))
    d.give(d.node("ScatterND", d.input(shape, dtype), d.constant(index, "int64"), d.either((count, *shape[depth:]), dtype), reduction=how))


def one_hot(d: Drawn) -> None:
    shape, depth = d.sizes(0, 3), d.random.randint(1, 5)
    values = d.constant(d.choice(([0, 1], [2, -3])), d.choice(("float32", "int64")))
    d.give(d.node("OneHot", d.input(shape, d.choice(("int64", "int32")), "between", -depth - 2, depth + 1), d.constant(np.int64(depth)), values, axis=_axis(d, len(shape) + 1)))


def grid_sample(d: Drawn) -> None:
    rank = d.choice((2, 2, 3))
    spatial = tuple(d.choice((1, 2, 4, 5)) for _ in range(rank))
    n, c = d.choice((1, 2)), d.choice((1, 3))
    words = ("linear", "nearest", "cubic") if d.opset >= 20 else ("bilinear", "nearest", "bicubic")
    mode = d.choice(words if rank == 2 else words[:2])
    out = tuple(d.choice((1, 2, 3)) for _ in range(rank))
    grid = d.input((n, *out, rank), "float32", "between", -1.5, 1.5)
    d.give(d.node("GridSample", d.input((n, c, *spatial)), grid, mode=mode, padding_mode=d.choice(("zeros", "border", "reflection")), align_corners=d.choice((0, 1))))


def affine_grid(d: Drawn) -> None:
    rank, n = d.choice((2, 3)), d.choice((1, 2))
    size = [n, 2, *(d.choice((1, 2, 4)) for _ in range(rank))]
    d.give(d.node("AffineGrid", d.input((n, rank, rank + 1)), d.ints(size), align_corners=d.choice((0, 1))))


# -- reductions -------------------------------------------------------------------------------------------------------


def reduced(op: str) -> "tuple[str, int, Generator]":
    def generate(d: Drawn) -> None:
        shape = d.sizes(0)
        whole = op in ("ReduceSum", "ReduceProd", "ReduceMax", "ReduceMin", "ReduceSumSquare", "ReduceL1") and d.chance(0.3)
        dtype = d.choice(("int32", "int64")) if whole else d.choice(("float32", "float32", "float64"))
        low = 0.5 if op.startswith("ReduceLog") else -4
        x = d.input(shape, dtype, "between", low if not whole else -3, 4)
        axes = d.random.sample(range(len(shape)), d.random.randint(0, len(shape))) if d.chance(0.8) else None
        axes = None if axes is None else [a - len(shape) if d.chance(0.4) else a for a in axes]
        keep = d.choice((None, 0, 1))
        if d.opset >= (13 if op == "ReduceSum" else 18):
            d.give(d.node(op, x, *([d.ints(axes)] if axes is not None else []), keepdims=keep, noop_with_empty_axes=d.choice((None, 0, 1))))
        else:
            d.give(d.node(op, x, axes=axes or None, keepdims=keep))

    return op, 13, generate


def arg(d: Drawn) -> None:
    shape = d.sizes(1, empty=0)
    x = d.input(shape, d.choice(("float32", "float64", "int32")), "between", -3, 3)
    d.give(d.node(d.choice(("ArgMax", "ArgMin")), x, axis=_axis(d, len(shape)), keepdims=d.choice((0, 1, None)), select_last_index=d.choice((0, 1, None))))


def cumsum(d: Drawn) -> None:
    shape = d.sizes(1)
    dtype = d.choice(("float32", "float64", "int32", "int64"))
    x = d.input(shape, dtype, "special" if "float" in dtype else "normal")
    d.give(d.node("CumSum", x, d.constant(_axis(d, len(shape)), "int64"), exclusive=d.choice((0, 1)), reverse=d.choice((0, 1))))


def along(d: Drawn) -> None:
    shape = d.sizes(1, empty=0)
    d.give(d.node(d.choice(("Softmax", "LogSoftmax", "Hardmax")), d.input(shape, d.choice(FLOATS)), axis=_axis(d, len(shape)) if d.chance(0.8) else None))


def top_k(d: Drawn) -> None:
    shape = d.sizes(1, empty=0)
    axis = _axis(d, len(shape))
    x = d.input(shape, d.choice(("float32", "float64", "int64", "int32")), "between", -3, 3)
    d.give(*d.node("TopK", x, d.ints([d.random.randint(1, shape[axis])]), count=2, axis=axis, largest=d.choice((0, 1))))


def losses(d: Drawn) -> None:
    n, c, rest = d.choice((1, 3)), d.choice((2, 5)), d.sizes(0, 2, empty=0)
    ignored = d.choice((None, 0, 1))
    target = d.input((n, *rest), "int64", "between", 0, c - 1)
    weight = [d.either((c,), "float32", "between", 0.2, 2)] if d.chance(0.5) else []
    attributes = {"reduction": d.choice(("none", "sum", "mean", None)), "ignore_index": ignored}
    if d.chance(0.5):
        d.give(d.node("NegativeLogLikelihoodLoss", d.input((n, c, *rest)), target, *weight, **attributes))
    else:
        d.give(*d.node("SoftmaxCrossEntropyLoss", d.input((n, c, *rest)), target, *weight, count=2, **attributes))


# -- products ---------------------------------------------------------------------------------------------------------


def matmul(d: Drawn) -> None:
    m, k, n = (d.choice((1, 2, 3, 5, 8)) for _ in range(3))
    batch = d.sizes(0, 2)
    a, b = d.choice((((*d.broadcast(batch), m, k), (*d.broadcast(batch), k, n)), ((k,), (k, n)), ((m, k), (k,)), ((k,), (k,))))
    dtype = d.choice(("float32", "float32", "float64", "int32", "int64"))
    d.give(d.node("MatMul", d.input(a, dtype), d.either(b, dtype)))


def gemm(d: Drawn) -> None:
    m, k, n = (d.choice((1, 2, 3, 5)) for _ in range(3))
    ta, tb = d.choice((0, 1)), d.choice((0, 1))
    c = [d.either(d.choice(((), (1,), (n,), (m, n), (m, 1), (1, n))))] if d.chance(0.7) else []
    d.give(d.node("Gemm", d.input((k, m) if ta else (m, k)), d.either((n, k) if tb else (k, n)), *c, transA=ta, transB=tb,
                  alpha=d.choice((None, 0.5, -2.0)), beta=d.choice((None, 0.25, 3.0))))


def einsum(d: Drawn) -> None:
    sizes = {letter: d.choice((1, 2, 3, 5)) for letter in "abcijkBN"}
    equation = d.choice(("ij,jk->ik", "ij,jk", "bij,bjk->bik", "ii->i", "ij->ji", "ij->", "i,j->ij", "bij,bij->b", "ijk->kj", "ij,ij->i", "...ij,...jk->...ik", "Bi,Bj->jB",
                         "aB,Bc", "b...->...b", " ij , jk -> ik", "abc,bc->a", "ij,kj->ik", "ab,ab,ab->ba"))
    shapes = []
    for term in equation.split("->")[0].split(","):
        shape: "list[int]" = []
        for letter in term.replace(" ", "").replace("...", "*"):
            shape += [2, 3] if letter == "*" else [sizes[letter]]
        shapes.append(shape)
    d.give(d.node("Einsum", *(d.input(s, "float32") for s in shapes), equation=equation))


def det(d: Drawn) -> None:
    n = d.choice((1, 2, 3))
    d.give(d.node("Det", d.input((*d.sizes(0, 2, empty=0), n, n))))


# -- norms ------------------------------------------------------------------------------------------------------------


def channels(d: Drawn, rank: "tuple[int, int]" = (2, 5)) -> "tuple[int, ...]":
    return (d.choice((1, 2)), d.choice((1, 3, 4)), *(d.choice((1, 2, 3, 5)) for _ in range(d.random.randint(*rank) - 2)))


def batch_norm(d: Drawn) -> None:
    shape = channels(d)
    c = (shape[1],)
    d.give(d.node("BatchNormalization", d.input(shape), d.either(c), d.either(c), d.either(c), d.either(c, "float32", "between", 0.1, 3), epsilon=d.choice((None, 1e-3))))


def instance_norm(d: Drawn) -> None:
    shape = channels(d, (3, 5))
    d.give(d.node("InstanceNormalization", d.input(shape), d.either((shape[1],)), d.either((shape[1],)), epsilon=d.choice((None, 1e-3))))


def group_norm(d: Drawn) -> None:
    shape = channels(d, (3, 4))
    groups = d.choice([g for g in (1, 2, 3, 4) if shape[1] % g == 0])
    size = groups if d.opset < 21 else shape[1]
    d.give(d.node("GroupNormalization", d.input(shape), d.either((size,)), d.either((size,)), num_groups=groups, epsilon=d.choice((None, 1e-3))))


def layer_norm(d: Drawn) -> None:
    shape = d.sizes(1, 4, empty=0)
    axis = _axis(d, len(shape))
    normed = shape[axis:] if axis < 0 else shape[axis:]
    scale = d.broadcast(normed) if d.chance(0.3) else normed
    bias = [d.either(normed if d.chance(0.7) else d.broadcast(normed))] if d.chance(0.7) else []
    count = d.choice((1, 1, 3))
    names = d.node("LayerNormalization", d.input(shape), d.either(scale), *bias, count=count, axis=axis, epsilon=d.choice((None, 1e-3)))
    d.give(*([names] if count == 1 else names))


def rms_norm(d: Drawn) -> None:
    shape = d.sizes(1, 4, empty=0)
    axis = _axis(d, len(shape))
    d.give(d.node("RMSNormalization", d.input(shape), d.either(shape[axis:]), axis=axis, epsilon=d.choice((None, 1e-3))))


def lp_norm(d: Drawn) -> None:
    shape = d.sizes(1, empty=0)
    x = d.input(shape)
    if d.chance(0.4):
        x = d.node("Mul", x, d.constant(np.float32(0)))
    d.give(d.node("LpNormalization", x, axis=_axis(d, len(shape)), p=d.choice((1, 2))))


def lrn(d: Drawn) -> None:
    d.give(d.node("LRN", d.input(channels(d, (3, 5))), size=d.choice((1, 2, 3, 5)), alpha=d.choice((None, 0.5)), beta=d.choice((None, 0.6)), bias=d.choice((None, 2.0))))


def mean_variance(d: Drawn) -> None:
    shape = (2, 3, 4, d.choice((2, 5)))
    d.give(d.node("MeanVarianceNormalization", d.input(shape), axes=d.choice((None, [0, 2, 3], [1], [2, 3]))))


# -- levels -----------------------------------------------------------------------------------------------------------


def levels(d: Drawn, shape: "tuple[int, ...]", dtype: str) -> str:
    return d.input(shape, dtype, "between", np.iinfo(dtype).min, np.iinfo(dtype).max)


def wide_levels(d: Drawn) -> None:
    """Levels of 16 bits by scales of 16 bits, which hold neither all of them nor their differences; quotients are exact."""
    shape, dtype = d.sizes(1), d.choice(("int16", "int16", "int8", "uint8"))
    scale = d.constant(d.choice((0.5, 1, 2)), "float16")
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    zero = [d.constant(d.random.randint(low, high), dtype)] if d.chance(0.7) or dtype == "int8" else []
    if d.chance(0.5):
        kind = {} if zero else {"output_dtype": 5 if dtype == "int16" else 2}
        d.give(d.node("QuantizeLinear", d.input(shape, "float16", "between", -60000, 60000), scale, *zero, **kind))
    else:
        d.give(d.node("DequantizeLinear", d.input(shape, dtype, "between", low, high), scale, *zero))


def quantize(d: Drawn) -> None:
    shape, dtype = d.sizes(1), d.choice(("uint8", "int8"))
    axis, size = d.random.randrange(len(shape)), ()
    if d.chance(0.4):
        size = (shape[axis],)
    zero = [d.constant(Input(size, dtype).made(d.numbers, size))] if d.chance(0.7) else []
    dtype = dtype if zero else "uint8"
    scale = d.constant(d.numbers.uniform(0.02, 0.5, size), "float32")
    given = axis - len(shape) if d.chance(0.4) else axis
    if d.chance(0.5):
        d.give(d.node("QuantizeLinear", d.input(shape), scale, *zero, axis=given))
    else:
        d.give(d.node("DequantizeLinear", levels(d, shape, dtype), scale, *zero, axis=given))


def dynamic_quantize(d: Drawn) -> None:
    d.give(*d.node("DynamicQuantizeLinear", d.input(d.sizes(1, 3, empty=0)), count=3))


def matmul_integer(d: Drawn) -> None:
    m, k, n = (d.choice((1, 2, 3, 5)) for _ in range(3))
    a, b = d.choice(("uint8", "int8")), d.choice(("uint8", "int8"))
    zeros = [d.constant(d.choice((0, 7)), a), d.constant(d.choice((0, 7)) if d.chance(0.5) else d.numbers.integers(0, 9, (n,)), b)][: d.random.randint(0, 2)]
    d.give(d.node("MatMulInteger", levels(d, (m, k), a), levels(d, (k, n), b), *zeros))


def qlinear_matmul(d: Drawn) -> None:
    m, k, n = (d.choice((1, 2, 3, 5)) for _ in range(3))
    t = d.choice(("uint8", "int8"))
    part = [d.constant(v, "float32") if i % 2 == 0 else d.constant(v, t) for i, v in enumerate((0.03, 5, 0.02, 9, 0.05, 12))]
    d.give(d.node("QLinearMatMul", levels(d, (m, k), t), part[0], part[1], levels(d, (k, n), t), part[2], part[3], part[4], part[5]))


# -- attention, recurrent layers --------------------------------------------------------------------------------------


def attention(d: Drawn) -> None:
    b, q, kv, width, out = d.choice((1, 2)), d.choice((1, 3, 4)), d.choice((1, 3, 4)), d.choice((2, 4)), d.choice((2, 3))
    of_keys = d.choice((1, 2))
    heads = of_keys * d.choice((1, 2))
    flat, past = d.chance(0.4), d.choice((0, 0, 2))
    shape = (lambda h, t, w: (b, t, h * w)) if flat else (lambda h, t, w: (b, h, t, w))
    inputs = [d.input(shape(heads, q, width)), d.input(shape(of_keys, kv, width)), d.input(shape(of_keys, kv, out))]
    mask = d.choice((None, None, "bool", "float32"))
    inputs.append(d.either(d.choice(((q, kv + past), (b, 1, q, kv + past), (b, heads, q, kv + past))), mask) if mask else "")
    if past:
        inputs += [d.input((b, of_keys, past, width)), d.input((b, of_keys, past, out))]
    while not inputs[-1]:
        inputs.pop()
    count = d.choice((1, 3, 4)) if past else d.choice((1, 4))
    names = d.node("Attention", *inputs, count=count, is_causal=d.choice((None, 0, 1)), softcap=d.choice((None, 0.0, 2.0)), scale=d.choice((None, 0.3)),
                   q_num_heads=heads if flat else None, kv_num_heads=of_keys if flat else None, qk_matmul_output_mode=d.choice((None, 0, 1, 2, 3)) if count == 4 else None)
    if count == 4 and not past:
        node = d.nodes[-1]
        node.output[1] = node.output[2] = ""
        names = [names[0], names[3]]
    d.give(*([names] if count == 1 else names))


def rotary(d: Drawn) -> None:
    b, t, heads, width = d.choice((1, 2)), d.choice((1, 3)), d.choice((1, 2)), d.choice((2, 4, 6))
    part = d.choice((0, 0, 2))
    half = (part or width) // 2
    flat, places = d.chance(0.4), d.chance(0.5)
    tables = (8, half) if places else (b, t, half)
    inputs = [d.input((b, t, heads * width) if flat else (b, heads, t, width)), d.either(tables), d.either(tables)]
    if places:
        inputs.append(d.input((b, t), "int64", "between", 0, 7))
    d.give(d.node("RotaryEmbedding", *inputs, interleaved=d.choice((None, 0, 1)), num_heads=heads if flat else None, rotary_embedding_dim=part or None))


def recurrent(d: Drawn) -> None:
    op = d.choice(("LSTM", "GRU", "RNN"))
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[op]
    steps, batch, width, hidden = d.choice((1, 3)), d.choice((1, 2)), d.choice((1, 3)), d.choice((1, 2, 4))
    direction = d.choice(("forward", "reverse", "bidirectional"))
    ways = 2 if direction == "bidirectional" else 1
    weights = [d.constant(d.numbers.standard_normal(s), "float32") for s in ((ways, gates * hidden, width), (ways, gates * hidden, hidden), (ways, 2 * gates * hidden))]
    inputs = [d.input((steps, batch, width)), *weights[: 2 + d.choice((0, 1))]]
    if d.chance(0.5):
        inputs += [""] * (5 - len(inputs)) + [d.input((ways, batch, hidden))] + ([d.input((ways, batch, hidden))] if op == "LSTM" else [])
    count = d.choice((1, 2, 3)) if op == "LSTM" else d.choice((1, 2))
    names = d.node(op, *inputs, count=count, hidden_size=hidden, direction=direction, linear_before_reset=1 if op == "GRU" else None)
    d.give(*([names] if count == 1 else names))



TABLE: "list[tuple[str, int, Generator]]" = [
    ("Gather", 13, gather), ("GatherElements", 13, gather_elements), ("GatherND", 13, gather_nd), ("ScatterElements", 13, scatter_elements),
    ("ScatterND", 13, scatter_nd), ("OneHot", 13, one_hot), ("GridSample", 16, grid_sample), ("AffineGrid", 20, affine_grid),
    *(reduced(f"Reduce{op}") for op in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")),
    ("ArgMax", 13, arg), ("CumSum", 14, cumsum), ("Softmax", 13, along), ("TopK", 13, top_k), ("NegativeLogLikelihoodLoss", 13, losses),
    ("MatMul", 13, matmul), ("Gemm", 13, gemm), ("Einsum", 13, einsum), ("Det", 13, det),
    ("BatchNormalization", 15, batch_norm), ("InstanceNormalization", 13, instance_norm), ("GroupNormalization", 18, group_norm),
    ("LayerNormalization", 17, layer_norm), ("RMSNormalization", 23, rms_norm), ("LpNormalization", 13, lp_norm), ("LRN", 13, lrn),
    ("MeanVarianceNormalization", 13, mean_variance),
    ("QuantizeLinear", 13, quantize), ("QuantizeLinear", 21, wide_levels),
    ("DynamicQuantizeLinear", 13, dynamic_quantize), ("MatMulInteger", 13, matmul_integer), ("QLinearMatMul", 13, qlinear_matmul),
    ("Attention", 23, attention), ("Attention", 23, attention), ("RotaryEmbedding", 23, rotary), ("LSTM", 14, recurrent),
]
