// SPDX-License-Identifier: Apache-2.0
#include "compiler/ops/size_ties.h"

namespace ingot::compiler {
namespace {

thread_local SizeTies* t_ties = nullptr;

}  // namespace

SizeTies::SizeTies() : outer_(t_ties) { t_ties = this; }
SizeTies::~SizeTies() { t_ties = outer_; }

bool SameSize(const guards::Dim& a, const guards::Dim& b) {
  return a == b || (t_ties != nullptr && t_ties->Tie(a, b));
}

std::optional<guards::Dim> FloorQuotient(const guards::Dim& a, const guards::Dim& b) {
  if (b.is_const() && b.const_value() < 1) return std::nullopt;
  if (b.is_one()) return a;
  if (a.is_const() && b.is_const()) {
    const int64_t x = a.const_value(), y = b.const_value();
    return guards::Dim(x / y - (x % y < 0 ? 1 : 0));
  }
  if (auto exact = a.DivideExactly(b)) return exact;
  return t_ties == nullptr ? std::nullopt : t_ties->Quotient(a, b);
}

}  // namespace ingot::compiler
