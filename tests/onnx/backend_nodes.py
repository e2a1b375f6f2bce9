#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles the node tests that come with the `onnx` package and compares answers with those it expects.

usage: PYTHONPATH=build/release/python python tests/onnx/backend_nodes.py [--build DIR] [--open-sizes] [--verbose] [NAME...]
  --open-sizes   makes every size of two or more of the inputs a dynamic axis, equal ones the same; a case whose sizes
                 are in no range that the compiler has met is refused then
  NAME           cases whose name contains it

Prints the share of cases that pass, what is refused and why, and wrong answers; exits 1 when there is a wrong one.
Cases of operator sets 13 to 22 count, those of older sets where nothing has changed until 13 included. Where sizes depend
on data, an input's numbers are given to the compiler (--value), as they are in models that people use.
"""

import argparse
import collections
import os
import pathlib
import re
import sys
import tempfile

try:
    import numpy as np
    import onnx
    import onnx.defs
    import onnx.numpy_helper
    from onnx import TensorProto
except ImportError as error:
    print(f"skipped: {error}; pip install onnx==1.17.0, whose operator set is 22")
    sys.exit(0)

import torch
from batch import Batch

import ingot

OPSETS = range(13, 23)
RTOL, ATOL = 1e-3, 1e-7  # those of onnx.backend.test
# Cases whose expected answer breaks the operator's own rules; ours is not compared.
DISPUTED = {f"test_qlinearmatmul_{dims}_int8_{kind}": "expects values that wrap around, where the operator saturates"
            for dims in ("2D", "3D") for kind in ("float16", "float32")}
DISPUTED |= {f"test_{case}": "expects bfloat16 cut off, where the operator rounds"
             for case in ("cast_FLOAT_to_BFLOAT16", "castlike_FLOAT_to_BFLOAT16", "castlike_FLOAT_to_BFLOAT16_expanded")}
DISPUTED |= {f"test_resize_downsample_scales_{mode}_align_corners": "expects a length that is no integer, where PyTorch and onnxruntime have that of the result"
             for mode in ("linear", "cubic")}


def raised(model: onnx.ModelProto) -> bool:
    """Gives a model of an older set the number 13, where that changes nothing. False where the case does not count."""
    own = [s for s in model.opset_import if s.domain in ("", "ai.onnx")]
    if not own or len(model.opset_import) != 1:
        return False
    version = own[0].version
    if version not in OPSETS and version > OPSETS[-1]:
        return False
    if version < OPSETS[0]:
        for node in model.graph.node:
            if onnx.defs.get_schema(node.op_type, version).since_version != onnx.defs.get_schema(node.op_type, OPSETS[0]).since_version:
                return False
        own[0].version = OPSETS[0]
    return True


def tensor(path: pathlib.Path, info: onnx.ValueInfoProto):
    """The array in a file; None for a value that is no tensor."""
    if not info.type.HasField("tensor_type"):
        return None
    made = onnx.TensorProto()
    made.ParseFromString(path.read_bytes())
    array = onnx.numpy_helper.to_array(made)
    if info.type.tensor_type.elem_type == onnx.TensorProto.BFLOAT16 and array.dtype == np.uint16:
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
    float8 = {TensorProto.FLOAT8E4M3FN: torch.float8_e4m3fn, TensorProto.FLOAT8E5M2: torch.float8_e5m2}.get(info.type.tensor_type.elem_type)
    return array if float8 is None else torch.from_numpy(array.view(np.uint8).copy()).view(float8)


def opened(model: onnx.ModelProto) -> None:
    for info in model.graph.input:
        for dim in info.type.tensor_type.shape.dim:
            if dim.dim_value >= 2:
                dim.dim_param = f"size{dim.dim_value}"


def to_torch(array):
    return array if isinstance(array, torch.Tensor) else torch.from_numpy(np.asarray(array).copy())


def difference(found: torch.Tensor, expected) -> "str | None":
    expected = to_torch(expected)
    if found.dtype != expected.dtype or found.shape != expected.shape:
        return f"{found.dtype}{list(found.shape)} instead of {expected.dtype}{list(expected.shape)}"
    if torch.allclose(found.double() if not found.is_complex() else found, expected.double() if not found.is_complex() else expected, RTOL, ATOL, True):
        return None
    return f"{found.flatten()[:6].tolist()} instead of {expected.flatten()[:6].tolist()}"


def check(folder: pathlib.Path, batch: Batch, work: pathlib.Path, open_sizes: bool):
    """(outcome, text): "out", "pass", "refused", "wrong" or "crash"."""
    model = onnx.load(folder / "model.onnx")
    if not raised(model):
        return "out", ""
    if open_sizes:
        opened(model)
    program = work / "case.onnx"
    program.write_bytes(model.SerializeToString())
    names = [info.name for info in model.graph.input]
    sets = sorted(folder.glob("test_data_set_*"))
    inputs = [{name: tensor(path / f"input_{i}.pb", info) for i, (name, info) in enumerate(zip(names, model.graph.input))} for path in sets]
    values: "dict[str, str]" = {}
    while True:
        answer = batch.compile({"program": str(program), "output": str(work / "case.ingot"), "values": [f"{n}={v}" for n, v in values.items()]})
        if "depend on data" not in answer.get("error", "") and "depends on data" not in answer.get("error", ""):
            break
        # The one that is named, or behind what is named all that may be positions.
        named = re.search(r"input \d+ \('(.*?)'\)\. Where it is an input", answer["error"])
        small = [n for n in names if isinstance(inputs[0][n], np.ndarray) and inputs[0][n].dtype.kind in "iub" and inputs[0][n].size <= 64]
        wanted = [named[1]] if named and named[1] in names else small
        if all(n in values for n in wanted):
            break
        for name in wanted:
            values[name] = ",".join(repr(n.item()) for n in inputs[0][name].astype(np.float64).flatten())
    if "error" in answer:
        return ("crash" if answer["code"] in ("crash", "internal") else "refused"), answer["error"].removeprefix(str(program) + ": ")
    function = ingot.load(work / "case.ingot")
    for path, given in zip(sets, inputs):
        try:
            results = function(*(to_torch(given[name]) for name in names if name not in values))
        except ingot.errors.Error as error:
            if open_sizes and "sizes" in str(error):
                return "refused", "sizes that are in no range"
            return "wrong", f"a call is refused: {error}"
        for i, info in enumerate(model.graph.output):
            if why := difference(results[info.name], tensor(path / f"output_{i}.pb", info)):
                return "wrong", f"{info.name}: {why}"
    return "pass", f"{len(values)} values" if values else ""


def reason(text: str) -> str:
    """What a refusal is about, without what differs from case to case."""
    op = re.search(r"\((\w+)(?: of [\w.]+)?(?:, opset \d+)?\): (.*)", text)
    found = f"{op[1]}: {op[2]}" if op else text
    return re.sub(r"'[^']*'|\d+", "_", found)[:100] if not op else f"{op[1]}: " + re.sub(r"'[^']*'", "_", op[2])[:90]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default=os.environ.get("INGOT_BUILD_DIR", "build/release"))
    parser.add_argument("--open-sizes", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    cases = pathlib.Path(onnx.__file__).parent / "backend" / "test" / "data" / "node"
    folders = sorted(f for f in cases.iterdir() if not options.names or any(n in f.name for n in options.names))
    batch = Batch(pathlib.Path(options.build) / "tests" / "onnx" / "onnx_compile_batch")
    count: "collections.Counter[str]" = collections.Counter()
    refused: "collections.defaultdict[str, list[str]]" = collections.defaultdict(list)
    wrong = []
    with tempfile.TemporaryDirectory() as work:
        for folder in folders:
            outcome, text = check(folder, batch, pathlib.Path(work), options.open_sizes)
            if outcome == "wrong" and folder.name in DISPUTED:
                outcome = "disputed"
            count[outcome] += 1
            count["with values"] += bool(outcome == "pass" and text)
            if outcome == "refused":
                refused[reason(text)].append(folder.name)
            elif outcome in ("wrong", "crash"):
                wrong.append((folder.name, outcome, text))
                print(f"{outcome}: {folder.name}: {text}", flush=True)
            if options.verbose:
                print(f"{outcome}: {folder.name} {text}", flush=True)
    counted = sum(count[o] for o in ("pass", "refused", "wrong", "crash", "disputed"))
    print(f"onnx {onnx.__version__}: {counted} cases of operator sets 13 to 22 ({count['out']} of others)")
    print(f"pass {count['pass']} ({100 * count['pass'] / max(counted, 1):.1f} %), {count['with values']} of them with numbers for an input; "
          f"refused {count['refused']}, wrong {count['wrong']}, crashed {count['crash']}, disputed {count['disputed']}")
    for why, names in sorted(refused.items(), key=lambda item: -len(item[1])):
        print(f"  {len(names):4d}  {why}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
