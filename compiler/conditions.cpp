// SPDX-License-Identifier: Apache-2.0
#include "compiler/conditions.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "compiler/loop/bounds.h"
#include "compiler/loop/substitute.h"

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
  Result<guards::GuardSet> simple = all.Simplify();
  if (!simple) return Error(Code::kUnsupported, "no sizes keep all kernels in bounds: " + simple.error().message());
  return simple;
}

}  // namespace ingot::compiler
