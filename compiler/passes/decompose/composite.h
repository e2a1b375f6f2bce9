// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "compiler/ir/graph.h"
#include "compiler/ir/graph_builder.h"
#include "compiler/ops/call.h"

namespace ingot::compiler {

/// A node that is to become several, as the rules of decompose_*.cpp see it: its arguments, and nodes before it. A rule
/// gives a value for each result, or says why the node stays whole; what it has made until then goes again.
class Composite {
 public:
  Composite(Graph& graph, NodeId id)
      : graph_(graph),
        node_(graph.node(id)),
        call_(graph, node_),
        builder_(graph, id, GraphBuilder::Layout::kContiguous) {}

  const Call& call() const { return call_; }
  const std::string& op() const { return node_.op; }
  /// By value: nodes that are added move the graph's own.
  Type result(size_t i = 0) const { return graph_.type(node_.results[i]); }
  Type type(Ref value) const { return graph_.type(value.id); }

  /// An argument as it stands; `none` beyond the last.
  Arg At(size_t i) const { return i < node_.args.size() ? node_.args[i] : Arg(None{}); }
  /// kInvalid where the argument is no tensor.
  Result<Ref> Tensor(size_t i) const;
  /// The tensor, if there is one, else nothing.
  bool Has(size_t i) const { return call_.ValueAt(i) != kNoValue; }

  Result<Ref> Op(std::string_view op, std::vector<Arg> args) { return builder_.Op(op, std::move(args)); }
  /// Sums and products in which a number may take the place of the second operand.
  Result<Ref> Add(Ref a, Arg b) { return Op("aten.add.Tensor", {a, std::move(b)}); }
  Result<Ref> Sub(Ref a, Ref b) { return Op("aten.sub.Tensor", {a, b}); }
  Result<Ref> Mul(Ref a, Ref b) { return Op("aten.mul.Tensor", {a, b}); }
  /// The same elements with other sizes.
  Result<Ref> Reshape(Ref x, Dims sizes);
  Result<Ref> Permute(Ref x, const std::vector<size_t>& dims);
  Result<Ref> Slice(Ref x, size_t dim, Dim begin, Dim end);
  /// Checks nothing: where eager's layout does not follow from the operands.
  Ref Typed(std::string op, std::vector<Arg> args, Type type) {
    return builder_.Typed(std::move(op), std::move(args), std::move(type));
  }
  /// The value itself where it has the type.
  Result<Ref> Cast(Ref x, DType dtype);

 private:
  Graph& graph_;
  const Node node_;
  const Call call_;
  GraphBuilder builder_;
};

/// A value for each result of the node.
using Parts = Result<std::vector<Ref>>;

/// Why a node stays whole.
Error Whole(std::string why);

}  // namespace ingot::compiler
