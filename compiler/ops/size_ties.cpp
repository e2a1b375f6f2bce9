// SPDX-License-Identifier: Apache-2.0
#include "compiler/ops/size_ties.h"

namespace ingot::compiler {
namespace {

using guards::Dim;

thread_local SizeTies* t_ties = nullptr;

}  // namespace

SizeTies::SizeTies() : outer_(t_ties) { t_ties = this; }
SizeTies::~SizeTies() { t_ties = outer_; }

bool SameSize(const Dim& a, const Dim& b) { return a == b || (t_ties != nullptr && t_ties->Tie(a, b)); }

std::optional<Dim> FloorQuotient(const Dim& a, const Dim& b) {
  if (b.is_const() && b.const_value() < 1) return std::nullopt;
  if (const auto exact = a.DivideExactly(b)) return exact;
  if (!b.is_const() && IsAtLeastZero(b - Dim(1)) != true) return std::nullopt;
  const Result<Dim> quotient = Dim::FloorDiv(a, b);
  return quotient ? std::optional(*quotient) : std::nullopt;
}

Dim Smaller(const Dim& a, const Dim& b) {
  constexpr auto kMin = guards::Atom::Kind::kMin;
  return t_ties == nullptr ? guards::MakeAtom(kMin, a, b) : t_ties->Extreme(kMin, a, b);
}

std::optional<int64_t> SeenSize(const Dim& dim) {
  if (dim.is_const()) return dim.const_value();
  return t_ties == nullptr ? std::nullopt : std::optional(t_ties->SeenAs(dim));
}

std::optional<bool> IsAtLeastZero(const Dim& dim) {
  if (dim.is_const()) return dim.const_value() >= 0;
  return t_ties == nullptr ? std::nullopt : std::optional(t_ties->Decide(dim));
}

guards::Dims InQuotients(const guards::Dims& dims) {
  guards::Dims all = dims;
  for (Dim& dim : all) {
    if (t_ties != nullptr && !dim.is_const()) dim = t_ties->InQuotients(dim);
  }
  return all;
}

}  // namespace ingot::compiler
