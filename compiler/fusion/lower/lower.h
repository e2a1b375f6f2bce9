// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "compiler/fusion/expr.h"
#include "compiler/ops/call.h"
#include "compiler/ops/op_table.h"
#include "compiler/ops/views.h"

namespace ingot::compiler::fusion {

using Results = std::vector<ExprId>;

struct Rule;

/// The index along a dim of what an expression is over.
inline Affine Along(size_t dim) { return Affine::Var(static_cast<uint16_t>(dim)); }

/// Elements of a tensor that integer tensors name: x[index, ...] as an expression over the sizes that this has.
struct Indexed {
  Dims sizes;
  std::vector<ExprId> indices;   ///< over `sizes`
  Coords map;                    ///< dims of x, over `sizes`; gathered terms name `indices`
};
/// `list`: one for each leading dim of x, or kNoValue. nullopt: no rule, with the reason.
std::optional<Indexed> IndexedBy(const Rule& rule, const Dims& table, const std::vector<ValueId>& list);
/// Coordinates in the operand of a view, from those of its result.
Coords CoordsOf(const ViewMap& map);
/// Positions in a tensor: i32 or i64 (torch takes bytes for a mask, and no other type); kNoExpr: another type.
ExprId IndexAt(const Rule& rule, ValueId id);
/// The dim that argument `arg` names, of `rank`.
std::optional<size_t> AxisAt(const Rule& rule, size_t arg, size_t rank);

/// What a rule works with: the node, and where expressions are made.
struct Rule {
  ExprPool& pool;
  Call call;
  std::string_view& why;   ///< of the last No()

  const Graph& graph() const { return call.graph(); }
  const Node& node() const { return call.node(); }
  const Type& result(size_t i = 0) const { return graph().type(node().results[i]); }
  /// Argument `i` in the computing type of `dtype`: a tensor, or any scalar as a constant.
  ExprId Operand(size_t i, DType dtype) const;
  /// The same as torch's loops read it: converted to `dtype` before the operation, which rounds
  /// what does not fit where that is f16 or bf16.
  ExprId Converted(size_t i, DType dtype) const;
  /// A tensor argument in its own computing type.
  ExprId Tensor(size_t i) const { return pool.Value(call.ValueAt(i)); }
  /// A scalar argument; `otherwise` where it is absent.
  double FloatAt(size_t i, double otherwise) const;
  /// No rule for this call, with the reason for people.
  Results No(std::string_view reason) const {
    why = reason;
    return {};
  }
};

/// An empty list: no rule for this call; it stays with ATen.
using LowerFn = Results (*)(const Rule& rule);

/// The rules of one family, by operator: a facet of ops.def, whose macro the family's source defines.
using RuleTable = OpTable<LowerFn>;
const RuleTable& PointwiseRules();
const RuleTable& ViewRules();
const RuleTable& MoveRules();
const RuleTable& ReduceRules();
const RuleTable& ScanRules();
const RuleTable& ContractRules();
const RuleTable& QuantizeRules();
const RuleTable& ConvRules();
const RuleTable& PoolRules();
/// Of nodes that work in place: what they store, an ExprPool::Scatter for each.
const RuleTable& WriteRules();
/// The nodes whose writes have become part of `write`, which stores `stored`.
std::vector<NodeId> WritesWithin(const Graph& graph, NodeId write, ExprId stored, const ExprPool& pool);
/// What a node stores that computes `value` into the memory of its operand, element by element.
Results InPlace(const Rule& rule, ExprId value);

/// Every operator that has a rule, sorted.
std::vector<std::string_view> ListRules();

/// One expression for each result of `node`, or empty where the node stays with ATen; `why` then says
/// why, in words that live as long as the program.
Results LowerNode(ExprPool& pool, const Node& node, std::string_view& why);

}  // namespace ingot::compiler::fusion
