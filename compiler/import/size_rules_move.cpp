// SPDX-License-Identifier: Apache-2.0
// What operators that move elements rely on of sizes: places within what they name.
#include <algorithm>
#include <optional>

#include "base/floored.h"
#include "compiler/import/operator_sizes.h"
#include "compiler/import/size_rules.h"
#include "compiler/ops/call.h"
#include "compiler/ops/infer.h"
#include "compiler/ops/views.h"

namespace ingot::compiler::size_rules {
/// What is scattered is as large as the window of operand 0.
bool Scattered(const Call& call, Sizes&) {
  const Type* source = call.TypeAt(1);
  const auto window = WindowOf(call.node());
  const auto taken = window ? InferWithin(call.graph(), *window) : std::nullopt;
  return source && taken && SameFrom(taken->front().sizes, 0, source->sizes);
}

bool Copy(const Call& call, Sizes&) {
  const Type *to = call.TypeAt(0), *from = call.TypeAt(1);
  return to && from && Fits(from->sizes, to->sizes);
}

bool Gather(const Call& call, Sizes&) {
  const Type *type = call.TypeAt(0), *index = call.TypeAt(2);
  const auto dim = type ? call.IntAt(1) : std::nullopt;
  const auto at = dim ? WrapDim(*dim, type->rank()) : std::nullopt;
  if (!at || !index || index->rank() != type->rank()) return false;
  for (size_t i = 0; i < type->rank(); ++i) {
    if (i != *at && !SameSize(type->sizes[i], index->sizes[i])) return false;
  }
  return true;
}

bool IndexSelect(const Call& call, Sizes&) {
  const Type* index = call.TypeAt(2);
  return index && index->rank() <= 1;
}

bool IndexCopy(const Call& call, Sizes&) {
  const Type *type = call.TypeAt(0), *index = call.TypeAt(2), *source = call.TypeAt(3);
  const auto dim = type ? call.IntAt(1) : std::nullopt;
  const auto at = dim ? WrapDim(*dim, type->rank()) : std::nullopt;
  if (!at || !index || !source || source->rank() != type->rank()) return false;
  for (size_t i = 0; i < type->rank(); ++i) {
    if (!SameSize(source->sizes[i], i == *at ? index->Elements() : type->sizes[i])) return false;
  }
  return true;
}

bool IndexPut(const Call& call, Sizes&) {
  const Type* values = call.TypeAt(2);
  if (!values) return false;
  Node index{"aten.index.Tensor", {call.node().args[0], call.node().args[1]}};
  const auto picked = Infer(call.graph(), index);
  return picked && Fits(values->sizes, picked->front().sizes);
}

/// The index places elements of the source within the dims of operand 0, except for the one that it is about.
bool Scatter(const Call& call, Sizes& sizes) {
  const Type *type = call.TypeAt(0), *index = call.TypeAt(2), *source = call.TypeAt(3);
  const auto dim = type ? call.IntAt(1) : std::nullopt;
  const auto at = dim ? WrapDim(*dim, type->rank()) : std::nullopt;
  if (!at || type->sizes.empty() || !index || index->rank() != type->rank()) return false;
  if (source && source->rank() != type->rank()) return false;
  for (size_t i = 0; i < type->rank(); ++i) {
    if (i != *at && !sizes.AtLeastZero(type->sizes[i] - index->sizes[i])) return false;
    if (source && !sizes.AtLeastZero(source->sizes[i] - index->sizes[i])) return false;
  }
  return true;
}

bool SplitSizes(const Call& call, Sizes&) {
  const Type* type = call.TypeAt(0);
  const auto lengths = call.DimsAt(1);
  const auto at = type ? WrapDim(call.IntAt(2).value_or(0), type->rank()) : std::nullopt;
  if (!at || !lengths || *at >= type->rank()) return false;
  Dim sum;
  for (const Dim& length : *lengths) sum = sum + length;
  return SameSize(sum, type->sizes[*at]);
}

/// What lies in another order keeps it, unless a dim is turned by a multiple of its size: eager joins two parts, and
/// the order is lost where one of them is empty.
bool Roll(const Call& call, Sizes& sizes) {
  const Type* type = call.TypeAt(0);
  const auto shifts = call.DimsAt(1);
  const auto dims = call.IntsAt(2);
  if (!type || !shifts || !dims) return false;
  if (type->IsContiguous()) return true;
  for (size_t i = 0; i < dims->size() && i < shifts->size(); ++i) {
    const auto at = WrapDim((*dims)[i], type->rank());
    if (!at || *at >= type->rank()) return false;
    const Dim &size = type->sizes[*at], &shift = (*shifts)[i];
    const int64_t seen = sizes.Seen(size);
    if (seen == 0) continue;
    const int64_t turned = sizes.Seen(shift);
    if (FloorMod(turned, seen) != 0) {
      const int64_t times = FloorDiv(turned, seen);
      sizes.AtLeastZero(shift - size * Dim(times) - Dim(1));
      sizes.AtLeastZero(size * Dim(times + 1) - shift - Dim(1));
    } else if (!shift.is_zero()) {
      for (const Dim& dim : {size, shift}) sizes.Fix(dim, "it is turned by a multiple of its size");
    }
  }
  return true;
}

bool Pad(const Call& call, Sizes& sizes) {
  const Type* type = call.TypeAt(0);
  const auto pad = call.DimsAt(1);
  if (!type || !pad || pad->size() % 2 != 0 || pad->size() / 2 > type->rank()) return false;
  const bool is_constant =
      call.node().op == "aten.constant_pad_nd" || call.NameAt(2).value_or("constant") == "constant";
  for (size_t i = 0; i < pad->size(); ++i) {
    const Dim& amount = (*pad)[i];
    // What lies plainly is copied where nothing is added, as it is where something is.
    if (is_constant && type->IsContiguous() && sizes.IsNeverNegative(amount)) continue;
    // What is added is added everywhere, and what is cut is cut and there: each is a way of its own.
    if (sizes.Seen(amount) == 0) {
      SameSize(amount, Dim(0));
    } else if (sizes.Seen(amount) > 0) {
      sizes.AtLeastZero(amount - Dim(1));
    } else if (!sizes.AtLeastZero(Dim(-1) - amount) ||
               !sizes.AtLeastZero(type->sizes[type->rank() - 1 - i / 2] + amount)) {
      return false;
    }
    // Others take what they pad with from within.
    if (!is_constant && !sizes.AtLeastZero(type->sizes[type->rank() - 1 - i / 2] - amount - Dim(1))) return false;
  }
  return true;
}

/// What is put before it and behind it is as large in all other dims.
bool Diff(const Call& call, Sizes&) {
  const Type* type = call.TypeAt(0);
  const auto at = type && type->rank() > 0 ? WrapDim(call.IntAt(2).value_or(-1), type->rank()) : std::nullopt;
  if (!at) return false;
  for (const size_t more : {3, 4}) {
    const Type* put = call.TypeAt(more);
    if (!put) continue;
    if (put->rank() != type->rank()) return false;
    for (size_t i = 0; i < type->rank(); ++i) {
      if (i != *at && !SameSize(put->sizes[i], type->sizes[i])) return false;
    }
  }
  return true;
}

bool TopK(const Call& call, Sizes& sizes) {
  const Type* type = call.TypeAt(0);
  const auto k = call.DimAt(1);
  const auto at = type ? WrapDim(call.IntAt(2).value_or(-1), type->rank()) : std::nullopt;
  return k && at && *at < type->rank() && sizes.AtLeastZero(type->sizes[*at] - *k);
}

/// Their number of dims is the operator's; nothing to look at without elements.
bool Upsample(const Call& call, Sizes& sizes) {
  const Type* type = call.TypeAt(0);
  const auto to = Infer(call.graph(), call.node());
  const auto is_some = [&](const Dim& size) { return sizes.AtLeastZero(size - Dim(1)); };
  return to && std::all_of(type->sizes.begin() + 1, type->sizes.end(), is_some) &&
         std::all_of(to->front().sizes.begin() + 2, to->front().sizes.end(), is_some);
}

bool AffineGrid(const Call& call, Sizes&) {
  const Type* theta = call.TypeAt(0);
  const auto output = call.DimsAt(1);
  if (!theta || theta->rank() != 3 || !output) return false;
  const Dim spatial(std::ssize(*output) - 2);
  return SameSize(theta->sizes[1], spatial) && SameSize(theta->sizes[2], spatial + Dim(1));
}

}  // namespace ingot::compiler::size_rules
