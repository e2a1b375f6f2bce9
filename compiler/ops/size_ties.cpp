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

}  // namespace ingot::compiler
