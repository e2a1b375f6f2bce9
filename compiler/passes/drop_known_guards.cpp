// SPDX-License-Identifier: Apache-2.0
#include "compiler/ops/call.h"
#include "compiler/ops/infer.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/rewrite.h"

namespace ingot::compiler {
namespace {

/// The sizes of `id` are a function of input sizes, which the caller's guards have checked.
bool HasInferredSizes(const Graph& graph, ValueId id, const Dims& sizes) {
  const Node* def = Definition(graph, id);
  if (!def) return id != kNoValue && graph.type(id).sizes == sizes;
  const auto results = Infer(graph, *def);
  return results && (*results)[graph.value(id).result].sizes == sizes;
}

/// The value is a number that is written in the graph, and it is the expected one.
bool IsFilledWith(const Graph& graph, ValueId id, const Number& expected) {
  const Node* def = Definition(graph, id);
  if (!def || def->op != "aten.full" || graph.type(id).rank() != 0) return false;
  const auto found = Call(graph, *def).ScalarAt(1);
  return found && *found == expected;
}

bool CannotFail(const Graph& graph, const Node& node) {
  const Call call(graph, node);
  if (node.op == "guard.shape") {
    const Dims* sizes = call.Get<Dims>(1);
    return sizes && HasInferredSizes(graph, call.ValueAt(0), *sizes);
  }
  if (node.op != "guard.equal") return false;
  const Number* expected = call.Get<Number>(1);
  return expected && IsFilledWith(graph, call.ValueAt(0), *expected);
}

}  // namespace

Result<bool> DropKnownGuards(Graph& graph) {
  std::vector<NodeId> kept;
  for (NodeId id : graph.order()) {
    if (!CannotFail(graph, graph.node(id))) kept.push_back(id);
  }
  if (kept.size() == graph.order().size()) return false;
  graph.SetOrder(std::move(kept));
  return true;
}

}  // namespace ingot::compiler
