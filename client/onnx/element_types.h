// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>

namespace ingot::onnx {

/// PyTorch's type for ONNX's number of an element type; nullopt where PyTorch does not compute with it, or Ingot has no
/// name for it.
std::optional<at::ScalarType> ScalarTypeOf(int64_t number);
/// The same; refuses what has none (NodeError).
at::ScalarType TypeOf(int64_t number);
/// "float16"; "type 99" of a number without a name.
std::string NameOf(int64_t number);

}  // namespace ingot::onnx
