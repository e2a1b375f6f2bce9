// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/import/sizes.h"
#include "compiler/ops/call.h"

namespace ingot::compiler::size_rules {

// The rules that ops.def names by SIZES: each notes on `sizes` what the call relies on beyond what its inference rule
// asks, and is false where the call takes a way that the rule does not follow.
#define OP(name, parameters, op_class, purity, ...) __VA_ARGS__
#define SIZES(rule) bool rule(const Call& call, Sizes& sizes);
#include "compiler/ops/ops.def"

bool IsConst(const Dims& dims);
/// `small` broadcasts to `large` without making it larger.
bool Fits(const Dims& small, const Dims& large);
/// Dims `at` and on of `a` are `b`.
bool SameFrom(const Dims& a, size_t at, const Dims& b);
/// Argument `at` is absent or a vector of `size` elements.
bool IsVector(const Call& call, size_t at, const Dim& size);

}  // namespace ingot::compiler::size_rules
