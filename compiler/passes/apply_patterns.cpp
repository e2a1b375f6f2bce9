// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/apply_patterns.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

#include "compiler/ir/graph_builder.h"
#include "compiler/ir/text.h"
#include "compiler/ops/ops.h"
#include "compiler/passes/rewrite.h"
#include "compiler/passes/searched_pattern.h"

namespace ingot::compiler {
namespace {

/// Nodes that all patterns together may add to a graph.
constexpr size_t kAddedMax = 1 << 20;
constexpr std::string_view kOwn = "the pattern has put it there itself";

/// The argument as this variant of it, where a number of a place stands for it.
std::optional<Arg> NumberAs(const Arg& like, const Number& number) {
  if (std::holds_alternative<Number>(like)) return number;
  if (std::holds_alternative<Dim>(like)) {
    const auto* dim = std::get_if<Dim>(&number.value);
    return dim ? std::optional<Arg>(*dim) : std::nullopt;
  }
  if (const auto* real = std::get_if<double>(&number.value)) return *real;
  const auto* dim = std::get_if<Dim>(&number.value);
  return dim && dim->is_const() ? std::optional<Arg>(static_cast<double>(dim->const_value())) : std::nullopt;
}

/// Puts one replacement into a graph, or takes it out again.
class Placing {
 public:
  Placing(Graph& graph, const SearchedPattern& pattern, const SearchedPattern::Place& place)
      : graph_(graph), pattern_(pattern), place_(place) {}

  /// Why it was left alone; empty where it was not.
  std::string Run(const std::vector<bool>& escaping) {
    std::string why = CheckUses();
    if (why.empty()) why = FindPosition();
    if (why.empty()) why = Add();
    if (why.empty()) why = CheckResults(escaping);
    if (!why.empty()) {
      for (auto id = added_.rbegin(); id != added_.rend(); ++id) graph_.RemoveNode(*id);
      added_.clear();
      return why;
    }
    for (size_t i = 0; i < place_.outputs.size(); ++i) graph_.ReplaceUses(place_.outputs[i], results_[i]);
    RemoveFound();
    return {};
  }

  const std::vector<NodeId>& added() const { return added_; }

 private:
  bool IsFound(NodeId id) const { return std::ranges::binary_search(place_.nodes, id); }
  bool IsOutput(ValueId id) const { return std::ranges::find(place_.outputs, id) != place_.outputs.end(); }

  std::string CheckUses() const {
    for (const NodeId id : place_.nodes) {
      const ValueId result = graph_.node(id).results[0];
      if (IsOutput(result)) continue;
      for (const Use& use : graph_.uses(result)) {
        if (use.IsNode() && IsFound(use.user)) continue;
        return fmt::format("what {} gives is also used by {}", graph_.node(id).op,
                           use.IsNode() ? graph_.node(use.user).op : "the caller");
      }
    }
    return {};
  }

  /// Behind all that the replacement reads, in front of all that reads its results.
  std::string FindPosition() {
    std::unordered_map<NodeId, size_t> positions;
    const std::vector<NodeId>& order = graph_.order();
    for (size_t i = 0; i < order.size(); ++i) positions[order[i]] = i;
    size_t last = 0, first_use = order.size(), ready = 0;
    for (const NodeId id : place_.nodes) last = std::max(last, positions[id]);
    for (const ValueId output : place_.outputs) {
      for (const Use& use : graph_.uses(output)) {
        if (use.IsNode() && !IsFound(use.user)) first_use = std::min(first_use, positions[use.user]);
      }
    }
    for (const ValueId input : place_.inputs) {
      if (const NodeId def = graph_.value(input).def; def != kNoNode) ready = std::max(ready, positions[def] + 1);
    }
    const size_t at = std::min(last, first_use);
    if (at < ready) return "a result is used before all is there that the replacement reads";
    before_ = order[at];
    return {};
  }

  std::string Add() {
    const Graph& replace = pattern_.replace();
    for (size_t i = 0; i < replace.inputs.size(); ++i) values_[replace.inputs[i].value] = place_.inputs[i];
    for (size_t i = 0; i < replace.order().size(); ++i) {
      const Node& node = replace.node(replace.order()[i]);
      std::vector<Arg> args;
      for (size_t k = 0; k < node.args.size(); ++k) {
        std::optional<Arg> arg = ArgOf(i, k, node.args[k]);
        if (!arg) return fmt::format("operand {} of {} cannot be the number that was found", k, node.op);
        args.push_back(*std::move(arg));
      }
      if (std::string why = AddNode(node, std::move(args)); !why.empty()) return why;
    }
    for (const ValueId output : replace.outputs) results_.push_back(values_.at(output));
    return {};
  }

