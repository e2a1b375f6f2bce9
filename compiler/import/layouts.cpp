// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/layouts.h"

#include <algorithm>
#include <limits>
#include <span>

#include "compiler/ops/ops.h"

namespace ingot::compiler {
bool Layouts::Matches(const Dims& dims, const Dims& exact, const Dims& exact_sizes) const {
  if (dims.size() != exact.size()) return false;
  for (size_t i = 0; i < dims.size(); ++i) {
    const bool counts = exact_sizes.empty() || !exact_sizes[i].is_one();
    if (counts && sizes_.Seen(dims[i]) != exact[i].const_value()) return false;
  }
  return true;
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
  if (op != nullptr && op->op_class == OpClass::kContraction) return false;
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
  if (!KeepsOrder(node, sizes, exact)) return;
  NoteOrder(node, sizes);
  if (!IsPermuted(node)) return;
  for (const Dim& size : sizes) {
    if (!size.is_const() && sizes_.Seen(size) > 1) sizes_.AtLeastZero(size - Dim(2));
    TieIfOne(size);
  }
}

void Layouts::NoteChannelsLast(const Type& type) {
  const size_t rank = type.rank();
  if ((rank != 4 && rank != 5) || type.IsContiguous() || type.strides[1].is_zero()) return;
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

void Layouts::TieIfOne(const Dim& size) {
  if (!size.is_const() && sizes_.Seen(size) == 1) sizes_.Tie(size, Dim(1));
}

void Layouts::NoteComparison(const Dim& a, const Dim& b) {
  const int64_t difference = sizes_.Seen(a) - sizes_.Seen(b);
  if (difference > 0) sizes_.AtLeastZero(a - b - Dim(1));
  if (difference < 0) sizes_.AtLeastZero(b - a - Dim(1));
  if (difference == 0) sizes_.Tie(a, b);
}

void Layouts::NoteOrder(const Node& node, const Dims& sizes) {
  ForEachOperand(node, [&](ValueId id) {
    const Type& type = graph_.type(id);
    // Parts of the operand are what some walk over, which are as large as the result.
    bool is_part = sizes.size() == type.rank();
    for (size_t i = 0; is_part && i < sizes.size(); ++i) is_part = sizes_.Seen(sizes[i]) <= sizes_.Seen(type.sizes[i]);
    for (size_t i = 0; i < type.rank(); ++i) {
      for (size_t j = i + 1; j < type.rank(); ++j) {
        const Dim &a = type.strides[i], &b = type.strides[j];
        if (type.sizes[i].is_one() || type.sizes[j].is_one() || a.is_zero() || b.is_zero()) continue;
        if (a == b) {
          NoteComparison(type.sizes[i], type.sizes[j]);
          if (is_part) NoteComparison(sizes[i], sizes[j]);
        } else if (!a.DivideExactly(b) && !b.DivideExactly(a)) {
          NoteComparison(a, b);
        }
      }
    }
  });
}

bool Layouts::IsPermuted(const Node& node) const {
  bool is_permuted = false;
  ForEachOperand(node, [&](ValueId id) {
    is_permuted |= !std::ranges::is_sorted(graph_.type(id).strides,
                                           [&](const Dim& a, const Dim& b) { return sizes_.Seen(a) > sizes_.Seen(b); });
  });
  return is_permuted;
}

}  // namespace ingot::compiler
