// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <utility>

namespace ingot::onnx {

/// PyTorch's type for ONNX's number of an element type; nullopt where PyTorch does not compute with it, or Ingot has no
/// name for it.
std::optional<at::ScalarType> ScalarTypeOf(int64_t number);
/// The same; refuses what has none (NodeError).
at::ScalarType TypeOf(int64_t number);
/// "float16"; "type 99" of a number without a name.
std::string NameOf(int64_t number);
/// The smallest and the largest integer that a type holds.
std::pair<int64_t, int64_t> ExtremesOf(at::ScalarType dtype);

}  // namespace ingot::onnx