  std::optional<Arg> ArgOf(size_t node, size_t arg, const Arg& given) const {
    if (const int number = pattern_.NumberOfReplace(node, arg); number >= 0) {
      return NumberAs(given, place_.numbers[static_cast<size_t>(number)]);
    }
    if (const auto* ref = std::get_if<Ref>(&given)) return Ref{values_.at(ref->id)};
    if (const auto* list = std::get_if<RefList>(&given)) {
      RefList mapped;
      for (const ValueId id : list->ids) mapped.ids.push_back(id == kNoValue ? kNoValue : values_.at(id));
      return mapped;
    }
    return Sized(given, place_.replace_sizes);
  }

  std::string AddNode(const Node& node, std::vector<Arg> args) {
    if (node.effects == kPure) {
      GraphBuilder builder(graph_, before_);
      const Result<std::vector<Ref>> made = builder.Ops(node.op, args);
      if (made && made->size() == node.results.size()) {
        for (size_t i = 0; i < made->size(); ++i) values_[node.results[i]] = (*made)[i].id;
        if (!made->empty()) added_.push_back(graph_.value((*made)[0].id).def);
        return {};
      }
      if (made) return fmt::format("{} gives {} results, expected {}", node.op, made->size(), node.results.size());
      if (made.error().code() != Code::kUnsupported) return made.error().message();
    }
    // What nobody infers has the types it was recorded with, and results those of what they replace.
    std::vector<Type> types;
    for (const ValueId result : node.results) types.push_back(RecordedType(result));
    const NodeId id = graph_.InsertBefore(before_, {node.op, std::move(args), {}, node.effects}, std::move(types));
    for (size_t i = 0; i < node.results.size(); ++i) values_[node.results[i]] = graph_.node(id).results[i];
    added_.push_back(id);
    if (const Status good = CheckTypes(graph_, graph_.node(id)); !good) return good.error().message();
    return {};
  }

  Type RecordedType(ValueId result) const {
    const Graph& replace = pattern_.replace();
    Type type = replace.type(result);
    for (Dim& size : type.sizes) size = size.Substitute(place_.replace_sizes);
    for (Dim& stride : type.strides) stride = stride.Substitute(place_.replace_sizes);
    for (size_t i = 0; i < replace.outputs.size(); ++i) {
      const Type& wanted = graph_.type(place_.outputs[i]);
      if (replace.outputs[i] == result && wanted.dtype == type.dtype && wanted.rank() == type.rank()) return wanted;
    }
    return type;
  }

  std::string CheckResults(const std::vector<bool>& escaping) const {
    for (size_t i = 0; i < results_.size(); ++i) {
      const ValueId found = place_.outputs[i], put = results_[i];
      if (graph_.type(put) != graph_.type(found)) {
        return fmt::format("result {} of the replacement is {}, expected {}", i, Print(graph_.type(put)),
                           Print(graph_.type(found)));
      }
      if (!escaping[found]) continue;
      const Node* before = Definition(graph_, found);
      const Node* after = Definition(graph_, put);
      const bool is_twice = std::ranges::count(results_, put) > 1;
      if (MayAlias(*before) || !after || MayAlias(*after) || is_twice) {
        return fmt::format("a caller gets result {}, which may share memory", i);
      }
    }
    return {};
  }

  /// What was found, from behind, as far as nobody uses it.
  void RemoveFound() {
    std::vector<NodeId> order(graph_.order().rbegin(), graph_.order().rend());
    for (const NodeId id : order) {
      if (IsFound(id) && graph_.use_count(graph_.node(id).results[0]) == 0) graph_.RemoveNode(id);
    }
  }

  Graph& graph_;
  const SearchedPattern& pattern_;
  const SearchedPattern::Place& place_;
  NodeId before_ = kNoNode;
  std::unordered_map<ValueId, ValueId> values_;  ///< Of the replacement's values, those in the graph.
  std::vector<NodeId> added_;
  std::vector<ValueId> results_;
};

class Applier {
 public:
  explicit Applier(std::shared_ptr<std::vector<PatternUse>> uses) : uses_(std::move(uses)) {}

