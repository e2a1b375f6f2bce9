# SPDX-License-Identifier: Apache-2.0
"""How each rule is called: the cases of tests/python/op_cases.py, and what those have not."""

import pathlib
import sys
import typing

import torch
import torch.ao.quantization.fx._decomposed   # registers the operators

import classes

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "python"))
import op_cases
from op_cases import ALL, FLOAT, Inputs, taps


class Call(typing.NamedTuple):
    rule: classes.Rule
    label: str
    types: "tuple[str, ...]"
    run: "typing.Callable[[Inputs], typing.Any]"
    uses: "tuple[str, ...]"   # fields of Inputs that it reads

    def __str__(self) -> str:
        return f"{self.rule}[{self.label}]" if self.label else str(self.rule)


Run = typing.Callable[[Inputs], typing.Any]
# Of a depth or a row of 1, eager reads other memory than its operands'; it reads scales as if they were dense, whatever their strides.
EAGER_ERRS = ("aten._int_mm", "aten._weight_int8pack_mm")


def overload(op: str) -> typing.Any:
    namespace, base, name = (*op.split("."), "default")[:3]
    return getattr(getattr(getattr(torch.ops, namespace), base), name)


def _of_case(case: op_cases.Case) -> Run:
    arguments, operator = case.arguments, overload(case.op)

    def run(inputs: Inputs) -> typing.Any:
        given = arguments(inputs)
        if given and isinstance(given[-1], dict):
            return operator(*given[:-1], **given[-1])
        return operator(*given)

    return run


class _Watched:
    """Inputs that note which of them are read."""

    def __init__(self, inputs: Inputs) -> None:
        self.inputs, self.read = inputs, dict.fromkeys("")

    def __getattr__(self, name: str) -> torch.Tensor:
        self.read[name] = None
        return typing.cast(torch.Tensor, getattr(self.inputs, name))


def _uses(run: Run, types: "tuple[str, ...]") -> "tuple[str, ...]":
    """What a call reads of inputs that it may take or not."""
    watched = _Watched(_few(getattr(torch, types[0])))
    try:
        run(typing.cast(Inputs, watched))
    except (RuntimeError, IndexError, ValueError, TypeError):
        pass
    return tuple(watched.read)


def _few(dtype: torch.dtype) -> Inputs:
    x = torch.ones(5, 3).to(dtype)
    return Inputs(x, x.clone(), x.clone(), torch.ones(5, 3, dtype=torch.bool), x[0].clone(), x[0, 0].clone(),
                  torch.zeros(5, 3, dtype=torch.int64), torch.arange(3))


# -- what op_cases has not --------------------------------------------------------------------------------


def _dims(i: Inputs) -> int:
    """Of windows, where x is a batch of images; RuntimeError where it is none."""
    if not 3 <= i.x.dim() <= 5:
        raise RuntimeError("no images")
    return i.x.dim() - 2


def _row_of(i: Inputs) -> torch.Tensor:
    """x as one image with a channel for each row."""
    return i.x.unsqueeze(0)


