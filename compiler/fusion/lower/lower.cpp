// SPDX-License-Identifier: Apache-2.0
#include "compiler/fusion/lower/lower.h"

#include <algorithm>
#include <array>

#include "compiler/ops/ops.h"

namespace ingot::compiler::fusion {
namespace {

std::array<const RuleTable*, 9> Tables() {
  return {&PointwiseRules(), &ViewRules(),     &MoveRules(), &ReduceRules(), &ScanRules(),
          &ContractRules(),  &QuantizeRules(), &ConvRules(), &PoolRules()};
}

/// What a node in place stores. Element by element, any rule says that; other operators have rules of their own.
Results LowerInPlace(const Rule& rule) {
  const Node& node = rule.node();
  const Type& operand = rule.graph().type(std::get<Ref>(node.args[static_cast<size_t>(node.inplace)]).id);
  if (node.results.size() != 1 || !(operand == rule.result())) return rule.No("it works in place on another type");
  if (const LowerFn* own = WriteRules().Of(node.op)) {
    return node.inplace == 0 ? (*own)(rule) : rule.No("it works in place on another operand");
  }
  const LowerFn* pointwise = PointwiseRules().Of(node.op);
  if (!pointwise || ClassOf(node) != OpClass::kPointwise) return rule.No("it works in place");
  const Results results = (*pointwise)(rule);
  if (results.size() != 1 || results[0] == kNoExpr) return {};
  const ExprId value = rule.pool.Expand(results[0], rule.result().sizes);
  return value == kNoExpr ? Results() : InPlace(rule, value);
}

LowerFn FindRule(std::string_view op) {
  for (const RuleTable* table : Tables()) {
    if (const LowerFn* rule = table->Of(op)) return *rule;
  }
  return nullptr;
}

/// PyTorch moves float8 and converts it; the little that it computes on it has a rounding of its own.
bool TakesFloat8(std::string_view op) {
  static const OpTable<bool> takers = [] {
    OpTable<bool> table;
#define FLOAT8 , true
#include "compiler/ops/ops.def"
    return table;
  }();
  return takers.contains(op) || ViewRules().contains(op) || MoveRules().contains(op);
}

}  // namespace

ExprId Rule::Operand(size_t i, DType dtype) const {
  if (call.ValueAt(i) != kNoValue) return pool.Cast(Tensor(i), dtype);
  const auto number = call.ScalarAt(i);
  if (!number) return kNoExpr;
  if (const bool* flag = std::get_if<bool>(&number->value)) {
    return pool.Cast(pool.Int(*flag, DType::kBool), dtype);
  }
  if (const Dim* dim = std::get_if<Dim>(&number->value)) return pool.Cast(pool.Size(*dim), dtype);
  // A constant of type f64 holds the number as Python has it; the cast rounds it once.
  return pool.Cast(pool.Float(std::get<double>(number->value), DType::kF64), dtype);
}

ExprId Rule::Converted(size_t i, DType dtype) const {
  const ExprId x = Operand(i, dtype);
  const Type* type = call.TypeAt(i);
  const bool fits = type && (type->dtype == dtype || (guards::SizeOf(type->dtype) == 1 && !guards::IsFloat8(dtype)));
  return fits || ComputeType(dtype) == dtype ? x : pool.Round(x, dtype);
}

double Rule::FloatAt(size_t i, double otherwise) const { return call.FloatAt(i).value_or(otherwise); }

std::vector<std::string_view> ListRules() {
  std::vector<std::string_view> names;
  for (const RuleTable* table : Tables()) {
    for (const auto& [name, rule] : *table) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

Results LowerNode(ExprPool& pool, const Node& node, std::string_view& why) {
  const Graph& graph = pool.graph();
  const Rule rule{pool, Call(graph, node), why};
  if (node.effects != kPure) return rule.No("it has effects");
  if (node.results.empty()) return rule.No("it has no result");
  if (ChecksConversion(graph, node)) return rule.No("a number that may not fit into the result's type");
  const bool is_in_place = node.inplace >= 0;
  const LowerFn lower = is_in_place ? LowerInPlace : FindRule(node.op);
  if (!lower) return rule.No("no rule for this operator");
  // Eager's products round in an order of their own.
  const bool has_products = ContractRules().contains(node.op) || ConvRules().contains(node.op);
  if (graph.eager_numerics && has_products) return rule.No("numerics as eager's");
  for (ValueId id : node.results) {
    if (id >= graph.value_count() || guards::IsComplex(graph.type(id).dtype)) return rule.No("complex numbers");
  }
  const auto is_float8 = [&graph](ValueId id) {
    return id < graph.value_count() && guards::IsFloat8(graph.type(id).dtype);
  };
  if (!TakesFloat8(node.op)) {
    bool has_float8 = std::ranges::any_of(node.results, is_float8);
    ForEachOperand(node, [&](ValueId id) { has_float8 |= is_float8(id); });
    if (has_float8) return rule.No("computes on float8");
  }
  why = "its rule does not take these types, dims or arguments";
  Results results = lower(rule);
  if (rule.call.misread()) return rule.No("a number of sizes where the rule needs a constant");
  if (results.size() != node.results.size()) return {};
  for (size_t i = 0; i < results.size(); ++i) {
    const Type& type = graph.type(node.results[i]);
    if (results[i] == kNoExpr) return {};
    if (!is_in_place && pool[results[i]].sizes != type.sizes) {
      results[i] = pool.Expand(results[i], type.sizes);
      if (results[i] == kNoExpr) return rule.No("the rule's result has other sizes");
    }
    if (pool[results[i]].dtype != ComputeType(type.dtype)) return rule.No("the rule's result has another type");
  }
  return results;
}

}  // namespace ingot::compiler::fusion
