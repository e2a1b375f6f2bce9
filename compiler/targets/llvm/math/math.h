// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/loop/kernel.h"
#include "compiler/targets/llvm/builder.h"

namespace ingot::compiler::x86 {

/// Inlined elementary functions of f32 and f64 operands, scalar or vector; `b` only for kPow and
/// kAtan2. Nothing is called, no table but 2/pi is read. Error bounds: docs/numerics.md.
llvm::Value* EmitMath(Builder& code, loop::ScalarOp op, llvm::Value* a, llvm::Value* b = nullptr);

/// Exact remainder of a / b with the sign of a, as C's fmod (remainder.cpp).
llvm::Value* EmitFmod(Builder& code, llvm::Value* a, llvm::Value* b);

/// Sine or cosine of f64 (sine_cosine.cpp), the whole range of arguments.
llvm::Value* EmitSinCos64(Builder& code, bool cosine, llvm::Value* x);
/// x to the power y in f64 (power.cpp), special cases as IEEE 754 pow. `is_single`: as precise as f32 needs it.
llvm::Value* EmitPow64(Builder& code, llvm::Value* x, llvm::Value* y, bool is_single);

/// x split as 2^k * (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)), for positive finite f64.
struct LogSplit {
  llvm::Value* k;
  llvm::Value* f;
};
LogSplit SplitForLog(Builder& code, llvm::Value* x, bool is_normal = false);
/// log x in f64, to 2^-40 of its size, for positive normal x.
llvm::Value* LogOfSingle(Builder& code, llvm::Value* x);
/// e^(x + tail), over the whole range. `is_single`: in f64, to 2^-32 of its size.
llvm::Value* EmitExp(Builder& code, llvm::Value* x, llvm::Value* tail = nullptr, bool is_single = false);
/// e^x for x = y - max(y), rounded, so not above 0 (or NaN), to about what the rounding leaves of it; results below the
/// normal numbers become 0.
llvm::Value* EmitExpBelowMaximum(Builder& code, llvm::Value* x);

}  // namespace ingot::compiler::x86