def _windows(d: int) -> "dict[str, tuple[str, Run]]":
    """Calls on images of so many dims, padded and not, of each kind of operator with windows."""
    def images(i: Inputs) -> torch.Tensor:
        if _dims(i) != d:
            raise RuntimeError(f"no images of {d} dims")
        return i.x

    input_ = "" if d == 1 else ".input"
    op = torch.ops.aten
    conv, conv_padding = getattr(op, f"conv{d}d").default, getattr(op, f"conv{d}d").padding
    transposed = overload(f"aten.conv_transpose{d}d{input_}")
    average, largest, adaptive = (getattr(op, f"{name}_pool{d}d").default for name in ("avg", "max", "adaptive_avg"))
    return {
        "dense": (f"conv{d}d", lambda i: conv(images(i), taps(i, 4, i.x.shape[1], *[3] * d), None, [1] * d, [1] * d)),
        "dense, steps": (f"conv{d}d", lambda i: conv(images(i), taps(i, 3, i.x.shape[1], *[2] * d), taps(i, 3), [2] * d, [1] * d, [2] * d)),
        "by themselves": (f"conv{d}d", lambda i: conv(images(i), taps(i, i.x.shape[1], 1, *[3] * d), None, [1] * d, [1] * d, [1] * d, i.x.shape[1])),
        "by themselves, causal": (f"conv{d}d", lambda i: conv(images(i), taps(i, i.x.shape[1], 1, *[4] * d), None, [1] * d, [3] * d, [1] * d, i.x.shape[1])),
        "by themselves, same": (f"conv{d}d.padding", lambda i: conv_padding(images(i), taps(i, i.x.shape[1], 1, *[3] * d), None, [1] * d, "same", [1] * d, i.x.shape[1])),
        "transposed": (f"conv_transpose{d}d{input_}", lambda i: transposed(images(i), taps(i, i.x.shape[1], 4, *[3] * d), None, [2] * d, [1] * d, [1] * d)),
        "mean, padded": (f"avg_pool{d}d", lambda i: average(images(i), [3] * d, [1] * d, [1] * d)),
        "mean, ceil": (f"avg_pool{d}d", lambda i: average(images(i), [2] * d, [2] * d, [1] * d, True, False)),
        "largest, padded": (f"max_pool{d}d", lambda i: largest(images(i), [3] * d, [1] * d, [1] * d)),
        "largest, ceil": (f"max_pool{d}d", lambda i: largest(images(i), [2] * d, [2] * d, [1] * d, [1] * d, True)),
        "whole": (f"adaptive_avg_pool{d}d", lambda i: adaptive(images(i), [1] * d)),
    }


def _rows_as_channels() -> "list[tuple[str, str, Run]]":
    op = torch.ops.aten
    return [
        ("aten.conv1d", "rows by themselves", lambda i: op.conv1d(_row_of(i), taps(i, i.x.shape[0], 1, 3), None, [1], [1], [1], i.x.shape[0])),
        ("aten.conv1d", "rows by themselves, causal", lambda i: op.conv1d(_row_of(i), taps(i, i.x.shape[0], 1, 4), None, [1], [3], [1], i.x.shape[0])),
        ("aten.avg_pool1d", "rows", lambda i: op.avg_pool1d(_row_of(i), [3], [1], [1])),
        ("aten.max_pool1d", "rows", lambda i: op.max_pool1d(_row_of(i), [2], [2], [1])),
        ("aten.avg_pool2d", "a plane", lambda i: op.avg_pool2d(i.x[None, None], [2, 2], [1, 1], [1, 1])),
    ]


def _deep(t: torch.Tensor) -> torch.Tensor:
    if min(t.shape) < 2:
        raise RuntimeError("eager reads other memory")
    return t


def _scale(t: torch.Tensor) -> torch.Tensor:
    return t.abs() / 50 + 0.01


def _quantized() -> "list[tuple[str, tuple[str, ...], Run]]":
    q, one_type, int8 = torch.ops.quantized_decomposed, ("float32",), ("int8",)
    low, high = torch.tensor(-100), torch.tensor(90)
    return [
        ("quantize_per_tensor", one_type, lambda i: q.quantize_per_tensor(i.x, 0.031, 3, -128, 127, torch.int8)),
        ("quantize_per_tensor.tensor", one_type, lambda i: q.quantize_per_tensor.tensor(i.x, _scale(i.row[:1]), i.rows[0], 0, 255, torch.uint8)),
        ("quantize_per_tensor.tensor2", one_type, lambda i: q.quantize_per_tensor.tensor2(i.x, _scale(i.row[:1]), i.rows[0], low, high, torch.int8)),
        ("quantize_per_channel", one_type, lambda i: q.quantize_per_channel(i.x, _scale(i.row), i.pick[0], 1, -128, 127, torch.int8)),
        ("quantize_per_token", one_type, lambda i: q.quantize_per_token(i.x, _scale(i.y[:, :1]), i.pick[:, :1], -128, 127, torch.int8)),
        ("choose_qparams_per_token", one_type, lambda i: q.choose_qparams_per_token(i.x, torch.int8)),
        ("choose_qparams_per_token_asymmetric", one_type, lambda i: q.choose_qparams_per_token_asymmetric(i.x, torch.int8)),
        ("dequantize_per_tensor", int8, lambda i: q.dequantize_per_tensor(i.x, 0.02, 3, -128, 127, torch.int8)),
        ("dequantize_per_tensor.tensor", int8, lambda i: q.dequantize_per_tensor.tensor(i.x, _scale(i.row[:1].float()), i.rows[0], -128, 127, torch.int8)),
        ("dequantize_per_tensor.tensor2", int8, lambda i: q.dequantize_per_tensor.tensor2(i.x, _scale(i.row[:1].float()), i.rows[0], low, high, torch.int8)),
        ("dequantize_per_channel", int8, lambda i: q.dequantize_per_channel(i.x, _scale(i.row.float()), i.pick[0], 1, -128, 127, torch.int8)),
        ("dequantize_per_token", int8,
         lambda i: q.dequantize_per_token(i.x, _scale(i.y[:, :1].float()), i.pick[:, :1], -128, 127, torch.int8, torch.float32)),
        ("dequantize_per_channel_group", int8, lambda i: q.dequantize_per_channel_group(
            i.x, _scale(i.y[:, :1].float()), i.pick[:, :1].float(), -128, 127, torch.int8, i.x.shape[1], torch.float32)),
    ]


