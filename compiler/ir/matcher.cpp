// SPDX-License-Identifier: Apache-2.0
#include "compiler/ir/matcher.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "compiler/ir/text.h"
#include "compiler/ops/call.h"
#include "compiler/ops/ops.h"
#include "compiler/ops/schema.h"

namespace ingot::compiler {
namespace {

/// The number that fills all elements of a value.
std::optional<Number> FillOf(const Graph& graph, ValueId id) {
  const NodeId def = graph.value(id).def;
  if (def == kNoNode || graph.node(def).op != "aten.full" || IsComplex(graph.type(id).dtype)) return std::nullopt;
  return Call(graph, graph.node(def)).ScalarAt(1);
}

std::string PlaceText(const Graph& graph, const Mismatch& mismatch) {
  const std::string& op = graph.node(mismatch.node).op;
  if (mismatch.operand < 0) return op;
  const auto at = static_cast<size_t>(mismatch.operand);
  const std::vector<Parameter>* schema = FindSchema(op);
  const std::string name = schema && at < schema->size() ? fmt::format(" '{}'", (*schema)[at].name) : "";
  return fmt::format("operand {}{} of {}", at, name, op);
}

/// What stands where the pattern ended: its operator and its type.
std::string FoundText(const Graph& graph, const Mismatch& mismatch) {
  const Node& node = graph.node(mismatch.node);
  ValueId id = node.results.empty() ? kNoValue : node.results[0];
  if (mismatch.operand >= 0) {
    const auto at = static_cast<size_t>(mismatch.operand);
    if (at >= node.args.size()) return "missing";
    const auto* ref = std::get_if<Ref>(&node.args[at]);
    if (!ref) return Describe(graph, node.args[at]);
    id = ref->id;
  }
  if (id == kNoValue) return node.op;
  const NodeId def = graph.value(id).def;
  return fmt::format("{} {}", def == kNoNode ? "an input" : graph.node(def).op, Print(graph.type(id)));
}

}  // namespace

std::string Pattern::ToText() const {
  const std::string which = number ? fmt::format("the number {}", *number) : "a number";
  switch (kind) {
    case Kind::kAnything: return "anything";
    case Kind::kAbsent: return "nothing";
    case Kind::kTensor: return "a tensor";
    case Kind::kConstant: return "a constant";
    case Kind::kNumber:
    case Kind::kFilled:
    case Kind::kDefault: return which;
    case Kind::kEqual: return Describe(Graph(), argument);
    case Kind::kList: return fmt::format("a list of {} tensors", operands.size());
    case Kind::kNode: return fmt::format("{}", fmt::join(ops, " or "));
  }
  return "?";
}

const Match::Capture* Match::Find(std::string_view name) const {
  const auto place = std::ranges::find(captures_, name, &Capture::name);
  return place == captures_.end() ? nullptr : &*place;
}

ValueId Match::value(std::string_view name) const {
  const Capture* capture = Find(name);
  return capture ? capture->value : kNoValue;
}

const Number* Match::number(std::string_view name) const {
  const Capture* capture = Find(name);
  return capture && capture->number ? &*capture->number : nullptr;
}

std::string_view NameOf(Mismatch::What what) {
  switch (what) {
    case Mismatch::What::kOperand: return "operand";
    case Mismatch::What::kArity: return "arity";
    case Mismatch::What::kImpure: return "impure";
    case Mismatch::What::kUses: return "uses";
    case Mismatch::What::kCondition: return "condition";
    case Mismatch::What::kOther: return "other";
  }
  return "operand";
}

std::string Mismatch::ToText(const Graph& graph) const {
  if (node == kNoNode || !expected) return "";
  const std::string place = PlaceText(graph, *this), found = FoundText(graph, *this);
  switch (what) {
    case What::kOperand: return fmt::format("{} is {}, expected {}", place, found, expected->ToText());
    case What::kArity:
      return fmt::format("{} has {} operands, expected {}", graph.node(node).op, graph.node(node).args.size(),
                         expected->operands.size());
    case What::kImpure: return fmt::format("{} has effects or several results", place);
    case What::kUses: return fmt::format("{} is {} of several uses, expected one", place, found);
    case What::kCondition:
      return fmt::format("{} is {}, expected {}", place, found, expected->conditions[condition].text);
    case What::kOther: return fmt::format("{} is {}, expected the same as '{}'", place, found, expected->name);
  }
  return "?";
}

std::optional<Match> Matcher::At(NodeId root, const Pattern& pattern) { return Extend({}, root, pattern); }

std::optional<Match> Matcher::Extend(Match found, NodeId root, const Pattern& pattern) {
  match_ = std::move(found);
  why_ = {};
  solved_ = furthest_ = 0;
  if (!SolveNode(root, pattern, nullptr, {.node = root, .operand = -1, .expected = &pattern})) return std::nullopt;
  return std::move(match_);
}

bool Matcher::Fail(Mismatch mismatch) {
  if (why_.expected && solved_ <= furthest_) return false;
  furthest_ = solved_;
  why_ = mismatch;
  why_.nodes = match_.nodes_.size();
  return false;
}

bool Matcher::Fail(const Goal& goal, Mismatch::What what, size_t condition) {
  return Fail({what, goal.node, static_cast<int>(goal.operand), goal.pattern, condition});
}

/// Solves one goal and all behind it, or leaves everything as it was.
bool Matcher::Solve(const Goal* goal) {
  if (!goal) return true;
  const size_t captures = match_.captures_.size(), nodes = match_.nodes_.size(), solved = solved_;
  using Kind = Pattern::Kind;
  const Call call(graph_, graph_.node(goal->node));
  ValueId value = call.ValueAt(goal->operand);
  if (goal->element >= 0) value = call.Get<RefList>(goal->operand)->ids[static_cast<size_t>(goal->element)];
  bool is_solved = false;
  switch (goal->pattern->kind) {
    case Kind::kAnything: is_solved = Solve(goal->next); break;
    case Kind::kAbsent: {
      const bool is_absent = goal->element >= 0 ? value == kNoValue : call.IsNone(goal->operand);
      is_solved = is_absent ? Solve(goal->next) : Fail(*goal, Mismatch::What::kOperand);
      break;
    }
    case Kind::kDefault: is_solved = goal->operand >= call.size() ? Solve(goal->next) : SolveNumber(*goal); break;
    case Kind::kNumber:
    case Kind::kFilled: is_solved = SolveNumber(*goal); break;
    case Kind::kEqual: {
      const auto& args = graph_.node(goal->node).args;
      const bool is_equal = goal->operand < args.size() && args[goal->operand] == goal->pattern->argument;
      is_solved = is_equal ? Solve(goal->next) : Fail(*goal, Mismatch::What::kOperand);
      break;
    }
    case Kind::kList: is_solved = SolveList(*goal); break;
    case Kind::kTensor:
    case Kind::kConstant:
    case Kind::kNode:
      is_solved = value == kNoValue ? Fail(*goal, Mismatch::What::kOperand) : SolveValue(*goal, value);
      break;
  }
  if (is_solved) return true;
  match_.captures_.resize(captures);
  match_.nodes_.resize(nodes);
  solved_ = solved;
  return false;
}

bool Matcher::SolveValue(const Goal& goal, ValueId value) {
  const Pattern& pattern = *goal.pattern;
  const NodeId def = graph_.value(value).def;
  if (pattern.kind == Pattern::Kind::kConstant) {
    const int input = graph_.InputIndex(value);
    if (input < 0 || graph_.inputs[input].kind != InputKind::kConstant) {
      return Fail(goal, Mismatch::What::kOperand);
    }
  }
  if (pattern.kind == Pattern::Kind::kNode) {
    if (def == kNoNode) return Fail(goal, Mismatch::What::kOperand);
    const Mismatch place{.node = goal.node, .operand = static_cast<int>(goal.operand), .expected = &pattern};
    return SolveNode(def, pattern, &goal, place);
  }
  if (pattern.is_used_once && graph_.use_count(value) != 1) return Fail(goal, Mismatch::What::kUses);
  for (size_t i = 0; i < pattern.conditions.size(); ++i) {
    if (!pattern.conditions[i].holds(graph_.type(value))) return Fail(goal, Mismatch::What::kCondition, i);
  }
  return Capture(goal, {pattern.name, value});
}

bool Matcher::SolveNumber(const Goal& goal) {
  const Call call(graph_, graph_.node(goal.node));
  std::optional<Number> number = call.ScalarAt(goal.operand);
  const ValueId value = call.ValueAt(goal.operand);
  if (goal.pattern->kind == Pattern::Kind::kFilled && value != kNoValue) number = FillOf(graph_, value);
  if (!number || (goal.pattern->number && !IsNumber(*number, *goal.pattern->number))) {
    return Fail(goal, Mismatch::What::kOperand);
  }
  return Capture(goal, {goal.pattern->name, kNoValue, std::move(number)});
}

bool Matcher::SolveList(const Goal& goal) {
  const auto* list = Call(graph_, graph_.node(goal.node)).Get<RefList>(goal.operand);
  const size_t count = goal.pattern->operands.size();
  if (!list || list->ids.size() != count) return Fail(goal, Mismatch::What::kOperand);
  std::vector<Goal> goals(count);
  for (size_t i = 0; i < count; ++i) {
    const Goal* next = i + 1 < count ? &goals[i + 1] : goal.next;
    goals[i] = {&goal.pattern->operands[i], goal.node, goal.operand, next, static_cast<int>(i)};
  }
  return Solve(count ? goals.data() : goal.next);
}

/// Captures and solves what is left.
bool Matcher::Capture(const Goal& goal, const Match::Capture& capture) {
  if (!capture.name.empty()) {
    const Match::Capture* same = match_.Find(capture.name);
    if (same && (same->value != capture.value || same->number != capture.number)) {
      return Fail(goal, Mismatch::What::kOther);
    }
    if (!same) match_.captures_.push_back(capture);
  }
  ++solved_;
  return Solve(goal.next);
}

/// `goal` is the operand that the node is, null for the root.
bool Matcher::SolveNode(NodeId id, const Pattern& pattern, const Goal* goal, const Mismatch& place) {
  const Node& node = graph_.node(id);
  const auto fail = [&](Mismatch::What what, size_t condition = 0) {
    Mismatch mismatch = place;
    mismatch.what = what;
    mismatch.condition = condition;
    return Fail(mismatch);
  };
  if (std::ranges::find(pattern.ops, node.op) == pattern.ops.end()) return fail(Mismatch::What::kOperand);
  ++solved_;
  if (!IsPure(node) || node.results.size() != 1) return fail(Mismatch::What::kImpure);
  if (node.args.size() > pattern.operands.size() && !pattern.is_open) {
    return Fail({Mismatch::What::kArity, id, -1, &pattern});
  }
  const ValueId value = node.results[0];
  if (pattern.is_used_once && graph_.use_count(value) != 1) return fail(Mismatch::What::kUses);
  for (size_t i = 0; i < pattern.conditions.size(); ++i) {
    if (!pattern.conditions[i].holds(graph_.type(value))) return fail(Mismatch::What::kCondition, i);
  }
  if (!pattern.name.empty()) {
    const Match::Capture* same = match_.Find(pattern.name);
    if (same && same->value != value) return fail(Mismatch::What::kOther);
    if (!same) match_.captures_.push_back({pattern.name, value});
  }
  match_.nodes_.push_back(id);
  const Goal* next = goal ? goal->next : nullptr;
  if (SolveOperands(id, pattern, next, false)) return true;
  return pattern.commutes && SolveOperands(id, pattern, next, true);
}

bool Matcher::SolveOperands(NodeId id, const Pattern& pattern, const Goal* next, bool is_swapped) {
  const size_t count = pattern.operands.size();
  std::vector<Goal> goals(count);
  for (size_t i = 0; i < count; ++i) {
    const size_t operand = is_swapped && i < 2 ? 1 - i : i;
    goals[i] = {&pattern.operands[i], id, operand, i + 1 < count ? &goals[i + 1] : next};
  }
  return Solve(count ? goals.data() : next);
}

}  // namespace ingot::compiler
