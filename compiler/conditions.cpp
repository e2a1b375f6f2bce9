// SPDX-License-Identifier: Apache-2.0
#include "compiler/conditions.h"

#include <fmt/format.h>

#include <vector>

#include "compiler/loop/bounds.h"

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
    return refuse(fmt::format("buffer {} of {} elements stands for {} elements", i, type.Extent().ToText(),
                              believed.ToText()));
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
      TRY(all.Add({.kind = guards::Guard::Kind::kAtLeast, .value = condition.Substitute(launch.symbols)}));
    }
  }
  Result<guards::GuardSet> simple = all.Simplify();
  if (!simple) return Error(Code::kUnsupported, "no sizes keep all kernels in bounds: " + simple.error().message());
  return simple;
}

}  // namespace ingot::compiler
