// SPDX-License-Identifier: Apache-2.0
#include "compiler/proof/graph_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "compiler/fusion/lower/lower.h"
#include "compiler/ir/text.h"
#include "compiler/ir/written_memories.h"
#include "compiler/ops/call.h"
#include "compiler/passes/pipeline.h"
#include "compiler/plan/aten_forms.h"
#include "compiler/proof/products.h"

namespace ingot::compiler {
namespace {

// Composites of composites.
constexpr int kPartsWithinMax = 4;

/// The node alone, in a graph whose inputs are its operands, each once and in their order. In place it makes a result.
Graph PartOf(const Graph& graph, NodeId id, std::vector<ValueId>& operands) {
  Graph part;
  Node node = graph.node(id);
  std::map<ValueId, ValueId> here;
  const auto at = [&](ValueId value) {
    const auto found = here.find(value);
    if (found != here.end()) return found->second;
    operands.push_back(value);
    return here[value] = part.AddInput(InputKind::kInput, fmt::format("x{}", operands.size()), graph.type(value));
  };
  for (Arg& arg : node.args) {
    if (auto* ref = std::get_if<Ref>(&arg)) ref->id = at(ref->id);
    if (auto* list = std::get_if<RefList>(&arg)) {
      for (ValueId& value : list->ids) value = value == kNoValue ? value : at(value);
    }
  }
  std::vector<Type> types;
  for (const ValueId value : node.results) types.push_back(graph.type(value));
  node.results.clear();
  node.inplace = -1;
  const NodeId made = part.AddNode(std::move(node), std::move(types));
  part.SetOutputs(part.node(made).results);
  return part;
}

/// The part wherever its operands and results lie.
Digest NameOf(const Graph& part) {
  Graph plain = part;
  for (ValueId id = 0; id < plain.value_count(); ++id) {
    Type& type = plain.value(id).type;
    type = Type::Contiguous(type.dtype, type.sizes);
  }
  return GraphDigest(plain);
}

bool Apply(Graph& part, std::string_view pass_name) {
  const Result<Pass> pass = FindPass(pass_name);
  if (!pass) return false;
  const Result<bool> changed = (*pass)(part);
  return changed && *changed;
}

/// Positions counted from the front, defaults filled in, one spelling: what expressions are made from.
bool Spell(Graph& part) {
  const bool shapes = Apply(part, "canonicalize-shapes");
  return Apply(part, "canonicalize-variants") || shapes;
}

/// A reshape of another number of elements is refused, as PyTorch does: these are no sizes of the graph.
Status HasAllElements(const Graph& part) {
  const Node& node = part.node(part.order().front());
  if (node.op != "aten.view" && node.op != "aten.reshape" && node.op != "aten._unsafe_view") return {};
  const Type* from = Call(part, node).TypeAt(0);
  if (from == nullptr || from->Elements() == part.type(node.results[0]).Elements()) return {};
  return Error(Code::kInvalid, node.op + " of another number of elements");
}

/// Whether the value is memory for an operator to write to in which nothing stands yet, or a part of it.
bool HoldsNothing(const Graph& graph, ValueId value) {
  for (NodeId def = graph.value(value).def; def != kNoNode; def = graph.value(value).def) {
    const Node& node = graph.node(def);
    const bool is_taken = IsTaken(graph, value), is_view = node.effects == kPure || is_taken;
    const auto* operand = is_view && !node.args.empty() ? std::get_if<Ref>(&node.args[0]) : nullptr;
    if (operand == nullptr) return false;
    const NodeId from = graph.value(operand->id).def;
    if (is_taken) return from != kNoNode && IsUnwritten(graph.node(from).op);
    value = operand->id;
  }
  return false;
}

bool AreClose(const std::vector<Array>& found, const std::vector<Array>& expected) {
  for (size_t i = 0; i < expected.size(); ++i) {
    if (FirstDifference(found[i], expected[i], nullptr, 0, expected[i].dtype).element >= 0) return false;
  }
  return true;
}

}  // namespace

Error DoneWithout(const std::string& op) {
  return Error(Code::kUnsupported, "the plan does without " + op + ", which nobody here knows");
}

Result<std::vector<Array>> UnknownCalls::Make(const Graph& part, std::vector<Array> operands, Numbers& sources) {
  const Digest name = NameOf(part);
  Operator& called = operators_[name];
  const Node& node = part.node(part.order().front());
  called.name = node.op;
  for (const Called& call : called.calls) {
    if (node.effects != kPure || !AreClose(operands, call.operands)) continue;
    sources.insert(call.number);
    ++made_[call.number].times;
    return call.results;
  }
  std::vector<Array> results;
  for (const ValueId output : part.outputs) {
    TRY_ASSIGN(Array array, Array::Of(part.type(output)));
    array.Fill(name.low + 31 * called.calls.size() + results.size(), Sampled::kOrdinary);
    results.push_back(std::move(array));
  }
  called.calls.push_back({std::move(operands), results, made_.size(), sources});
  sources.insert(made_.size());
  made_.push_back({node.op});
  return results;
}

void UnknownCalls::Rewind() {
  for (Made& made : made_) made.used = 0;
}

Result<std::vector<Array>> UnknownCalls::Find(const Graph& part, const std::vector<Array>& operands) {
  const Node& node = part.node(part.order().front());
  const auto found = operators_.find(NameOf(part));
  if (found == operators_.end()) return Error(Code::kUnsupported, fmt::format("{} is called otherwise", node.op));
  for (const Called& call : found->second.calls) {
    if (!AreClose(operands, call.operands) || (node.effects != kPure && made_[call.number].used > 0)) continue;
    ++made_[call.number].used;
    return call.results;
  }
  for (const Called& call : found->second.calls) {
    for (const size_t source : call.sources) {
      if (made_[source].used < made_[source].times) return DoneWithout(made_[source].name);
    }
  }
  return Error(Code::kInternal, fmt::format("an operand of {} is another one", node.op));
}

std::vector<std::string> UnknownCalls::names() const {
  std::vector<std::string> names;
  for (const auto& [digest, called] : operators_) names.push_back(called.name);
  std::ranges::sort(names);
  names.erase(std::ranges::unique(names).begin(), names.end());
  return names;
}

std::string UnknownCalls::Unused() const {
  const auto unused = std::ranges::find(made_, size_t{0}, &Made::used);
  return unused == made_.end() ? std::string() : unused->name;
}

Result<std::vector<Array>> NodeRunner::Evaluate(const Graph& part, const std::vector<Array>& operands,
                                                bool& has_expression) {
  Evaluation evaluation(part, {}, work_max_ - std::min(work_max_, work_), narrow_);
  for (size_t i = 0; i < operands.size(); ++i) {
    evaluation.Give(part.inputs[i].value, {operands[i].memory.get(), 0, operands[i].Strides()});
  }
  std::vector<Array> results;
  for (const ValueId output : part.outputs) {
    TRY_ASSIGN(Array array, Array::Of(part.type(output)));
    for (int64_t i = 0; i < array.elements && evaluation.status(); ++i) {
      const loop::Scalar made = evaluation.At(output, i);
      narrow_ == Narrow::kWide ? array.SetEitherWay(i, made, random_) : array.Set(i, made);
    }
    results.push_back(std::move(array));
  }
  work_ += evaluation.work();
  has_expression = evaluation.status() || evaluation.status().error().code() != Code::kUnsupported;
  if (!evaluation.status()) return evaluation.status().error();
  return results;
}

Result<std::vector<Array>> NodeRunner::Run(const Graph& graph, NodeId id, const std::map<ValueId, Array>& operands) {
  const Node& node = graph.node(id);
  const OperandOf operand = [&](ValueId value) -> const Array& { return operands.at(value); };
  TRY_ASSIGN(std::optional<Array> product, ProductOf(graph, node, operand, work_max_, work_));
  if (product) {
    // As if each were rounded: by how much it was is not known any more.
    for (int64_t i = 0; narrow_ == Narrow::kWide && IsStorageFloat(product->dtype) && i < product->elements; ++i) {
      loop::Scalar near = product->At(i);
      near.f *= (random_.Next() & 1) != 0 ? 1 + 1e-5 : 1 - 1e-5;
      product->SetEitherWay(i, near, random_);
    }
    return std::vector<Array>{std::move(*product)};
  }
  // They say where something lies, and are what they are given.
  if (node.op == "ingot.shares" || node.op == kMemoryOp)
    return std::vector<Array>{operand(std::get<Ref>(node.args[0]).id)};
  std::vector<ValueId> names;
  Graph part = PartOf(graph, id, names);
  std::vector<Array> arrays;
  for (const ValueId name : names) arrays.push_back(operands.at(name));
  if (node.effects == kPure) {
    const bool is_spelt = Spell(part);
    if (part.order().size() == 1) {
      TRY(HasAllElements(part));
      bool has_expression = false;
      Result<std::vector<Array>> results = Evaluate(part, arrays, has_expression);
      if (has_expression) return results;
      // What it stores into a copy is what it would store in place, which has an expression.
      Graph written = part;
      const NodeId only = written.order().front();
      if (fusion::WriteRules().contains(written.node(only).op)) {
        written.SetInplace(only, 0);
        results = Evaluate(written, arrays, has_expression);
        if (has_expression) return results;
      }
    }
    Graph parts = part;
    const bool is_apart = Apply(parts, "decompose");
    if (depth_ < kPartsWithinMax && (is_apart || is_spelt)) {
      std::map<ValueId, Array> values;
      for (size_t i = 0; i < arrays.size(); ++i) values.emplace(parts.inputs[i].value, arrays[i]);
      // Constants that came with it.
      for (size_t i = arrays.size(); i < parts.inputs.size(); ++i) {
        TRY_ASSIGN(Array constant, ConstantOf(parts, parts.inputs[i]));
        values.emplace(parts.inputs[i].value, std::move(constant));
      }
      ++depth_;
      auto all = RunAll(parts, std::move(values));
      --depth_;
      if (!all) return std::move(all).error();
      std::vector<Array> found;
      for (const ValueId output : parts.outputs) found.push_back(all->at(output));
      return found;
    }
  }
  // What nobody has written yet is anything.
  for (size_t i = 0; i < names.size(); ++i) {
    if (!HoldsNothing(graph, names[i])) continue;
    TRY_ASSIGN(arrays[i], Array::Of(graph.type(names[i])));
  }
  Result<std::vector<Array>> results =
      unknown_ == Unknown::kMadeUp ? calls_.Make(part, std::move(arrays), sources_) : calls_.Find(part, arrays);
  const WrittenMemories memories(node);
  for (size_t i = 0; results && i < memories.values.size(); ++i) {
    if (!IsTaken(graph, memories.values[i])) (*results)[memories.own_results + i] = operand(memories.values[i]);
  }
  return results;
}

Result<std::map<ValueId, Array>> NodeRunner::RunAll(const Graph& graph, std::map<ValueId, Array> values) {
  // Of a composite's parts: whatever its own operands come from.
  const UnknownCalls::Numbers outer = sources_;
  UnknownCalls::Numbers all = outer;
  std::map<ValueId, UnknownCalls::Numbers> sources;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if ((node.effects & kGuard) != 0) continue;
    std::map<ValueId, Array> operands;
    sources_ = outer;
    ForEachOperand(node, [&](ValueId value) {
      operands.emplace(value, values.at(value));
      sources_.insert(sources[value].begin(), sources[value].end());
    });
    auto results = Run(graph, id, operands);
    all.insert(sources_.begin(), sources_.end());
    for (const ValueId result : node.results) sources[result] = sources_;
    if (!results)
      return std::move(results).error().Wrap(fmt::format("%{}", node.results.empty() ? 0 : node.results[0]));
    for (size_t i = 0; i < node.results.size(); ++i) values.insert_or_assign(node.results[i], (*results)[i]);
  }
  sources_ = std::move(all);
  return values;
}

Result<Array> ConstantOf(const Graph& graph, const Input& input) {
  TRY_ASSIGN(Array array, Array::Of(graph.type(input.value)));
  const size_t bytes = static_cast<size_t>(array.elements) * SizeOf(array.dtype);
  if (input.data.size() != bytes) return Error(Code::kInternal, "a constant of another size");
  std::copy(input.data.begin(), input.data.end(), array.memory.get());
  return array;
}

}  // namespace ingot::compiler
