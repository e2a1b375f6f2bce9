// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "compiler/loop/kernel.h"
#include "compiler/targets/llvm/builder.h"

namespace ingot::compiler::x86 {

/// A value of the loop language in LLVM: scalar or vector, with the type it stands for.
struct Typed {
  llvm::Value* value;
  guards::DType dtype;
};

/// Converts as torch does; f16 and bf16 go through f32.
llvm::Value* EmitCast(Builder& code, Typed from, guards::DType to);

/// Any operation without memory, index or reduction: arithmetic, math, comparisons, select.
/// Operands have equal lanes. Null for an operation that is none of these.
llvm::Value* EmitScalarOp(Builder& code, const loop::Inst& inst, std::span<const Typed> args);

/// Minimum or maximum; NaN wins over numbers.
llvm::Value* EmitExtreme(Builder& code, bool is_max, Typed a, Typed b);

/// An immediate of `dtype`.
llvm::Value* EmitConst(Builder& code, const loop::Inst& inst);

}  // namespace ingot::compiler::x86
