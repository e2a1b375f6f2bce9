// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "guards/dtype.h"

namespace ingot::client {

/// Names of element types as torch prints them, in the order of guards::DType.
constexpr std::array<std::string_view, guards::kDTypeCount> kTorchNames = {
    "bool",     "uint8",   "int8",    "int16",     "int32",      "int64",         "float16",
    "bfloat16", "float32", "float64", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2"};

constexpr std::string_view TorchNameOf(guards::DType dtype) { return kTorchNames[static_cast<size_t>(dtype)]; }
constexpr std::optional<guards::DType> DTypeOfTorchName(std::string_view name) {
  for (size_t i = 0; i < kTorchNames.size(); ++i) {
    if (kTorchNames[i] == name) return static_cast<guards::DType>(i);
  }
  return std::nullopt;
}

}  // namespace ingot::client
