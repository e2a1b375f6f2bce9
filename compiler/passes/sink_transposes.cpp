// SPDX-License-Identifier: Apache-2.0
#include "compiler/ops/call.h"
#include "compiler/ops/ops.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/rewrite.h"

namespace ingot::compiler {
namespace {

/// Operands that the operator's kernel reads with any leading dimension, first and last + 1.
/// matmul and linear are not here: they reshape operands and copy where that needs it.
std::pair<size_t, size_t> MatrixOperands(const Node& node) {
  if (node.op == "aten.mm" || node.op == "aten.bmm") return {0, 2};
  if (node.op == "aten.addmm" || node.op == "aten.baddbmm") return {1, 3};
  return {0, 0};
}

/// A matrix (or batch of them) that a BLAS reads without a copy: one of the last two dims is
/// dense and the other steps over at least its length.
bool IsBlasLayout(const Type& type) {
  const size_t rank = type.rank();
  if (rank < 2 || rank > 3) return false;
  for (size_t i = 0; i < rank; ++i) {
    if (!type.sizes[i].is_const() || !type.strides[i].is_const()) return false;
  }
  const int64_t rows = type.sizes[rank - 2].const_value(), columns = type.sizes[rank - 1].const_value();
  const int64_t row = type.strides[rank - 2].const_value(), column = type.strides[rank - 1].const_value();
  return (column == 1 && row >= std::max<int64_t>(columns, 1)) || (row == 1 && column >= std::max<int64_t>(rows, 1));
}

/// The value whose copy `id` is, where the copy only made it contiguous.
ValueId CopiedValue(const Graph& graph, ValueId id) {
  const Node* def = Definition(graph, id);
  if (!def || !IsPure(*def) || (def->op != "aten.clone" && def->op != "aten.contiguous")) {
    return kNoValue;
  }
  return Call(graph, *def).ValueAt(0);
}

}  // namespace

Result<bool> SinkTransposes(Graph& graph) {
  bool changed = false;
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    const auto [first, last] = MatrixOperands(node);
    for (size_t i = first; i < std::min(last, node.args.size()); ++i) {
      const Ref* ref = std::get_if<Ref>(&node.args[i]);
      // A copy that others need is made anyway, and dense rows read fastest.
      if (!ref || graph.use_count(ref->id) != 1) continue;
      const ValueId source = CopiedValue(graph, ref->id);
      if (source == kNoValue || !IsBlasLayout(graph.type(source))) continue;
      graph.SetArg(id, i, Ref{source});
      changed = true;
    }
  }
  return changed;
}

}  // namespace ingot::compiler
