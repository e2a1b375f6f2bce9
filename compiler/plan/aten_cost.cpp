// SPDX-License-Identifier: Apache-2.0
#include "compiler/plan/aten_cost.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "compiler/ops/call.h"
#include "compiler/ops/op_table.h"
#include "compiler/ops/ops.h"

namespace ingot::compiler {
namespace {

/// What an operator does beside what its class says.
enum class Work : uint8_t {
  kMoves,  ///< a pointwise one that computes nothing
  kFolds,  ///< one operation for each element of the operand
  kPicks,  ///< reads as much of its first operand as its result holds
};

std::optional<Work> WorkOf(std::string_view op) {
  using enum Work;
  static const OpTable<Work> works = [] {
    OpTable<Work> table;
#define WORK(kind) , kind
#include "compiler/ops/ops.def"
    return table;
  }();
  const Work* work = works.Of(op);
  return work ? std::optional(*work) : std::nullopt;
}

/// Which argument is the left matrix, and whether something is added to the product.
struct Product {
  size_t left = 0;
  size_t added = ~size_t{0};
};

const OpTable<Product>& Products() {
  static const OpTable<Product> products = [] {
    OpTable<Product> table;
#define PRODUCT(...) \
  , Product { __VA_ARGS__ }
#include "compiler/ops/ops.def"
    return table;
  }();
  return products;
}

Dim Touched(const Type& type) {
  Dim count(1);
  for (size_t i = 0; i < type.rank(); ++i) {
    if (!type.strides[i].is_zero()) count = count * type.sizes[i];
  }
  return count;
}

Dim ItemOf(const Type& type) { return Dim(static_cast<int64_t>(guards::SizeOf(type.dtype))); }

Moved MovedOf(const Type& type) { return {type.Extent() * ItemOf(type), Touched(type) * ItemOf(type)}; }

std::optional<Dim> ContractionFlops(const Call& call) {
  const Type& result = call.graph().type(call.node().results[0]);
  if (const Product* product = Products().Of(call.node().op)) {
    const Type* left = call.TypeAt(product->left);
    if (left == nullptr || left->rank() == 0) return std::nullopt;
    const bool adds = product->added < call.size() && call.TypeAt(product->added) != nullptr;
    return result.Elements() * (Dim(2) * left->sizes.back() + Dim(adds ? 1 : 0));
  }
  const bool is_transposed = call.node().op.starts_with("aten.conv_transpose");
  if (!call.node().op.starts_with("aten.conv")) return std::nullopt;
  const Type *input = call.TypeAt(0), *weight = call.TypeAt(1);
  if (input == nullptr || weight == nullptr || weight->rank() < 2) return std::nullopt;
  // Each element of the one side meets the weights of one place of the other.
  const Dim meets = guards::Product(std::span(weight->sizes).subspan(1));
  const Dim bias = call.TypeAt(2) != nullptr ? result.Elements() : Dim(0);
  return Dim(2) * meets * (is_transposed ? input->Elements() : result.Elements()) + bias;
}

std::optional<Dim> AttentionFlops(const Call& call) {
  const Type *query = call.TypeAt(0), *key = call.TypeAt(1), *value = call.TypeAt(2);
  const bool is_known = call.node().op == "aten.scaled_dot_product_attention" && query != nullptr && key != nullptr &&
                        value != nullptr && query->rank() >= 2 && key->rank() >= 2 && value->rank() >= 2;
  if (!is_known) return std::nullopt;
  const Dim rows = guards::Product(std::span(query->sizes).first(query->rank() - 1));
  return Dim(2) * rows * key->sizes[key->rank() - 2] * (query->sizes.back() + value->sizes.back());
}

std::optional<Dim> FlopsOf(const Call& call) {
  const Node& node = call.node();
  const OpInfo* const op = FindOp(node.op);
  if (op == nullptr || node.results.empty()) return std::nullopt;
  const Type& result = call.graph().type(node.results[0]);
  if (guards::IsComplex(result.dtype)) return std::nullopt;
  switch (op->op_class) {
    case OpClass::kPointwise:
      return guards::IsFloat(result.dtype) && WorkOf(node.op) != Work::kMoves ? result.Elements() : Dim(0);
    case OpClass::kReduction: {
      const Type* const from = call.TypeAt(0);
      if (from == nullptr || WorkOf(node.op) != Work::kFolds) return std::nullopt;
      return guards::IsFloat(from->dtype) ? from->Elements() : Dim(0);
    }
    case OpClass::kContraction: return ContractionFlops(call);
    case OpClass::kAttention: return AttentionFlops(call);
    case OpClass::kGather: return WorkOf(node.op) == Work::kPicks ? std::optional(Dim(0)) : std::nullopt;
    case OpClass::kView:
    case OpClass::kShape:
    case OpClass::kCreation: return Dim(0);
    default: return std::nullopt;
  }
}

}  // namespace

Cost AtenCostOf(const Graph& graph, const Node& node) {
  const Call call(graph, node);
  Cost cost{FlopsOf(call), DType::kF32, {}, {}};
  for (size_t i = 0; i < call.size(); ++i) {
    const Type* const type = call.TypeAt(i);
    if (type == nullptr || !guards::IsFloat(type->dtype)) continue;
    // A mask or bias may be of another type than what is computed with.
    cost.dtype = type->dtype == DType::kF64 || type->dtype == DType::kBF16 ? type->dtype : DType::kF32;
    break;
  }
  if (ClassOf(node) == OpClass::kView) return cost;
  std::vector<ValueId> seen;
  ForEachOperand(node, [&](ValueId id) {
    if (std::ranges::find(seen, id) != seen.end()) return;
    const bool is_picked_from = seen.empty() && WorkOf(node.op) == Work::kPicks && !node.results.empty();
    seen.push_back(id);
    Moved moved = MovedOf(graph.type(id));
    if (is_picked_from) moved.accessed = graph.type(node.results[0]).Elements() * ItemOf(graph.type(id));
    cost.reads.push_back(std::move(moved));
  });
  for (const ValueId id : node.results) cost.writes.push_back(MovedOf(graph.type(id)));
  return cost;
}

}  // namespace ingot::compiler
