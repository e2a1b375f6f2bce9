// SPDX-License-Identifier: Apache-2.0
#include "client/lib/run/believing_operator.h"

#include <ATen/core/enum_tag.h>

#include <algorithm>

namespace ingot::client {
namespace {

constexpr std::string_view kGradients = "computes gradients, and believes the indices and sizes that it is given";
constexpr std::string_view kOwn = "is for PyTorch's own use, and may believe the indices and sizes that it is given";
constexpr std::string_view kBelieves = "believes indices, sizes or packed memory that it is given";

/// Forward operators with an underscore that exports name, with or without decompositions. They look at what they are
/// given, or say what sizes and values are.
constexpr std::string_view kForward[] = {
    // What is said of values and sizes.
    "_assert_async",
    "_assert_scalar",
    "_assert_tensor_metadata",
    "_functional_assert_async",
    "_functional_assert_scalar",
    "_functional_sym_constrain_range",
    "_functional_sym_constrain_range_for_size",
    "_is_all_true",
    "_is_any_true",
    // Elements, views and conversions.
    "_conj",
    "_conj_copy",
    "_conj_physical",
    "_neg_view",
    "_neg_view_copy",
    "_reshape_copy",
    "_unsafe_view",
    "_prelu_kernel",
    "_logcumsumexp",
    "_stack",
    "_chunk_cat",
    "_pad_circular",
    "_pad_enum",
    "_unique2",
    "_weight_norm",
    "_weight_norm_interface",
    // Indices, which are compared with bounds like those of `index`, or clamped.
    "_unsafe_index",
    "_unsafe_index_put",
    "_unsafe_masked_index",
    "_unsafe_masked_index_put_accumulate",
    // Attention, norms, products and convolutions.
    "_safe_softmax",
    "_masked_softmax",
    "_scaled_dot_product_attention_math",
    "_scaled_dot_product_flash_attention_for_cpu",
    "_native_multi_head_attention",
    "_transformer_encoder_layer_fwd",
    "_fused_rms_norm",
    "_batch_norm_impl_index",
    "_native_batch_norm_legit_functional",
    "_batch_norm_with_update",
    "_batch_norm_with_update_functional",

    "_convolution",
    "_convolution_mode",
    "_trilinear",
    "_euclidean_dist",
    "_addmm_activation",
    "_int_mm",
    "_scaled_mm",
    "_grouped_mm",
    "_scaled_grouped_mm",
    "_weight_int8pack_mm",
    "_weight_int4pack_mm_for_cpu",
    "_convert_weight_to_int4pack_for_cpu",
    "_dyn_quant_matmul_4bit",
    "_dyn_quant_pack_4bit_weight",
    "_choose_qparams_per_tensor",
    "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams",
    // Images.
    "_upsample_bicubic2d_aa",
    "_upsample_bilinear2d_aa",
    "_upsample_lanczos2d_aa",
    "_upsample_nearest_exact1d",
    "_upsample_nearest_exact2d",
    "_upsample_nearest_exact3d",
    // Transforms and linear algebra, which look at their own results.
    "_fft_c2c",
    "_linalg_check_errors",
    "_linalg_det",
    "_linalg_eigh",
    "_linalg_eigvals",
    "_linalg_slogdet",
    "_linalg_solve_ex",
    "_linalg_svd",
};

/// Without an underscore.
constexpr std::string_view kOthers[] = {
    "ctc_loss",                // targets are indices into the probabilities
    "fractional_max_pool2d",   // samples say where windows begin
    "fractional_max_pool3d",   //
    "segment_reduce",          // so do offsets
    "linalg_ldl_solve",        // pivots are indices of rows
    "linalg_lu_solve",         //
    "lu_solve",                //
    "slice_inverse",           // a view's sizes
    "batch_norm_update_stats", // as many running means as there are channels
    "fused_moving_avg_obs_fake_quant",
    "rrelu_with_noise",
    "rrelu_with_noise_functional",
    // Packed weights.
    "quantized_gru_cell",
    "quantized_lstm_cell",
    "quantized_rnn_relu_cell",
    "quantized_rnn_tanh_cell",
};
constexpr std::string_view kPacked[] = {"fbgemm_", "mkldnn_", "cudnn_", "miopen_", "sparse_"};
/// Overloads of recurrent operators: lengths of packed sequences.
constexpr std::string_view kRecurrent[] = {"lstm", "gru", "rnn_tanh", "rnn_relu"};

template <typename List>
bool Has(const List& list, std::string_view name) {
  return std::ranges::find(list, name) != std::end(list);
}

}  // namespace

std::string_view WhyBelieving(const c10::OperatorHandle& op) {
  const c10::FunctionSchema& schema = op.schema();
  const std::string_view full = schema.name();
  std::string_view base = full.substr(full.find("::") + 2);
  const auto is_gradient = [base] {
    return base.find("backward") != base.npos || base.ends_with("_grad") || base.ends_with("_jvp");
  };
  if (is_gradient() && base != "retain_grad") return kGradients;
  // In place it is the same.
  if (base.ends_with('_') && !base.ends_with("__")) base.remove_suffix(1);
  const bool is_own = base.starts_with('_') && !base.starts_with("__");
  if (is_own) return op.hasTag(at::Tag::core) || Has(kForward, base) ? std::string_view() : kOwn;
  if (Has(kOthers, base)) return kBelieves;
  if (std::ranges::any_of(kPacked, [base](std::string_view prefix) { return base.starts_with(prefix); })) {
    return kBelieves;
  }
  if (Has(kRecurrent, base) && schema.overload_name().starts_with("data")) return kBelieves;
  return {};
}

}  // namespace ingot::client
