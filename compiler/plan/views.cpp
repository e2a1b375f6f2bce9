// SPDX-License-Identifier: Apache-2.0
#include "compiler/plan/views.h"

#include "compiler/ops/op_table.h"
#include "compiler/ops/ops.h"
#include "compiler/ops/views.h"

namespace ingot::compiler {
namespace {

using Rule = std::optional<View> (*)(const Node& node, const Type& from, const Type& to);

std::optional<View> Same(const Node&, const Type& from, const Type& to) {
  if (from.sizes != to.sizes) return std::nullopt;
  return View{kNoValue, from.strides, Dim(0)};
}

// The importer has it begin with its operand, wherever that lies.
std::optional<View> AsStrided(const Node& node, const Type&, const Type& to) {
  if (node.args.size() != 4 || !std::holds_alternative<None>(node.args[3])) return std::nullopt;
  return View{kNoValue, to.strides, Dim(0)};
}

std::optional<View> Mapped(const ViewMap& map, const Type& from, const Type& to) {
  if (!map.in_order) return View{kNoValue, StridesOf(map, from.strides, to.rank()), OffsetOf(map, from.strides)};
  std::optional<Dims> strides = ViewStrides(from, to.sizes);
  if (!strides) return std::nullopt;
  return View{kNoValue, *std::move(strides), Dim(0)};
}

const OpTable<Rule>& Rules() {
  static const OpTable<Rule> rules = [] {
    OpTable<Rule> table;
#define PLACE(rule) , rule
#include "compiler/ops/ops.def"
    return table;
  }();
  return rules;
}

}  // namespace

std::optional<View> ViewOf(const Graph& graph, const Node& node, uint32_t result) {
  const Ref* operand = node.args.empty() ? nullptr : std::get_if<Ref>(&node.args[0]);
  if (operand == nullptr) return std::nullopt;
  const Type& from = graph.type(operand->id);
  const Type& to = graph.type(node.results[result]);
  if (from.dtype != to.dtype) return std::nullopt;
  std::optional<View> view;
  if (const std::vector<ViewMap> maps = ViewMapsOf(graph, node); result < maps.size()) {
    view = Mapped(maps[result], from, to);
  } else if (const Rule* rule = Rules().Of(node.op)) {
    view = (*rule)(node, from, to);
  }
  if (!view || !SameLayout(to.sizes, view->strides, to.strides)) return std::nullopt;
  view->operand = operand->id;
  // Consumers were compiled for the strides of the type; where they differ they do not matter.
  view->strides = to.strides;
  return view;
}

std::optional<View> ScatteredWindow(const Graph& graph, const Node& node) {
  const std::optional<Node> window = node.inplace == 0 ? WindowOf(node) : std::nullopt;
  const auto* source = window ? std::get_if<Ref>(&node.args[1]) : nullptr;
  if (source == nullptr) return std::nullopt;
  const std::vector<ViewMap> maps = ViewMapsOf(graph, *window, {});
  if (maps.size() != 1) return std::nullopt;
  const Dims& strides = graph.type(node.results[0]).strides;
  return View{kNoValue, StridesOf(maps[0], strides, graph.type(source->id).rank()), OffsetOf(maps[0], strides)};
}

}  // namespace ingot::compiler
