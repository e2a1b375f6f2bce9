// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/passes/decompose/composite.h"

namespace ingot::compiler {

// The rules that DECOMPOSE names in compiler/ops/ops.def. Each computes what PyTorch's composite computes, of f16 and
// bf16 in f32 where that does.
#define OP(name, parameters, op_class, purity, ...) __VA_ARGS__
#define DECOMPOSE(rule) Parts rule(Composite& composite);
#include "compiler/ops/ops.def"

}  // namespace ingot::compiler
