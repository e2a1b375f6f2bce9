// SPDX-License-Identifier: Apache-2.0
#include "compiler/library.h"

#include <algorithm>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compiler/fusion/lower/lower.h"
#include "compiler/ir/graph_builder.h"
#include "compiler/ir/text.h"
#include "compiler/ops/convolution.h"

namespace ingot::compiler {
namespace {

/// Copies nodes of a graph, and what they read as inputs, into a graph of their own with the same symbols.
class Part {
 public:
  /// `is_laid`: what comes in has the layout that was assigned, and with it what is computed of it.
  Part(const Graph& before, const Graph& after, bool is_laid) : before_(before), after_(after), is_laid_(is_laid) {
    part_.name = "part";
    part_.eager_numerics = before.eager_numerics;
    // Symbols are sizes of inputs: those come along, whether or not the nodes read them.
    std::unordered_map<uint32_t, uint32_t> moved;
    for (const SymbolSource& source : before.symbols) {
      const auto [at, is_new] = moved.try_emplace(source.input, static_cast<uint32_t>(part_.inputs.size()));
      if (is_new) AddInput(before.inputs[source.input].value);
      part_.symbols.push_back({at->second, source.dim});
    }
  }

  /// A node after those whose results it reads.
  void AddNode(NodeId id) {
    const Node& node = before_.node(id);
    if (values_.contains(node.results.at(0))) return;
    Node copy;
    copy.op = node.op;
    copy.args = node.args;
    for (Arg& arg : copy.args) {
      if (auto* ref = std::get_if<Ref>(&arg)) ref->id = Have(ref->id);
      if (auto* list = std::get_if<RefList>(&arg)) {
        for (ValueId& value : list->ids) value = value == kNoValue ? kNoValue : Have(value);
      }
    }
    std::vector<Type> types;
    for (const ValueId result : node.results) types.push_back((is_laid_ ? after_ : before_).type(result));
    const NodeId made = part_.AddNode(std::move(copy), std::move(types));
    for (size_t i = 0; i < node.results.size(); ++i) values_[node.results[i]] = part_.node(made).results[i];
  }

  /// The value as somebody wants it laid out.
  void AddOutput(ValueId value, const Type& wanted) {
    ValueId output = Have(value);
    if (!(part_.type(output) == wanted)) {
      const bool is_last = wanted.rank() == 4 && wanted.strides[1].is_one();
      const Arg format = is_last ? Arg(Name("channels_last")) : Arg(None{});
      output = GraphBuilder(part_).Typed("aten.clone", {Ref{output}, format}, wanted).id;
    }
    outputs_.push_back(output);
  }

  Graph Finish() && {
    part_.SetOutputs(std::move(outputs_));
    return std::move(part_);
  }

 private:
  /// The value in the part: views are made again, everything else that no node of it computes is an input.
  ValueId Have(ValueId value) {
    if (const auto at = values_.find(value); at != values_.end()) return at->second;
    const NodeId def = before_.value(value).def;
    const bool is_view =
        def != kNoNode && fusion::ViewRules().contains(before_.node(def).op) && before_.node(def).effects == kPure;
    if (is_view) {
      AddNode(def);
    } else {
      AddInput(value);
    }
    return values_.at(value);
  }

  void AddInput(ValueId value) {
    const int index = before_.InputIndex(value);
    const bool is_constant = index >= 0 && before_.inputs[static_cast<size_t>(index)].kind == InputKind::kConstant;
    std::string data = is_constant ? before_.inputs[static_cast<size_t>(index)].data : std::string();
    values_[value] = part_.AddInput(is_constant ? InputKind::kConstant : InputKind::kInput,
                                    "x" + std::to_string(part_.inputs.size()), after_.type(value), std::move(data));
  }

