// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "compiler/ir/graph.h"

namespace ingot::compiler {

/// Adds nodes to a graph: at its end, or before one of its nodes.
///
///   GraphBuilder builder(graph);
///   TRY_ASSIGN(const Ref sum, builder.Op("aten.add.Tensor", {x, y}));          // alpha is 1
///   TRY_ASSIGN(const Ref half, builder.Op("aten.mul.Tensor", {sum, 0.5}));     // number 0.5
///   TRY_ASSIGN(const Ref mean, builder.Op("aten.mean.dim", {half, Dim(-1)}));  // [-1], false, none
///
/// Op() checks arguments against the operator's schema (compiler/ops/schema.h), converts them as PyTorch does and
/// fills in defaults, so that equal calls are equal nodes. Sizes and element types are inferred, and layouts where
/// eager's follow from the operands' (views; contiguous operands; operands of one layout, element by element).
/// Errors name the operator, the operand and what was expected: kInvalid for arguments, kUnsupported where nobody
/// infers the results, whose types Typed() takes.
class GraphBuilder {
 public:
  /// What to do where eager's layout of a result does not follow from the operands: kRefuse, or lay it out
  /// contiguously, which is right for values that only nodes added here read.
  enum class Layout : uint8_t { kRefuse, kContiguous };

  /// `before` must be in the graph's order as long as the builder is used.
  explicit GraphBuilder(Graph& graph, NodeId before = kNoNode, Layout otherwise = Layout::kRefuse)
      : graph_(graph), before_(before), otherwise_(otherwise) {}

  /// An input that the graph carries: elements row by row, little-endian. kInvalid where bytes are missing or left
  /// over.
  Result<Ref> Constant(std::string name, DType dtype, Dims sizes, std::string bytes);
  /// An operator of one result.
  Result<Ref> Op(std::string_view op, std::vector<Arg> args);
  /// An operator of any number of results.
  Result<std::vector<Ref>> Ops(std::string_view op, std::vector<Arg> args);
  /// Checks nothing: for who knows all arguments and the type, as eager saw it.
  Ref Typed(std::string op, std::vector<Arg> args, Type type);

 private:
  Result<NodeId> AddInferred(std::string_view op, std::vector<Arg> args, bool has_one);
  Result<std::vector<Type>> TypesOf(const Node& node) const;
  NodeId Add(Node node, std::vector<Type> types);

  Graph& graph_;
  NodeId before_;
  Layout otherwise_;
};

}  // namespace ingot::compiler
