// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/operator_sizes.h"

#include "compiler/import/size_rules.h"
#include "compiler/ops/call.h"
#include "compiler/ops/op_table.h"
#include "compiler/ops/ops.h"

namespace ingot::compiler {
namespace {

constexpr int64_t kF16Max = 65519;   // the last integer that is rounded to a finite number

/// The integers that PyTorch converts to a type that does not take all of 64 bits. Below 0 those without a sign wrap.
std::optional<std::pair<int64_t, int64_t>> LimitsOf(DType dtype) {
  switch (dtype) {
    case DType::kU8: return {{-UINT8_MAX, UINT8_MAX}};
    case DType::kI8: return {{INT8_MIN, INT8_MAX}};
    case DType::kI16: return {{INT16_MIN, INT16_MAX}};
    case DType::kI32: return {{INT32_MIN, INT32_MAX}};
    case DType::kF16: return {{-kF16Max, kF16Max}};
    default: return std::nullopt;
  }
}

/// Numbers that are arguments of their own, unlike those in the place of a tensor, must fit the type that they are
/// converted to: eager refuses others.
void NoteNumbersFit(const Graph& graph, const Node& node, Sizes& sizes) {
  const auto limits = LimitsOf(graph.type(node.results[0]).dtype);
  if (!limits) return;
  for (const Arg& arg : node.args) {
    const Dim* number = std::get_if<Dim>(&arg);
    if (number == nullptr || number->is_const()) continue;
    const int64_t seen = sizes.Seen(*number);
    if (seen < limits->first || seen > limits->second) continue;
    sizes.AtLeastZero(*number - Dim(limits->first));
    sizes.AtLeastZero(Dim(limits->second) - *number);
  }
}

using Rule = bool (*)(const Call& call, Sizes& sizes);

const OpTable<Rule>& Rules() {
  using namespace size_rules;
  static const OpTable<Rule> rules = [] {
    OpTable<Rule> table;
#define SIZES(rule) , rule
#include "compiler/ops/ops.def"
    return table;
  }();
  return rules;
}

}  // namespace

std::optional<std::vector<Inferred>> InferWithin(const Graph& graph, const Node& node) {
  if (node.op != "aten.slice.Tensor") return Infer(graph, node);
  const Call call(graph, node);
  const Type* operand = call.TypeAt(0);
  const auto dim = call.IsNone(1) ? std::optional<int64_t>(0) : call.IntAt(1);
  const auto step = call.IsNone(4) ? std::optional<int64_t>(1) : call.IntAt(4);
  const auto start = call.DimAt(2), end = call.DimAt(3);
  if (!operand || !dim || !step || !start || !end) return Infer(graph, node);
  const auto at = WrapDim(*dim, operand->rank());
  const auto length = FloorQuotient(*end - *start + Dim(*step - 1), Dim(*step));
  if (!length || !at || *at >= operand->rank()) return std::nullopt;
  Type type = *operand;
  type.sizes[*at] = *length;
  type.strides[*at] = type.strides[*at] * Dim(*step);
  return std::vector<Inferred>{{type.dtype, type.sizes, type.strides}};
}

bool NoteOperator(const Graph& graph, const Node& node, Sizes& sizes) {
  const OpInfo* op = FindOp(node.op);
  if (op == nullptr || op->infer == nullptr) return false;
  if (op->op_class == OpClass::kPointwise || op->op_class == OpClass::kCreation) NoteNumbersFit(graph, node, sizes);
  if (const Rule* rule = Rules().Of(node.op)) {
    const Call call(graph, node);
    return (*rule)(call, sizes) && !call.misread();
  }
  // Of these classes inference says all.
  switch (op->op_class) {
    case OpClass::kPointwise:
    case OpClass::kView:
    case OpClass::kReduction:
    case OpClass::kCreation: return true;
    default: return false;
  }
}

}  // namespace ingot::compiler
