// SPDX-License-Identifier: Apache-2.0
// Bytes of known values, and rounding to the narrow types.
#include <cmath>
#include <cstring>

#include "compiler/passes/evaluate.h"
#include "compiler/passes/rounding.h"

namespace ingot::compiler {
namespace {

/// A float format with `mantissa` stored bits; `exponent_min` is that of the smallest normal.
struct Format {
  int mantissa, exponent_min, exponent_max;
};
constexpr Format kHalf{10, -14, 15};
constexpr Format kBrain{7, -126, 127};

double RoundToFormat(double value, const Format& format) {
  if (value == 0 || !std::isfinite(value)) return value;
  int exponent;
  std::frexp(value, &exponent);
  --exponent;
  const int last_bit = std::max(exponent, format.exponent_min) - format.mantissa;
  const double rounded = std::ldexp(std::nearbyint(std::ldexp(value, -last_bit)), last_bit);
  const double limit = std::ldexp(2.0 - std::ldexp(1.0, -format.mantissa), format.exponent_max);
  return std::abs(rounded) > limit ? std::copysign(INFINITY, value) : rounded;
}

uint16_t EncodeHalf(double value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return 0x7e00;
  const double magnitude = std::abs(value);
  if (std::isinf(value)) return sign | 0x7c00;
  if (magnitude < std::ldexp(1.0, -14)) {
    return sign | static_cast<uint16_t>(std::ldexp(magnitude, 24));
  }
  int exponent;
  const double fraction = std::frexp(magnitude, &exponent);
  const auto bits = static_cast<uint16_t>(std::ldexp(fraction * 2 - 1, 10));
  return static_cast<uint16_t>(sign | ((exponent + 14) << 10) | bits);
}

double DecodeHalf(uint16_t bits) {
  const int exponent = (bits >> 10) & 31, fraction = bits & 1023;
  double value = exponent == 31  ? (fraction ? NAN : INFINITY)
                 : exponent == 0 ? std::ldexp(fraction, -24)
                                 : std::ldexp(1024 + fraction, exponent - 25);
  return bits & 0x8000 ? -value : value;
}

uint16_t EncodeBrain(double value) {
  const auto narrow = static_cast<float>(value);
  uint32_t bits;
  std::memcpy(&bits, &narrow, sizeof bits);
  return std::isnan(value) ? 0x7fc0 : static_cast<uint16_t>(bits >> 16);
}

template <typename T>
T Load(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

template <typename T>
void Store(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

double DecodeFloat(DType dtype, const char* at) {
  switch (dtype) {
    case DType::kF16: return DecodeHalf(Load<uint16_t>(at));
    case DType::kBF16: {
      const uint32_t bits = static_cast<uint32_t>(Load<uint16_t>(at)) << 16;
      return Load<float>(reinterpret_cast<const char*>(&bits));
    }
    case DType::kF32: return Load<float>(at);
    default: return Load<double>(at);
  }
}

int64_t DecodeInt(DType dtype, const char* at) {
  switch (dtype) {
    case DType::kBool:
    case DType::kU8: return Load<uint8_t>(at);
    case DType::kI8: return Load<int8_t>(at);
    case DType::kI16: return Load<int16_t>(at);
    case DType::kI32: return Load<int32_t>(at);
    default: return Load<int64_t>(at);
  }
}

}  // namespace

double RoundFloat(DType dtype, double value) {
  switch (dtype) {
    case DType::kF16:
      // Arithmetic is done in f32, so the narrow result is rounded from there.
      return RoundToFormat(static_cast<float>(value), kHalf);
    case DType::kBF16: return RoundToFormat(static_cast<float>(value), kBrain);
    case DType::kF32: return static_cast<float>(value);
    default: return value;
  }
}

int64_t WrapInteger(DType dtype, int64_t value) {
  switch (dtype) {
    case DType::kBool: return value != 0;
    case DType::kU8: return static_cast<uint8_t>(value);
    case DType::kI8: return static_cast<int8_t>(value);
    case DType::kI16: return static_cast<int16_t>(value);
    case DType::kI32: return static_cast<int32_t>(value);
    default: return value;
  }
}

std::optional<std::vector<int64_t>> FixedSizes(const Dims& sizes) {
  std::vector<int64_t> fixed;
  int64_t elements = 1;
  for (const Dim& size : sizes) {
    if (!size.is_const() || size.const_value() < 0 || size.const_value() > kKnownElementsMax) {
      return std::nullopt;
    }
    fixed.push_back(size.const_value());
    elements *= size.const_value();
    if (elements > kKnownElementsMax) return std::nullopt;
  }
  return fixed;
}

std::optional<Known> Decode(const Type& type, const std::string& data) {
  const auto sizes = FixedSizes(type.sizes);
  if (!sizes || IsComplex(type.dtype) || IsFloat8(type.dtype)) return std::nullopt;
  Known known{type.dtype, false, *sizes, {}, {}};
  for (size_t at = 0; at + SizeOf(type.dtype) <= data.size(); at += SizeOf(type.dtype)) {
    if (known.is_float()) {
      known.floats.push_back(DecodeFloat(type.dtype, data.data() + at));
    } else {
      known.ints.push_back(DecodeInt(type.dtype, data.data() + at));
    }
  }
  int64_t elements = 1;
  for (int64_t size : *sizes) elements *= size;
  if (known.count() != static_cast<size_t>(elements)) return std::nullopt;
  return known;
}

std::string Encode(const Known& known) {
  std::string out;
  for (double value : known.floats) {
    switch (known.dtype) {
      case DType::kF16: Store(out, EncodeHalf(value)); break;
      case DType::kBF16: Store(out, EncodeBrain(value)); break;
      case DType::kF32: Store(out, static_cast<float>(value)); break;
      default: Store(out, value);
    }
  }
  // Two's complement, so the low bytes are the narrow integer.
  for (int64_t value : known.ints) {
    out.append(reinterpret_cast<const char*>(&value), SizeOf(known.dtype));
  }
  return out;
}

}  // namespace ingot::compiler