def _written(i: Inputs, write: "typing.Callable[[torch.Tensor], typing.Any]") -> torch.Tensor:
    """An argument, into which something is written."""
    write(i.y)
    return i.y


def _in_place() -> "list[tuple[str, str, Run]]":
    return [
        ("aten.copy", "", lambda i: _written(i, lambda y: y.copy_(i.x))),
        ("aten.copy", "row", lambda i: _written(i, lambda y: y.copy_(i.x[:1]))),
        ("aten.index_copy", "", lambda i: _written(i, lambda y: y.index_copy_(0, i.rows, i.x[:3]))),
        ("aten.index_put", "", lambda i: _written(i, lambda y: y.index_put_((i.rows,), i.x[:3]))),
        ("aten.slice_scatter", "rows", lambda i: _written(i, lambda y: y[1:3].copy_(i.x[1:3]))),
        ("aten.slice_scatter", "columns", lambda i: _written(i, lambda y: y[:, 1:].copy_(i.x[:, :-1]))),
        ("aten.select_scatter", "", lambda i: _written(i, lambda y: y[0].copy_(i.x[-1]))),
    ]


def _decomposed() -> "list[tuple[str, tuple[str, ...], str, Run]]":
    op, norm = torch.ops.aten, torch.nn.functional
    return [
        ("roll", ALL, "columns", lambda i: op.roll(i.x, [1], [-1])),
        ("roll", ALL, "rows", lambda i: op.roll(i.x, [-2], [0])),
        ("roll", ALL, "all", lambda i: op.roll(i.x, [2])),
        ("pixel_shuffle", ALL, "", lambda i: op.pixel_shuffle(i.x[None, :4, None], 2)),
        ("pixel_unshuffle", ALL, "", lambda i: op.pixel_unshuffle(i.x[:4].reshape(1, -1, 2, 2), 2)),
        ("outer", ALL, "", lambda i: op.outer(i.x[0], i.y[1])),
        ("outer", ALL, "one row", lambda i: op.outer(i.x.squeeze(), i.row)),
        ("einsum", FLOAT, "", lambda i: op.einsum("ij,kj->ik", [i.x, i.y])),
        ("einsum", FLOAT, "columns", lambda i: op.einsum("ij,ij->j", [i.x, i.y])),
        ("group_norm", FLOAT, "", lambda i: op.group_norm(i.x[None], 1)),
        ("group_norm", FLOAT, "images", lambda i: norm.group_norm(i.x, i.x.shape[1], taps(i, i.x.shape[1]), taps(i, i.x.shape[1]))),
        ("instance_norm", FLOAT, "", lambda i: op.instance_norm(i.x[None], None, None, None, None, True, 0.1, 1e-5, True)),
        ("lstm_cell", FLOAT, "", lambda i: op.lstm_cell(i.x, [i.y[:, :1], i.tame[:, :1]], taps(i, 4, _columns(i)) / 8, taps(i, 4, 1), taps(i, 4), taps(i, 4))),
        ("gru_cell", FLOAT, "", lambda i: op.gru_cell(i.x, i.y[:, :1], taps(i, 3, _columns(i)) / 8, taps(i, 3, 1), taps(i, 3), taps(i, 3))),
        ("rnn_tanh_cell", FLOAT, "", lambda i: op.rnn_tanh_cell(i.x, i.y[:, :1], taps(i, 1, _columns(i)) / 8, taps(i, 1, 1))),
        ("rnn_relu_cell", FLOAT, "", lambda i: op.rnn_relu_cell(i.x, i.y[:, :1], taps(i, 1, _columns(i)), taps(i, 1, 1))),
        *[("var_mean.dim", FLOAT, str(d), lambda i, d=d: op.var_mean.dim(i.x, [d], True)) for d in (-1, 0)],
        *[("std_mean.dim", FLOAT, str(d), lambda i, d=d: op.std_mean.dim(i.x, [d], True)) for d in (-1, 0)],
        ("var_mean.correction", FLOAT, "", lambda i: op.var_mean.correction(i.x, [-1], correction=0, keepdim=True)),
        ("std_mean.correction", FLOAT, "", lambda i: op.std_mean.correction(i.x, [-1], correction=0, keepdim=True)),
        ("_transformer_encoder_layer_fwd", ("float32",), "", _encoder_layer),
    ]