  Result<bool> Run(Graph& graph) {
    if (graph.patterns.empty()) return false;
    Prepare(graph);
    bool changed = false;
    for (size_t i = 0; i < patterns_.size(); ++i) {
      if (patterns_[i]) changed |= RunPattern(graph, i);
    }
    return changed;
  }

 private:
  void Prepare(const Graph& graph) {
    if (!patterns_.empty()) return;
    uses_->clear();
    for (const auto& pattern : graph.patterns) {
      Result<SearchedPattern> made = SearchedPattern::Of(*pattern);
      uses_->push_back({pattern->name, 0, made ? "" : made.error().message()});
      patterns_.push_back(made ? std::optional(std::move(made).value()) : std::nullopt);
      nearest_.push_back(0);
    }
  }

  bool RunPattern(Graph& graph, size_t number) {
    const SearchedPattern& pattern = *patterns_[number];
    std::vector<bool> escaping = EscapingValues(graph);
    const std::vector<NodeId> order = graph.order();
    bool changed = false;
    for (const NodeId id : order) {
      if (!graph.IsPlaced(id) || graph.node(id).op != pattern.root_op()) continue;
      std::string why;
      size_t nodes = 0;
      const auto place = pattern.At(graph, id, why, nodes);
      if (place) why = Put(graph, number, *place, escaping);
      if (!why.empty()) {
        NoteNear(number, nodes + (place ? 1 : 0), std::move(why));
        continue;
      }
      escaping = EscapingValues(graph);
      changed = true;
    }
    PatternUse& use = (*uses_)[number];
    if (use.replaced == 0 && nearest_[number] == 0) use.why = fmt::format("the graph has no {}", pattern.root_op());
    // Where it was applied, what has no more than its last operator is no place that it has missed.
    if (use.replaced != 0 && nearest_[number] <= 1) use.why.clear();
    return changed;
  }

  std::string Put(Graph& graph, size_t number, const SearchedPattern::Place& place, const std::vector<bool>& escaping) {
    for (const NodeId id : place.nodes) {
      const auto made_by = made_by_.find(id);
      const bool is_own =
          made_by != made_by_.end() && std::ranges::find(made_by->second, number) != made_by->second.end();
      if (is_own) return std::string(kOwn);
    }
    if (added_ > kAddedMax) return "patterns have added too many operators";
    Placing placing(graph, *patterns_[number], place);
    if (std::string why = placing.Run(escaping); !why.empty()) return why;
    ++(*uses_)[number].replaced;
    // Whoever puts something in the place of what others have put there, does it for them as well.
    std::vector<size_t> makers = {number};
    for (const NodeId id : place.nodes) {
      if (const auto made_by = made_by_.find(id); made_by != made_by_.end()) {
        makers.insert(makers.end(), made_by->second.begin(), made_by->second.end());
      }
    }
    std::ranges::sort(makers);
    makers.erase(std::ranges::unique(makers).begin(), makers.end());
    for (const NodeId id : placing.added()) made_by_[id] = makers;
    added_ += placing.added().size();
    return {};
  }

  /// A place that a pattern has put there itself is no place that it has missed.
  void NoteNear(size_t number, size_t nodes, std::string why) {
    if (nodes <= nearest_[number] || why == kOwn) return;
    nearest_[number] = nodes;
    (*uses_)[number].why = std::move(why);
  }

  std::shared_ptr<std::vector<PatternUse>> uses_;
  std::vector<std::optional<SearchedPattern>> patterns_;
  std::vector<size_t> nearest_;  ///< Nodes of the nearest miss, by pattern.
  std::unordered_map<NodeId, std::vector<size_t>> made_by_;
  size_t added_ = 0;
};

}  // namespace

Pass ApplyPatterns(std::shared_ptr<std::vector<PatternUse>> uses) {
  if (!uses) uses = std::make_shared<std::vector<PatternUse>>();
  const auto applier = std::make_shared<Applier>(std::move(uses));
  return [applier](Graph& graph) { return applier->Run(graph); };
}

}  // namespace ingot::compiler
