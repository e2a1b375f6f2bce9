// SPDX-License-Identifier: Apache-2.0
#include "compiler/fusion/fuse.h"
#include "compiler/fusion/alias.h"

#include <algorithm>
#include <queue>
#include <unordered_map>

#include <fmt/format.h>

#include "compiler/fusion/attention.h"
#include "compiler/fusion/emit.h"
#include "compiler/fusion/group.h"
#include "compiler/loop/bounds.h"
#include "compiler/loop/contraction.h"
#include "compiler/loop/text.h"
#include "compiler/ops/ops.h"

namespace ingot::compiler {
namespace {

using fusion::Group;
using fusion::Lowered;

constexpr size_t kNone = ~size_t{0};
constexpr std::string_view kAttention = "aten.scaled_dot_product_attention";

/// Turns groups into launches and orders launches and the nodes that stay with ATen.
class Scheduler {
 public:
  Scheduler(const Graph& graph, const TakesProduct& takes_product)
      : graph_(graph),
        takes_product_(takes_product),
        lowered_(graph, takes_product),
        producer_(graph.value_count(), kNone),
        step_of_node_(graph.node_capacity(), kNone),
        position_(graph.node_capacity(), 0),
        storage_(lowered_.storage) {}

  Result<Fused> Run() {
    const std::vector<NodeId>& order = graph_.order();
    for (size_t i = 0; i < order.size(); ++i) position_[order[i]] = i;
    for (auto& group : fusion::FormGroups(lowered_)) AddLaunch(*group);
    for (NodeId id : order) {
      if (graph_.node(id).effects != kPure || graph_.node(id).inplace >= 0) AddNode(id);  // Launched ones have a step.
    }
    for (ValueId id : graph_.outputs) Need(id);
    for (const Write& write : graph_.writes) {
      Need(write.value);
      Need(write.target);
    }
    AddUnusedChecks();
    // What is needed may add launches and kernels.
    for (size_t i = 0; i < fused_.launches.size(); ++i) {
      for (size_t p = 0; p < fused_.launches[i].buffers.size(); ++p) {
        const ValueId read = ReadBy(graph_, fused_, fused_.launches[i], p);
        if (read != kNoValue) Need(read);
      }
    }
    TRY(Order());
    return std::move(fused_);
  }

  /// Why each node that stays with ATen does.
  std::map<NodeId, std::string> TakeReasons(const Fused& fused) {
    for (const Fused::Step& step : fused.steps) {
      if (step.is_launch) continue;
      const bool has_rule = !lowered_.results[step.node].empty();
      reasons_.try_emplace(step.node, !has_rule                    ? lowered_.why[step.node]
                                      : lowered_.IsView(step.node) ? "a view of memory"
                                                                   : "loops cannot follow its index maps");
    }
    return std::move(reasons_);
  }

 private:
  struct Unit {
    bool is_launch = false;
    uint32_t index = 0;  ///< launch number, or node
    size_t key = 0;  ///< place in the original order
    std::vector<size_t> next;
    size_t waits_for = 0;
  };

  /// A group that cannot be emitted leaves its nodes to ATen; Need() finds them.
  void AddLaunch(Group& group) {
    Launch launch;
    auto kernel = MakeKernel(group, launch);
    if (!kernel) {
      for (NodeId id : group.members) reasons_[id] = kernel.error().message();
      return;
    }
    launch.kernel = NumberOf(std::move(kernel).value());
    launch.nodes = group.members;
    std::sort(launch.nodes.begin(), launch.nodes.end(),
              [&](NodeId a, NodeId b) { return position_[a] < position_[b]; });
    Unit unit{true, static_cast<uint32_t>(fused_.launches.size()), 0, {}, 0};
    for (NodeId id : launch.nodes) unit.key = std::max(unit.key, position_[id]);
    for (const Group::Store& store : group.stores) {
      producer_[store.value] = units_.size();
      const NodeId def = graph_.value(store.value).def;
      if (lowered_.IsWrite(def)) step_of_node_[def] = units_.size();
    }
    units_.push_back(std::move(unit));
    fused_.launches.push_back(std::move(launch));
  }

