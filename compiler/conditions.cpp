// SPDX-License-Identifier: Apache-2.0
#include "compiler/conditions.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/loop/bounds.h"
#include "compiler/loop/facts.h"
#include "compiler/loop/substitute.h"
#include "compiler/ops/views.h"
#include "compiler/plan/views.h"

namespace ingot::compiler {
namespace {

Status CheckBuffers(const Graph& graph, const Launch& launch, const loop::Kernel& kernel) {
  const auto refuse = [&](std::string_view what) {
    return Error(Code::kInternal, fmt::format("launch of kernel {}: {}", kernel.name, what));
  };
  if (launch.symbols.size() != kernel.symbol_count) return refuse("another number of symbols");
  if (launch.buffers.size() != kernel.params.size()) return refuse("another number of buffers");
  for (size_t i = 0; i < launch.buffers.size(); ++i) {
    const Type& type = graph.type(launch.buffers[i]);
    const Dim believed = kernel.params[i].elements.Substitute(launch.symbols);
    if (kernel.params[i].dtype == type.dtype && believed == type.Extent()) continue;
    return refuse(
        fmt::format("buffer {} of {} elements stands for {} elements", i, type.Extent().ToText(), believed.ToText()));
  }
  return {};
}

Status AddAtLeast(guards::GuardSet& all, Dim value) {
  return all.Add({.kind = guards::Guard::Kind::kAtLeast, .value = std::move(value)});
}

/// Whether the kernel leaves parameter `param` alone where kernel symbol `symbol` is 0.
bool ReadsNothingAtZero(const loop::Kernel& kernel, size_t param, uint16_t symbol) {
  Dims by;
  for (uint16_t s = 0; s < kernel.symbol_count; ++s) by.push_back(s == symbol ? Dim() : Dim::Symbol(s));
  loop::Kernel at_zero = loop::Substitute(kernel, by);
  at_zero.params[param].elements = Dim();
  const Result<loop::Conditions> conditions = loop::ProveBounds(at_zero);
  return conditions && conditions->empty();
}

/// An empty tensor of the caller has no memory, also where its strides seem to reach further than
/// nothing: sizes at which a kernel would read of it are excluded.
Status NeedMemory(const Graph& graph, const Launch& launch, const loop::Kernel& kernel, guards::GuardSet& all) {
  for (size_t i = 0; i < launch.buffers.size(); ++i) {
    if (graph.value(launch.buffers[i]).def != kNoNode) continue;
    const Type& type = graph.type(launch.buffers[i]);
    const Dim extent = type.Extent();
    for (const Dim& size : type.sizes) {
      // Where the extent is a multiple of the size, it is 0 together with it.
      if (size.is_const() || extent.DivideExactly(size)) continue;
      const auto symbol = std::find(launch.symbols.begin(), launch.symbols.end(), size);
      const auto number = static_cast<uint16_t>(symbol - launch.symbols.begin());
      if (symbol != launch.symbols.end() && ReadsNothingAtZero(kernel, i, number)) continue;
      TRY(AddAtLeast(all, size - Dim(1)));
    }
  }
  return {};
}

Status Need(Dim value, guards::GuardSet& all) {
  return loop::Facts().Imply(value) ? Status() : AddAtLeast(all, std::move(value));
}

/// What a view names along each dim of its operand, first and last, is there.
Status NeedPlaces(const ViewMap& map, const Dims& operand, const Dims& view, guards::GuardSet& all) {
  if (std::ranges::find(view, Dim()) != view.end()) return {};
  for (size_t d = 0; d < map.axes.size(); ++d) {
    const ViewMap::Axis& axis = map.axes[d];
    Dim last = axis.start;
    for (const auto& [dim, step] : axis.along) last = last + step * (view[dim] - Dim(1));
    TRY(Need(axis.start, all));
    TRY(Need(operand[d] - last - Dim(1), all));
  }
  return {};
}

/// Windows are taken without a look at where they lie: those that the plan makes of views, and those that it writes.
Status NeedWindows(const Graph& graph, guards::GuardSet& all) {
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    for (uint32_t i = 0; i < node.results.size(); ++i) {
      const std::optional<View> view = ViewOf(graph, node, i);
      const std::vector<ViewMap> maps = view ? ViewMapsOf(graph, node) : std::vector<ViewMap>();
      // Of this one, strides say where it lies, and nothing of dims.
      if (view && node.op == "aten.as_strided")
        TRY(Need(graph.type(view->operand).Extent() - graph.type(node.results[i]).Extent(), all));
      if (i >= maps.size()) continue;
      TRY(NeedPlaces(maps[i], graph.type(view->operand).sizes, graph.type(node.results[i]).sizes, all));
    }
    if (!ScatteredWindow(graph, node)) continue;
    const Type &into = graph.type(std::get<Ref>(node.args[0]).id), &source = graph.type(std::get<Ref>(node.args[1]).id);
    for (const ViewMap& map : ViewMapsOf(graph, *WindowOf(node), {})) {
      TRY(NeedPlaces(map, into.sizes, source.sizes, all));
    }
  }
  return {};
}

}  // namespace

Result<guards::GuardSet> ConditionsOf(const Graph& graph, const Fused& fused) {
  std::vector<loop::Conditions> of_kernel;
  for (const loop::Kernel& kernel : fused.kernels) {
    Result<loop::Conditions> conditions = loop::ProveBounds(kernel);
    if (!conditions) return Error(Code::kInternal, conditions.error().message());
    of_kernel.push_back(*std::move(conditions));
  }
  // What runs in place of a general kernel has the same accesses: the conditions of that one count.
  guards::GuardSet all;
  for (const Launch& launch : fused.launches) {
    TRY(CheckBuffers(graph, launch, fused.kernels[launch.kernel]));
    for (const Dim& condition : of_kernel[launch.kernel]) {
      TRY(AddAtLeast(all, condition.Substitute(launch.symbols)));
    }
    TRY(NeedMemory(graph, launch, fused.kernels[launch.kernel], all));
  }
  TRY(NeedWindows(graph, all));
  Result<guards::GuardSet> simple = all.Simplify();
  if (!simple)
    return Error(Code::kUnsupported, "no sizes keep all kernels and views in bounds: " + simple.error().message());
  return simple;
}

}  // namespace ingot::compiler
