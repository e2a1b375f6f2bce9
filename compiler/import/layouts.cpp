// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/layouts.h"

#include <algorithm>
#include <limits>
#include <span>
#include <string_view>

#include "compiler/ops/ops.h"

namespace ingot::compiler {
namespace {

/// Operators that give an image of one row, [N, C, 1, L], to their twins over images.
bool TakesRowsAsImages(std::string_view op) {
  return op == "aten.conv1d" || op == "aten.conv1d.padding" || op == "aten.avg_pool1d" ||
         op == "aten.adaptive_avg_pool1d" || op == "aten.max_pool1d" || op == "aten.max_pool1d_with_indices" ||
         op == "aten.adaptive_max_pool1d";
}

}  // namespace

bool Layouts::Matches(const Dims& dims, const Dims& exact, const Dims& exact_sizes) const {
  if (dims.size() != exact.size()) return false;
  for (size_t i = 0; i < dims.size(); ++i) {
    const bool counts = exact_sizes.empty() || !exact_sizes[i].is_one();
    if (counts && sizes_.Seen(dims[i]) != exact[i].const_value()) return false;
  }
  return true;
}

Type Layouts::Guess(const Type& exact, Type type) const {
  for (size_t d = 0; d < type.rank(); ++d) {
    const auto seen = std::ranges::find(sizes_.seen(), exact.sizes[d].const_value());
    if (seen == sizes_.seen().end()) continue;
    type.sizes[d] = Dim::Symbol(static_cast<uint16_t>(seen - sizes_.seen().begin()));
  }
  type.strides = guards::NestedStrides(type.sizes, exact.sizes, exact.strides);
  return Matches(type.strides, exact.strides, exact.sizes) ? type : exact;
}

Dims Layouts::AsSeen(Dims strides, const Type& exact) const {
  for (size_t i = 0; i < strides.size(); ++i) {
    if (sizes_.Seen(strides[i]) != exact.strides[i].const_value()) strides[i] = exact.strides[i];
  }
  return strides;
}

void Layouts::Fix(const Type& type, const std::string& why) {
  for (const Dim& dim : type.sizes) sizes_.Fix(dim, why);
  for (const Dim& dim : type.strides) sizes_.Fix(dim, why);
}

bool Layouts::Choose(std::span<const Dims> guesses, const Type& exact, Type& type) {
  for (const Dims& strides : guesses) {
    if (!Matches(strides, exact.strides, exact.sizes)) continue;
    type.strides = AsSeen(strides, exact);
    // A stride that was another and counted for nothing, as long as there is one row.
    for (size_t i = 0; i < type.rank(); ++i) {
      if (type.strides[i] != strides[i]) TieIfOne(type.sizes[i]);
    }
    NoteChannelsLast(type);
    return true;
  }
  return false;
}

/// Whether the dims of a result of these sizes may lie in the order of an operand's strides. What takes dims away, or
/// makes them one, writes rows, as do normalisations, of which a turned operand tells; what sorts or halves rows does
/// not.
bool Layouts::KeepsOrder(const Node& node, const Dims& sizes, const Type& exact) const {
  const OpInfo* op = FindOp(node.op);
  if (op == nullptr || op->op_class != OpClass::kReduction) return true;
  bool keeps = false;
  ForEachOperand(node, [&](ValueId id) {
    const Type& given = graph_.type(id);
    bool are_kept = given.rank() == sizes.size();
    for (size_t i = 0; are_kept && i < sizes.size(); ++i) are_kept = given.sizes[i].is_one() || !sizes[i].is_one();
    keeps |= are_kept && !(IsTurned(given) && exact.IsContiguous());
  });
  return keeps;
}

/// Calls back with each two dims that a walk may take one after the other or the other way round.
template <typename F>
void Layouts::ForEachPair(const Type& type, const F& fn) {
  const auto is_walked = [&](size_t d) { return !type.sizes[d].is_one() && !type.strides[d].is_zero(); };
  for (size_t i = 0; i < type.rank(); ++i) {
    for (size_t j = i + 1; j < type.rank(); ++j) {
      if (is_walked(i) && is_walked(j)) fn(i, j);
    }
  }
}

bool Layouts::IsTurned(const Type& type) const {
  int64_t outer = std::numeric_limits<int64_t>::max();
  for (size_t i = 0; i < type.rank(); ++i) {
    if (sizes_.Seen(type.sizes[i]) == 1) continue;
    const int64_t stride = sizes_.Seen(type.strides[i]);
    if (stride > outer) return true;
    outer = stride;
  }
  return false;
}

void Layouts::NoteWalk(const Node& node, const Dims& sizes, const Type& exact) {
  const OpInfo* op = FindOp(node.op);
  if (op != nullptr && op->op_class == OpClass::kContraction) {
    // Its result is a formula of sizes, which one row does not tell from another one.
    if (MayBeTurned(node)) std::ranges::for_each(sizes, [this](const Dim& size) { TieIfOne(size); });
    return;
  }
  if (!KeepsOrder(node, sizes, exact) || !NoteOrder(node, sizes)) return;
  const auto stays = [this](const Dim& size) { StaysOne(size); };
  std::ranges::for_each(sizes, stays);
  ForEachOperand(node, [&](ValueId id) { std::ranges::for_each(graph_.type(id).sizes, stays); });
}

void Layouts::NoteImages(const Node& node) {
  const auto* ref = node.args.empty() ? nullptr : std::get_if<Ref>(&node.args[0]);
  if (ref == nullptr || !TakesRowsAsImages(node.op) || graph_.type(ref->id).rank() != 3) return;
  Type type = graph_.type(ref->id);
  const Dim whole = type.sizes[2] * type.strides[2];
  type.sizes.insert(type.sizes.begin() + 2, Dim(1));
  type.strides.insert(type.strides.begin() + 2, whole);
  NoteChannelsLast(type);
}

void Layouts::NoteChannelsLast(const Type& type) {
  const size_t rank = type.rank();
  if ((rank != 4 && rank != 5) || type.IsContiguous() || type.strides[1].is_zero()) return;
  // Of dims in the order in which they are named, one of size 1 decides between layouts that are the same.
  if (IsTurned(type)) std::ranges::for_each(type.sizes, [this](const Dim& size) { StaysOne(size); });
  Dim least;
  for (size_t d = 1;; d = d == 1 ? rank - 1 : d == 2 ? 0 : d - 1) {
    if (sizes_.Seen(type.strides[d]) < sizes_.Seen(least)) {
      sizes_.AtLeastZero(least - type.strides[d] - Dim(1));
      return;
    }
    sizes_.AtLeastZero(type.strides[d] - least);
    if (d == 0) return;
    least = type.strides[d] * type.sizes[d];
  }
}

bool Layouts::StaysCopied(const Node& node, const Type& from, const Type& to) {
  std::vector<size_t> dims;  // those that address something
  for (size_t d = 0; d < from.rank(); ++d) {
    if (!from.sizes[d].is_one()) dims.push_back(d);
  }
  if (node.op == "aten.contiguous") {
    const Dims strides = guards::ContiguousStrides(from.sizes);
    const auto gap =
        std::ranges::find_if(dims, [&](size_t d) { return sizes_.Seen(from.strides[d]) != sizes_.Seen(strides[d]); });
    return gap != dims.end() && sizes_.NotEqual(from.strides[*gap], strides[*gap]);
  }
  // Where two dims do not lie together in memory, a view would have to begin a dim.
  Dim behind = 1;
  for (size_t i = dims.size(); i-- > 1;) {
    const size_t inner = dims[i], outer = dims[i - 1];
    const Dim together = from.sizes[inner] * from.strides[inner];
    behind = behind * from.sizes[inner];
    Dims begins;
    for (size_t k = 1; k < to.rank(); ++k) begins.push_back(guards::Product(std::span(to.sizes).subspan(k)));
    const auto is_as_behind = [&](const Dim& size) { return sizes_.Seen(size) == sizes_.Seen(behind); };
    if (sizes_.Seen(from.strides[outer]) == sizes_.Seen(together) || std::ranges::any_of(begins, is_as_behind))
      continue;
    sizes_.NotEqual(from.strides[outer], together);
    for (const Dim& size : begins) sizes_.NotEqual(size, behind);
    return true;
  }
  return false;
}

void Layouts::StaysOne(const Dim& size) {
  if (!size.is_const() && sizes_.Seen(size) > 1) sizes_.AtLeastZero(size - Dim(2));
  TieIfOne(size);
}

void Layouts::TieIfOne(const Dim& size) {
  if (!size.is_const() && sizes_.Seen(size) == 1) sizes_.Tie(size, Dim(1));
}

void Layouts::NoteComparison(const Dim& a, const Dim& b) {
  const int64_t difference = sizes_.Seen(a) - sizes_.Seen(b);
  if (difference > 0) sizes_.AtLeastZero(a - b - Dim(1));
  if (difference < 0) sizes_.AtLeastZero(b - a - Dim(1));
  if (difference == 0) sizes_.Tie(a, b);
}

bool Layouts::Nests(const Type& type, size_t outer, size_t inner) const {
  const Dim &a = type.strides[outer], &b = type.strides[inner], &size = type.sizes[inner];
  const auto is_never_negative = [this](const Dim& dim) {
    return dim.IsPlainlyNotNegative() || sizes_.IsNeverNegative(dim);
  };
  // Strides are never 0 here, nor are sizes: what one is times another is 1 or more.
  const auto times = a.DivideExactly(b);
  if (!times) return is_never_negative(a - b * size) || is_never_negative(a - b - Dim(1));
  return times->DivideExactly(size) || is_never_negative(*times - size) || is_never_negative(*times - Dim(2));
}

bool Layouts::MayBeTurned(const Node& node) const {
  bool may_be = false;
  ForEachOperand(node, [&](ValueId id) {
    const Type& type = graph_.type(id);
    ForEachPair(type, [&](size_t i, size_t j) {
      may_be |= !(type.strides[i].is_const() && type.strides[j].is_const()) && !Nests(type, i, j);
    });
  });
  return may_be;
}

bool Layouts::NoteOrder(const Node& node, const Dims& sizes) {
  bool is_turned = false;
  ForEachOperand(node, [&](ValueId id) {
    const Type& type = graph_.type(id);
    // Parts of the operand are what some walk over, which are as large as the result.
    bool is_part = sizes.size() == type.rank();
    for (size_t i = 0; is_part && i < sizes.size(); ++i) is_part = sizes_.Seen(sizes[i]) <= sizes_.Seen(type.sizes[i]);
    ForEachPair(type, [&](size_t i, size_t j) {
      const Dim &a = type.strides[i], &b = type.strides[j];
      if (a != b && Nests(type, i, j)) return;
      const bool is_inside_out = a != b && Nests(type, j, i);
      is_turned |= is_inside_out || sizes_.Seen(a) < sizes_.Seen(b);
      if (is_inside_out) return;
      NoteComparison(a, b);
      if (sizes_.Seen(a) != sizes_.Seen(b)) return;
      // Those that are equal are ordered by size, the larger one outside.
      NoteComparison(type.sizes[i], type.sizes[j]);
      if (is_part) NoteComparison(sizes[i], sizes[j]);
      is_turned |= sizes_.Seen(type.sizes[i]) < sizes_.Seen(type.sizes[j]);
    });
  });
  return is_turned;
}

}  // namespace ingot::compiler
