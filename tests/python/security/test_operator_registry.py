# SPDX-License-Identifier: Apache-2.0
"""All operators of a process with Python in it are admitted or refused, and what is admitted takes nothing that reaches outside of tensors."""

import collections
import subprocess
import sys

import pytest
import torch
import torch.distributed  # registers operators of its own
from recorded import parts  # noqa: F401

CORE = ("aten", "prims")
# Texts of what is admitted, as they are in every operator.
TEXTS = {"approximate", "rounding_mode", "reduce", "norm", "ord", "p", "interpolation", "driver", "mode", "pad_mode", "padding", "padding_side", "side",
         "indexing", "UPLO", "equation", "assert_msg", "api_name"}
# By base name: those of aten that take text and may be named, in PyTorch 2.13.
TAKE_TEXT = set("""_assert_async _assert_scalar _convolution_mode _functional_assert_async _functional_assert_scalar _linalg_check_errors _linalg_eigh
    _linalg_svd _segment_reduce_backward _sparse_mm conv1d conv2d conv3d div div_ divide divide_ einsum fft_fft fft_fft2 fft_fftn fft_hfft fft_hfft2
    fft_hfftn fft_ifft fft_ifft2 fft_ifftn fft_ihfft fft_ihfft2 fft_ihfftn fft_irfft fft_irfft2 fft_irfftn fft_rfft fft_rfft2 fft_rfftn gelu gelu_
    gelu_backward index_reduce index_reduce_ linalg_cond linalg_eigh linalg_eigvalsh linalg_lstsq linalg_matrix_norm linalg_norm linalg_qr linalg_svd
    linalg_svdvals meshgrid nanquantile pad pad_sequence quantile scatter scatter_ scatter_reduce scatter_reduce_ searchsorted segment_reduce
    stft""".split())


class Operator:
    def __init__(self, schema, why):
        self.schema, self.name, self.overload = schema, schema.name, schema.overload_name
        self.base = schema.name.partition("::")[2]
        self.why, self.why_in_archive = (why(self.name, self.overload, archive) for archive in (False, True))

    def texts(self):
        return {a.name for a in self.schema.arguments if "str" in str(a.type)}


@pytest.fixture(scope="module")
def operators(parts):
    registered = set(torch._C._dispatch_get_all_op_names())
    full = lambda s: s.name + ("." + s.overload_name if s.overload_name else "")  # noqa: E731
    found = [Operator(s, parts.why_not_admitted) for s in torch._C._jit_get_all_schemas() if full(s) in registered]
    assert len(found) > 3000
    return found


def core(operators):
    return [op for op in operators if op.name.split("::")[0] in CORE]


def test_admitted_operators_take_words_alone(operators):
    taking = [op for op in core(operators) if not op.why and op.texts()]
    assert {name for op in taking for name in op.texts()} <= TEXTS
    if torch.__version__.startswith("2.13."):
        assert {op.base for op in taking if op.name.startswith("aten::")} == TAKE_TEXT


def test_admitted_operators_take_no_objects(operators):
    for op in operators:
        if op.why or op.name.split("::")[0] not in (*CORE, "quantized", "onednn", "mkldnn", "_quantized"):
            continue
        types = {str(a.type) for a in op.schema.arguments} | {str(r.type) for r in op.schema.returns}
        assert not [t for t in types if t in ("Generator", "Any") or any(word in t for word in ("Storage", "Stream", "__torch__", "Dict", "Capsule"))], op.schema


def test_what_reaches_outside_is_refused(operators):
    refused = {op.name for op in operators if op.why}
    assert {"aten::from_file", "aten::_print", "aten::set_", "aten::resize_", "aten::set_data", "aten::record_stream", "aten::_reshape_alias",
            "prims::resize", "prims::as_strided", "prims::copy_to", "debugprims::load_tensor", "inductor::_reinterpret_tensor",
            "inductor::resize_storage_bytes_", "symm_mem::one_shot_all_reduce", "c10d::barrier"} <= refused | {
        name for name in ("prims::copy_to", "debugprims::load_tensor", "symm_mem::one_shot_all_reduce", "c10d::barrier")
        if not any(op.name == name for op in operators)}
    for op in operators:
        if op.name in ("aten::from_file", "aten::set_", "aten::resize_", "aten::resize_as_", "aten::_resize_output_"):
            assert op.why and op.why_in_archive, op.schema


def test_archives_name_less_than_recordings(operators):
    for op in operators:
        assert op.why_in_archive or not op.why, op.schema
        if op.name.split("::")[0] not in CORE:
            assert op.why_in_archive, op.schema


def test_nearly_all_of_aten_and_prims_is_admitted(operators):
    """What a refusal costs: what is no work of dense tensors on the CPU, or writes more than elements."""
    why = collections.Counter(op.why.partition(" (")[0] for op in core(operators))
    assert why[""] > 0.9 * len(core(operators)), why
    assert set(why) <= {"", "takes text", "takes a Storage", "takes a Stream", "takes a Generator", "makes a QScheme", "has no kernel for dense tensors of the CPU",
                        "changes the sizes or the memory of a tensor that it is given", "makes other memory for a tensor that it is given",
                        "changes a tensor that it is given, and gives nothing back", "writes what it is given", "neither takes a tensor nor makes one",
                        "checks no bounds of what it is given"} | {w for w in why if w.startswith(("takes a __torch__", "takes a QScheme", "makes a Dict"))}, why


def test_all_namespaces_of_a_fresh_process_are_known():
    code = """import torch
from ingot import _native
print(sorted({n.split("::")[0] for n in torch._C._dispatch_get_all_op_names() if _native.is_foreign_operator(n)}))"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
