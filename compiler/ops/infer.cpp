// SPDX-License-Identifier: Apache-2.0
#include "compiler/ops/infer.h"

#include <algorithm>

#include <fmt/format.h>

#include "compiler/ops/call.h"
#include "compiler/ops/ops.h"
#include "compiler/ops/size_ties.h"
#include "compiler/ops/views.h"

namespace ingot::compiler {
namespace {

int CategoryOf(DType t) {
  if (IsComplex(t)) return 3;
  if (IsFloat(t)) return 2;
  return t == DType::kBool ? 0 : 1;
}

std::string SizesText(const Dims& sizes) {
  std::string out = "[";
  for (size_t i = 0; i < sizes.size(); ++i) out += (i ? ", " : "") + sizes[i].ToText();
  return out + "]";
}

bool SameDType(const Inferred& want, DType found) { return want.default_dtype ? IsFloat(found) : want.dtype == found; }

/// ResolveSizes where the elements do not divide as polynomials. Dims that the view splits or merges are found by what
/// they were, from the back, and tied part by part, so that only those of the -1 have something to divide.
std::optional<Dims> ResolveByParts(std::span<const Dim> from, Dims sizes, const Dim& known) {
  const auto elements = SeenSize(guards::Product(from)), taken = SeenSize(known);
  if (!elements || !taken || *elements < 1 || *taken < 1 || *elements % *taken != 0) return std::nullopt;
  const int64_t left = *elements / *taken;
  size_t i = from.size(), k = sizes.size();
  while (i > 0 || k > 0) {
    Dim dividend = 1, divisor = 1;
    Dim* open = nullptr;
    int64_t seen_dividend = 1, seen_divisor = 1;
    do {
      const bool takes_from = i > 0 && (k == 0 || seen_dividend <= seen_divisor);
      if (!takes_from && k == 0) return std::nullopt;
      Dim& size = takes_from ? dividend : divisor;
      int64_t& seen = takes_from ? seen_dividend : seen_divisor;
      const Dim next = takes_from ? from[--i] : sizes[--k];
      const bool is_open = !takes_from && next == Dim(-1);
      if (is_open) open = &sizes[k];
      const auto factor = is_open ? std::optional(left) : SeenSize(next);
      if (!factor || *factor < 1 || __builtin_mul_overflow(seen, *factor, &seen)) return std::nullopt;
      if (!is_open) size = size * next;
    } while (seen_dividend != seen_divisor);
    if (open == nullptr) {
      if (!SameSize(dividend, divisor)) return std::nullopt;
      continue;
    }
    const auto rest = FloorQuotient(dividend, divisor);
    if (!rest || !SameSize(dividend, divisor * *rest)) return std::nullopt;
    *open = *rest;
  }
  return sizes;
}

/// The layout of views, by the place that each element has in the operand.
void AddStrides(const Call& call, std::vector<Inferred>& results) {
  std::vector<Dims> sizes;
  for (const Inferred& result : results) sizes.push_back(result.sizes);
  const std::vector<ViewMap> maps = ViewMapsOf(call.graph(), call.node(), sizes);
  for (size_t i = 0; i < maps.size() && i < results.size(); ++i) {
    if (!maps[i].in_order) results[i].strides = StridesOf(maps[i], call.TypeAt(0)->strides, sizes[i].size());
  }
}

}  // namespace

DType PromoteTypes(DType a, DType b) {
  if (a == b) return a;
  const int category_a = CategoryOf(a), category_b = CategoryOf(b);
  if (category_a == 3 || category_b == 3) {
    const bool wide = a == DType::kC128 || b == DType::kC128 || a == DType::kF64 || b == DType::kF64;
    return wide ? DType::kC128 : DType::kC64;
  }
  if (category_a != category_b) return category_a > category_b ? a : b;
  if (category_a == 2) {
    // Neither half holds the other's values.
    if (SizeOf(a) == SizeOf(b)) return DType::kF32;
    return SizeOf(a) > SizeOf(b) ? a : b;
  }
  // An unsigned byte needs the next wider signed type.
  if (a == DType::kU8 || b == DType::kU8) {
    const DType other = a == DType::kU8 ? b : a;
    return other == DType::kI8 ? DType::kI16 : other;
  }
  return SizeOf(a) > SizeOf(b) ? a : b;
}

DType ResultType(std::span<const PromoteOperand> operands) {
  std::optional<DType> by_kind[3];
  for (const PromoteOperand& operand : operands) {
    std::optional<DType>& slot = by_kind[operand.kind];
    slot = slot ? PromoteTypes(*slot, operand.dtype) : operand.dtype;
  }
  const auto combine = [](std::optional<DType> high, std::optional<DType> low) {
    if (!high) return low;
    if (!low) return high;
    const int category_high = CategoryOf(*high), category_low = CategoryOf(*low);
    if (category_high >= category_low) return high;
    if (category_low == 3 && category_high == 2) {
      return std::optional(*high == DType::kF64 ? DType::kC128 : DType::kC64);
    }
    if (category_high == 0 || category_low >= 2) return std::optional(PromoteTypes(*high, *low));
    return high;
  };
  const std::optional<DType> result = combine(
      by_kind[PromoteOperand::kTensor], combine(by_kind[PromoteOperand::kZeroDim], by_kind[PromoteOperand::kNumber]));
  return result.value_or(DType::kF32);
}

std::optional<Dims> Broadcast(const Dims& a, const Dims& b) {
  const Dims& longer = a.size() >= b.size() ? a : b;
  const Dims& shorter = a.size() >= b.size() ? b : a;
  Dims sizes = longer;
  const size_t offset = longer.size() - shorter.size();
  for (size_t i = 0; i < shorter.size(); ++i) {
    Dim& size = sizes[offset + i];
    if (shorter[i].is_one()) continue;
    if (size.is_one()) {
      size = shorter[i];
    } else if (!SameSize(size, shorter[i])) {
      return std::nullopt;
    }
  }
  return sizes;
}

std::optional<size_t> WrapDim(int64_t dim, size_t rank) {
  const int64_t limit = std::max<int64_t>(static_cast<int64_t>(rank), 1);
  if (dim < -limit || dim >= limit) return std::nullopt;
  return static_cast<size_t>(dim < 0 ? dim + limit : dim);
}

std::optional<Dims> ResolveSizes(std::span<const Dim> from, Dims sizes) {
  const Dim elements = guards::Product(from);
  Dim known = 1;
  Dim* open = nullptr;
  for (Dim& size : sizes) {
    if (size == Dim(-1)) {
      if (open) return std::nullopt;
      open = &size;
    } else {
      known = known * size;
    }
  }
  if (!open) {
    if (!SameSize(known, elements)) return std::nullopt;
    return sizes;
  }
  if (known.is_zero()) return std::nullopt;
  const std::optional<Dim> rest = elements.DivideExactly(known);
  if (!rest) return ResolveByParts(from, std::move(sizes), known);
  *open = *rest;
  return sizes;
}

bool SameLayout(const Dims& sizes, const Dims& a, const Dims& b) {
  if (a.size() != b.size()) return false;
  if (std::any_of(sizes.begin(), sizes.end(), [](const Dim& d) { return d.is_zero(); })) {
    return true;
  }
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (!sizes[i].is_one() && a[i] != b[i]) return false;
  }
  return true;
}

