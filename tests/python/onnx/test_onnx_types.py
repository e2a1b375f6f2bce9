# SPDX-License-Identifier: Apache-2.0
"""Which inputs of an ONNX operator are of one element type (client/onnx/operand_types.cpp), as the texts of the `onnx` package bind them."""

import collections
import pathlib
import re

import fuzzers
import pytest
from conftest import BUILD

DOCS = pathlib.Path(__file__).resolve().parents[3] / "docs" / "onnx.md"
FIRST, LAST = 13, 23


def operators():
    """Those of ONNX's own that have a rule."""
    for line in DOCS.read_text().splitlines():
        part = re.fullmatch(r"\| ([a-z, ]+) \| ((?:[A-Z]\w*(?: \(\d+\))?(?:, )?)+) \|", line)
        if part:
            yield from re.findall(r"[A-Z]\w*", part[2])


def bound(name, defs):
    """For each input the first that is of its type in every version of the text, and whether it stands for several."""
    texts = [schema for schema in defs.get_all_schemas_with_history() if schema.domain == "" and schema.name == name and schema.since_version <= LAST]
    oldest = max((schema.since_version for schema in texts if schema.since_version <= FIRST), default=FIRST)
    texts = [schema.inputs for schema in texts if schema.since_version >= oldest]

    def are_one(i, j):
        return all(max(i, j) >= len(inputs) or inputs[i].type_str == inputs[j].type_str for inputs in texts)

    count = max(map(len, texts), default=0)
    of = [next(j for j in range(i + 1) if are_one(i, j)) for i in range(count)]
    if count and all(inputs[-1].option == inputs[-1].option.Variadic and inputs[-1].is_homogeneous for inputs in texts):
        of += [of[-1], of[-1]]
    return of


@pytest.fixture(scope="module")
def onnx_and_batch():
    with fuzzers.running("onnx", "child") as child:
        import onnx
        checker = child.Child(str(BUILD), "")
        yield onnx, checker.batch
        checker.batch.close()


def test_operands_are_bound_as_the_texts_bind_them(onnx_and_batch, tmp_path):
    onnx, batch = onnx_and_batch
    types = [onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.DOUBLE, onnx.TensorProto.INT32, onnx.TensorProto.UINT8, onnx.TensorProto.INT8,
             onnx.TensorProto.FLOAT16, onnx.TensorProto.INT16]
    wrong, asked = [], collections.Counter()

    def refusal(name, given):
        inputs = [onnx.helper.make_tensor_value_info(f"x{i}", dtype, [2]) for i, dtype in enumerate(given)]
        graph = onnx.helper.make_graph([onnx.helper.make_node(name, [i.name for i in inputs], ["y"])], "m", inputs, [onnx.helper.make_empty_tensor_value_info("y")])
        path = tmp_path / "m.onnx"
        path.write_bytes(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", LAST)]).SerializeToString())
        answer = batch.compile({"program": str(path), "output": str(tmp_path / "m.ingot"), "sizes": [], "values": []})
        return answer.get("error", "")

    for name in operators():
        of = bound(name, onnx.defs)
        apart = [types[sorted(set(of)).index(first)] for first in of]
        if "of one type" in (why := refusal(name, apart)):
            wrong.append(f"{name}{apart}: {why}")
        asked["apart"] += 1
        for i, first in enumerate(of):
            if first == i:
                continue
            mixed = [*apart[:i], onnx.TensorProto.BOOL, *apart[i + 1:]]
            if f"inputs {first} and {i} are" not in (why := refusal(name, mixed)):
                wrong.append(f"{name}{mixed}: {why}")
            asked["bound"] += 1
    assert not wrong, "\n".join(wrong)
    assert asked["apart"] > 140 and asked["bound"] > 80, asked
