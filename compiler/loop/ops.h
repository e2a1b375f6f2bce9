// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

#include "compiler/loop/kernel.h"

namespace ingot::compiler::loop {

/// Which operand and result types an operation accepts.
enum class OpClass : uint8_t {
  kConst,
  kSize,
  kIndex,
  kLoad,
  kStore,
  kCast,
  kArith,       ///< Operands and result share one computing type.
  kFloatArith,  ///< As kArith, f32 or f64 only.
  kIntArith,    ///< As kArith, integers only.
  kLogic,       ///< Operands and result share bool or an integer type (bitwise).
  kCompare,     ///< Operands share a type; bool result.
  kSelect,
  kScan,        ///< As kArith.
  kReduce,      ///< As kArith.
  kReduceBool,
  kReduceArg,   ///< i64 result.
  kReduceDot,   ///< As kArith: two operands of the result's type.
};

/// How an operation on floats treats digits (integers are exact and nothing is close to them).
enum class Digits : uint8_t {
  kExact,     ///< One correct result; close operands, close results.
  kRounded,   ///< Close to the true result, in digits that depend on who computes it.
  kDiscrete,  ///< One correct result; it jumps where an operand crosses some value.
  kSteps,     ///< Rounded, and it jumps.
};

struct OpTraits {
  ScalarOp op;
  std::string_view name;
  uint8_t args;
  OpClass cls;
  Digits digits = Digits::kExact;
};

/// One row for each ScalarOp, in the order of the enumeration.
const OpTraits& TraitsOf(ScalarOp op);
std::optional<ScalarOp> OpFromName(std::string_view name);

/// Whether a small difference between operands, of type `from`, may decide between results (of type `to`) that lie far
/// apart. Only floats differ by little; neighbours among float8 lie far apart.
bool IsDiscrete(ScalarOp op, DType from, DType to);

/// Whether every correct implementation gives the same number (and NaN for NaN) from equal operands: no rounding, one
/// rounding by IEEE 754, or an order of additions that does not matter.
bool IsExact(ScalarOp op, DType from);

inline bool IsReduce(ScalarOp op) { return TraitsOf(op).cls >= OpClass::kReduce; }
inline bool IsScan(ScalarOp op) { return TraitsOf(op).cls == OpClass::kScan; }
/// Whether the columns of a loop that has it must be walked in order, or folded: they belong together.
inline bool JoinsColumns(ScalarOp op) { return TraitsOf(op).cls >= OpClass::kScan; }
/// The reduction whose running values a scan gives; another operation is itself.
ScalarOp ReductionOf(ScalarOp scan);

/// Types arithmetic is done in: f32, f64 and integers.
constexpr bool IsComputeType(DType t) { return t == DType::kF32 || t == DType::kF64 || guards::IsInteger(t); }

}  // namespace ingot::compiler::loop
