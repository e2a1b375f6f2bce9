// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "compiler/ops/infer.h"
#include "compiler/ops/views.h"

namespace ingot::compiler {

using Results = std::vector<Inferred>;

/// One more result, contiguous; true, as the end of a rule.
inline bool Push(DType dtype, Dims sizes, Results& results) {
  results.push_back({dtype, std::move(sizes)});
  return true;
}

// The rules that ops.def names by INFER, an InferFn each, and by VIEW, a ViewFn each.
#define OP(name, parameters, op_class, purity, ...) __VA_ARGS__
#define INFER(rule) bool rule(const Call& call, Results& results);
#define VIEW(rule) bool rule(const Call& call, std::span<const Dims> sizes, std::vector<ViewMap>& maps);
#include "compiler/ops/ops.def"

}  // namespace ingot::compiler
