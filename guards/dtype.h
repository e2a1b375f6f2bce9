// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace ingot::guards {

/// Element type of a tensor. Numbers are those of proto/graph.fbs and never change.
enum class DType : uint8_t {
  kBool = 0,
  kU8 = 1,
  kI8 = 2,
  kI16 = 3,
  kI32 = 4,
  kI64 = 5,
  kF16 = 6,
  kBF16 = 7,
  kF32 = 8,
  kF64 = 9,
  kC64 = 10,
  kC128 = 11,
  kF8E4M3 = 12,  ///< torch's float8_e4m3fn: no infinities, NaN where all bits but the sign are set
  kF8E5M2 = 13,  ///< torch's float8_e5m2: the upper half of an f16
};
constexpr size_t kDTypeCount = 14;

/// Bytes of one element.
constexpr size_t SizeOf(DType t) {
  constexpr uint8_t kSizes[] = {1, 1, 1, 2, 4, 8, 2, 2, 4, 8, 8, 16, 1, 1};
  return kSizes[static_cast<uint8_t>(t)];
}
/// Types that only memory has: they are moved and converted, and computed with as f32.
constexpr bool IsFloat8(DType t) { return t == DType::kF8E4M3 || t == DType::kF8E5M2; }
constexpr bool IsFloat(DType t) { return (t >= DType::kF16 && t <= DType::kF64) || IsFloat8(t); }
constexpr bool IsComplex(DType t) { return t == DType::kC64 || t == DType::kC128; }
constexpr bool IsInteger(DType t) { return t >= DType::kU8 && t <= DType::kI64; }

/// "bool", "u8", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64", "c64", "c128", "f8e4m3", "f8e5m2".
constexpr std::string_view kDTypeNames[kDTypeCount] = {"bool", "u8",  "i8",  "i16", "i32",  "i64",    "f16",
                                                       "bf16", "f32", "f64", "c64", "c128", "f8e4m3", "f8e5m2"};
constexpr std::string_view NameOf(DType t) { return kDTypeNames[static_cast<uint8_t>(t)]; }
constexpr std::optional<DType> DTypeFromName(std::string_view name) {
  for (uint8_t i = 0; i < kDTypeCount; ++i) {
    if (kDTypeNames[i] == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

}  // namespace ingot::guards
