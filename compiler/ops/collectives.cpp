// SPDX-License-Identifier: Apache-2.0
#include "compiler/ops/collectives.h"

#include <algorithm>
#include <vector>

#include "proto/group_slot.h"
#include "proto/operator_space.h"

namespace ingot::compiler {
namespace {

struct Collective {
  std::string_view op;
  size_t group = 0;  // position of the group argument
};

constexpr std::string_view kWait = "_c10d_functional.wait_tensor";
constexpr Collective kCollectives[] = {
    {"_c10d_functional.all_reduce", 2},
    {"_c10d_functional.all_reduce_coalesced", 2},
    {"_c10d_functional.all_gather_into_tensor", 2},
    {"_c10d_functional.all_gather_into_tensor_coalesced", 2},
    {"_c10d_functional.reduce_scatter_tensor", 3},
    {"_c10d_functional.reduce_scatter_tensor_coalesced", 3},
    {"_c10d_functional.all_to_all_single", 3},
    {"_c10d_functional.broadcast", 2},
};

const Collective* Find(std::string_view op) {
  const auto at = std::find_if(std::begin(kCollectives), std::end(kCollectives),
                               [op](const Collective& one) { return one.op == op; });
  return at == std::end(kCollectives) ? nullptr : at;
}

}  // namespace

bool StartsCollective(std::string_view op) { return Find(op) != nullptr; }

bool WaitsForCollective(std::string_view op) { return op == kWait; }

bool IsCommunication(std::string_view op) {
  const auto space = proto::OperatorSpaceOf(op);
  return space == proto::OperatorSpace::kCollective || space == proto::OperatorSpace::kCommunication;
}

std::optional<uint32_t> GroupSlotOf(const Node& node) {
  const Collective* collective = Find(node.op);
  if (collective == nullptr || collective->group >= node.args.size()) return std::nullopt;
  const Name* name = std::get_if<Name>(&node.args[collective->group]);
  return name == nullptr ? std::nullopt : proto::ParseGroupSlot(*name);
}

uint32_t GroupCount(const Graph& graph) {
  uint32_t count = 0;
  for (const NodeId id : graph.order()) {
    if (const auto slot = GroupSlotOf(graph.node(id))) count = std::max(count, *slot + 1);
  }
  return count;
}

RefList OperandsInFlight(const Node& collective) {
  RefList operands;
  ForEachOperand(collective, [&operands](ValueId id) { operands.ids.push_back(id); });
  return operands;
}

const Node* WaitedFor(const Graph& graph, const Node& wait) {
  const Ref* operand = wait.args.empty() ? nullptr : std::get_if<Ref>(&wait.args[0]);
  if (operand == nullptr || operand->id >= graph.value_count()) return nullptr;
  const NodeId def = graph.value(operand->id).def;
  if (def == kNoNode || !StartsCollective(graph.node(def).op)) return nullptr;
  return &graph.node(def);
}

std::optional<CommunicationFault> FindCommunicationFault(const Graph& graph) {
  enum State : uint8_t { kPlain, kUnwaited, kWaited };
  std::vector<State> states(graph.value_count(), kPlain);
  bool any = false;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (!IsCommunication(node.op)) {
      bool early = false;
      if (any) ForEachOperand(node, [&](ValueId value) { early |= states[value] != kPlain; });
      if (early) return CommunicationFault{id, "uses the result of a collective, not that of its wait"};
      continue;
    }
    any = true;
    if ((node.effects & kOpaque) == 0) return CommunicationFault{id, "communicates but is not opaque"};
    if (WaitsForCollective(node.op)) {
      const Node* collective = WaitedFor(graph, node);
      if (collective == nullptr || node.results.size() != 1) {
        return CommunicationFault{id, "waits for something that is no collective of the graph"};
      }
      if (node.args.size() != 2 || node.args[1] != Arg(OperandsInFlight(*collective))) {
        return CommunicationFault{id, "does not hold what its collective may still read"};
      }
      states[std::get<Ref>(node.args[0]).id] = kWaited;
      continue;
    }
    if (!StartsCollective(node.op)) {
      return CommunicationFault{id, "communicates in a way that cannot be replayed"};
    }
    if (!GroupSlotOf(node)) return CommunicationFault{id, "names its process group by no slot"};
    bool early = false;
    ForEachOperand(node, [&](ValueId value) { early |= states[value] != kPlain; });
    if (early) return CommunicationFault{id, "uses the result of a collective, not that of its wait"};
    for (const ValueId result : node.results) states[result] = kUnwaited;
  }
  if (!any) return std::nullopt;
  for (const NodeId id : graph.order()) {
    for (const ValueId result : graph.node(id).results) {
      if (states[result] == kUnwaited) {
        return CommunicationFault{id, "starts a collective that nothing waits for"};
      }
    }
  }
  for (const ValueId output : graph.outputs) {
    if (states[output] != kPlain) {
      return CommunicationFault{kNoNode, "returns the result of a collective, not that of its wait"};
    }
  }
  for (const Write& write : graph.writes) {
    if (states[write.value] != kPlain) {
      return CommunicationFault{kNoNode, "stores the result of a collective, not that of its wait"};
    }
  }
  return std::nullopt;
}

}  // namespace ingot::compiler
