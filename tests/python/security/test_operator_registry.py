# SPDX-License-Identifier: Apache-2.0
"""All operators of a process with Python in it are admitted or refused, and what is admitted takes nothing that reaches outside of tensors."""

import collections
import re
import subprocess
import sys

import pytest
import torch
import torch.distributed  # registers operators of its own
from conftest import ROOT
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


# What begins with an underscore, PyTorch's word for what is its own, and may stand in an archive, by base name (PyTorch 2.13).
OWN = set("""_adaptive_avg_pool2d _adaptive_avg_pool3d _addmm_activation _assert_async _assert_scalar _assert_tensor_metadata _batch_norm_impl_index
    _batch_norm_with_update _batch_norm_with_update_functional _cdist_forward _choose_qparams_per_tensor _chunk_cat _conj _conj_copy _conj_physical
    _convert_weight_to_int4pack_for_cpu _convolution _convolution_mode _dyn_quant_matmul_4bit _dyn_quant_pack_4bit_weight _embedding_bag
    _euclidean_dist _fake_quantize_per_tensor_affine_cachemask_tensor_qparams _fft_c2c _fft_c2r _fft_r2c _functional_assert_async
    _functional_assert_scalar _functional_sym_constrain_range _functional_sym_constrain_range_for_size _fused_rms_norm _grouped_mm _int_mm
    _is_all_true _is_any_true _linalg_check_errors _linalg_det _linalg_eigh _linalg_eigvals _linalg_slogdet _linalg_solve_ex _linalg_svd
    _local_scalar_dense _log_softmax _logcumsumexp _masked_softmax _native_batch_norm_legit _native_batch_norm_legit_functional
    _native_batch_norm_legit_no_training _native_multi_head_attention _neg_view _neg_view_copy _pad_circular _pad_enum _pdist_forward _prelu_kernel
    _reshape_copy _safe_softmax _scaled_dot_product_attention_math _scaled_dot_product_flash_attention_for_cpu _scaled_mm _softmax _stack _to_copy
    _transformer_encoder_layer_fwd _trilinear _unique2 _unsafe_index _unsafe_index_put _unsafe_masked_index _unsafe_masked_index_put_accumulate
    _unsafe_view _upsample_bicubic2d_aa _upsample_bilinear2d_aa _upsample_lanczos2d_aa _upsample_nearest_exact1d _upsample_nearest_exact2d
    _upsample_nearest_exact3d _weight_int4pack_mm_for_cpu _weight_int8pack_mm _weight_norm _weight_norm_interface""".split())
# Others of aten that an archive may not name, and a recording may: they believe indices, sizes or packed memory.
BELIEVE = set("""batch_norm_update_stats ctc_loss cudnn_affine_grid_generator cudnn_convolution_add_relu cudnn_convolution_relu cudnn_convolution_transpose
    cudnn_grid_sampler cudnn_is_acceptable fbgemm_linear_fp16_weight fbgemm_linear_fp16_weight_fp32_activation fbgemm_linear_int8_weight
    fbgemm_linear_int8_weight_fp32_activation fbgemm_linear_quantize_weight fbgemm_pack_gemm_matrix_fp16 fbgemm_pack_quantized_matrix
    fractional_max_pool2d fractional_max_pool3d fused_moving_avg_obs_fake_quant gru linalg_ldl_solve linalg_lu_solve lstm lu_solve miopen_batch_norm
    miopen_convolution miopen_convolution_transpose miopen_ctc_loss miopen_depthwise_convolution miopen_rnn mkldnn_convolution mkldnn_linear
    mkldnn_max_pool2d mkldnn_max_pool3d mkldnn_reorder_conv2d_weight mkldnn_reorder_conv3d_weight mkldnn_rnn_layer quantized_gru_cell
    quantized_lstm_cell quantized_rnn_relu_cell quantized_rnn_tanh_cell rnn_relu rnn_tanh rrelu_with_noise rrelu_with_noise_functional segment_reduce
    slice_inverse sparse_bsc_tensor sparse_bsr_tensor sparse_compressed_tensor sparse_coo_tensor sparse_csc_tensor sparse_csr_tensor sparse_dim
    sparse_mask sparse_resize sparse_resize_and_clear""".split())


def is_gradient(base):
    return "backward" in base or base.endswith(("_grad", "_jvp")) and base != "retain_grad"


def plain(base):
    return base[:-1] if base.endswith("_") and not base.endswith("__") else base


def is_own(base):
    return base.startswith("_") and not base.startswith("__")


def test_an_archive_names_nothing_that_believes_indices_or_sizes(operators):
    """The whole registry by one rule: no gradients; of what is PyTorch's own, Core ATen and a list; and not the others that believe."""
    own, believe = set(), set()
    for op in core(operators):
        if op.why:
            continue
        if is_gradient(op.base):
            assert "gradients" in op.why_in_archive, op.schema
        elif is_own(plain(op.base)):
            is_core = torch.Tag.core in torch._C._get_operation_overload(op.name, op.overload)[2]
            assert not is_core or not op.why_in_archive, op.schema
            if op.why_in_archive:
                assert "PyTorch's own use" in op.why_in_archive, op.schema
            else:
                own.add(plain(op.base))
        elif op.why_in_archive:
            assert "believes" in op.why_in_archive, op.schema
            believe.add(plain(op.base))
    if torch.__version__.startswith("2.13."):
        assert own == OWN
        assert believe == BELIEVE


def test_an_archive_may_name_all_that_the_compiler_has_rules_for(operators):
    """What ops.def knows is forward, and looks at what it is given."""
    known = set(re.findall(r'^(?:OP|OTHER)\("((?:aten|prims)\.[A-Za-z_0-9.]+)"', (ROOT / "compiler/ops/ops.def").read_text(), re.MULTILINE))
    assert len(known) > 300
    full = lambda op: op.name.replace("::", ".") + ("." + op.overload if op.overload else "")  # noqa: E731
    missing = {full(op) for op in core(operators) if full(op) in known and not op.why and op.why_in_archive}
    assert not missing


def test_all_namespaces_of_a_fresh_process_are_known():
    code = """import torch
from ingot import _native
print(sorted({n.split("::")[0] for n in torch._C._dispatch_get_all_op_names() if _native.is_foreign_operator(n)}))"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
