# SPDX-License-Identifier: Apache-2.0
"""Which functions made in C a recorded call may use (client/native/effects/effect_table.cpp): operators of PyTorch's, and what somebody has read."""

import pytest
import torch

from ingot import _native

REFUSED = 0
TENSOR, FUNCTION = "torch._C.TensorBase.", "torch._VariableFunctions."


@pytest.mark.parametrize("name", [*(TENSOR + name for name in ("_fix_weakref", "_make_subclass", "_make_wrapper_subclass", "_rev_view_func_unsafe", "_use_count", "_view_func",
                                                               "apply_", "is_set_to", "map_", "storage_offset", "of_a_version_to_come")),
                                  *(FUNCTION + name for name in ("_from_blob", "from_file", "from_numpy", "frombuffer", "of_a_version_to_come")),
                                  "torch._C._functorch.get_inplace_requires_grad_allowed", "torch._C._profiler._get_approximate_time", "torch._C._distributed_c10d.get",
                                  "torch._C._FunctionBase.register_hook", "str.__sizeof__"])
def test_what_nobody_has_read_is_refused(name):
    assert _native.effect_of_name(name) == REFUSED


def test_operators_pass():
    operators = {name.partition("::")[2].split(".")[0] for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::")}
    for name in ("add", "relu_", "matmul", "to", "view"):
        assert name in operators and _native.effect_of_name(TENSOR + name) != REFUSED
    # Of a method that no operator has the name of, somebody has read what it does.
    passing = {name for name in vars(torch._C.TensorBase) if _native.effect_of_name(TENSOR + name) != REFUSED and callable(getattr(torch._C.TensorBase, name))}
    assert {name for name in passing - operators if not name.startswith("__")} <= {
        "as_subclass",
        "bfloat16", "bool", "byte", "cdouble", "cfloat", "char", "const_data_ptr", "cpu", "cuda", "data_ptr", "double", "element_size", "float", "half", "int", "long",
        "ndimension", "nelement", "new", "new_tensor", "numpy", "short", "tolist", "type", "untyped_storage"}
