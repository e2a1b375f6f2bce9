// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <utility>

#include "client/onnx/operators/operators.h"

namespace ingot::onnx {

/// Scales or zero points spread over `x`: one for all, one for each position of an axis, or one for each block of it
/// where `block` is not 0.
at::Tensor Spread(NodeCall& n, const at::Tensor& part, const at::Tensor& x, int64_t axis, int64_t block = 0);

/// The bounds of a narrow integer type; others are refused.
std::pair<double, double> BoundsOf(at::ScalarType dtype);
/// In float8 what is too large becomes the largest number.
at::Tensor Saturated(NodeCall& n, const at::Tensor& x, at::ScalarType dtype);

/// (x - zero) * scale in the type of `scale`.
at::Tensor Dequantized(NodeCall& n, const at::Tensor& x, const at::Tensor& scale, const std::optional<at::Tensor>& zero,
                       int64_t axis = 0, int64_t block = 0);
/// x / scale + zero, rounded and held within the bounds of the type of `zero`, or of `dtype` where there is none.
at::Tensor Quantized(NodeCall& n, const at::Tensor& x, const at::Tensor& scale, const std::optional<at::Tensor>& zero,
                     at::ScalarType dtype = at::kByte, int64_t axis = 0, int64_t block = 0);

/// The levels of a tensor that is 8 bits wide, between 0 and 255; its scale and zero point, which is one of the levels.
struct DynamicLevels {
  at::Tensor levels, scale, zero;
};
DynamicLevels DynamicallyQuantized(NodeCall& n, const at::Tensor& x);

/// An operand as 32-bit integers, less its zero point (input `point`, where given), which stands for rows or columns
/// where it is a vector.
at::Tensor Widened(NodeCall& n, size_t operand, size_t point, bool rows);

}  // namespace ingot::onnx
