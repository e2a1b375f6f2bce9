// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/size_rules.h"

#include <algorithm>

#include "compiler/ops/infer.h"

namespace ingot::compiler::size_rules {

bool IsConst(const Dims& dims) {
  return std::ranges::all_of(dims, [](const Dim& dim) { return dim.is_const(); });
}

bool Fits(const Dims& small, const Dims& large) {
  if (small.size() > large.size()) return false;
  const size_t offset = large.size() - small.size();
  for (size_t i = 0; i < small.size(); ++i) {
    if (!small[i].is_one() && !SameSize(small[i], large[offset + i])) return false;
  }
  return true;
}

bool SameFrom(const Dims& a, size_t at, const Dims& b) {
  if (at + b.size() != a.size()) return false;
  for (size_t i = 0; i < b.size(); ++i) {
    if (!SameSize(a[at + i], b[i])) return false;
  }
  return true;
}

bool IsVector(const Call& call, size_t at, const Dim& size) {
  const Type* type = call.TypeAt(at);
  return type == nullptr ? call.IsNone(at) : type->rank() == 1 && SameSize(type->sizes[0], size);
}

bool AsInferred(const Call&, Sizes&) { return true; }

/// Operators that take dims of 1 in ways of their own.
bool AllLarge(const Call& call, Sizes& sizes) {
  bool are = true;
  ForEachOperand(call.node(), [&](ValueId id) {
    for (const Dim& size : call.graph().type(id).sizes) are &= size.is_const() || sizes.AtLeastZero(size - Dim(2));
  });
  return are;
}

/// A window of samples is a number of them.
bool Stft(const Call& call, Sizes&) {
  const Type* window = call.TypeAt(4);
  return window == nullptr ? call.IsNone(4) : IsConst(window->sizes);
}

bool Range(const Call& call, Sizes& sizes) {
  const auto inferred = Infer(call.graph(), call.node());
  return inferred && sizes.AtLeastZero(inferred->front().sizes[0]);
}

}  // namespace ingot::compiler::size_rules
