# SPDX-License-Identifier: Apache-2.0
"""Single nodes, continued: convolutions, poolings and resizing."""

import typing

import numpy as np
from case import Drawn
from nodes import Generator


def _window(d: Drawn, rank: int, dilated: bool = True) -> "tuple[list[int], list[int], dict[str, typing.Any]]":
    """Spatial sizes that a window fits into, its kernel, and the attributes of how it moves."""
    kernel = [d.choice((1, 2, 3)) for _ in range(rank)]
    attributes: "dict[str, typing.Any]" = {}
    dilations = [d.choice((1, 2)) if dilated and d.chance(0.3) else 1 for _ in range(rank)]
    if d.chance(0.5):
        attributes["strides"] = [d.choice((1, 2, 3)) for _ in range(rank)]
    if max(dilations) > 1 or d.chance(0.2) and dilated:
        attributes["dilations"] = dilations
    spatial = [(k - 1) * s + 1 + d.choice((0, 1, 2, 4)) for k, s in zip(kernel, dilations)]
    way = d.random.random()
    if way < 0.5:
        attributes["pads"] = [d.random.randint(0, max(0, k - 1)) for k in kernel * 2] if d.chance(0.5) else [d.random.randint(0, k // 2) for k in kernel] * 2
    elif way < 0.75:
        attributes["auto_pad"] = d.choice(("SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET"))
    return spatial, kernel, attributes


def conv(d: Drawn) -> None:
    rank = d.choice((1, 2, 2, 3))
    spatial, kernel, attributes = _window(d, rank)
    group = d.choice((1, 1, 2, 3))
    ins, outs = group * d.choice((1, 2)), group * d.choice((1, 2))
    weight = d.either((outs, ins // group, *kernel))
    bias = [d.either((outs,))] if d.chance(0.5) else []
    x = d.input((d.choice((1, 2)), ins, *spatial))
    if d.chance(0.3):  # zeros around an image are zeros, whatever made the image
        x = d.node("Add", x, d.constant(np.float32(1.5)))
    d.give(d.node("Conv", x, weight, *bias, group=group if group > 1 or d.chance(0.3) else None,
                  kernel_shape=kernel if d.chance(0.5) else None, **attributes))


def conv_transpose(d: Drawn) -> None:
    rank = d.choice((1, 2, 2))
    spatial, kernel, attributes = _window(d, rank)
    strides = attributes.get("strides", [1] * rank)
    group = d.choice((1, 1, 2))
    ins, outs = group * d.choice((1, 2)), d.choice((1, 2))
    if d.chance(0.3) and max(strides) > 1:
        attributes["output_padding"] = [d.random.randint(0, s - 1) for s in strides]
    if d.chance(0.2):
        attributes.pop("pads", None)
        attributes["output_shape"] = [s * n + d.choice((-1, 0, 0, 1)) for s, n in zip(strides, spatial)]
        if min(attributes["output_shape"]) < 1:
            del attributes["output_shape"]
    bias = [d.either((outs * group,))] if d.chance(0.5) else []
    d.give(d.node("ConvTranspose", d.input((d.choice((1, 2)), ins, *spatial)), d.either((ins, outs, *kernel)), *bias, group=group,
                  kernel_shape=kernel if d.chance(0.5) else None, **attributes))


def pool(d: Drawn) -> None:
    rank, op = d.choice((1, 2, 2, 3)), d.choice(("MaxPool", "AveragePool", "AveragePool", "LpPool"))
    spatial, kernel, attributes = _window(d, rank, op == "MaxPool" or (op == "AveragePool" and d.opset >= 19) or (op == "LpPool" and d.opset >= 18))
    if d.chance(0.3) and (op != "LpPool" or d.opset >= 18) and attributes.get("auto_pad", "NOTSET") == "NOTSET":
        attributes["ceil_mode"] = 1
    if op == "AveragePool":
        attributes["count_include_pad"] = d.choice((None, 0, 1))
    if op == "LpPool":
        attributes["p"] = d.choice((None, 1, 2, 3))
    dtype = "float32" if op != "MaxPool" or d.chance(0.9) else d.choice(("uint8", "int8", "float64"))
    count = 2 if op == "MaxPool" and rank > 1 and d.chance(0.3) else 1
    x = d.input((d.choice((1, 2)), d.choice((1, 3)), *spatial), dtype, "normal")
    if dtype == "float32" and d.chance(0.3):
        x = d.node("Sub", x, d.constant(np.float32(9)))
    names = d.node(op, x, count=count, kernel_shape=kernel, **attributes)
    d.give(*([names] if count == 1 else names))


def global_pool(d: Drawn) -> None:
    d.give(d.node(d.choice(("GlobalAveragePool", "GlobalMaxPool")), d.input((2, 3, *(d.choice((1, 2, 5)) for _ in range(d.choice((1, 2, 3))))))))


def conv_integer(d: Drawn) -> None:
    rank = 2
    spatial, kernel, attributes = _window(d, rank)
    group = d.choice((1, 2))
    ins, outs = group * d.choice((1, 2)), group
    x = d.input((1, ins, *spatial), "uint8", "between", 0, 255)
    w = d.either((outs, ins // group, *kernel), d.choice(("uint8", "int8")), "between", 0, 120)
    w_type = str(d.constants[w].dtype) if w in d.constants else d.inputs[w].dtype
    if d.chance(0.5):
        zeros = [d.constant(d.choice((0, 5)), "uint8"), d.constant(d.choice((0, 3)), w_type)][: d.random.randint(0, 2)]
        d.give(d.node("ConvInteger", x, w, *zeros, group=group, **attributes))
    else:
        parts = [d.constant(v, t) for v, t in ((0.02, "float32"), (5, "uint8"), (0.03, "float32"), (0, w_type), (0.4, "float32"), (9, "uint8"))]
        bias = [d.constant(d.numbers.integers(-500, 500, (outs,)), "int32")] if d.chance(0.5) else []
        d.give(d.node("QLinearConv", x, parts[0], parts[1], w, parts[2], parts[3], parts[4], parts[5], *bias, group=group, **attributes))


def resize(d: Drawn) -> None:
    rank = d.choice((1, 2, 2, 3)) if d.chance(0.9) else 0
    shape = (d.choice((1, 2)), d.choice((1, 2)), *(d.choice((1, 2, 4, 5, 10)) for _ in range(rank)))
    mode = d.choice(("nearest", "linear", "cubic" if rank == 2 else "linear"))
    attributes: "dict[str, typing.Any]" = {"mode": mode}
    words = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", *(("half_pixel_symmetric",) if d.opset >= 19 else ()))
    attributes["coordinate_transformation_mode"] = d.choice(words)
    if mode == "nearest":
        attributes["nearest_mode"] = d.choice((None, "round_prefer_floor", "round_prefer_ceil", "floor", "ceil"))
    if mode == "cubic":
        attributes["cubic_coeff_a"] = d.choice((None, -0.5, -0.75))
        attributes["exclude_outside"] = d.choice((None, 0, 1))
    if d.opset >= 18 and mode != "nearest" and d.chance(0.2):
        attributes["antialias"] = 1
    axes = None
    if d.opset >= 18 and d.chance(0.4) and rank:
        axes = list(range(2, 2 + rank))
        attributes["axes"] = [a - len(shape) if d.chance(0.3) else a for a in axes]
    lead = [] if axes else [1.0, 1.0]
    if d.chance(0.5):
        factors = [d.choice((0.5, 2.0, 1.0, 0.7, 1.5, 1.3, 0.6, 3.0, 1 / 3, 0.35)) for _ in range(rank)]
        factors = [f if s * f >= 1 else 1.0 for f, s in zip(factors, shape[2:])]
        d.give(d.node("Resize", d.input(shape), "", d.constant([*lead, *factors], "float32"), **attributes))
        return
    sizes = [d.choice((1, 2, 3, 5, 7)) for _ in range(rank)]
    if d.opset >= 18 and axes and d.chance(0.4):
        attributes["keep_aspect_ratio_policy"] = d.choice(("not_larger", "not_smaller", "stretch"))
    d.give(d.node("Resize", d.input(shape), "", "", d.ints([*([] if axes else shape[:2]), *sizes]), **attributes))


TABLE: "list[tuple[str, int, Generator]]" = [
    ("Conv", 13, conv), ("Conv", 13, conv), ("ConvTranspose", 13, conv_transpose), ("MaxPool", 13, pool), ("AveragePool", 13, pool), ("GlobalMaxPool", 13, global_pool),
    ("ConvInteger", 13, conv_integer), ("Resize", 13, resize), ("Resize", 13, resize), ("Resize", 13, resize),
]
