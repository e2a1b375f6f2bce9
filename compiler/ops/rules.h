// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "compiler/ops/infer.h"

namespace ingot::compiler {

// The inference rules that ops.def names, an InferFn each.
#define OP(name, parameters, op_class, purity, ...) __VA_ARGS__
#define INFER(rule) bool rule(const Call& call, std::vector<Inferred>& results);
#include "compiler/ops/ops.def"

}  // namespace ingot::compiler
