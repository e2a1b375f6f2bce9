# SPDX-License-Identifier: Apache-2.0
"""Who says what is right: the reference evaluator of the `onnx` package, onnxruntime where it is there, and the reference in f64 where
those differ. Whose answer does not count where: disputes.py."""

import typing
import warnings

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

try:
    import onnxruntime
except ImportError:
    onnxruntime = None

Arrays = "list[np.ndarray]"
Feeds = "dict[str, np.ndarray]"


class Unanswered(Exception):
    """The judge does not take the model, or not these inputs."""


def reference(model: onnx.ModelProto, feeds: Feeds) -> Arrays:
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return [np.asarray(a) for a in ReferenceEvaluator(model).run(None, feeds)]
    except Exception as error:  # its operators are Python code that raises anything
        raise Unanswered(f"{type(error).__name__}: {error}"[:200]) from None


def runtime(model: onnx.ModelProto, feeds: Feeds) -> Arrays:
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return list(session.run(None, feeds))
    except Exception as error:
        raise Unanswered(f"{type(error).__name__}: {error}"[:200]) from None


def _widened(graph: onnx.GraphProto) -> None:
    for tensor in graph.initializer:
        _widen(tensor)
    for info in graph.input:
        if info.type.tensor_type.elem_type in (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16):
            info.type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.name in ("to", "dtype", "output_dtype") and attribute.i in (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16):
                attribute.i = onnx.TensorProto.DOUBLE
            if attribute.type == onnx.AttributeProto.TENSOR:
                _widen(attribute.t)
            if attribute.type == onnx.AttributeProto.GRAPH:
                _widened(attribute.g)


def _widen(tensor: onnx.TensorProto) -> None:
    if tensor.data_type in (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16):
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), tensor.name))


def exact(model: onnx.ModelProto, feeds: Feeds) -> Arrays:
    """The reference, of f64 from its inputs on."""
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    _widened(wide.graph)
    return reference(wide, {n: a.astype(np.float64) if a.dtype.kind == "f" else a for n, a in feeds.items()})


JUDGES: "dict[str, typing.Callable[[onnx.ModelProto, dict[str, np.ndarray]], list[np.ndarray]]]" = {"reference": reference}
if onnxruntime is not None:
    JUDGES["onnxruntime"] = runtime

ROUGH = {"float32": (1e-3, 2e-5), "float64": (1e-7, 1e-9), "float16": (8e-3, 4e-3)}
QUANTIZES = {"QuantizeLinear", "QLinearMatMul", "QLinearConv", "DynamicQuantizeLinear"}


def difference(found: np.ndarray, wanted: np.ndarray, levels: int = 0, as_type: bool = True) -> "str | None":
    if as_type and found.dtype != wanted.dtype or found.shape != wanted.shape:
        return f"{found.dtype}{list(found.shape)} instead of {wanted.dtype}{list(wanted.shape)}"
    if found.dtype.kind != "f":
        off = found != wanted
        if levels and found.dtype.kind in "iu":
            off = np.abs(found.astype(np.int64) - wanted.astype(np.int64)) > levels
    else:
        relative, absolute = ROUGH[str(found.dtype)]
        a, b = found.astype(np.float64), wanted.astype(np.float64)
        finite = b[np.isfinite(b)]
        largest = max(1.0, float(np.abs(finite).max())) if finite.size and relative < 1e-2 else 1.0
        with np.errstate(invalid="ignore"):
            off = ~((a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= absolute * largest + relative * np.abs(b)))
    if not off.any():
        return None
    at = tuple(int(i) for i in np.argwhere(off)[0])
    return f"{found[at]!r} instead of {wanted[at]!r} at {list(at)}, {int(off.sum())} of {off.size} differ"
