// SPDX-License-Identifier: Apache-2.0
#include "compiler/ir/written_memories.h"

namespace ingot::compiler {

WrittenMemories::WrittenMemories(const Node& node) : own_args(node.args.size()), own_results(node.results.size()) {
  const size_t count = node.args.size();
  if ((node.effects & kWrites) == 0 || count < 2) return;
  const auto* list = std::get_if<RefList>(&node.args[count - 1]);
  const auto* of = std::get_if<Dims>(&node.args[count - 2]);
  if (list == nullptr || of == nullptr || list->ids.size() != of->size() || list->ids.size() > own_results) return;
  values = list->ids;
  inputs = *of;
  own_args = count - 2;
  own_results -= values.size();
}

bool IsTaken(const Graph& graph, ValueId memory) {
  const NodeId def = graph.value(memory).def;
  return def != kNoNode && graph.node(def).op == kMemoryOp;
}

}  // namespace ingot::compiler