std::optional<Dims> ViewStrides(const Type& operand, const Dims& wanted) {
  if (operand.sizes == wanted) return operand.strides;
  const Type type{operand.dtype, InQuotients(operand.sizes), InQuotients(operand.strides)};
  const Dims sizes = InQuotients(wanted);
  if (type.Elements().is_zero() || type.sizes.empty()) return guards::ContiguousStrides(sizes);
  Dims strides(sizes.size(), Dim(1));
  size_t to = sizes.size();
  Dim chunk_stride = type.strides.back();
  Dim chunk = 1;
  // From the back: dims of the operand that lie together form a chunk; the wanted sizes must
  // split into the same chunks.
  for (size_t from = type.sizes.size(); from-- > 0;) {
    chunk = chunk * type.sizes[from];
    const bool ends = from == 0 || (!type.sizes[from - 1].is_one() && type.strides[from - 1] != chunk * chunk_stride);
    if (!ends) continue;
    Dim filled = 1;
    while (to > 0 && (filled != chunk || sizes[to - 1].is_one())) {
      --to;
      strides[to] = filled * chunk_stride;
      filled = filled * sizes[to];
      if (!chunk.DivideExactly(filled)) return std::nullopt;
    }
    if (filled != chunk) return std::nullopt;
    if (from > 0) {
      chunk_stride = type.strides[from - 1];
      chunk = 1;
    }
  }
  if (to != 0) return std::nullopt;
  return strides;
}

std::optional<std::vector<Inferred>> Infer(const Graph& graph, const Node& node) {
  const OpInfo* op = FindOp(node.op);
  if (!op || !op->infer) return std::nullopt;
  std::vector<Inferred> results;
  const Call call(graph, node);
  if (!op->infer(call, results) || call.misread()) return std::nullopt;
  if (HasViewMap(node.op)) AddStrides(call, results);
  return results;
}

Status CheckTypes(const Graph& graph, const Node& node) {
  const std::optional<std::vector<Inferred>> want = Infer(graph, node);
  if (!want) return {};
  if (want->size() != node.results.size()) {
    return Error(Code::kInternal,
                 fmt::format("{} has {} results, inference says {}", node.op, node.results.size(), want->size()));
  }
  for (size_t i = 0; i < want->size(); ++i) {
    const Inferred& rule = (*want)[i];
    const Type& type = graph.type(node.results[i]);
    if (!SameDType(rule, type.dtype) || rule.sizes != type.sizes) {
      return Error(Code::kInternal,
                   fmt::format("result {} of {} is {}{}, inference says {}{}", i, node.op, guards::NameOf(type.dtype),
                               SizesText(type.sizes), guards::NameOf(rule.dtype), SizesText(rule.sizes)));
    }
    if (rule.strides && !SameLayout(type.sizes, *rule.strides, type.strides)) {
      return Error(Code::kInternal, fmt::format("result {} of {} has strides {}, a view has {}", i, node.op,
                                                SizesText(type.strides), SizesText(*rule.strides)));
    }
  }
  return {};
}

Status CheckTypes(const Graph& graph) {
  for (NodeId id : graph.order()) TRY(CheckTypes(graph, graph.node(id)));
  return {};
}

}  // namespace ingot::compiler
