# SPDX-License-Identifier: Apache-2.0
"""Changes to a model that was drawn: attributes, constants, types, sizes and edges that no generator would draw. Most make it another model, many no
model at all, which has to be refused or be what onnxruntime says; it must never be `internal` or end the compiler."""

import random

import numpy as np
from case import Case, Drawn, Input
from onnx import AttributeProto, NodeProto, helper

INTEGERS = (-3, -2, -1, 0, 1, 2, 3, 4, 5, 7, 8, 16, 2**31 - 1, -2**31, 2**62, -2**63, 2**63 - 1)
FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 1e-5, 1e10, -1e10, float("inf"), float("nan"), 1e-30)
TYPES = ("float32", "float64", "float16", "int8", "int16", "int32", "int64", "uint8", "bool")
TEXTS = (b"", b"NOTSET", b"VALID", b"SAME_UPPER", b"SAME_LOWER", b"none", b"mean", b"linear", b"cubic", b"add", b"mul", b"max")
ATTRIBUTES = ("axis", "keepdims", "alpha", "to", "epsilon", "mode", "exclusive", "reverse", "group", "p", "ceil_mode", "auto_pad",
              "noop_with_empty_axes", "axes", "allowzero", "batch_dims", "fmod", "saturate", "largest")


def _attribute(node: NodeProto, r: random.Random) -> None:
    if not node.attribute:
        return
    one = r.choice(node.attribute)
    if r.random() < 0.3:
        node.attribute.remove(one)
    elif one.type == AttributeProto.INT:
        one.i = r.choice(INTEGERS)
    elif one.type == AttributeProto.FLOAT:
        one.f = r.choice(FLOATS)
    elif one.type == AttributeProto.STRING:
        one.s = r.choice((*TEXTS, one.s.upper(), one.s.lower()))
    elif one.type == AttributeProto.INTS and one.ints and r.random() < 0.7:
        one.ints[r.randrange(len(one.ints))] = r.choice(INTEGERS)
    elif one.type == AttributeProto.INTS:
        one.ints.append(r.choice(INTEGERS))


def _edge(drawn: Drawn, node: NodeProto, r: random.Random) -> None:
    if not node.input:
        return
    at, other = r.randrange(len(node.input)), r.randrange(len(node.input))
    how = r.randrange(3)
    if how == 0:
        node.input[at], node.input[other] = node.input[other], node.input[at]
    elif how == 1 and at > 0:
        node.input[at] = ""
    elif drawn.inputs or drawn.constants:
        node.input[at] = r.choice([*drawn.inputs, *drawn.constants])


def _constant(drawn: Drawn, r: random.Random) -> None:
    if not drawn.constants:
        return
    name = r.choice(list(drawn.constants))
    value, how = np.array(drawn.constants[name]), r.randrange(5)
    if how == 0 and value.size and value.dtype.kind in "iuf":
        with np.errstate(all="ignore"):
            value.flat[r.randrange(value.size)] = np.array(r.choice(FLOATS if value.dtype.kind == "f" else INTEGERS)).astype(value.dtype)
    elif how == 1 and value.size == 1:
        value = value.reshape(())
    elif how == 2:
        value = value[None]
    elif how == 3:
        value = value.reshape(-1)[:0]
    else:
        with np.errstate(all="ignore"):
            value = value.astype(r.choice(TYPES))
    drawn.constants[name] = value


def _input(given: Input, r: random.Random) -> None:
    shape, how = list(given.shape), r.randrange(4)
    if how == 0 and shape:
        shape[r.randrange(len(shape))] = r.choice((0, 1, 2, 3, 8))
    elif how == 1:
        shape.insert(r.randrange(len(shape) + 1), 1)
    elif how == 2 and shape:
        del shape[r.randrange(len(shape))]
    else:
        given.dtype = r.choice(TYPES)
    given.shape = tuple(shape)


def _other(drawn: Drawn, node: NodeProto, r: random.Random) -> None:
    how = r.randrange(3)
    if how == 0:
        drawn.opset = r.randint(7, 23)
    elif how == 1:
        node.attribute.append(helper.make_attribute(r.choice(ATTRIBUTES), r.choice((0, 1, -1, 2))))
    else:
        drawn.give(r.choice([*drawn.inputs, *drawn.constants, *node.output, *drawn.outputs]))


def change(case: Case, r: random.Random) -> Case:
    drawn = case.drawn
    for _ in range(r.choice((1, 1, 2, 3))):
        node = r.choice(drawn.nodes)
        how = r.randrange(5 if drawn.inputs else 4)
        if how == 0:
            _attribute(node, r)
        elif how == 1:
            _edge(drawn, node, r)
        elif how == 2:
            _constant(drawn, r)
        elif how == 3:
            _other(drawn, node, r)
        else:
            _input(drawn.inputs[r.choice(list(drawn.inputs))], r)
    case.changed = True
    return case
