// SPDX-License-Identifier: Apache-2.0
#include "compiler/loop/scalar.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/floored.h"
#include "compiler/loop/ops.h"

namespace ingot::compiler::loop {
namespace {

int64_t WrapToWidth(int64_t v, DType t) {
  switch (t) {
    case DType::kBool: return v != 0;
    case DType::kU8: return static_cast<uint8_t>(v);
    case DType::kI8: return static_cast<int8_t>(v);
    case DType::kI16: return static_cast<int16_t>(v);
    case DType::kI32: return static_cast<int32_t>(v);
    default: return v;
  }
}

Scalar Float(double v, DType t) { return {t == DType::kF32 ? static_cast<double>(static_cast<float>(v)) : v, 0}; }
Scalar Integer(int64_t v, DType t) { return {0, WrapToWidth(v, t)}; }
Scalar Bool(bool v) { return {0, v}; }

template <typename T>
T Load(const void* address) {
  T value;
  std::memcpy(&value, address, sizeof value);
  return value;
}
template <typename T>
void Store(void* address, T value) {
  std::memcpy(address, &value, sizeof value);
}

/// As torch converts on x86-64: by way of i64 to i64 and u8, else of i32; out of that one's range gives its minimum.
int64_t TruncateToInteger(double v, DType to) {
  if (to == DType::kI64 || to == DType::kU8) {
    if (!(v >= -0x1p63 && v < 0x1p63)) return std::numeric_limits<int64_t>::min();
  } else if (!(v >= -0x1p31 && v < 0x1p31)) {
    return std::numeric_limits<int32_t>::min();
  }
  return static_cast<int64_t>(v);
}

/// As torch divides: from the exact remainder, rounding in the width of the type.
template <typename T>
T FloorDivide(T a, T b) {
  if (b == 0) return a / b;
  const T mod = std::fmod(a, b);
  T quotient = (a - mod) / b;
  if (mod != 0 && (b < 0) != (mod < 0)) quotient -= 1;
  if (quotient == 0) return std::copysign(T(0), a / b);
  const T floored = std::floor(quotient);
  return quotient - floored > T(0.5) ? floored + 1 : floored;
}

double EvalFloat(ScalarOp op, double a, double b, double c) {
  switch (op) {
    case ScalarOp::kAdd: return a + b;
    case ScalarOp::kSub: return a - b;
    case ScalarOp::kMul: return a * b;
    case ScalarOp::kDiv: return a / b;
    case ScalarOp::kFloorDiv: return FloorDivide(a, b);
    case ScalarOp::kRem: {
      const double r = std::fmod(a, b);
      return r != 0 && (r < 0) != (b < 0) ? r + b : r;
    }
    // Of equal operands (zeros of both signs) the second, as maxps does.
    case ScalarOp::kMin: return std::isnan(a) || std::isnan(b) ? a + b : (a < b ? a : b);
    case ScalarOp::kMax: return std::isnan(a) || std::isnan(b) ? a + b : (a > b ? a : b);
    case ScalarOp::kPow: return std::pow(a, b);
    case ScalarOp::kAtan2: return std::atan2(a, b);
    case ScalarOp::kFma: return std::fma(a, b, c);
    case ScalarOp::kNeg: return -a;
    case ScalarOp::kAbs: return std::fabs(a);
    case ScalarOp::kSign: return a > 0 ? 1 : (a < 0 ? -1 : 0);
    case ScalarOp::kSqrt: return std::sqrt(a);
    case ScalarOp::kRsqrt: return 1 / std::sqrt(a);
    case ScalarOp::kRecip: return 1 / a;
    case ScalarOp::kExp: return std::exp(a);
    case ScalarOp::kExpm1: return std::expm1(a);
    case ScalarOp::kLog: return std::log(a);
    case ScalarOp::kLog1p: return std::log1p(a);
    case ScalarOp::kLog2: return std::log2(a);
    case ScalarOp::kSin: return std::sin(a);
    case ScalarOp::kCos: return std::cos(a);
    case ScalarOp::kTanh: return std::tanh(a);
    case ScalarOp::kErf: return std::erf(a);
    case ScalarOp::kSigmoid: return 1 / (1 + std::exp(-a));
    case ScalarOp::kFloor: return std::floor(a);
    case ScalarOp::kCeil: return std::ceil(a);
    case ScalarOp::kRound: return std::nearbyint(a);
    case ScalarOp::kTrunc: return std::trunc(a);
    default: return 0;
  }
}

int64_t PowInteger(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 1) return 1;
    return base == -1 ? (exponent % 2 == 0 ? 1 : -1) : 0;
  }
  uint64_t result = 1, factor = static_cast<uint64_t>(base);
  for (; exponent > 0; exponent >>= 1) {
    if (exponent & 1) result *= factor;
    factor *= factor;
  }
  return static_cast<int64_t>(result);
}

