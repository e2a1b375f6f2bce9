// SPDX-License-Identifier: Apache-2.0
#include "client/onnx/operators/operators.h"

#include <map>
#include <utility>

namespace ingot::onnx {

Results Moves(NodeCall&) { throw NodeError(Code::kInternal, "a mark was called"); }

std::vector<OperatorPart> AllOperators() {
  return {{"each element", ElementwiseOperators()},
          {"sizes", SizeOperators()},
          {"moving, filling up", MovingOperators()},
          {"positions", IndexOperators()},
          {"reductions, softmax, sorting", ReductionOperators()},
          {"products", ProductOperators()},
          {"norms", NormOperators()},
          {"convolution, pooling", WindowOperators()},
          {"quantized", QuantizedOperators()},
          {"resizing", ResizeOperators()},
          {"recurrent", RecurrentOperators()},
          {"attention", AttentionOperators()},
          {"branches, loops", ControlOperators()},
          {"com.microsoft", MicrosoftOperators(), "com.microsoft"},
          {"com.microsoft, attention", MicrosoftAttentionOperators(), "com.microsoft"},
          {"com.microsoft, quantized", MicrosoftQuantizedOperators(), "com.microsoft"}};
}

const Operator* FindOperator(std::string_view domain, std::string_view name) {
  static const auto* const by_name = [] {
    auto* made = new std::map<std::pair<std::string_view, std::string_view>, const Operator*>;
    for (const OperatorPart& part : AllOperators()) {
      for (const Operator& op : part.operators) made->emplace(std::pair(part.domain, op.name), &op);
    }
    return made;
  }();
  const auto found = by_name->find({domain, name});
  return found == by_name->end() ? nullptr : found->second;
}

}  // namespace ingot::onnx
