// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>

#include "compiler/ir/graph_builder.h"
#include "compiler/ops/call.h"
#include "compiler/ops/infer.h"
#include "compiler/ops/ops.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/rewrite.h"

namespace ingot::compiler {
namespace {

constexpr size_t kPartsMax = 1 << 12;

/// A cat of tensors that are all there, with its dim from the front.
struct Concat {
  const std::vector<ValueId>* parts = nullptr;
  size_t dim = 0;
};

std::optional<Concat> ConcatOf(const Graph& graph, const Node* node) {
  if (!node || node->op != "aten.cat" || node->results.size() != 1 || !IsPure(*node)) return std::nullopt;
  const Call call(graph, *node);
  const auto* list = call.Get<RefList>(0);
  const auto dim = call.size() < 2 ? std::optional<int64_t>(0) : call.IntAt(1);
  if (!list || list->ids.empty() || !dim) return std::nullopt;
  const Type& type = graph.type(node->results[0]);
  const auto at = WrapDim(*dim, type.rank());
  const auto fits = [&](ValueId id) { return id != kNoValue && graph.type(id).dtype == type.dtype; };
  if (!at || *at >= type.rank() || !std::ranges::all_of(list->ids, fits)) return std::nullopt;
  return Concat{&list->ids, *at};
}

/// A slice with plain bounds and step 1.
struct Slice {
  ValueId source = kNoValue;
  size_t dim = 0;
  Dim start, end;
};

std::optional<Slice> SliceOf(const Graph& graph, const Node* node) {
  if (!node || node->op != "aten.slice.Tensor" || !IsPure(*node)) return std::nullopt;
  const Call call(graph, *node);
  const Type* type = call.TypeAt(0);
  const auto dim = call.IntAt(1);
  const auto start = call.DimAt(2), end = call.DimAt(3);
  if (!type || !dim || *dim < 0 || static_cast<size_t>(*dim) >= type->rank() || !start || !end || call.IntAt(4) != 1) {
    return std::nullopt;
  }
  // Bounds that reach outside are cut off: only what they say together with the result counts.
  if (*end - *start != graph.type(node->results[0]).sizes[*dim]) return std::nullopt;
  return Slice{call.ValueAt(0), static_cast<size_t>(*dim), *start, *end};
}

bool IsAtLeastZero(const Dim& dim) { return dim.is_const() && dim.const_value() >= 0; }

void SetParts(Graph& graph, NodeId id, size_t dim, std::vector<ValueId> parts) {
  graph.Redefine(id, "aten.cat", {RefList{std::move(parts)}, Dim(static_cast<int64_t>(dim))});
}

/// cat([cat([a, b]), c]) => cat([a, b, c]), where nobody else needs the inner one.
bool Flatten(Graph& graph, NodeId id) {
  const auto outer = ConcatOf(graph, &graph.node(id));
  if (!outer) return false;
  std::vector<ValueId> parts;
  bool changed = false;
  for (const ValueId part : *outer->parts) {
    const auto inner = graph.use_count(part) == 1 ? ConcatOf(graph, Definition(graph, part)) : std::nullopt;
    if (inner && inner->dim == outer->dim && inner->parts->size() + parts.size() < kPartsMax) {
      parts.insert(parts.end(), inner->parts->begin(), inner->parts->end());
      changed = true;
    } else {
      parts.push_back(part);
    }
  }
  if (changed) SetParts(graph, id, outer->dim, std::move(parts));
  return changed;
}

/// cat([a, nothing]) => cat([a]).
bool DropEmptyParts(Graph& graph, NodeId id) {
  const auto concat = ConcatOf(graph, &graph.node(id));
  if (!concat) return false;
  std::vector<ValueId> parts;
  for (const ValueId part : *concat->parts) {
    const Dims& sizes = graph.type(part).sizes;
    // PyTorch takes a tensor of sizes [0] along with those of any rank.
    const bool is_nothing = sizes.size() == 1 && sizes[0].is_zero();
    if (!is_nothing && (concat->dim >= sizes.size() || !sizes[concat->dim].is_zero())) parts.push_back(part);
  }
  if (parts.empty() || parts.size() == concat->parts->size()) return false;
  SetParts(graph, id, concat->dim, std::move(parts));
  return true;
}

/// cat([x[:2], x[2:5]]) => cat([x[:5]]), and x where that is all of it.
Result<bool> JoinSlices(Graph& graph, NodeId id) {
  const auto concat = ConcatOf(graph, &graph.node(id));
  if (!concat) return false;
  std::vector<ValueId> parts;
  std::optional<Slice> last;  // What the last part is, where it is a slice along the dim.
  bool changed = false;
  for (const ValueId part : *concat->parts) {
    std::optional<Slice> slice = SliceOf(graph, Definition(graph, part));
    if (slice && slice->dim != concat->dim) slice.reset();
    if (!slice || !last || slice->source != last->source || slice->start != last->end) {
      parts.push_back(part);
      last = std::move(slice);
      continue;
    }
    last->end = slice->end;
    const ValueId source = last->source;
    const Type& type = graph.type(source);
    if (last->start.is_zero() && last->end == type.sizes[last->dim]) {
      parts.back() = source;
    } else {
      const Dim dim(static_cast<int64_t>(last->dim));
      TRY_ASSIGN(const Ref joined,
                 GraphBuilder(graph, id).Op("aten.slice.Tensor", {Ref{source}, dim, last->start, last->end, Dim(1)}));
      parts.back() = joined.id;
    }
    changed = true;
  }
  if (changed) SetParts(graph, id, concat->dim, std::move(parts));
  return changed;
}

/// Whoever uses the value computes with its elements, however they lie.
bool IsOnlyComputedWith(const Graph& graph, ValueId id, const std::vector<bool>& escaping) {
  if (id < escaping.size() && escaping[id]) return false;
  return std::ranges::all_of(graph.uses(id), [&](const Use& use) {
    return use.IsNode() && ClassOf(graph.node(use.user)) == OpClass::kPointwise && IsPure(graph.node(use.user)) &&
           !MayAlias(graph.node(use.user));
  });
}

/// A slice of a cat that lies within one part is a slice of that part, or the part.
Result<bool> SliceOfPart(Graph& graph, NodeId id, const std::vector<bool>& escaping) {
  const Node& node = graph.node(id);
  const auto slice = SliceOf(graph, &node);
  const auto concat = slice ? ConcatOf(graph, Definition(graph, slice->source)) : std::nullopt;
  if (!concat || concat->dim != slice->dim) return false;
  const ValueId result = node.results[0];
  if (result < escaping.size() && escaping[result]) return false;
  Dim offset;
  for (const ValueId part : *concat->parts) {
    const Type& type = graph.type(part);
    if (type.rank() != graph.type(result).rank()) return false;
    const Dim size = type.sizes[slice->dim], start = slice->start - offset, end = slice->end - offset;
    offset = offset + size;
    if (!IsAtLeastZero(start) || !IsAtLeastZero(size - end)) continue;
    ValueId taken = part;
    if (!start.is_zero() || end != size) {
      const Dim dim(static_cast<int64_t>(slice->dim));
      TRY_ASSIGN(const Ref made, GraphBuilder(graph, id).Op("aten.slice.Tensor", {Ref{part}, dim, start, end, Dim(1)}));
      taken = made.id;
    }
    if (graph.type(taken) != graph.type(result) && !IsOnlyComputedWith(graph, result, escaping)) {
      if (taken != part) graph.RemoveNode(graph.value(taken).def);
      return false;
    }
    ReplaceNode(graph, id, taken);
    return true;
  }
  return false;
}

}  // namespace

Result<bool> SimplifyConcats(Graph& graph) {
  const std::vector<bool> escaping = EscapingValues(graph);
  const std::vector<NodeId> order = graph.order();
  bool changed = false;
  for (const NodeId id : order) {
    while (Flatten(graph, id) || DropEmptyParts(graph, id)) changed = true;
    TRY_ASSIGN(const bool joined, JoinSlices(graph, id));
    TRY_ASSIGN(const bool taken, SliceOfPart(graph, id, escaping));
    changed |= joined || taken;
  }
  return changed;
}

}  // namespace ingot::compiler
