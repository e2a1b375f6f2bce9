# SPDX-License-Identifier: Apache-2.0
"""What compiler/ops says operators take is what this PyTorch says."""

import pathlib
import re

import pytest
import torch

OPS = pathlib.Path(__file__).parents[3] / "compiler/ops"
LINE = re.compile(r'^OP\("([^"]+)", (?:"((?:[^"\\]|\\.)*)"|kOwn), ', re.MULTILINE)

# What ops.def has from 2.13, and later versions say otherwise: from which on, and in which words.
LATER = {
    "_c10d_functional.all_reduce": ((2, 15), "Tensor input, Any reduce_op, Any group_name"),
    "_c10d_functional.all_reduce_coalesced": ((2, 15), "Tensor[] inputs, Any reduce_op, Any group_name"),
}


def parameters(schema):
    """The parameters in the words of ops.def."""
    text = str(schema)
    text = text[text.index("(") + 1 : text.rindex(") -> ")]
    text = re.sub(r"\([a-z!|>\- *]+\)", "", text).replace("*, ", "").replace("SymInt", "int")
    # What PyTorch prints as the number of an enumerator.
    text = text.replace("MemoryFormat memory_format=0", "MemoryFormat memory_format=contiguous_format")
    text = re.sub(r"(ScalarType\?? \w+)=4", r"\1=long", text)
    return text.replace("\\", "\\\\").replace('"', '\\"')


@pytest.mark.skipif(torch.__version__ < (2, 13), reason="ops.def is of PyTorch 2.13")
def test_schemas_are_those_of_pytorch():
    found = {}
    for schema in torch._C._jit_get_all_schemas():
        name = schema.name.replace("::", ".") + (f".{schema.overload_name}" if schema.overload_name else "")
        found[name] = parameters(schema)
    written = dict(LINE.findall((OPS / "ops.def").read_text()))
    written |= {op: parameters for op, (since, parameters) in LATER.items() if torch.__version__ >= since}
    wrong = [f'OP("{op}", "{found[op]}", ...)' for op, parameters in written.items() if op in found and parameters != found[op]]
    assert not wrong, "in compiler/ops/ops.def:\n" + "\n".join(wrong)
    assert len(written) > 500