  uint32_t NumberOf(loop::Kernel kernel) {
    const Digest digest = loop::KernelDigest(kernel);
    const auto [it, is_new] = kernels_.try_emplace(digest, static_cast<uint32_t>(fused_.kernels.size()));
    if (is_new) {
      kernel.name = fmt::format("k{}_{}", it->second, kernel.name);
      fused_.kernels.push_back(std::move(kernel));
    }
    return it->second;
  }

  Result<loop::Kernel> MakeKernel(Group& group, Launch& launch) {
    TRY_ASSIGN(fusion::Draft draft, fusion::EmitGroup(lowered_, group));
    launch.buffers = draft.buffers;
    TRY_ASSIGN(loop::Kernel kernel, fusion::Finish(std::move(draft), launch.symbols));
    kernel.name = NameOf(group);
    TRY(Check(kernel));
    return kernel;
  }

  static Status Check(const loop::Kernel& kernel) {
    TRY(loop::Verify(kernel));
    TRY(loop::VerifyStores(kernel));
    for (const loop::Block& block : kernel.blocks) {
      if (!block.is_contraction()) continue;
      const auto contraction = loop::ContractionOf(kernel, block);
      const bool is_straight =
          contraction && !contraction->left.is_guarded &&
          (loop::DepthOfLanes(kernel, *contraction) || loop::RunsAlongColumns(kernel, *contraction));
      if (is_straight || (contraction && loop::IsWindow(kernel, *contraction))) continue;
      return Error(Code::kUnsupported, "the operands of a product lie in memory as no vector reads them");
    }
    if (const auto proof = loop::ProveBounds(kernel); !proof) return proof.error();
    return {};
  }

  /// Attention has a kernel to itself.
  Result<loop::Kernel> MakeAttention(const Node& node, Launch& launch) {
    TRY_ASSIGN(fusion::Attention made, fusion::MakeAttention(graph_, node));
    launch.buffers = std::move(made.buffers);
    fusion::NumberSymbols(made.kernel, launch.symbols);
    made.kernel.name = "attention";
    TRY(Check(made.kernel));
    return std::move(made.kernel);
  }

  /// The operations of the group, for people.
  std::string NameOf(const Group& group) const {
    std::string name;
    for (NodeId id : group.members) {
      if (lowered_.IsView(id)) continue;
      std::string_view op = graph_.node(id).op;
      op.remove_prefix(std::min(op.find('.') + 1, op.size()));
      if (!name.empty()) name += '_';
      name += op.substr(0, op.find('.'));
      constexpr size_t kNameMax = 48;
      if (name.size() > kNameMax) break;
    }
    return name;
  }

  size_t AddNode(NodeId id) {
    if (step_of_node_[id] != kNone) return step_of_node_[id];
    const size_t unit = units_.size();
    step_of_node_[id] = unit;
    units_.push_back({false, id, position_[id], {}, 0});
    const bool is_attention = graph_.node(id).op == kAttention && graph_.node(id).effects == kPure;
    if (is_attention && !graph_.eager_numerics && takes_product_ && !takes_product_(graph_, id)) {
      reasons_[id] = fusion::kLibraryIsFaster;
    } else if (is_attention && !graph_.eager_numerics) {
      Launch launch;
      if (auto kernel = MakeAttention(graph_.node(id), launch); kernel) {
        launch.kernel = NumberOf(std::move(kernel).value());
        launch.nodes = {id};
        units_.back().is_launch = true;
        units_.back().index = static_cast<uint32_t>(fused_.launches.size());
        fused_.launches.push_back(std::move(launch));
      } else {
        reasons_[id] = kernel.error().message();
      }
    }
    for (ValueId r : graph_.node(id).results) {
      if (producer_[r] == kNone) producer_[r] = unit;
    }
    ForEachOperand(graph_.node(id), [&](ValueId v) { Need(v); });
    return unit;
  }

  /// Sees to it that something puts the value into memory.
  void Need(ValueId id) {
    const NodeId def = graph_.value(id).def;
    if (def != kNoNode && producer_[id] == kNone) AddNode(def);
  }

  /// What may raise runs, though no kernel and no result has a use for it.
  void AddUnusedChecks() {
    std::vector<bool> launched(graph_.node_capacity());
    for (const Launch& launch : fused_.launches) {
      for (NodeId id : launch.nodes) launched[id] = true;
    }
    for (NodeId id : graph_.order()) {
      if (!launched[id] && ChecksValues(graph_, graph_.node(id))) AddNode(id);
    }
  }

