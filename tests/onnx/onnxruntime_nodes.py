#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles nodes that onnxruntime writes into models and compares answers with onnxruntime's.

usage: PYTHONPATH=build/release/python python tests/onnx/onnxruntime_nodes.py [--build DIR] [NAME...]
  NAME   cases whose operator contains it

Prints a line for each case that differs or is refused; exits 1 when one differs.
"""

import argparse
import os
import pathlib
import sys
import tempfile

import torch

try:
    import numpy as np
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper
except ImportError as error:
    print(f"skipped: {error}; pip install onnx onnxruntime")
    sys.exit(0)

from batch import Batch

import ingot

TYPES = {np.dtype("float32"): TensorProto.FLOAT, np.dtype("uint8"): TensorProto.UINT8, np.dtype("int8"): TensorProto.INT8,
         np.dtype("int32"): TensorProto.INT32, np.dtype("int64"): TensorProto.INT64}
random = np.random.default_rng(0)


def floats(*sizes):
    return random.standard_normal(sizes).astype(np.float32)


def levels(*sizes, dtype="uint8"):
    low, high = (0, 256) if dtype == "uint8" else (-128, 128)
    return random.integers(low, high, sizes).astype(dtype)


def nibbles(*sizes, signed=False):
    """Elements of 4 bits, for initializers."""
    elements = random.integers(*((-8, 8) if signed else (0, 16)), sizes).flatten().tolist()
    return helper.make_tensor("", TensorProto.INT4 if signed else TensorProto.UINT4, sizes, elements)


def named(value, name):
    made = TensorProto() if isinstance(value, TensorProto) else onnx.numpy_helper.from_array(value)
    if isinstance(value, TensorProto):
        made.CopyFrom(value)
    made.name = name
    return made


def scale(value=0.03):
    return np.array(value, np.float32)


def zero(value=120, dtype="uint8"):
    return np.array(value, dtype)


def lengths(*values):
    return np.array(values, np.int32)


def case(op, *inputs, outputs=1, domain="com.microsoft", constant=(), **attributes):
    """``inputs``: arrays, None for one that is left out; ``constant``: which of them are initializers."""
    return op, inputs, outputs, domain, constant, attributes


B, S, N, D, H = 2, 5, 3, 8, 24
mask = np.array([[1] * S, [1] * (S - 2) + [0] * 2], np.int32)
ids, segments = (random.integers(0, n, (B, S)).astype(np.int32) for n in (10, 2))
w4 = random.integers(0, 256, (16, 2, 16)).astype(np.uint8)

def grouped(tokens=1, past=6, room=None, batch=1, last=None, packed=False, positions=None, bias=None, sink=None, heads=4, of_keys=2, width=16, turned=None, **attributes):
    """GroupQueryAttention: ``past`` tokens are cached (None: there is no cache), of a cache with ``room`` where that is more; ``last``: positions of the rows' last tokens."""
    total = tokens + (past or 0)
    row = (heads + 2 * of_keys) * width if packed else heads * width
    new = [None, None] if packed else [floats(batch, tokens, of_keys * width) for _ in range(2)]
    cached = [None, None] if past is None else [floats(batch, of_keys, room or past, width) for _ in range(2)]
    tables = [floats(total + 3, (turned or width) // 2) for _ in range(2)] if attributes.get("do_rotary") else [None, None]
    more = [positions, floats(*bias) if bias else None, floats(heads) if sink else None]
    inputs = [floats(batch, tokens, row), *new, *cached, lengths(*(last or [total - 1] * batch)), np.array(total, np.int32), *tables, *more]
    while inputs[-1] is None:
        inputs.pop()
    return case("GroupQueryAttention", *inputs, outputs=3, constant=(6, 7, 8), num_heads=heads, kv_num_heads=of_keys, **attributes)


CASES = [
    case("Gelu", floats(4, 6)), case("FastGelu", floats(4, 6)), case("FastGelu", floats(4, 6), floats(6)), case("BiasGelu", floats(4, 6), floats(6)),
    case("QuickGelu", floats(4, 6), alpha=1.5), case("BiasSplitGelu", floats(2, 3, 2560), floats(2560)),
    case("SkipLayerNormalization", floats(B, S, H), floats(B, S, H), floats(H), floats(H), epsilon=1e-5),
    case("SkipLayerNormalization", floats(B, S, H), floats(B, S, H), floats(H), None, floats(H), outputs=4, epsilon=1e-5),
    case("SkipSimplifiedLayerNormalization", floats(B, S, H), floats(B, S, H), floats(H), outputs=4, epsilon=1e-5),
    case("SkipSimplifiedLayerNormalization", floats(B, S, H), floats(B, S, H), floats(H), floats(H), epsilon=1e-5),
    case("SimplifiedLayerNormalization", floats(B, S, H), floats(H), domain="", epsilon=1e-5, axis=-1),
    case("EmbedLayerNormalization", ids, segments, floats(10, H),
         floats(8, H), floats(2, H), floats(H), floats(H), outputs=2, epsilon=1e-5),
    case("FusedMatMul", floats(2, 4, 6), floats(2, 5, 6), alpha=0.5, transB=1), case("FusedMatMul", floats(2, 6, 4), floats(2, 6, 5), transA=1),
    case("FusedConv", floats(1, 3, 8, 8), floats(4, 3, 3, 3), floats(4), activation="Relu", pads=[1, 1, 1, 1]),
    case("FusedConv", floats(1, 3, 8, 8), floats(4, 3, 3, 3), floats(4), activation="LeakyRelu", activation_params=[0.1]),
    case("MatMulNBits", floats(3, 64), w4, floats(32), K=64, N=16, bits=4, block_size=32, constant=(1, 2)),
    case("MatMulNBits", floats(3, 64), w4, floats(32), levels(16), K=64, N=16, bits=4, block_size=32, constant=(1, 2, 3)),
    case("GatherBlockQuantized", levels(12, 16), random.integers(-12, 12, (B, S)), floats(12, 2), block_size=16, bits=4, constant=(0, 2)),
    case("GatherBlockQuantized", levels(12, 48), random.integers(0, 12, (B, S)), floats(12, 3), levels(12, 3), block_size=16, bits=8, constant=(0, 2, 3)),
    case("GatherBlockQuantized", levels(12, 24), np.array(5), floats(12, 3), levels(12, 2), block_size=16, bits=4, constant=(0, 2, 3)),
    case("GatherBlockQuantized", nibbles(12, 32, signed=True), random.integers(0, 12, (B, S)), floats(12, 2), block_size=16, constant=(0, 2)),
    case("GatherBlockQuantized", nibbles(12, 32), random.integers(0, 12, 4), floats(12, 2), nibbles(12, 2), block_size=16, constant=(0, 2, 3)),
    case("GatherBlockQuantized", nibbles(3, 32, 6), random.integers(0, 6, (2, 2)), floats(3, 2, 6), gather_axis=2, quantize_axis=1, block_size=16, constant=(0, 2)),
    case("GatherBlockQuantized", nibbles(32, 6), random.integers(0, 6, 3), floats(2, 6), gather_axis=1, quantize_axis=0, block_size=16, constant=(0, 2)),
    case("MatMulIntegerToFloat", levels(3, 8), levels(8, 5, dtype="int8"), scale(), scale(0.01), zero(), zero(0, "int8"), floats(5), constant=(1, 3, 5)),
    case("MatMulIntegerToFloat", levels(3, 8), levels(8, 5), scale(), np.abs(floats(5)), zero(), levels(5), constant=(1, 3, 5)),
    case("DynamicQuantizeMatMul", floats(3, 8), levels(8, 5, dtype="int8"), scale(0.01), zero(0, "int8"), floats(5), constant=(1, 2, 3)),
    case("QGemm", levels(3, 8), scale(), zero(), levels(8, 5, dtype="int8"), scale(0.01), zero(0, "int8"), random.integers(-99, 99, 5).astype(np.int32), scale(0.1), zero(128),
         alpha=1.0, transB=0, constant=(1, 2, 3, 4, 5, 6, 7, 8)),
    case("QLinearAdd", levels(3, 8), scale(), zero(), levels(3, 8), scale(0.02), zero(100), scale(0.06), zero(110), constant=(1, 2, 4, 5, 6, 7)),
    case("QLinearMul", levels(3, 8), scale(), zero(), levels(3, 8), scale(0.02), zero(100), scale(0.06), zero(110), constant=(1, 2, 4, 5, 6, 7)),
    case("QLinearSigmoid", levels(3, 8), scale(), zero(), scale(1 / 256), zero(0), constant=(1, 2, 3, 4)),
    case("QLinearLeakyRelu", levels(3, 8), scale(), zero(), scale(0.02), zero(90), alpha=0.1, constant=(1, 2, 3, 4)),
    case("QLinearSoftmax", levels(3, 8), scale(), zero(), scale(1 / 256), zero(0), axis=-1, opset=13, constant=(1, 2, 3, 4)),
    case("QLinearGlobalAveragePool", levels(2, 3, 5, 5), scale(), zero(), scale(0.02), zero(110), channels_last=0, constant=(1, 2, 3, 4)),
    case("QLinearConcat", scale(0.04), zero(110), levels(2, 3), scale(), zero(), levels(2, 4), scale(0.02), zero(100), axis=1, constant=(0, 1, 3, 4, 6, 7)),
    case("ConvInteger", levels(1, 3, 8, 8), levels(4, 3, 3, 3), zero(), zero(7), domain="", pads=[1, 0, 2, 1]),
    case("QLinearConv", levels(1, 3, 8, 8), scale(), zero(), levels(4, 3, 3, 3, dtype="int8"), np.abs(floats(4)) / 50, np.zeros(4, np.int8), scale(0.2), zero(),
         random.integers(-999, 999, 4).astype(np.int32), domain="", constant=range(1, 9)),
    case("RotaryEmbedding", floats(B, S, N * D), random.integers(0, 9, (B, S)), floats(9, D // 2), floats(9, D // 2)),
    case("RotaryEmbedding", floats(B, N, S, D), np.array([3]), floats(9, D // 2), floats(9, D // 2), interleaved=1),
    case("Attention", floats(B, S, H), floats(H, 3 * H), floats(3 * H), num_heads=N), case("Attention", floats(B, S, H), floats(H, 3 * H), floats(3 * H), mask, num_heads=N),
    case("Attention", floats(B, S, H), floats(H, 3 * H), floats(3 * H), lengths(5, 3), num_heads=N),
    case("Attention", floats(B, S, H), floats(H, 3 * H), floats(3 * H), None, floats(2, B, N, 4, D), outputs=2, num_heads=N, unidirectional=1),
    case("MultiHeadAttention", floats(B, S, H), floats(B, 7, H), floats(B, 7, H), num_heads=N),
    case("MultiHeadAttention", floats(B, S, H), floats(B, S, H), floats(B, S, H), floats(3 * H), mask, num_heads=N),
    case("MultiHeadAttention", floats(B, S, H), floats(B, S, H), floats(B, S, H), None, None, floats(1, N, S, S), num_heads=N, scale=0.3),
    case("MultiHeadAttention", *(floats(B, S, H) for _ in range(3)), None, None, None, *(floats(B, N, 4, D) for _ in range(2)), outputs=3, num_heads=N),
    case("MultiHeadAttention", floats(B, S, H), floats(B, S, H), floats(B, S, H), num_heads=N, unidirectional=1),
    grouped(), grouped(tokens=7, past=None), grouped(tokens=7, past=0), grouped(tokens=3), grouped(packed=True), grouped(tokens=5, past=None, packed=True),
    grouped(room=12), grouped(tokens=4, past=0, room=12), grouped(batch=3, last=[6, 3, 1]), grouped(batch=2, last=[6, 3], room=9),
    grouped(tokens=5, past=None, batch=2, last=[4, 2]),
    grouped(do_rotary=1), grouped(tokens=5, past=None, do_rotary=1), grouped(batch=2, last=[6, 2], do_rotary=1, rotary_interleaved=1),
    grouped(tokens=3, do_rotary=1, width=32, turned=16),
    grouped(tokens=5, past=0, batch=2, last=[4, 2], do_rotary=1, packed=True), grouped(tokens=3, do_rotary=1, positions=np.array([[6, 7, 8]])),
    grouped(tokens=5, past=None, do_rotary=1, positions=np.array([[0, 1, 2, 3, 4]])), grouped(do_rotary=1, batch=2, positions=np.array([[4], [2]])),
    grouped(local_window_size=3), grouped(tokens=9, past=None, local_window_size=4), grouped(softcap=2.0), grouped(tokens=6, past=None, softcap=3.0, scale=0.4),
    grouped(tokens=3, bias=(1, 1, 3, 9)), grouped(tokens=3, bias=(1, 4, 3, 9), softcap=1.5), grouped(tokens=3, room=14, bias=(1, 4, 3, 9)), grouped(smooth_softmax=1),
    grouped(tokens=5, past=None, sink=True), grouped(tokens=2, sink=True, softcap=2.0), grouped(causal=0, tokens=4, past=None), grouped(causal=0, tokens=4),
    grouped(heads=4, of_keys=4),
    grouped(scale=0.3, heads=6, of_keys=1),
    case("QAttention", levels(B, S, H), levels(H, 3 * H, dtype="int8"), floats(3 * H), scale(0.01), scale(0.01), mask, zero(), zero(0, "int8"),
         num_heads=N, constant=(1, 2, 3, 4, 6, 7)),
]


def model_of(op, inputs, outputs, domain, constant, attributes):
    names = [f"x{i}" if x is not None else "" for i, x in enumerate(inputs)]
    # Statistics of norms are left out, as onnxruntime leaves them out.
    results = [f"y{i}" if not (op.startswith("Skip") and i in (1, 2)) else "" for i in range(outputs)]
    node = helper.make_node(op, names, results, domain=domain, **attributes)
    given = [helper.make_tensor_value_info(n, TYPES[x.dtype], x.shape) for i, (n, x) in enumerate(zip(names, inputs)) if n and i not in constant]
    fixed = [named(x, n) for i, (n, x) in enumerate(zip(names, inputs)) if n and i in constant]
    values = [onnx.ValueInfoProto(name=r) for r in results if r]
    graph = helper.make_graph([node], "case", given, values, fixed)
    sets = [helper.make_opsetid("", 21 if any(isinstance(x, TensorProto) for x in inputs) else 17)] + ([helper.make_opsetid(domain, 1)] if domain else [])
    return helper.make_model(graph, opset_imports=sets, ir_version=10), [(n, x) for i, (n, x) in enumerate(zip(names, inputs)) if n and i not in constant]


def unspecified(made, i, shape):
    """Where result ``i`` may be anything: rows of a cache behind its tokens, and what queries give that only fill up a prompt."""
    if made[0] != "GroupQueryAttention":
        return torch.zeros(shape, dtype=torch.bool)
    count, rows = torch.from_numpy(made[1][5])[:, None] + 1, torch.arange(shape[1 if i == 0 else 2])
    if i == 0:
        rows = rows + (count - shape[1]).clamp(min=0)
    behind = rows >= count
    return (behind[:, :, None] if i == 0 else behind[:, None, :, None]).expand(shape)


def check(made, batch, work):
    model, given = model_of(*made)
    program = work / "case.onnx"
    program.write_bytes(model.SerializeToString())
    try:
        session = onnxruntime.InferenceSession(str(program), providers=["CPUExecutionProvider"])
        expected = session.run(None, dict(given))
    except Exception as error:
        return "out", str(error)[:200]
    answer = batch.compile({"program": str(program), "output": str(work / "case.ingot"), "values": []})
    if "error" in answer:
        return "refused", answer["error"].removeprefix(str(program) + ": ")
    results = ingot.load(work / "case.ingot")(*(torch.from_numpy(x) for _, x in given))
    for i, ((name, got), array) in enumerate(zip(results.items(), expected)):
        want = torch.from_numpy(array)
        if got.dtype != want.dtype or got.shape != want.shape:
            return "wrong", f"{name}: {got.dtype}{list(got.shape)} instead of {want.dtype}{list(want.shape)}"
        # A level may fall to either side of a middle.
        off = (got.double() - want.double()).masked_fill(unspecified(made, i, want.shape), 0).abs().max().item()
        if off > (1 if got.dtype in (torch.uint8, torch.int8) else 1e-4 * max(1.0, want.double().abs().max().item())):
            return "wrong", f"{name}: off by {off}"
    return "pass", ""


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default=os.environ.get("INGOT_BUILD_DIR", "build/release"))
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    batch = Batch(pathlib.Path(options.build) / "tests" / "onnx" / "onnx_compile_batch")
    count = dict.fromkeys(("pass", "refused", "wrong", "out"), 0)
    with tempfile.TemporaryDirectory() as work:
        for made in CASES:
            if options.names and not any(n in made[0] for n in options.names):
                continue
            outcome, text = check(made, batch, pathlib.Path(work))
            count[outcome] += 1
            if outcome != "pass":
                print(f"{outcome}: {made[0]} {made[5]}: {text}")
    print(f"onnxruntime {onnxruntime.__version__}: " + ", ".join(f"{n} {c}" for n, c in count.items()) + " (out: onnxruntime does not take it)")
    return 1 if count["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
