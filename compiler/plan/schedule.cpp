// SPDX-License-Identifier: Apache-2.0
#include "compiler/plan/schedule.h"

#include <algorithm>
#include <functional>

#include "compiler/ir/written_memories.h"
#include "compiler/ops/infer.h"
#include "compiler/plan/aten_forms.h"
#include "compiler/plan/views.h"

namespace ingot::compiler {
namespace {

constexpr uint32_t kNever = ~0u;

class Scheduler {
 public:
  Scheduler(const Graph& graph, const Fused& fused) : graph_(graph), fused_(fused) {}

  Schedule Make() {
    schedule_.inplace.assign(graph_.node_capacity(), false);
    schedule_.parent.assign(graph_.value_count(), kNoValue);
    producer_.assign(graph_.value_count(), kNever);
    last_use_.assign(graph_.value_count(), 0);
    for (const NodeId id : graph_.order()) FindViews(id);
    for (const Launch& launch : fused_.launches) OwnWhatIsWritten(launch);
    for (uint32_t i = 0; i < fused_.steps.size(); ++i) {
      if (!IsAliasStep(fused_.steps[i])) schedule_.steps.push_back(i);
    }
    for (uint32_t at = 0; at < schedule_.steps.size(); ++at) NoteStep(at);
    for (const ValueId id : graph_.outputs) last_use_[id] = kNever;
    MarkChains();
    for (uint32_t at = 0; at < schedule_.steps.size(); ++at) {
      ForEachNode(at, [&](NodeId id) { Decide(at, id); });
    }
    PutGuardsFirst();
    return std::move(schedule_);
  }

 private:
  const Fused::Step& StepAt(uint32_t at) const { return fused_.steps[schedule_.steps[at]]; }

  void FindViews(NodeId id) {
    const Node& node = graph_.node(id);
    const WrittenMemories memories(node);
    for (size_t i = 0; i < memories.values.size(); ++i)
      schedule_.parent[node.results[memories.own_results + i]] = memories.values[i];
    for (uint32_t i = 0; i < memories.own_results; ++i) {
      if (auto view = ViewOf(graph_, node, i)) schedule_.parent[node.results[i]] = view->operand;
    }
  }

  // A launch may write a view of something that never reaches memory.
  void OwnWhatIsWritten(const Launch& launch) {
    for (size_t i = 0; i < launch.buffers.size(); ++i) {
      if (fused_.kernels[launch.kernel].params[i].mode == loop::ParamMode::kIn) continue;
      schedule_.parent[launch.buffers[i]] = kNoValue;
    }
  }

  bool IsAliasStep(const Fused::Step& step) const {
    if (step.is_launch) return false;
    const Node& node = graph_.node(step.node);
    return (node.effects & kWrites) == 0 && !node.results.empty() &&
           std::all_of(node.results.begin(), node.results.end(),
                       [&](ValueId id) { return schedule_.parent[id] != kNoValue; });
  }

  template <typename Fn>
  void ForEachNode(uint32_t at, Fn&& fn) const {
    const Fused::Step& step = StepAt(at);
    if (!step.is_launch) return fn(step.node);
    for (const NodeId id : fused_.launches[step.launch].nodes) fn(id);
  }

  template <typename Fn>
  void ForEachRead(uint32_t at, Fn&& fn) const {
    const Fused::Step& step = StepAt(at);
    if (!step.is_launch) return ForEachOperand(graph_.node(step.node), fn);
    const Launch& launch = fused_.launches[step.launch];
    for (size_t i = 0; i < launch.buffers.size(); ++i) {
      if (const ValueId read = ReadBy(graph_, fused_, launch, i); read != kNoValue) fn(read);
    }
  }

  void NoteStep(uint32_t at) {
    ForEachRead(at, [&](ValueId id) { last_use_[id] = std::max(last_use_[id], at); });
    ForEachNode(at, [&](NodeId id) {
      for (const ValueId result : graph_.node(id).results) producer_[result] = at;
    });
  }

  // Nodes through which a final write reaches back to its target: only these may change it early.
  void MarkChains() {
    chained_.assign(graph_.node_capacity(), false);
    for (const Write& write : graph_.writes) {
      std::vector<NodeId> chain;
      ValueId at = write.value;
      while (at != write.target && graph_.value(at).def != kNoNode) {
        const NodeId id = graph_.value(at).def;
        const Node& node = graph_.node(id);
        if (const Ref* operand = InplaceOperand(node)) {
          chain.push_back(id);
          at = operand->id;
        } else if (schedule_.parent[at] != kNoValue) {
          at = schedule_.parent[at];
        } else {
          break;
        }
      }
      last_use_[write.value] = kNever;
      if (at != write.target) continue;
      for (const NodeId id : chain) chained_[id] = true;
    }
  }