int64_t DivideTrunc(int64_t a, int64_t b) {
  if (b == 0) return 0;
  return b == -1 ? static_cast<int64_t>(-static_cast<uint64_t>(a)) : a / b;
}

int64_t EvalInteger(ScalarOp op, DType t, int64_t a, int64_t b) {
  const auto ua = static_cast<uint64_t>(a), ub = static_cast<uint64_t>(b);
  const int64_t width = 8 * static_cast<int64_t>(guards::SizeOf(t));
  switch (op) {
    case ScalarOp::kAdd: return static_cast<int64_t>(ua + ub);
    case ScalarOp::kSub: return static_cast<int64_t>(ua - ub);
    case ScalarOp::kMul: return static_cast<int64_t>(ua * ub);
    case ScalarOp::kDiv: return DivideTrunc(a, b);
    case ScalarOp::kFloorDiv: return b == 0 ? 0 : FloorDiv(a, b);
    case ScalarOp::kRem: return b == 0 ? 0 : FloorMod(a, b);
    case ScalarOp::kMin: return b < a ? b : a;
    case ScalarOp::kMax: return b > a ? b : a;
    case ScalarOp::kPow: return PowInteger(a, b);
    case ScalarOp::kNeg: return static_cast<int64_t>(-ua);
    case ScalarOp::kAbs: return a < 0 ? static_cast<int64_t>(-ua) : a;
    case ScalarOp::kSign: return a > 0 ? 1 : (a < 0 ? -1 : 0);
    case ScalarOp::kAnd: return a & b;
    case ScalarOp::kOr: return a | b;
    case ScalarOp::kXor: return a ^ b;
    case ScalarOp::kNot: return t == DType::kBool ? !a : ~a;
    case ScalarOp::kShl: return b < 0 || b >= width ? 0 : static_cast<int64_t>(ua << b);
    case ScalarOp::kShr: return b < 0 || b >= width ? (a < 0 ? -1 : 0) : a >> b;
    default: return 0;
  }
}

template <typename T>
bool Compare(ScalarOp op, T a, T b) {
  switch (op) {
    case ScalarOp::kEq: return a == b;
    case ScalarOp::kNe: return a != b;
    case ScalarOp::kLt: return a < b;
    case ScalarOp::kLe: return a <= b;
    case ScalarOp::kGt: return a > b;
    default: return a >= b;
  }
}

}  // namespace

