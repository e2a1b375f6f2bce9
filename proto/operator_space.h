// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

namespace ingot::proto {

/// Whose operators the operators of one namespace are, and so what is known of them. All but kForeign are PyTorch's:
/// its version says what they compute.
enum class OperatorSpace : uint8_t {
  kCore,           ///< computes what it is given; schema and tags say what it writes and whether it draws numbers
  kCollective,     ///< the functional collectives: draw nothing, and a recording can express most
  kCommunication,  ///< talks to other ranks in ways that no recording expresses
  kProfiler,       ///< names a region, computes nothing
  kBundled,        ///< tags do not say all: quantized::dropout draws
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
                                                                 {"mkldnn", kBundled},
                                                                 {"onednn", kBundled},
                                                                 {"prim", kBundled},
                                                                 {"quantized", kBundled}};
  const std::string_view space = op.substr(0, op.find_first_of(":."));
  for (const auto& [name, kind] : kOwn) {
    if (name == space) return kind;
  }
  return kForeign;
}

}  // namespace ingot::proto