  const Graph& before_;
  const Graph& after_;
  const bool is_laid_;
  Graph part_;
  std::vector<ValueId> outputs_;
  std::unordered_map<ValueId, ValueId> values_;  // of the whole, in the part
};

/// Whether a value of another layout than before is read by nobody but who comes to have it laid out as before.
bool IsLaidBack(const Graph& before, const Graph& after, ValueId value, int steps_max = 16) {
  if (after.use_count(value) == 0 || steps_max == 0) return false;
  return std::ranges::all_of(after.uses(value), [&](const Use& use) {
    if (!use.IsNode()) return false;
    const Node& user = after.node(use.user);
    if (use.user >= before.node_capacity() && user.op == "aten.clone") return true;
    if (IsConvolution(user) || user.results.empty()) return false;
    return std::ranges::all_of(user.results,
                               [&](ValueId result) { return IsLaidBack(before, after, result, steps_max - 1); });
  });
}

bool IsOf(const Graph& graph, NodeId id) { return id < graph.node_capacity() && graph.IsPlaced(id); }

}  // namespace

std::optional<Graph> PartOf(const LoweredGraph& lowered, const Launch& launch) {
  const Graph &before = lowered.before_layouts, &after = lowered.graph;
  std::vector<NodeId> nodes;
  std::ranges::copy_if(launch.nodes, std::back_inserter(nodes), [&](NodeId id) { return IsOf(before, id); });
  bool makes_products = false, is_laid = false;
  for (const NodeId id : nodes) {
    const Node& node = before.node(id);
    makes_products |= MakesProducts(node);
    if (!IsConvolution(node)) continue;
    const ValueId image = std::get<Ref>(node.args.at(0)).id;
    is_laid |= !(before.type(image) == after.type(image));
  }
  if (!makes_products) return std::nullopt;
  Part part(before, after, is_laid);
  for (const NodeId id : nodes) part.AddNode(id);
  const loop::Kernel& kernel = lowered.fused.kernels[launch.kernel];
  for (size_t i = 0; i < kernel.params.size(); ++i) {
    if (kernel.params[i].mode == loop::ParamMode::kInOut) return std::nullopt;
    if (kernel.params[i].mode != loop::ParamMode::kOut) continue;
    ValueId value = launch.buffers[i];
    Type wanted = after.type(value);
    // What layouts were assigned for was copied back for others.
    if (value >= before.value_count()) {
      const Node& copy = after.node(after.value(value).def);
      if (copy.op != "aten.clone") return std::nullopt;
      value = std::get<Ref>(copy.args.at(0)).id;
    }
    if (value >= before.value_count()) return std::nullopt;
    if (!is_laid && IsLaidBack(before, after, value)) wanted = before.type(value);
    part.AddOutput(value, wanted);
  }
  return std::move(part).Finish();
}

bool LeaveToLibrary(const KernelChoices& choices, LoweredGraph& lowered, std::unordered_set<NodeId>& by_library) {
  std::unordered_set<Digest> chosen;
  for (const auto& one : choices) {
    if (one->schedule == kByLibrary) chosen.insert({one->kernel_low, one->kernel_high});
  }
  const size_t before = by_library.size();
  for (const Launch& launch : lowered.fused.launches) {
    const std::optional<Graph> part = PartOf(lowered, launch);
    if (!part) continue;
    const Digest digest = GraphDigest(*part);
    if (!chosen.contains(digest)) continue;
    const size_t left = by_library.size();
    for (const NodeId id : launch.nodes) {
      if (IsOf(lowered.before_layouts, id) && MakesProducts(lowered.before_layouts.node(id))) by_library.insert(id);
    }
    const auto is_it = [&](const auto& one) { return Digest{one->kernel_low, one->kernel_high} == digest; };
    if (by_library.size() == left || std::ranges::any_of(lowered.by_library, is_it)) continue;
    auto& choice = *lowered.by_library.emplace_back(std::make_unique<proto::KernelChoiceT>());
    choice.kernel_low = digest.low;
    choice.kernel_high = digest.high;
    choice.schedule = kByLibrary;
  }
  return by_library.size() != before;
}

}  // namespace ingot::compiler
