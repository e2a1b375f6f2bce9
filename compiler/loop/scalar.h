// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "compiler/loop/kernel.h"

namespace ingot::compiler::loop {

/// One element of any real type: `f` for floats (always a value of its type), `i` otherwise,
/// sign- or zero-extended from its width.
struct Scalar {
  double f = 0;
  int64_t i = 0;
};

float HalfToFloat(uint16_t bits);
uint16_t FloatToHalf(float value);      ///< Rounds to nearest even.
float BFloatToFloat(uint16_t bits);
uint16_t FloatToBFloat(float value);    ///< Rounds to nearest even.
/// `type`: kF8E4M3 or kF8E5M2.
float Float8ToFloat(uint8_t bits, DType type);
/// Rounds to nearest even; what is too large becomes infinity, or the largest number where there is none, as in torch.
uint8_t FloatToFloat8(float value, DType type);

Scalar ReadElement(const void* address, DType dtype);
void WriteElement(void* address, DType dtype, Scalar value);

/// `value` of type `from` as torch converts it to `to`.
Scalar CastScalar(Scalar value, DType from, DType to);

/// Evaluates an operation on scalars: everything but const, size, index, memory, casts and
/// reductions. `type` is the type of the operands (of the chosen ones for a select).
Scalar EvalScalar(ScalarOp op, DType type, std::span<const Scalar> args);

}  // namespace ingot::compiler::loop