  static const Ref* InplaceOperand(const Node& node) {
    if (node.op == kMemoryOp) return std::get_if<Ref>(&node.args[0]);
    if (node.inplace < 0 || static_cast<size_t>(node.inplace) >= node.args.size()) return nullptr;
    return std::get_if<Ref>(&node.args[static_cast<size_t>(node.inplace)]);
  }

  bool IsVisible(ValueId root) const { return graph_.InputIndex(root) >= 0; }

  void Decide(uint32_t at, NodeId id) {
    const Node& node = graph_.node(id);
    const Ref* operand = InplaceOperand(node);
    if (operand == nullptr || node.results.size() != 1) return;
    const ValueId result = node.results[0];
    const Type& type = graph_.type(operand->id);
    if (type.dtype != graph_.type(result).dtype || type.sizes != graph_.type(result).sizes ||
        !SameLayout(type.sizes, type.strides, graph_.type(result).strides)) {
      return;
    }
    const ValueId root = schedule_.Root(operand->id);
    const int input = graph_.InputIndex(root);
    if (input >= 0 && graph_.inputs[static_cast<size_t>(input)].kind == InputKind::kConstant) return;
    if (input >= 0 && !chained_[id]) return;
    if (OldContentsAreNeeded(at, root, result) || ReadsElsewhere(at, root)) return;
    schedule_.inplace[id] = true;
    schedule_.parent[result] = operand->id;
  }

  // Whether a value that shares the memory, other than the new contents, is read later.
  bool OldContentsAreNeeded(uint32_t at, ValueId root, ValueId result) const {
    for (ValueId id = 0; id < graph_.value_count(); ++id) {
      if (last_use_[id] <= at) continue;
      ValueId up = id;
      while (up != result && schedule_.parent[up] != kNoValue) up = schedule_.parent[up];
      if (up == root && up != result) return true;
    }
    return false;
  }

  // Whether the step reads the memory besides where it writes.
  bool ReadsElsewhere(uint32_t at, ValueId root) const {
    size_t reads = 0;
    ForEachRead(at, [&](ValueId operand) { reads += schedule_.Root(operand) == root; });
    return reads != 1;
  }

  // Guards, and what they need, run before the first step that changes visible memory.
  void PutGuardsFirst() {
    uint32_t first_write = kNever;
    uint32_t last_guard = 0;
    std::vector<uint32_t> work;
    for (uint32_t at = 0; at < schedule_.steps.size(); ++at) {
      ForEachNode(at, [&](NodeId id) {
        const Node& node = graph_.node(id);
        if (WritesVisible(id)) first_write = std::min(first_write, at);
        if ((node.effects & kGuard) != 0 || HasDynamicShape(node.op)) {
          last_guard = at;
          work.push_back(at);
        }
      });
    }
    if (first_write == kNever || work.empty() || last_guard < first_write) return;
    std::vector<bool> early(schedule_.steps.size(), false);
    while (!work.empty()) {
      const uint32_t at = work.back();
      work.pop_back();
      if (early[at]) continue;
      early[at] = true;
      ForEachRead(at, [&](ValueId id) {
        while (producer_[id] == kNever && schedule_.parent[id] != kNoValue) id = schedule_.parent[id];
        if (producer_[id] != kNever) work.push_back(producer_[id]);
      });
    }
    if (MayMove(early)) {
      std::vector<uint32_t> order;
      for (const bool now : {true, false}) {
        for (uint32_t at = 0; at < early.size(); ++at) {
          if (early[at] == now) order.push_back(schedule_.steps[at]);
        }
      }
      schedule_.steps = std::move(order);
    } else {
      DropVisibleMarks();
    }
  }

  bool WritesVisible(NodeId id) const {
    return schedule_.inplace[id] && IsVisible(schedule_.Root(graph_.node(id).results[0]));
  }

  bool MayMove(const std::vector<bool>& early) const {
    bool movable = true;
    for (uint32_t at = 0; at < early.size(); ++at) {
      if (!early[at]) continue;
      ForEachNode(at, [&](NodeId id) {
        const Node& node = graph_.node(id);
        if ((node.effects & ~kGuard) != kPure || schedule_.inplace[id]) movable = false;
      });
    }
    return movable;
  }

  void DropVisibleMarks() {
    for (uint32_t at = 0; at < schedule_.steps.size(); ++at) {
      ForEachNode(at, [&](NodeId id) {
        if (!WritesVisible(id)) return;
        schedule_.inplace[id] = false;
        schedule_.parent[graph_.node(id).results[0]] = kNoValue;
      });
    }
  }

  const Graph& graph_;
  const Fused& fused_;
  Schedule schedule_;
  std::vector<uint32_t> producer_;  // position of the step that makes a value
  std::vector<uint32_t> last_use_;  // position of the last read; kNever = after the last step
  std::vector<bool> chained_;
};

}  // namespace

Schedule MakeSchedule(const Graph& graph, const Fused& fused) { return Scheduler(graph, fused).Make(); }

}  // namespace ingot::compiler