float BFloatToFloat(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

uint16_t FloatToBFloat(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

float HalfToFloat(uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int mantissa = bits & 1023;
  double magnitude;
  if (exponent == 31) {
    magnitude = mantissa ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
  } else if (exponent == 0) {
    magnitude = std::ldexp(mantissa, -24);
  } else {
    magnitude = std::ldexp(1024 + mantissa, exponent - 25);
  }
  return static_cast<float>(bits & 0x8000 ? -magnitude : magnitude);
}

uint16_t FloatToHalf(float value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return sign | 0x7e00;
  const double magnitude = std::fabs(value);
  if (magnitude == 0) return sign;
  if (magnitude >= 65520.0) return sign | 0x7c00;
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  // The step between neighbours is 2^(exponent-11), and 2^-24 for all subnormals.
  const int step = std::max(exponent - 11, -24);
  const double units = std::nearbyint(std::ldexp(magnitude, -step));
  // Adding the units to the exponent field carries into it where rounding crossed a power of two.
  const uint32_t bits = step == -24 ? static_cast<uint32_t>(units)
                                    : (static_cast<uint32_t>(step + 24) << 10) + static_cast<uint32_t>(units);
  return sign | static_cast<uint16_t>(bits);
}

float Float8ToFloat(uint8_t bits, DType type) {
  if (type == DType::kF8E5M2) return HalfToFloat(static_cast<uint16_t>(bits << 8));
  const int exponent = (bits >> 3) & 15, mantissa = bits & 7;
  double magnitude = exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
  if ((bits & 0x7f) == 0x7f) magnitude = std::numeric_limits<double>::quiet_NaN();
  return static_cast<float>(bits & 0x80 ? -magnitude : magnitude);
}

uint8_t FloatToFloat8(float value, DType type) {
  const bool is_e5m2 = type == DType::kF8E5M2;
  const uint8_t sign = std::signbit(value) ? 0x80 : 0;
  // What is beyond the largest number becomes infinity, or that number where there is no infinity.
  const uint8_t beyond = is_e5m2 ? 0x7c : 0x7e;
  if (std::isnan(value)) return sign | 0x7f;
  const double magnitude = std::fabs(value);
  if (magnitude == 0) return sign;
  if (std::isinf(value)) return sign | beyond;
  const int digits = is_e5m2 ? 2 : 3, lowest = is_e5m2 ? -16 : -9;
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  const int step = std::max(exponent - digits - 1, lowest);
  const double units = std::nearbyint(std::ldexp(magnitude, -step));
  const int64_t bits = (int64_t{step - lowest} << digits) + static_cast<int64_t>(units);
  return sign | static_cast<uint8_t>(std::min<int64_t>(bits, beyond));
}

Scalar ReadElement(const void* address, DType dtype) {
  switch (dtype) {
    case DType::kBool: return {0, Load<uint8_t>(address) != 0};
    case DType::kU8: return {0, Load<uint8_t>(address)};
    case DType::kI8: return {0, Load<int8_t>(address)};
    case DType::kI16: return {0, Load<int16_t>(address)};
    case DType::kI32: return {0, Load<int32_t>(address)};
    case DType::kI64: return {0, Load<int64_t>(address)};
    case DType::kF16: return {HalfToFloat(Load<uint16_t>(address)), 0};
    case DType::kBF16: return {BFloatToFloat(Load<uint16_t>(address)), 0};
    case DType::kF32: return {Load<float>(address), 0};
    case DType::kF8E4M3:
    case DType::kF8E5M2: return {Float8ToFloat(Load<uint8_t>(address), dtype), 0};
    default: return {Load<double>(address), 0};
  }
}

void WriteElement(void* address, DType dtype, Scalar v) {
  switch (dtype) {
    case DType::kBool:
    case DType::kU8:
    case DType::kI8: return Store(address, static_cast<uint8_t>(v.i));
    case DType::kI16: return Store(address, static_cast<int16_t>(v.i));
    case DType::kI32: return Store(address, static_cast<int32_t>(v.i));
    case DType::kI64: return Store(address, v.i);
    case DType::kF16: return Store(address, FloatToHalf(static_cast<float>(v.f)));
    case DType::kBF16: return Store(address, FloatToBFloat(static_cast<float>(v.f)));
    case DType::kF32: return Store(address, static_cast<float>(v.f));
    case DType::kF8E4M3:
    case DType::kF8E5M2: return Store(address, FloatToFloat8(static_cast<float>(v.f), dtype));
    default: return Store(address, v.f);
  }
}

Scalar CastScalar(Scalar v, DType from, DType to) {
  const bool from_float = guards::IsFloat(from);
  if (to == DType::kBool) return Bool(from_float ? v.f != 0 : v.i != 0);
  if (!guards::IsFloat(to)) return Integer(from_float ? TruncateToInteger(v.f, to) : v.i, to);
  if (!from_float) v.f = to == DType::kF64 ? static_cast<double>(v.i) : static_cast<float>(v.i);
  switch (to) {
    case DType::kF16: return {HalfToFloat(FloatToHalf(static_cast<float>(v.f))), 0};
    case DType::kBF16: return {BFloatToFloat(FloatToBFloat(static_cast<float>(v.f))), 0};
    case DType::kF8E4M3:
    case DType::kF8E5M2: return {Float8ToFloat(FloatToFloat8(static_cast<float>(v.f), to), to), 0};
    default: return Float(v.f, to);
  }
}

Scalar EvalScalar(ScalarOp op, DType type, std::span<const Scalar> args) {
  if (op == ScalarOp::kSelect) return args[0].i ? args[1] : args[2];
  const bool is_float = guards::IsFloat(type);
  const Scalar a = args[0];
  const Scalar b = args.size() > 1 ? args[1] : Scalar();
  const Scalar c = args.size() > 2 ? args[2] : Scalar();
  if (op == ScalarOp::kIsNan) return Bool(is_float && std::isnan(a.f));
  if (TraitsOf(op).cls == OpClass::kCompare) {
    return Bool(is_float ? Compare(op, a.f, b.f) : Compare(op, a.i, b.i));
  }
  if (!is_float) return Integer(EvalInteger(op, type, a.i, b.i), type);
  // A fused multiply-add must round once: in double first would round twice.
  if (op == ScalarOp::kFma && type == DType::kF32) {
    return {std::fma(static_cast<float>(a.f), static_cast<float>(b.f), static_cast<float>(c.f)), 0};
  }
  if (op == ScalarOp::kRsqrt && type == DType::kF32) {
    return {1 / std::sqrt(static_cast<float>(a.f)), 0};
  }
  if (op == ScalarOp::kFloorDiv && type == DType::kF32) {
    return {FloorDivide(static_cast<float>(a.f), static_cast<float>(b.f)), 0};
  }
  return Float(EvalFloat(op, a.f, b.f, c.f), type);
}

}  // namespace ingot::compiler::loop
