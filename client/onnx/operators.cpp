// SPDX-License-Identifier: Apache-2.0
#include "client/onnx/operators.h"

#include <algorithm>
#include <unordered_map>

namespace ingot::onnx {

Results Moves(NodeCall&) { throw NodeError(Code::kInternal, "a mark was called"); }

std::vector<const Operator*> AllOperators() {
  std::vector<const Operator*> all;
  for (const auto& part : {ElementwiseOperators(), SizeOperators(), MovingOperators(), IndexOperators(),
                           ReductionOperators(), ProductOperators(), NormOperators(), WindowOperators(),
                           QuantizedOperators(), ResizeOperators()}) {
    for (const Operator& op : part) all.push_back(&op);
  }
  std::ranges::sort(all, {}, &Operator::name);
  return all;
}

const Operator* FindOperator(std::string_view name) {
  static const auto* const by_name = [] {
    auto* made = new std::unordered_map<std::string_view, const Operator*>;
    for (const Operator* op : AllOperators()) made->emplace(op->name, op);
    return made;
  }();
  const auto found = by_name->find(name);
  return found == by_name->end() ? nullptr : found->second;
}

}  // namespace ingot::onnx
