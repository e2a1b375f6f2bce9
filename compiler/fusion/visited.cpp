// SPDX-License-Identifier: Apache-2.0
#include "compiler/fusion/visited.h"

#include <algorithm>

namespace ingot::compiler::fusion {
namespace {

constexpr size_t kRankMax = 63;

bool Has(Visited visited, size_t dim) { return dim < kRankMax && ((visited >> dim) & 1) != 0; }

bool IsWhole(Visited visited, const Dims& sizes) {
  for (size_t k = 0; k < sizes.size(); ++k) {
    if (!Has(visited, k) && !sizes[k].is_one()) return false;
  }
  return true;
}

/// The bits of `sizes` for which `is_visited(dim)` holds; a dim of 1 has no part.
template <typename F>
Visited Collect(const Dims& sizes, F is_visited) {
  Visited result = 0;
  for (size_t k = 0; k < std::min(sizes.size(), kRankMax); ++k) {
    if (sizes[k].is_one() || is_visited(k)) result |= Visited{1} << k;
  }
  return result;
}

/// A dim of the operand is visited whole where it is one of the view's dims, of the same size and
/// of no other use.
Visited ThroughView(const Expr& e, const Dims& sizes, Visited visited) {
  std::vector<size_t> uses(e.sizes.size());
  for (const Affine& entry : e.map) {
    for (const auto& [dim, coef] : entry.vars) ++uses[dim];
  }
  return Collect(sizes, [&](size_t k) {
    const Affine& entry = e.map[k];
    if (entry.vars.size() != 1 || !entry.gathered.empty() || !entry.offset.is_zero()) return false;
    const auto& [dim, coef] = entry.vars[0];
    return coef.is_one() && uses[dim] == 1 && e.sizes[dim] == sizes[k] && Has(visited, dim);
  });
}

}  // namespace

Visited VisitedOfArg(const ExprPool& pool, const Expr& e, size_t arg, Visited visited) {
  if (visited == kNowhere) return kNowhere;
  const Dims& sizes = pool[e.args[arg]].sizes;
  switch (e.kind) {
    case ExprKind::kMap:
    case ExprKind::kRound: {
      const size_t added = e.sizes.size() - sizes.size();
      return Collect(sizes, [&](size_t k) { return Has(visited, added + k); });
    }
    case ExprKind::kView: return ThroughView(e, sizes, visited);
    case ExprKind::kReshape: return IsWhole(visited, e.sizes) ? kWhole : 0;
    // The predicate of a region holds for all of what lies inside. Of one that fills its dim there is no outside.
    case ExprKind::kRegion: return arg == 1 && e.start.is_zero() && e.size == e.sizes[e.axis] ? kNowhere : visited;
    case ExprKind::kScatter: return visited;
    case ExprKind::kGather: return arg == 0 ? 0 : visited;
    case ExprKind::kScan: return Collect(sizes, [&](size_t k) { return k == e.axis || Has(visited, k); });
    case ExprKind::kReduce: return Collect(sizes, [&](size_t k) { return e.reduced[k] || Has(visited, k); });
    default: return 0;
  }
}

bool ReadsAllIndices(const ExprPool& pool, const Expr& e, Visited visited) {
  if (e.kind != ExprKind::kGather) return true;
  if (visited == kNowhere) return false;
  for (size_t k = 1; k < e.args.size(); ++k) {
    // The indices themselves have fewer dims than the result, which they are spread over.
    const Expr* index = &pool[e.args[k]];
    Visited read = visited;
    while (index->kind == ExprKind::kView) {
      read = VisitedOfArg(pool, *index, 0, read);
      index = &pool[index->args[0]];
    }
    if (!IsWhole(read, index->sizes)) return false;
  }
  return true;
}

}  // namespace ingot::compiler::fusion
