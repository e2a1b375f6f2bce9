// SPDX-License-Identifier: Apache-2.0
// Views that have all dims of their operand, in another order or in the same. Their sizes follow from their maps.
#include <algorithm>
#include <numeric>

#include "compiler/ops/call.h"
#include "compiler/ops/rules.h"

namespace ingot::compiler {
namespace {

using Maps = std::vector<ViewMap>;
using Sizes = std::span<const Dims>;

std::vector<size_t> AsTheyAre(const Call& call) {
  std::vector<size_t> order(call.TypeAt(0)->rank());
  std::iota(order.begin(), order.end(), size_t{0});
  return order;
}

bool Swapped(const Call& call, int64_t a, int64_t b, Maps& maps) {
  std::vector<size_t> order = AsTheyAre(call);
  const std::optional<size_t> i = WrapDim(a, order.size()), j = WrapDim(b, order.size());
  if (!i || !j) return false;
  if (!order.empty()) std::swap(order[*i], order[*j]);
  maps.push_back(ViewMap::Ordered(order));
  return true;
}

/// Dims as positions, each once.
std::optional<std::vector<size_t>> Distinct(const std::optional<std::vector<int64_t>>& dims, size_t rank) {
  if (!dims) return std::nullopt;
  std::vector<size_t> found;
  for (const int64_t dim : *dims) {
    const std::optional<size_t> at = WrapDim(dim, rank);
    if (!at || *at >= rank || std::ranges::find(found, *at) != found.end()) return std::nullopt;
    found.push_back(*at);
  }
  return found;
}

}  // namespace

bool InferAlias(const Call& call, std::vector<Inferred>& results) {
  const Type* type = call.TypeAt(0);
  if (type != nullptr) results.push_back({type->dtype, type->sizes, type->strides});
  return type != nullptr;
}

/// A view whose dims are all whole dims of its operand.
bool InferMapped(const Call& call, std::vector<Inferred>& results) {
  const Type* type = call.TypeAt(0);
  const std::vector<ViewMap> maps = ViewMapsOf(call.graph(), call.node(), {});
  if (maps.size() != 1) return false;
  Dims sizes;
  for (size_t d = 0; d < maps[0].axes.size(); ++d) {
    for (const auto& [dim, step] : maps[0].axes[d].along) {
      if (sizes.size() <= dim) sizes.resize(dim + 1);
      sizes[dim] = type->sizes[d];
    }
  }
  results.push_back({type->dtype, std::move(sizes)});
  return true;
}

bool ViewAlias(const Call& call, Sizes, Maps& maps) {
  maps.push_back(ViewMap::Identity(call.TypeAt(0)->rank()));
  return true;
}

bool ViewTranspose(const Call& call, Sizes, Maps& maps) {
  const std::optional<int64_t> a = call.IntAt(1), b = call.IntAt(2);
  return a && b && Swapped(call, *a, *b, maps);
}

bool ViewT(const Call& call, Sizes sizes, Maps& maps) {
  const size_t rank = call.TypeAt(0)->rank();
  return rank < 2 ? ViewAlias(call, sizes, maps) : rank == 2 && Swapped(call, 0, 1, maps);
}

bool ViewNumpyT(const Call& call, Sizes, Maps& maps) {
  std::vector<size_t> order = AsTheyAre(call);
  std::ranges::reverse(order);
  maps.push_back(ViewMap::Ordered(order));
  return true;
}

bool ViewMT(const Call& call, Sizes, Maps& maps) { return call.TypeAt(0)->rank() >= 2 && Swapped(call, -2, -1, maps); }

bool ViewPermute(const Call& call, Sizes, Maps& maps) {
  const auto order = Distinct(call.IntsAt(1), call.TypeAt(0)->rank());
  if (!order || order->size() != call.TypeAt(0)->rank()) return false;
  maps.push_back(ViewMap::Ordered(*order));
  return true;
}

/// Each dim of the first list goes to where the second says; the others keep their order around them.
bool ViewMovedim(const Call& call, Sizes, Maps& maps) {
  std::vector<size_t> order = AsTheyAre(call);
  const auto from = Distinct(call.IntsAt(1), order.size()), to = Distinct(call.IntsAt(2), order.size());
  if (!from || !to || from->size() != to->size()) return false;
  std::vector<std::pair<size_t, size_t>> moves;
  for (size_t i = 0; i < from->size(); ++i) moves.emplace_back((*to)[i], (*from)[i]);
  std::erase_if(order, [&](size_t dim) { return std::ranges::find(*from, dim) != from->end(); });
  std::ranges::sort(moves);
  for (const auto& [at, dim] : moves) order.insert(order.begin() + static_cast<ptrdiff_t>(at), dim);
  maps.push_back(ViewMap::Ordered(order));
  return true;
}

}  // namespace ingot::compiler
