// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

namespace ingot::proto {

/// Whose operators the operators of one namespace are, and so what is known of them. All but kForeign are PyTorch's:
/// its version says what they compute; kInner has Ingot's too.
enum class OperatorSpace : uint8_t {
  kCore,           ///< computes what it is given; schema and tags say what it writes and whether it draws numbers
  kCollective,     ///< the functional collectives: draw nothing, and a recording can express most
  kCommunication,  ///< talks to other ranks in ways that no recording expresses
  kProfiler,       ///< names a region, computes nothing
  kBundled,        ///< tags do not say all: quantized::dropout draws
  kInner,          ///< for PyTorch's own use: checks nothing, reads files, or moves memory behind tensors
  kForeign,
};

/// By what stands before the "::" of a schema's name, or before the "." of a graph's.
constexpr OperatorSpace OperatorSpaceOf(std::string_view op) {
  using enum OperatorSpace;
  constexpr std::pair<std::string_view, OperatorSpace> kOwn[] = {{"aten", kCore},
                                                                 {"prims", kCore},
                                                                 {"_c10d_functional", kCollective},
                                                                 {"_c10d_functional_autograd", kCommunication},
                                                                 {"_dtensor", kCommunication},
                                                                 {"c10d", kCommunication},
                                                                 {"c10d_functional", kCommunication},
                                                                 {"symm_mem", kCommunication},
                                                                 {"profiler", kProfiler},
                                                                 {"_quantized", kBundled},
                                                                 {"mkl", kBundled},
                                                                 {"mkldnn", kBundled},
                                                                 {"mkldnn_prepacked", kBundled},
                                                                 {"onednn", kBundled},
                                                                 {"prepacked", kBundled},
                                                                 {"prim", kBundled},
                                                                 {"quantization", kBundled},
                                                                 {"quantized", kBundled},
                                                                 {"sparse", kBundled},
                                                                 {"xnnpack", kBundled},
                                                                 {"_inductor_test", kInner},
                                                                 {"_native", kInner},
                                                                 {"_test", kInner},
                                                                 {"aoti_torch", kInner},
                                                                 {"cuda", kInner},
                                                                 {"cudnn", kInner},
                                                                 {"debug_mode_ops", kInner},
                                                                 {"debugprims", kInner},
                                                                 {"export", kInner},
                                                                 {"flex_lib", kInner},
                                                                 {"fsdp", kInner},
                                                                 {"inductor", kInner},
                                                                 {"inductor_prims", kInner},
                                                                 {"ingot_client", kInner},
                                                                 {"rngprims", kInner},
                                                                 {"static_runtime", kInner},
                                                                 {"streams", kInner},
                                                                 {"tensorexpr", kInner}};
  const std::string_view space = op.substr(0, op.find_first_of(":."));
  for (const auto& [name, kind] : kOwn) {
    if (name == space) return kind;
  }
  return kForeign;
}

/// Whether it is a schema's name: "aten::add", or "aten::add.Tensor" with its overload.
constexpr bool IsOperatorName(std::string_view op) {
  const size_t colons = op.find("::");
  if (colons == 0 || colons == op.npos) return false;
  const auto is_word = [](std::string_view word) {
    for (const char c : word) {
      if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_')) return false;
    }
    return !word.empty();
  };
  const std::string_view rest = op.substr(colons + 2);
  const size_t dot = rest.find('.');
  return is_word(op.substr(0, colons)) && is_word(rest.substr(0, dot)) &&
         (dot == rest.npos || is_word(rest.substr(dot + 1)));
}

/// Whether a file or a recording may name operators of it at all. What each of them may do, its schema says
/// (client/lib/run/admitted_operator.h).
constexpr bool IsAdmitted(OperatorSpace space) {
  return space != OperatorSpace::kInner && space != OperatorSpace::kCommunication && space != OperatorSpace::kProfiler;
}

}  // namespace ingot::proto
