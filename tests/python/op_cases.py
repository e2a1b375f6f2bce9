# SPDX-License-Identifier: Apache-2.0
"""The operators that have a fusion rule, each as calls on small inputs, with the element types torch takes.

``ulps``: how far a result may be from eager's, in units in the last place of its type; 0 means equal values. ``left``: the
types for which the rule leaves the call to ATen by design. ``fixed``: a kernel only where the sizes are constants.

Left out: floats outside an integer's range cast to it (test_numerics.py has them), and what torch defines no answer for:
integer division by 0 and of the lowest number by -1, and numbers as exponents that f32 cannot hold (torch's vector loop
rounds them, its scalar loop does not).
"""

import pathlib
import re
import typing

import numpy
import torch

FLOAT = ("float32", "float64", "bfloat16", "float16")
SIGNED = ("int8", "int16", "int32", "int64")
INT = SIGNED + ("uint8",)
BOOL = ("bool",)
NUMBER = FLOAT + INT
ALL = NUMBER + BOOL
FLOAT8 = ("float8_e4m3fn", "float8_e5m2")   # moved, converted, and told whether they are equal
MOVED = ALL + FLOAT8


class Inputs(typing.NamedTuple):
    """Arguments of every case. x, y and mask have the same sizes; n is the last of them."""

    x: torch.Tensor      # any values
    y: torch.Tensor      # as x; integers without 0 and -1, which torch cannot divide by
    tame: torch.Tensor   # as x; floats within [-100, 100], finite: other values have no defined integer
    mask: torch.Tensor   # bool
    row: torch.Tensor    # [n] of x's type
    one: torch.Tensor    # rank 0, of x's type
    pick: torch.Tensor   # int64 below n, as x
    rows: torch.Tensor   # [3], int64 below 5


Arguments = typing.Callable[[Inputs], "tuple[typing.Any, ...]"]


Exact = typing.Callable[[Inputs], torch.Tensor]


class Case(typing.NamedTuple):
    op: str
    arguments: Arguments   # a dict at the end holds keyword arguments
    types: "tuple[str, ...]" = ALL
    label: str = ""
    ulps: float = 0
    left: "tuple[str, ...]" = ()
    fixed: bool = False
    summed: bool = False   # errs by the magnitudes it adds rather than by the result
    cancels: bool = False  # errs by the operand rather than by the result
    exact: "Exact | None" = None   # the answer from float64 operands, where torch's own is not it
    recorded: str = ""     # under another name
    view: bool = False     # read through a kernel: the view itself shares memory with its operand

    @property
    def name(self) -> str:
        return f"{self.op}[{self.label}]" if self.label else self.op

    def call(self, inputs: Inputs) -> typing.Any:
        """The operator's result; of a view, what adding 1 to it gives."""
        arguments = self.arguments(inputs)
        options = arguments[-1] if isinstance(arguments[-1], dict) else {}
        result = overload(self.op)(*arguments[:len(arguments) - bool(options)], **options)
        if not self.view:
            return result
        return [one_more(part) for part in result] if isinstance(result, (list, tuple)) else one_more(result)


def one_more(x: torch.Tensor) -> torch.Tensor:
    return x.float() if x.dtype.itemsize == 1 and x.is_floating_point() else x + 1


