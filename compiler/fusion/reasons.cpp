// SPDX-License-Identifier: Apache-2.0
#include "compiler/fusion/reasons.h"

#include <utility>

namespace ingot::compiler {
namespace {

constexpr std::pair<std::string_view, std::string_view> kNames[] = {
    {"no rule for this operator", "no-rule"},
    {"it has effects", "effects"},
    {"it works in place", "in-place"},
    {"it has no result", "no-result"},
    {"complex numbers", "complex"},
    {"computes on float8", "float8"},
    {"numerics as eager's", "eager-numerics"},
    {"PyTorch's library multiplies these faster", "library"},
    {"PyTorch's library convolves other types than f32 faster", "library"},
    {"a view of memory", "view"},
    {"loops cannot follow its index maps", "index-maps"},
    {"the operands of a product lie in memory as no vector reads them", "layout"},
    {"channels lie apart", "layout"},
};

}  // namespace

std::string_view ReasonName(std::string_view why) {
  for (const auto& [text, name] : kNames) {
    if (why == text) return name;
  }
  return "case";
}

}  // namespace ingot::compiler