def _columns(i: Inputs) -> int:
    """Of x, where it is a matrix; eager's cells and layers crash on what is none."""
    if i.x.dim() != 2:
        raise RuntimeError("no matrix")
    return i.x.shape[1]


def _encoder_layer(i: Inputs) -> torch.Tensor:
    n = _columns(i)
    return torch.ops.aten._transformer_encoder_layer_fwd(
        i.x[None], n, 1, taps(i, 3 * n, n) / 64, taps(i, 3 * n) / 8, taps(i, n, n) / 64, taps(i, n) / 8, False, False, 1e-2, taps(i, n), taps(i, n), taps(i, n),
        taps(i, n), taps(i, 4, n) / 64, taps(i, 4), taps(i, n, 4) / 8, taps(i, n))


def _more() -> "typing.Iterator[tuple[classes.Rule, str, tuple[str, ...], Run]]":
    for d in (1, 2, 3):
        for label, (op, run) in _windows(d).items():
            yield classes.Rule(f"aten.{op}", "POOL" if "pool" in op else "CONV"), label, FLOAT if "conv" not in op else ("float32", "float16"), run
    for op, label, run in _rows_as_channels():
        yield classes.Rule(op, "POOL" if "pool" in op else "CONV"), label, ("float32", "float16"), run
    for op, types, run in _quantized():
        yield classes.Rule(f"quantized_decomposed.{op}", "QUANTIZE"), "", types, run
    yield (classes.Rule("aten._weight_int8pack_mm", "CONTRACT"), "", ("float32",),
           lambda i: torch.ops.aten._weight_int8pack_mm(i.x, i.pick.to(torch.int8), i.tame[:, 0].contiguous()))   # of an infinite scale eager makes NaN
    yield classes.Rule("aten._int_mm", "CONTRACT"), "", ("int8",), lambda i: torch.ops.aten._int_mm(_deep(i.x), i.y.t())
    for op, label, run in _in_place():
        yield classes.Rule(op, "WRITE"), label, ALL, run
    for op, types, label, run in _decomposed():
        yield classes.Rule(f"aten.{op}", "DECOMPOSE"), label, types, run


def by_rule() -> "dict[classes.Rule, list[Call]]":
    """Calls of every rule of the table; a rule without any is there too."""
    rules = {rule: rule for members in classes.of_table().values() for rule in members}
    found: "dict[classes.Rule, list[Call]]" = {rule: [] for rule in rules}
    facets = {rule.op: rule for rule in rules if rule.facet not in ("WRITE", "DECOMPOSE")}
    for family, cases in op_cases.FAMILIES.items():
        for case in cases if family != "float8" else ():
            if case.op in facets and case.op not in EAGER_ERRS and (case.exact is None or "remainder" in case.op):
                run = _of_case(case)
                found[facets[case.op]].append(Call(facets[case.op], case.label, case.types, run, _uses(run, case.types)))
    for rule, label, types, run in _more():
        found[rule].append(Call(rule, label, types, run, _uses(run, types)))
    return found
