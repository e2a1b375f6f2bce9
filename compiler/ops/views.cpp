// SPDX-License-Identifier: Apache-2.0
#include "compiler/ops/views.h"

#include <algorithm>
#include <numeric>

#include "compiler/ops/call.h"
#include "compiler/ops/op_table.h"
#include "compiler/ops/rules.h"

namespace ingot::compiler {
namespace {

const OpTable<ViewFn>& Views() {
  static const OpTable<ViewFn> rules = [] {
    OpTable<ViewFn> table;
#define VIEW(rule) , rule
#include "compiler/ops/ops.def"
    return table;
  }();
  return rules;
}

const OpTable<std::string_view>& Windows() {
  static const OpTable<std::string_view> views = [] {
    OpTable<std::string_view> table;
#define WINDOW(view) , view
#include "compiler/ops/ops.def"
    return table;
  }();
  return views;
}

}  // namespace

ViewMap ViewMap::Identity(size_t rank) {
  std::vector<size_t> order(rank);
  std::iota(order.begin(), order.end(), size_t{0});
  return Ordered(order);
}

ViewMap ViewMap::Ordered(const std::vector<size_t>& order) {
  ViewMap map{std::vector<Axis>(order.size())};
  for (size_t k = 0; k < order.size(); ++k) map.axes[order[k]] = Axis::Along(k);
  return map;
}

std::vector<ViewMap> ViewMapsOf(const Graph& graph, const Node& node, std::span<const Dims> sizes) {
  const ViewFn* rule = Views().Of(node.op);
  const Call call(graph, node);
  std::vector<ViewMap> maps;
  if (rule == nullptr || call.TypeAt(0) == nullptr || !(*rule)(call, sizes, maps) || call.misread()) return {};
  return maps;
}

std::vector<ViewMap> ViewMapsOf(const Graph& graph, const Node& node) {
  std::vector<Dims> sizes;
  if (HasViewMap(node.op)) {
    for (const ValueId result : node.results) sizes.push_back(graph.type(result).sizes);
  }
  return ViewMapsOf(graph, node, sizes);
}

bool HasViewMap(std::string_view op) { return Views().contains(op); }

std::optional<std::vector<size_t>> OrderOf(const ViewMap& map, const Dims& operand, const Dims& result) {
  const size_t rank = result.size();
  if (map.in_order || map.axes.size() != rank || operand.size() != rank) return std::nullopt;
  std::vector<size_t> order(rank, rank);
  for (size_t d = 0; d < rank; ++d) {
    const ViewMap::Axis& axis = map.axes[d];
    const size_t k = axis.along.size() == 1 ? axis.along[0].first : rank;
    if (k >= rank || axis != ViewMap::Axis::Along(k) || order[k] != rank || operand[d] != result[k])
      return std::nullopt;
    order[k] = d;
  }
  return order;
}

Dims StridesOf(const ViewMap& map, const Dims& strides, size_t rank) {
  Dims result(rank, Dim(0));
  for (size_t d = 0; d < map.axes.size(); ++d) {
    for (const auto& [dim, step] : map.axes[d].along) result[dim] = result[dim] + step * strides[d];
  }
  return result;
}

Dim OffsetOf(const ViewMap& map, const Dims& strides) {
  Dim offset = 0;
  for (size_t d = 0; d < map.axes.size(); ++d) offset = offset + map.axes[d].start * strides[d];
  return offset;
}

std::string_view WindowOf(std::string_view scatter) {
  const std::string_view* view = Windows().Of(scatter);
  return view == nullptr ? std::string_view() : *view;
}

std::string_view ScatterOf(std::string_view view) {
  const auto& windows = Windows();
  const auto found = std::ranges::find(windows, view, [](const auto& entry) { return entry.second; });
  return found == windows.end() ? std::string_view() : found->first;
}

std::optional<Node> WindowOf(const Node& scatter) {
  const std::string_view view = WindowOf(scatter.op);
  if (view.empty() || scatter.args.size() < 2) return std::nullopt;
  Node window{std::string(view), scatter.args};
  window.args.erase(window.args.begin() + 1);
  return window;
}

}  // namespace ingot::compiler
