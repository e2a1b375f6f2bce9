// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/row_rules.h"

#include <algorithm>
#include <span>
#include <string_view>

#include "compiler/ops/call.h"
#include "compiler/ops/dim_arg.h"
#include "compiler/ops/infer.h"
#include "compiler/ops/op_table.h"
#include "compiler/ops/ops.h"
#include "compiler/ops/views.h"

namespace ingot::compiler {
namespace {

/// What a kernel computes for an operator, as far as it says which elements a result depends on.
enum class Reads : uint8_t {
  kOwn,     ///< Those at its own index.
  kScaled,  ///< The same, with scales and zero points whose dims an argument places.
  kAlong,   ///< Those along some dims.
};

const OpTable<Reads>& ReadTable() {
  static const OpTable<Reads> table = [] {
    OpTable<Reads> table;
#define POINTWISE(...) , Reads::kOwn
#include "compiler/ops/ops.def"
#define QUANTIZE(...) , Reads::kScaled
#include "compiler/ops/ops.def"
#define REDUCE(...) , Reads::kAlong
#include "compiler/ops/ops.def"
#define SCAN(...) , Reads::kAlong
#include "compiler/ops/ops.def"
    return table;
  }();
  return table;
}

/// What an operator asks of sizes: one that normalises names the sizes of the last dims, along which it reads.
const OpTable<std::string_view>& SizeRuleNames() {
  static const OpTable<std::string_view> table = [] {
    OpTable<std::string_view> table;
#define SIZES(rule) , #rule
#include "compiler/ops/ops.def"
    return table;
  }();
  return table;
}

/// Every result has the rows of operand 0 at `dim`.
bool HaveRows(const Graph& graph, const Node& node, size_t dim, const Dim& rows) {
  return !node.results.empty() && std::ranges::all_of(node.results, [&](ValueId result) {
    const Dims& sizes = graph.type(result).sizes;
    return dim < sizes.size() && sizes[dim] == rows;
  });
}

/// Operands are aligned at their last dims: one that has the rows there is taken in parts, one that repeats its only
/// element along them whole.
std::optional<RowRule> ElementByElement(const Graph& graph, const Node& node, const RowDims& rows, bool is_scaled) {
  const Dims& sizes = graph.type(node.results[0]).sizes;
  std::optional<size_t> dim;
  ForEachOperand(node, [&](ValueId id) {
    const auto has = rows.find(id);
    if (has != rows.end()) dim = has->second + sizes.size() - graph.type(id).rank();
  });
  if (!dim || *dim >= sizes.size() || !HaveRows(graph, node, *dim, sizes[*dim])) return std::nullopt;
  RowRule rule{*dim, {}, {}};
  for (size_t i = 0; i < node.args.size(); ++i) {
    if (std::holds_alternative<RefList>(node.args[i])) return std::nullopt;
    const auto* ref = std::get_if<Ref>(&node.args[i]);
    if (!ref) continue;
    const Dims& own = graph.type(ref->id).sizes;
    if (own.size() > sizes.size()) return std::nullopt;
    const size_t missing = sizes.size() - own.size();
    const bool has_dim = *dim >= missing;
    const bool is_whole = !has_dim || own[*dim - missing].is_one();
    if (is_scaled && (is_whole ? !graph.type(ref->id).Elements().is_one() : missing != 0)) return std::nullopt;
    if (is_whole && !rows.contains(ref->id)) continue;
    if (!has_dim || own[*dim - missing] != sizes[*dim]) return std::nullopt;
    const auto has = rows.find(ref->id);
    if (has != rows.end() && has->second != *dim - missing) return std::nullopt;
    rule.parts.push_back(i);
    rule.dims.push_back(*dim - missing);
  }
  return rule;
}

/// The dims of operand 0 along which the node reads.
std::optional<std::vector<size_t>> DimsRead(const Graph& graph, const Node& node) {
  const Call call(graph, node);
  const size_t rank = call.TypeAt(0)->rank();
  std::vector<size_t> read;
  if (const DimArg* dims = DimArgOf(node.op)) {
    const auto listed = call.IntsAt(dims->arg);
    if (!listed || listed->empty() || dims->added != 0) return std::nullopt;  // None and []: along all.
    for (const int64_t one : *listed) {
      const std::optional<size_t> dim = WrapDim(one, rank);
      if (!dim) return std::nullopt;
      read.push_back(*dim);
    }
    return read;
  }
  const std::string_view* rule = SizeRuleNames().Of(node.op);
  const auto normalized = call.DimsAt(1);
  if (!rule || *rule != "Normalized" || !normalized || normalized->size() > rank) return std::nullopt;
  for (size_t i = rank - normalized->size(); i < rank; ++i) read.push_back(i);
  return read;
}

/// Operand 0 is read along dims that are not the rows; the others, such as a norm's weight, have dims of those alone.
std::optional<RowRule> AlongOtherDims(const Graph& graph, const Node& node, const RowDims& rows) {
  const Type* type = Call(graph, node).TypeAt(0);
  const auto has = type ? rows.find(std::get<Ref>(node.args[0]).id) : rows.end();
  if (has == rows.end()) return std::nullopt;
  const auto read = DimsRead(graph, node);
  if (!read || std::ranges::find(*read, has->second) != read->end()) return std::nullopt;
  for (size_t i = 1; i < node.args.size(); ++i) {
    if (std::holds_alternative<RefList>(node.args[i])) return std::nullopt;
    const auto* other = std::get_if<Ref>(&node.args[i]);
    if (other && (rows.contains(other->id) || graph.type(other->id).rank() > read->size())) return std::nullopt;
  }
  const size_t folded = static_cast<size_t>(std::ranges::count_if(*read, [&](size_t d) { return d < has->second; }));
  const bool keeps = graph.type(node.results[0]).rank() == type->rank();
  const size_t dim = keeps ? has->second : has->second - folded;
  if (!HaveRows(graph, node, dim, type->sizes[has->second])) return std::nullopt;
  return RowRule{dim, {0}, {has->second}};
}

/// The dim of a view's result along which the rows of operand 0 lie, one after the other from the first.
std::optional<size_t> RowsInView(const ViewMap& map, const Dims& operand, const Dims& result, size_t dim) {
  if (map.in_order) {
    const Dim before = guards::Product(std::span(operand).first(dim));
    for (size_t i = 0; i < result.size(); ++i) {
      if (result[i] == operand[dim] && guards::Product(std::span(result).first(i)) == before) return i;
    }
    return std::nullopt;
  }
  const ViewMap::Axis& axis = map.axes[dim];
  if (!axis.start.is_zero() || axis.along.size() != 1 || !axis.along[0].second.is_one()) return std::nullopt;
  const size_t found = axis.along[0].first;
  for (size_t i = 0; i < map.axes.size(); ++i) {
    const auto is_found = [&](const auto& along) { return along.first == found; };
    if (i != dim && std::ranges::any_of(map.axes[i].along, is_found)) return std::nullopt;
  }
  return found;
}

std::optional<RowRule> ThroughView(const Graph& graph, const Node& node, const RowDims& rows) {
  const Type* type = Call(graph, node).TypeAt(0);
  const auto has = type ? rows.find(std::get<Ref>(node.args[0]).id) : rows.end();
  const std::vector<ViewMap> maps = ViewMapsOf(graph, node);
  if (has == rows.end() || maps.size() != node.results.size() || maps.empty()) return std::nullopt;
  std::optional<size_t> dim;
  for (size_t i = 0; i < maps.size(); ++i) {
    const auto found = RowsInView(maps[i], type->sizes, graph.type(node.results[i]).sizes, has->second);
    if (!found || (dim && *dim != *found)) return std::nullopt;
    dim = found;
  }
  if (!HaveRows(graph, node, *dim, type->sizes[has->second])) return std::nullopt;
  return RowRule{*dim, {0}, {has->second}};
}

}  // namespace

std::optional<RowRule> RowRuleOf(const Graph& graph, const Node& node, const RowDims& rows) {
  if (!IsPure(node) || node.inplace >= 0 || node.results.empty()) return std::nullopt;
  if (ClassOf(node) == OpClass::kView) return ThroughView(graph, node, rows);
  const Reads* reads = ReadTable().Of(node.op);
  if (!reads) return std::nullopt;
  if (*reads == Reads::kAlong) return AlongOtherDims(graph, node, rows);
  if (ClassOf(node) != OpClass::kPointwise) return std::nullopt;
  return ElementByElement(graph, node, rows, *reads == Reads::kScaled);
}

std::vector<Arg> ArgsForRows(const Graph& graph, const Node& node, size_t dim, const Dim& rows) {
  std::vector<Arg> args = node.args;
  if (ClassOf(node) != OpClass::kView) return args;
  const Dims& sizes = graph.type(node.results[0]).sizes;
  for (Arg& arg : args) {
    auto* list = std::get_if<Dims>(&arg);
    if (list && list->size() == sizes.size() && (*list)[dim] == sizes[dim]) (*list)[dim] = rows;
  }
  return args;
}

}  // namespace ingot::compiler
