// SPDX-License-Identifier: Apache-2.0
#include "client/onnx/element_types.h"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <string_view>

#include "client/onnx/node_error.h"

namespace ingot::onnx {
namespace {

struct ElementType {
  std::string_view name;
  std::optional<at::ScalarType> scalar;
};

/// By ONNX's numbers.
constexpr std::array<ElementType, 24> kTypes = {{{"undefined", {}},
                                                 {"float", at::kFloat},
                                                 {"uint8", at::kByte},
                                                 {"int8", at::kChar},
                                                 {"uint16", {}},
                                                 {"int16", at::kShort},
                                                 {"int32", at::kInt},
                                                 {"int64", at::kLong},
                                                 {"string", {}},
                                                 {"bool", at::kBool},
                                                 {"float16", at::kHalf},
                                                 {"double", at::kDouble},
                                                 {"uint32", {}},
                                                 {"uint64", {}},
                                                 {"complex64", at::kComplexFloat},
                                                 {"complex128", at::kComplexDouble},
                                                 {"bfloat16", at::kBFloat16},
                                                 {"float8e4m3fn", at::kFloat8_e4m3fn},
                                                 {"float8e4m3fnuz", {}},
                                                 {"float8e5m2", at::kFloat8_e5m2},
                                                 {"float8e5m2fnuz", {}},
                                                 {"uint4", {}},
                                                 {"int4", {}},
                                                 {"float4e2m1", {}}}};

}  // namespace

std::optional<at::ScalarType> ScalarTypeOf(int64_t number) {
  if (number < 0 || number >= static_cast<int64_t>(kTypes.size())) return std::nullopt;
  return kTypes[static_cast<size_t>(number)].scalar;
}

at::ScalarType TypeOf(int64_t number) {
  const auto found = ScalarTypeOf(number);
  if (!found) Refuse(fmt::format("elements of type {}, which PyTorch does not compute with", NameOf(number)));
  return *found;
}

std::string NameOf(int64_t number) {
  if (number < 0 || number >= static_cast<int64_t>(kTypes.size())) return fmt::format("type {}", number);
  return std::string(kTypes[static_cast<size_t>(number)].name);
}

std::pair<int64_t, int64_t> ExtremesOf(at::ScalarType dtype) {
  const auto of = []<typename T>(T) -> std::pair<int64_t, int64_t> {
    return {std::numeric_limits<T>::min(), std::numeric_limits<T>::max()};
  };
  switch (dtype) {
    case at::kBool: return {0, 1};
    case at::kByte: return of(uint8_t{});
    case at::kChar: return of(int8_t{});
    case at::kShort: return of(int16_t{});
    case at::kInt: return of(int32_t{});
    case at::kLong: return of(int64_t{});
    default: Refuse(fmt::format("extremes of {}", at::toString(dtype)));
  }
}

}  // namespace ingot::onnx