def modulo(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """C's fmod with the divisor's sign. torch's vector loop gives NaN for large quotients, NumPy calls C."""
    with numpy.errstate(invalid="ignore"):
        return torch.from_numpy(numpy.remainder(x.numpy(), y.numpy()))


def overload(op: str) -> typing.Any:
    """torch's callable for a name of the fusion tables, such as ``aten.exp`` or ``aten.add.Tensor``."""
    base, _, name = op.partition(".")[2].partition(".")
    return getattr(getattr(torch.ops.aten, base), name or "default")


def case(op: str, arguments: Arguments, types: "tuple[str, ...]" = ALL, label: str = "", **facts: typing.Any) -> Case:
    return Case("aten." + op, arguments, types, label, **facts)


def unary(ops: str, types: "tuple[str, ...]", **facts: typing.Any) -> "list[Case]":
    return [case(op, lambda i: (i.x,), types, **facts) for op in ops.split()]


def binary(ops: str, types: "tuple[str, ...]", **facts: typing.Any) -> "list[Case]":
    """Equal sizes; a row and a tensor of rank 0, which broadcast."""
    return [c for op in ops.split() for c in (
        case(op, lambda i: (i.x, i.y), types, **facts),
        case(op, lambda i: (i.row, i.y), types, "row", **facts),
        case(op, lambda i: (i.x, i.one), types, "one", **facts))]


def scalar(ops: str, types: "tuple[str, ...]", *numbers: float, **facts: typing.Any) -> "list[Case]":
    return [case(op, lambda i, n=number: (i.x, n), types, repr(number), **facts) for op in ops.split() for number in numbers]


def cast(to: str) -> "list[Case]":
    """Every operator that changes the element type; a negative float has no defined uint8."""
    dtype = getattr(torch, to)

    def source(i: Inputs) -> torch.Tensor:
        tensor = i.tame if to in INT else i.x
        return tensor.abs() if to == "uint8" and tensor.is_floating_point() else tensor

    types = ALL if to == "uint8" else MOVED
    return [
        case("to.dtype", lambda i: (source(i), dtype), types, to),
        case("to.dtype_layout", lambda i: (source(i), {"dtype": dtype}), types, to),
        case("_to_copy", lambda i: (source(i), {"dtype": dtype}), types, to),
        case("to.device", lambda i: (source(i), torch.device("cpu"), dtype), types, to),
        case("to.other", lambda i: (source(i), torch.empty(0, dtype=dtype)), types, to),
        case("type_as", lambda i: (source(i), torch.empty(0, dtype=dtype)), types, to),
    ]


LINE = re.compile(r'^OP\("aten\.([\w.]+)", "([^"]*)", k(\w+), .* TRIED\((.*)\)\)$', re.MULTILINE)


def tried(family: str) -> "list[Case]":
    """Cases of the operators of this class that compiler/ops/ops.def has TRIED of, made from their parameters: tensors broadcast each in
    its turn, a number without default is once below and once above a half, and a reduction runs over all, over rows and over columns."""
    cases = []
    text = (pathlib.Path(__file__).parents[2] / "compiler" / "ops" / "ops.def").read_text()
    for op, declared, which, facts in LINE.findall(text):
        if which != family:
            continue
        types, options = eval(f"(lambda types, **options: (types, options))({facts})")
        parameters = [p.partition("=")[0].split() for p in declared.split(", ")]
        required = [kind for kind, _ in parameters[:1 + max(n for n, p in enumerate(declared.split(", ")) if "=" not in p)]]
        dim = dict((name, kind) for kind, name in parameters).get("dim")
        given = [{}] if dim is None else [{}, *({"dim": [d] if "[" in dim else d} for d in (-1, 0))]
        for number in (0.3, 0.7) if "Scalar" in required else (0.0,):
            for tensors in ("x y row", "row y x", "x one row")[:3 if required.count("Tensor") > 1 else 1]:
                for keywords in given:
                    def arguments(i: Inputs, number=number, tensors=tensors, keywords=keywords, required=required) -> "tuple[typing.Any, ...]":
                        names = iter(tensors.split())
                        return (*(getattr(i, next(names)) if kind == "Tensor" else number for kind in required), *([keywords] if keywords else []))
                    cases.append(case(op, arguments, types, " ".join(map(str, (number, tensors, *keywords.values()))), **options))
    return cases


POINTWISE = [
    *tried("Pointwise"),
    *unary("neg abs relu floor ceil round trunc", NUMBER),
    *unary("sign square isnan logical_not clone", ALL),
    case("contiguous", lambda i: (i.x.t() if i.x.dim() == 2 else i.x,)),
    *unary("isinf isfinite", ALL, left=INT + BOOL),
    *unary("bitwise_not", INT + BOOL),
    *unary("relu6", NUMBER, left=INT),
    *unary("hardtanh", FLOAT + SIGNED, left=INT),
    case("hardtanh", lambda i: (i.x, -2, 3), FLOAT + SIGNED, "-2,3", left=INT),
    *unary("hardswish hardsigmoid", FLOAT, ulps=2),
    *unary("gelu silu mish elu softplus log_sigmoid", FLOAT, ulps=6, cancels=True),
    case("gelu", lambda i: (i.x, {"approximate": "tanh"}), FLOAT, "tanh", ulps=6, cancels=True),
    case("elu", lambda i: (i.x, 0.7, 1.3, 0.6), FLOAT, "0.7,1.3,0.6", ulps=6),
    case("softplus", lambda i: (i.x, 2.0, 3.0), FLOAT, "2,3", ulps=6),
    *unary("leaky_relu", FLOAT),
    case("leaky_relu", lambda i: (i.x, 0.3), FLOAT, "0.3"),
    *unary("exp expm1 log log2 log1p rsqrt sin cos tanh sigmoid erf", ALL, ulps=4),
    *unary("sqrt reciprocal", ALL, ulps=1),
    *binary("add.Tensor mul.Tensor div.Tensor", ALL),
    *binary("sub.Tensor rsub.Tensor", NUMBER),
    case("add.Tensor", lambda i: (i.x, i.y, {"alpha": 3}), ALL, "3"),
    case("add.Tensor", lambda i: (i.x, i.y, {"alpha": 0}), ALL, "0"),
    case("add.Tensor", lambda i: (i.x, i.y, {"alpha": 0.7}), FLOAT, "0.7", ulps=1),
    case("sub.Tensor", lambda i: (i.x, i.y, {"alpha": 2}), NUMBER, "2"),
    case("rsub.Tensor", lambda i: (i.x, i.y, {"alpha": 2}), NUMBER, "2"),
    *scalar("add.Scalar mul.Scalar", ALL, 3, 0.7),
    *scalar("sub.Scalar rsub.Scalar", NUMBER, 3, 0.7),
    case("add.Scalar", lambda i: (i.x, 3, 2), ALL, "alpha"),
    case("rsub.Scalar", lambda i: (i.x, 3, 2), NUMBER, "alpha"),
    *scalar("div.Scalar", ALL, 3, 0.7),
    *[case(op, lambda i, d=divisor, m=mode: (i.x, d, {"rounding_mode": m}), ALL, f"{mode},{divisor}", left=FLOAT if mode == "floor" else ())
      for op in ("div.Scalar_mode",) for mode in ("floor", "trunc") for divisor in (3, 7)],
    case("div.Scalar_mode", lambda i: (i.x, 3, {"rounding_mode": None}), ALL, "none"),
    case("div.Tensor_mode", lambda i: (i.x, i.y, {"rounding_mode": "trunc"}), NUMBER, "trunc", left=INT),
    case("div.Tensor_mode", lambda i: (i.x, i.y, {"rounding_mode": "floor"}), NUMBER, "floor", left=NUMBER),
    case("div.Tensor_mode", lambda i: (i.x, i.y, {"rounding_mode": None}), ALL, "none"),
    case("floor_divide", lambda i: (i.x, i.y), NUMBER, left=NUMBER),
    *scalar("floor_divide.Scalar", ALL, 3, 7, left=FLOAT),
    case("remainder.Tensor", lambda i: (i.x, i.y), NUMBER, left=INT, exact=lambda i: modulo(i.x, i.y)),
    case("remainder.Tensor", lambda i: (i.row, i.y), NUMBER, "row", left=INT, exact=lambda i: modulo(i.row, i.y)),
    case("remainder.Tensor", lambda i: (i.x, i.y.flatten()[:1]), NUMBER, "one", left=INT, exact=lambda i: modulo(i.x, i.y.flatten()[:1])),
    *scalar("remainder.Scalar", ALL, 3, 7),
    *scalar("remainder.Scalar", ALL, -2.5),
    *binary("pow.Tensor_Tensor", NUMBER, ulps=4),
    *scalar("pow.Tensor_Scalar", ALL, 0, 1, 2, 3, 5, ulps=4),
    *scalar("pow.Tensor_Scalar", ALL, 0.5, -0.5, 1.75, ulps=4),
    *scalar("pow.Tensor_Scalar", FLOAT, -1, -2, ulps=4),
    *[case("pow.Scalar", lambda i, n=number: (n, i.x), ALL, repr(number), ulps=4) for number in (2, 0.3)],
    *binary("atan2", ALL, ulps=4),
    *binary("minimum maximum", ALL, left=BOOL),
    *binary("min.other max.other", ALL, left=BOOL),
    case("clamp", lambda i: (i.x, -1, 2), ALL, "-1,2"),
    case("clamp", lambda i: (i.x, None, 2), ALL, "none,2"),
    case("clamp", lambda i: (i.x, 0.1, 0.7), ALL, "0.1,0.7"),
    case("clamp", lambda i: (i.x, 3, 1), ALL, "3,1"),
    case("clamp.Tensor", lambda i: (i.x, i.row, i.y), NUMBER),
    case("clamp.Tensor", lambda i: (i.x, None, i.one), ALL, "none,one", left=BOOL),
    *scalar("clamp_min clamp_max", ALL, 1, 0.7),
    *binary("clamp_min.Tensor clamp_max.Tensor", ALL, left=BOOL),
    *binary("eq.Tensor ne.Tensor lt.Tensor le.Tensor gt.Tensor ge.Tensor logical_and logical_or logical_xor", ALL),
    *scalar("eq.Scalar ne.Scalar lt.Scalar le.Scalar gt.Scalar ge.Scalar", ALL, 1, 0.1),
    *binary("bitwise_and.Tensor bitwise_or.Tensor bitwise_xor.Tensor __and__.Tensor __or__.Tensor", INT + BOOL),
    *binary("bitwise_left_shift.Tensor bitwise_right_shift.Tensor", INT),
    *scalar("bitwise_and.Scalar bitwise_or.Scalar bitwise_xor.Scalar", INT + BOOL, 5),
    *scalar("bitwise_and.Scalar bitwise_or.Scalar bitwise_xor.Scalar", BOOL, True),
    case("where.self", lambda i: (i.mask, i.x, i.y)),
    case("where.self", lambda i: (i.mask, i.row, i.one), ALL, "row,one"),
    case("where.ScalarSelf", lambda i: (i.mask, 3, i.x)),
    case("where.ScalarOther", lambda i: (i.mask, i.x, 0.7)),
    case("where.Scalar", lambda i: (i.mask, 3, 0.7)),
    case("masked_fill.Scalar", lambda i: (i.x, i.mask, 1)),
    case("masked_fill.Scalar", lambda i: (i.x, i.mask, -float("inf")), FLOAT, "-inf"),
    case("masked_fill.Tensor", lambda i: (i.x, i.mask, i.one)),
    case("addcmul", lambda i: (i.x, i.y, i.row), NUMBER, left=INT),
    case("addcmul", lambda i: (i.x, i.y, i.row, {"value": 2}), NUMBER, "2", left=INT),
    case("addcmul", lambda i: (i.x, i.y, i.row, {"value": 0.7}), FLOAT, "0.7"),
    case("addcdiv", lambda i: (i.x, i.y, i.row), FLOAT, ulps=2, cancels=True),
    case("addcdiv", lambda i: (i.x, i.y, i.one, {"value": 0.7}), FLOAT, "0.7", ulps=2, cancels=True),
    case("full_like", lambda i: (i.x, 1)),
    case("zeros_like", lambda i: (i.x,)),
    case("ones_like", lambda i: (i.x,)),
    case("zero", lambda i: (i.x,)),
    case("fill.Scalar", lambda i: (i.x, 1)),
    case("fill.Tensor", lambda i: (i.x, i.one)),
    case("copy", lambda i: (i.x, i.y)),
    case("copy", lambda i: (i.x, i.row), ALL, "row"),
    case("copy", lambda i: (i.x, i.mask), ALL, "mask"),
]

CASTS = [c for to in MOVED for c in cast(to)]


def folds(op: str, types: "tuple[str, ...]", **facts: typing.Any) -> "list[Case]":
    """Along the last dim, an outer dim, and both: (x, dims, keepdim)."""
    return [case(op, lambda i, d=dims, k=keep: (i.x, d, k), types, f"{dims},{keep}", **facts)
            for dims, keep in (([-1], False), ([0], True), ([0, 1], False))]


def one_dim(op: str, types: "tuple[str, ...]", *more: typing.Any, **facts: typing.Any) -> "list[Case]":
    return [case(op, lambda i, d=dim: (i.x, d, *more), types, str(dim), **facts) for dim in (-1, 0)]


def norm(op: str, label: str, arguments: Arguments) -> Case:
    """Weights are finite: torch multiplies them into the scale first, which turns more of an infinite one into NaN."""
    return case(op, arguments, FLOAT, label, ulps=64, summed=True)


REDUCE = [
    *tried("Reduction"),
    *unary("sum prod", ALL, ulps=4, summed=True),
    *unary("mean", FLOAT, ulps=4, summed=True),
    *unary("max min", ALL, left=BOOL),
    *unary("any all", ALL, left=("uint8",)),
    *folds("sum.dim_IntList", ALL, ulps=4, summed=True),
    case("sum.dim_IntList", lambda i: (i.x, [-1], False, {"dtype": torch.float32}), ALL, "float32", ulps=4, summed=True),
    case("sum.dim_IntList", lambda i: (i.x, None), ALL, "none", ulps=4, summed=True),
    *one_dim("prod.dim_int", ALL, ulps=4, summed=True),
    *folds("mean.dim", FLOAT, ulps=4, summed=True),
    case("mean.dim", lambda i: (i.x, [-1], True, {"dtype": torch.float32}), ALL, "float32", ulps=4, summed=True),
    *[case(op, lambda i, d=dim, u=unbiased: (i.x, [d], u), FLOAT, f"{dim},{unbiased}", ulps=8, summed=True)
      for op in ("var.dim", "std.dim") for dim, unbiased in ((-1, True), (-1, False), (0, True))],
    *[case(op, lambda i, d=dim, c=by: (i.x, [d], {"correction": c, "keepdim": True}), FLOAT, f"{dim},{by}", ulps=8, summed=True)
      for op in ("var.correction", "std.correction") for dim, by in ((-1, 0), (0, 2))],
    *folds("amax", ALL, left=BOOL),
    *folds("amin", ALL, left=BOOL),
    *one_dim("max.dim", ALL, left=BOOL),
    *one_dim("min.dim", ALL, True, left=BOOL),
    *unary("argmax argmin", NUMBER),
    *one_dim("argmax", NUMBER, True),
    *one_dim("argmin", NUMBER),
    *one_dim("cumsum", ALL, ulps=1, summed=True),
    *one_dim("cumprod", ALL, ulps=4, summed=True),
    case("cumsum", lambda i: (i.x, -1, {"dtype": torch.float32}), ALL, "float32", ulps=1, summed=True),
    case("cumsum", lambda i: (i.tame, 0, {"dtype": torch.int16}), ALL, "int16"),
    case("cumsum", lambda i: (i.one, 0), ALL, "rank 0"),
    case("cumsum", lambda i: (i.x.t(), 1), ALL, "transposed", ulps=1, summed=True),
    *one_dim("cummax", ALL, left=BOOL),
    *one_dim("cummin", ALL, left=BOOL),
    *one_dim("any.dim", ALL, left=("uint8",)),
    *one_dim("all.dim", ALL, True, left=("uint8",)),
    *folds("any.dims", ALL, left=("uint8",)),
    *folds("all.dims", ALL, left=("uint8",)),
    *one_dim("softmax.int", FLOAT, ulps=8, summed=True),
    *one_dim("softmax.int", ALL, torch.float32, ulps=8, summed=True),
    # Operands of another type are rounded to the result's first.
    case("softmax.int", lambda i: (i.tame / 4, -1, torch.bfloat16), ("float32", "float64"), "bfloat16", ulps=2),
    case("sum.dim_IntList", lambda i: (i.tame, [-1], False, {"dtype": torch.bfloat16}), ("float32", "float64"), "bfloat16", ulps=1),
    *one_dim("_softmax", FLOAT, False, ulps=8, summed=True),
    *one_dim("log_softmax.int", FLOAT, ulps=8, summed=True),
    *one_dim("_log_softmax", FLOAT, False, ulps=8, summed=True),
    *folds("logsumexp", ALL, left=BOOL, ulps=8, summed=True),
    norm("layer_norm", "plain", lambda i: (i.x, i.x.shape[-1:])),
    norm("layer_norm", "weight,bias", lambda i: (i.x, i.x.shape[-1:], i.tame[0], i.tame[1], 0.1)),
    norm("layer_norm", "two dims", lambda i: (i.x, i.x.shape)),
    norm("batch_norm", "plain", lambda i: (i.x, None, None, i.tame[0], i.tame[1].square(), False, 0.1, 1e-5, True)),
    norm("batch_norm", "weight,bias", lambda i: (i.x, i.tame[2], i.tame[3], i.tame[0], i.tame[1].square(), False, 0.1, 0.1, True)),
    norm("batch_norm", "pictures", lambda i: (i.x.reshape(1, 5, 1, -1), i.tame[:, 0], i.tame[:, 0], i.tame[:, 0], i.tame[:, 0].square(), False, 0.1, 0.1, True)),
    norm("rms_norm", "plain", lambda i: (i.x, i.x.shape[-1:])),
    norm("rms_norm", "weight", lambda i: (i.x, i.x.shape[-1:], i.tame[0], 0.1)),
]

MOVE = [
    *[case(op, lambda i, d=dim: ([i.x, i.y], d), ALL, str(dim)) for op in ("cat", "concat", "concatenate", "stack") for dim in (0, -1)],
    case("cat", lambda i: ([i.x, i.y[:, :1], i.x[:, :0], i.y], 1), ALL, "parts"),
    case("cat", lambda i: ([i.x, i.mask, i.y], 0), ALL, "mixed"),
    case("stack", lambda i: ([i.x, i.mask, i.pick], 1), ALL, "mixed"),
    case("repeat", lambda i: (i.x, (2, 1, 3))),
    case("tile", lambda i: (i.x, (2,))),
    case("repeat_interleave.self_int", lambda i: (i.x, 3, 1)),
    case("repeat_interleave.self_int", lambda i: (i.x, 2, -2), ALL, "outer"),
    case("constant_pad_nd", lambda i: (i.x, [2, 3]), ALL, "last"),
    case("constant_pad_nd", lambda i: (i.x, [0, 1, 2, 0], 1), ALL, "both"),
    case("slice_scatter", lambda i: (i.x, i.y[1:3], 0, 1, 3), ALL, "rows"),
    case("slice_scatter", lambda i: (i.x, i.y[:, :1], 1, 0, 1), ALL, "column"),
    case("select_scatter", lambda i: (i.x, i.row, 0, 2), ALL, "row"),
    case("select_scatter", lambda i: (i.x, i.y[:, 0], 1, -1), ALL, "last column"),
    *[case(op, lambda i, k=diagonal: (i.x, k), ALL, str(diagonal)) for op in ("tril", "triu") for diagonal in (0, -2, 1)],
    case("full", lambda i: (i.x.shape, 1, {"dtype": i.x.dtype})),
    case("full", lambda i: (i.x.shape, 0.1), ("float32",), "0.1"),
    # float16 and float8 end below it: eager refuses.
    case("full", lambda i: (i.x.shape, 2**60 + 2**36 + 1, {"dtype": i.x.dtype}), ("float32", "float64", "bfloat16"), "rounded once"),
    case("zeros", lambda i: (i.x.shape, {"dtype": i.x.dtype})),
    case("ones", lambda i: (i.x.shape, {"dtype": i.x.dtype})),
    case("new_full", lambda i: (i.x, [3, i.x.shape[1]], 1)),
    case("new_zeros", lambda i: (i.x, [i.x.shape[1], 2])),
    case("new_ones", lambda i: (i.x, [2], {"dtype": torch.float64})),
    case("scalar_tensor", lambda i: (1, {"dtype": i.x.dtype})),
    case("arange", lambda i: (i.x.shape[1], {"dtype": i.x.dtype}), NUMBER),
    case("arange.start", lambda i: (-3, i.x.shape[1], {"dtype": i.x.dtype}), FLOAT + SIGNED),
    case("arange.start_step", lambda i: (2, 2 + 3 * i.x.shape[1], 3, {"dtype": i.x.dtype}), NUMBER),
    case("arange.start_step", lambda i: (-1.0, 1.0, 0.1), ("float32",), "-1,1,0.1",
         exact=lambda i: torch.arange(-1.0, 1.0, 0.1, dtype=torch.float64)),
    case("index_select", lambda i: (i.x, 0, i.rows), ALL, "rows"),
    case("index_select", lambda i: (i.x, 1, i.pick[0]), ALL, "columns"),
    case("gather", lambda i: (i.x, 1, i.pick), ALL, "1"),
    case("gather", lambda i: (i.x, 0, i.pick[:2] * 0 + i.rows[1:, None]), ALL, "0"),
    case("embedding", lambda i: (i.x, i.rows)),
    case("embedding", lambda i: (i.x, i.pick[:, :1] * 0 + 4), ALL, "two dims"),
    case("index.Tensor", lambda i: (i.x, [i.rows])),
    case("index.Tensor", lambda i: (i.x, [None, i.pick[0] - i.x.shape[1]]), ALL, "negative"),
    case("index.Tensor", lambda i: (i.x, [i.rows[:, None], i.pick[0, :1]]), ALL, "both"),
]


def view(op: str, arguments: Arguments, label: str = "", **facts: typing.Any) -> Case:
    return case(op, arguments, ALL, label, view=True, **facts)


VIEW = [
    *unary("detach alias squeeze t numpy_T mT", ALL, view=True),
    view("lift_fresh", lambda i: (i.x,), recorded="aten.add.Tensor"),
    view("view", lambda i: (i.x, [-1])),
    view("view", lambda i: (i.x, [1, 5, i.x.shape[1], 1]), "ones"),
    view("reshape", lambda i: (i.x.t(), [5, -1])),
    view("_unsafe_view", lambda i: (i.x, [i.x.shape[1], 5])),
    view("view_as", lambda i: (i.x, i.x[None])),
    view("flatten.using_ints", lambda i: (i.x,)),
    view("unflatten.int", lambda i: (i.x, 0, [5, 1])),
    view("ravel", lambda i: (i.x,)),
    view("reshape_as", lambda i: (i.x.t(), i.x)),
    view("unsqueeze", lambda i: (i.x, 1)),
    view("squeeze.dim", lambda i: (i.x[:, :1], 1)),
    view("squeeze.dims", lambda i: (i.x[None, :, :1], [0, 2])),
    *[view(op, lambda i: (i.x, 0, -1)) for op in ("transpose.int", "swapaxes", "swapdims", "movedim.int", "moveaxis.int")],
    view("movedim.intlist", lambda i: (i.x[None], [0, 2], [1, 0])),
    view("permute", lambda i: (i.x[None], [2, 0, 1])),
    view("expand", lambda i: (i.row, [4, 3, -1])),
    view("expand_as", lambda i: (i.row, i.x)),
    view("broadcast_to", lambda i: (i.row, [4, 3, i.row.shape[-1]])),
    view("select.int", lambda i: (i.x, 0, 2), "row"),
    view("select.int", lambda i: (i.x, 1, -1), "last column"),
    view("slice.Tensor", lambda i: (i.x, 0, 1, 4), "rows"),
    view("slice.Tensor", lambda i: (i.x, 0, 0, None, 2), "step"),
    view("slice.Tensor", lambda i: (i.x, 1, 1, None), "columns"),
    view("slice.Tensor", lambda i: (i.x, 0, -2, 100), "end"),
    view("narrow", lambda i: (i.x, 0, 1, 3)),
    view("split.Tensor", lambda i: (i.x, 2)),
    view("split.sizes", lambda i: (i.x, [2, 3])),
    view("split", lambda i: (i.x, [1, 4]), recorded="aten.split_with_sizes"),
    view("split_with_sizes", lambda i: (i.x, [4, 1])),
    view("chunk", lambda i: (i.x, 2)),
    view("tensor_split.sections", lambda i: (i.x, 3)),
    view("unbind.int", lambda i: (i.x,)),
    view("unfold", lambda i: (i.x, 0, 3, 1), "overlapping"),
    view("unfold", lambda i: (i.x, 0, 2, 3), "apart"),
]

# Tensors of two types, which torch promotes to a third; a number or a tensor of rank 0 counts for less.
PAIRS = (("bfloat16", "int64"), ("float16", "float32"), ("bfloat16", "float16"), ("float32", "float64"), ("int32", "float32"),
         ("int64", "float16"), ("uint8", "int8"), ("int16", "bool"), ("bool", "float32"))
MIXED = [c for op, facts in (
    ("add.Tensor", {}), ("sub.Tensor", {}), ("mul.Tensor", {}), ("div.Tensor", {}), ("pow.Tensor_Tensor", {"ulps": 4}),
    ("atan2", {"ulps": 4}), ("maximum", {}), ("lt.Tensor", {}), ("eq.Tensor", {}), ("logical_and", {})) for c in (
        case(op, lambda i: (i.x, i.y), **facts),
        case(op, lambda i: (i.y, i.row), ALL, "row", **facts),
        case(op, lambda i: (i.x, i.one), ALL, "one", **facts),
        case(op, lambda i: (i.y, i.x.flatten()[0]), ALL, "other one", **facts))] + [
    case("where.self", lambda i: (i.mask, i.x, i.y)),
    case("where.self", lambda i: (i.mask, i.one, i.x), ALL, "one"),
    case("cat", lambda i: ([i.x, i.y], 1)),
    case("stack", lambda i: ([i.y, i.x], 0)),
    case("copy", lambda i: (i.tame, i.row)),
    case("addcmul", lambda i: (i.x, i.y, i.x), FLOAT),
]


def product(op: str, arguments: Arguments, label: str = "", **facts: typing.Any) -> Case:
    return case(op, arguments, FLOAT, label, ulps=4, summed=True, **facts)


PRODUCT = [
    product("linear", lambda i: (i.x, i.y)),
    product("linear", lambda i: (i.x, i.y, i.y[:, 0]) if i.y.shape[-1] else (i.x, i.y), "bias"),
    product("linear", lambda i: (i.x.unsqueeze(0), i.y), "batch"),
    product("mm", lambda i: (i.x, i.y.t())),
    product("mm", lambda i: (i.x.t(), i.y), "along columns", left=("bfloat16",)),
    product("bmm", lambda i: (i.x.unsqueeze(0), i.y.t().unsqueeze(0))),
    product("matmul", lambda i: (i.x, i.y.t())),
    product("matmul", lambda i: (i.x.unsqueeze(1).unsqueeze(1), i.y.t()), "broadcast"),
    product("addmm", lambda i: (i.tame[:, :1], i.x, i.y.t()) if i.y.shape[-1] else (i.x @ i.y.t(), i.x, i.y.t())),
    product("addmm", lambda i: (i.one, i.x, i.y.t(), {"beta": 0.5, "alpha": 2}), "scaled"),
    product("addmm", lambda i: (i.one, i.x, i.y.t(), {"beta": 0}), "nothing added"),
    product("baddbmm", lambda i: (i.one, i.x.unsqueeze(0), i.y.t().unsqueeze(0))),
    case("_int_mm", lambda i: (i.x, i.y.t()), ("int8",)),
    # Of other types PyTorch reads beyond odd rows, and scales as if they lay side by side.
    case("_weight_int8pack_mm", lambda i: (i.x, i.pick.to(torch.int8), i.x[:, :1].clone().reshape(-1)), ("float32",), ulps=4, summed=True,
         exact=lambda i: i.x @ i.pick.double().t() * i.x[:, :1].reshape(-1)),
]


def image(i: Inputs, channels: int, dims: int) -> torch.Tensor:
    """One image of 1 or 5 channels and ``dims`` dims besides; what is empty has no windows."""
    x = i.x if i.x.shape[-1] else i.x.new_zeros(5, 3)
    x = x.unsqueeze(0) if channels == 5 else x.unsqueeze(0).unsqueeze(0)
    while x.dim() < dims + 2:
        x = x.unsqueeze(2)
    return x if x.dim() == dims + 2 else x.flatten(2)


def taps(i: Inputs, *sizes: int) -> torch.Tensor:
    """Weights of a convolution: whole numbers, the same for all inputs."""
    return (torch.arange(torch.Size(sizes).numel()) % 7 - 3).to(i.x.dtype).reshape(sizes)


def convolution(op: str, arguments: Arguments, label: str = "") -> Case:
    return product(op, arguments, label, left=("float64", "bfloat16"))


WINDOWS = [
    convolution("conv1d", lambda i: (image(i, 5, 1), taps(i, 4, 5, 3), None, [1], [1])),
    convolution("conv1d.padding", lambda i: (image(i, 5, 1), taps(i, 4, 5, 3), None, [1], "same", [2])),
    convolution("conv2d", lambda i: (image(i, 1, 2), taps(i, 4, 1, 3, 3), taps(i, 4), [1, 1], [1, 1]), "one channel"),
    convolution("conv2d", lambda i: (image(i, 5, 2), taps(i, 37, 5, 1, 3), None, [1, 2], [0, 1]), "steps"),
    convolution("conv2d", lambda i: (image(i, 5, 2), taps(i, 16, 5, 1, 1), None), "one tap"),
    convolution("conv2d", lambda i: (image(i, 5, 2), taps(i, 5, 1, 1, 3), None, [1, 1], [0, 2], [1, 2], 5), "channels by themselves"),
    convolution("conv2d.padding", lambda i: (image(i, 1, 2), taps(i, 4, 1, 2, 3), None, [1, 1], "same")),
    convolution("conv3d", lambda i: (image(i, 5, 3), taps(i, 4, 5, 1, 1, 3), None, [1, 1, 1], [0, 0, 1])),
    convolution("conv3d.padding", lambda i: (image(i, 5, 3), taps(i, 4, 5, 1, 1, 3), None, [1, 1, 1], "same")),
    convolution("conv_transpose1d", lambda i: (image(i, 5, 1), taps(i, 5, 4, 4), None, [2], [1])),
    convolution("conv_transpose2d.input", lambda i: (image(i, 5, 2), taps(i, 5, 4, 2, 2), taps(i, 4), [2, 2])),
    convolution("conv_transpose3d.input", lambda i: (image(i, 5, 3), taps(i, 5, 4, 1, 1, 2), None, [1, 1, 2])),
    *[case(f"max_pool{d}d", lambda i, d=d: (image(i, 5, d), [1] * (d - 1) + [3], [1] * (d - 1) + [2], [0] * (d - 1) + [1]), FLOAT) for d in (1, 2, 3)],
    case("max_pool2d", lambda i: (image(i, 1, 2), [2, 2], [2, 1], [1, 1], [1, 1], True), FLOAT, "laps over"),
    *[case(f"avg_pool{d}d", lambda i, d=d: (image(i, 5, d), [1] * (d - 1) + [3], [1] * (d - 1) + [2], [0] * (d - 1) + [1]), FLOAT if d < 3 else FLOAT[:2], ulps=4, summed=True)
      for d in (1, 2, 3)],
    *[case(f"adaptive_avg_pool{d}d", lambda i, d=d: (image(i, 5, d), [1] * d), FLOAT, ulps=4, summed=True) for d in (1, 2, 3)],
]

# What PyTorch does on float8 and a kernel does as well.
COMPARED = "clone contiguous eq.Tensor eq.Scalar ne.Tensor ne.Scalar isnan where.self where.ScalarSelf where.ScalarOther where.Scalar full_like"
NOT_MOVED = "tril triu gather arange arange.start arange.start_step"
FLOAT8_CASES = [c._replace(types=FLOAT8, left=()) for c in (
    *(c for c in POINTWISE if c.op.removeprefix("aten.") in (*COMPARED.split(), "zeros_like", "ones_like", "zero", "fill.Scalar", "fill.Tensor", "copy")),
    *(c for c in (*MOVE, *VIEW) if c.op.removeprefix("aten.") not in NOT_MOVED.split() and c.label not in ("mixed", "0.1", "rounded once")))]

FAMILIES = {"float8": FLOAT8_CASES, "pointwise": POINTWISE, "casts": CASTS, "reduce": REDUCE, "move": MOVE, "view": VIEW, "product": PRODUCT, "windows": WINDOWS}
