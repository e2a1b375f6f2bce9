// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "guards/dim.h"
#include "guards/dtype.h"

namespace ingot::guards {

/// A number that belongs to input `input` of a call; sizes and strides are in elements.
struct Property {
  enum class Kind : uint8_t { kRank, kSize, kStride, kOffset };
  Kind kind = Kind::kRank;
  uint16_t input = 0;
  uint16_t dim = 0;  ///< kSize, kStride
  auto operator<=>(const Property&) const = default;
};

/// One condition on the inputs and symbols of a call.
///
/// `value` is a polynomial over variables: below kFirstProperty the symbols s0, s1, ..., from there
/// on the properties of the set that holds the guard. A guard on a stride says nothing where the
/// tensor is empty: such strides are never used.
struct Guard {
  enum class Kind : uint8_t {
    kDType,      ///< input has `dtype`
    kDevice,     ///< input is on the device named `text`
    kEqual,      ///< value == 0
    kNotEqual,   ///< value != 0
    kAtLeast,    ///< value >= 0
    kModulo,     ///< value % modulus == remainder, 0 <= remainder < modulus as in Python
    kNotModulo,  ///< value % modulus != remainder
    kApart,      ///< inputs `input` and `other` share no memory
    kScalar,     ///< Python scalar number `input` is the literal `text`
  };
  static constexpr uint16_t kFirstProperty = 0x8000;

  Kind kind = Kind::kEqual;
  Dim value;
  int64_t modulus = 0;
  int64_t remainder = 0;
  uint16_t input = 0;
  uint16_t other = 0;
  DType dtype = DType::kF32;
  std::string text;

  bool IsNumeric() const { return kind >= Kind::kEqual && kind <= Kind::kNotModulo; }
  auto operator<=>(const Guard&) const = default;
};

/// Whether some variable of a guard's value is a property.
inline bool AsksForProperty(const Dim& value) {
  bool asks = false;
  value.ForEachSymbol([&](uint16_t variable) { asks |= variable >= Guard::kFirstProperty; });
  return asks;
}
/// The number of the property that a term is, or is less than nothing by.
inline std::optional<uint16_t> PropertyAlone(const Dim::Term& term) {
  const bool is_alone = term.factors.size() == 1 && (term.coef == 1 || term.coef == -1);
  if (!is_alone || !term.factors[0].is_symbol() || term.factors[0].symbol() < Guard::kFirstProperty)
    return std::nullopt;
  return static_cast<uint16_t>(term.factors[0].symbol() - Guard::kFirstProperty);
}

/// What guards may ask of one tensor. The spans must outlive the view.
struct TensorView {
  DType dtype = DType::kF32;
  std::string_view device = "cpu";
  std::span<const int64_t> sizes;
  std::span<const int64_t> strides;
  int64_t offset = 0;          ///< elements from the start of the storage
  uintptr_t begin = 0, end = 0;  ///< bytes it may touch: [begin, end)
};

/// One call, as guards see it; positions are those of GuardSet::inputs() and scalars().
struct Call {
  std::span<const int64_t> symbols;
  std::span<const TensorView> tensors;
  std::span<const std::string_view> scalars;  ///< as Python writes them: True, 3, 'fast'
};

}  // namespace ingot::guards