  void AddEdge(size_t from, size_t to) {
    if (from == to || from == kNone || to == kNone) return;
    units_[from].next.push_back(to);
    ++units_[to].waits_for;
  }

  template <typename Fn>
  void ForEachRead(const Unit& unit, Fn&& fn) const {
    if (!unit.is_launch) {
      ForEachOperand(graph_.node(unit.index), fn);
      return;
    }
    const Launch& launch = fused_.launches[unit.index];
    for (size_t p = 0; p < launch.buffers.size(); ++p) {
      if (const ValueId read = ReadBy(graph_, fused_, launch, p); read != kNoValue) fn(read);
    }
  }

  void AddEdges() {
    std::vector<std::vector<NodeId>> mutators(graph_.value_count());
    size_t last_effect = kNone;
    for (NodeId id : graph_.order()) {
      const Node& node = graph_.node(id);
      if (node.effects != kPure) {
        AddEdge(last_effect, step_of_node_[id]);
        last_effect = step_of_node_[id];
      }
      if (node.inplace < 0) continue;
      const ValueId target = std::get<Ref>(node.args[static_cast<size_t>(node.inplace)]).id;
      mutators[storage_[target]].push_back(id);
    }
    for (size_t u = 0; u < units_.size(); ++u) {
      ForEachRead(units_[u], [&](ValueId v) {
        AddEdge(producer_[v], u);
        // A value that existed before the write is read before it.
        for (NodeId m : mutators[storage_[v]]) {
          const NodeId def = graph_.value(v).def;
          if (def != m && (def == kNoNode || position_[def] < position_[m])) {
            AddEdge(u, step_of_node_[m]);
          }
        }
      });
    }
  }

  /// Kahn's algorithm; among what may run, what came first in the graph.
  Status Order() {
    AddEdges();
    using Entry = std::pair<size_t, size_t>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
    for (size_t u = 0; u < units_.size(); ++u) {
      if (units_[u].waits_for == 0) ready.emplace(units_[u].key, u);
    }
    while (!ready.empty()) {
      const size_t u = ready.top().second;
      ready.pop();
      const Unit& unit = units_[u];
      Fused::Step step;
      step.is_launch = unit.is_launch;
      (unit.is_launch ? step.launch : step.node) = unit.index;
      fused_.steps.push_back(step);
      for (size_t next : unit.next) {
        if (--units_[next].waits_for == 0) ready.emplace(units_[next].key, next);
      }
    }
    if (fused_.steps.size() == units_.size()) return {};
    return Error(Code::kInternal,
                 fmt::format("fusion made a cycle: {} of {} steps are ordered", fused_.steps.size(), units_.size()));
  }

  const Graph& graph_;
  const TakesProduct& takes_product_;
  Lowered lowered_;
  Fused fused_;
  std::unordered_map<Digest, uint32_t> kernels_;
  std::vector<Unit> units_;
  std::vector<size_t> producer_;  // Unit that puts each value into memory.
  std::vector<size_t> step_of_node_;
  std::vector<size_t> position_;
  const std::vector<ValueId>& storage_;
  std::map<NodeId, std::string> reasons_;
};

}  // namespace

ValueId ReadBy(const Graph& graph, const Fused& fused, const Launch& launch, size_t param) {
  switch (fused.kernels[launch.kernel].params[param].mode) {
    case loop::ParamMode::kIn: return launch.buffers[param];
    case loop::ParamMode::kInOut: return fusion::OverwrittenBy(graph, launch.buffers[param]);
    case loop::ParamMode::kOut: break;
  }
  return kNoValue;
}

bool MakesProducts(const Node& node) {
  return fusion::ContractRules().contains(node.op) || fusion::ConvRules().contains(node.op) || node.op == kAttention;
}

Result<Fused> Fuse(const Graph& graph, std::map<NodeId, std::string>* reasons, const TakesProduct& takes_product) {
  Scheduler scheduler(graph, takes_product);
  TRY_ASSIGN(Fused fused, scheduler.Run());
  if (reasons != nullptr) *reasons = scheduler.TakeReasons(fused);
  return fused;
}

}  // namespace ingot::compiler
