// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "client/onnx/operators/operators.h"

namespace ingot::onnx {

/// A convolution by the attributes of a node (strides, pads, dilations, group, auto_pad), ready to be run on operands
/// with these dims behind the first two.
struct ConvCall {
  at::Tensor x;  ///< with its padding made, where PyTorch cannot make it
  std::vector<int64_t> strides, pads, dilations;
  int64_t group = 1;

  at::Tensor Run(NodeCall& n, const at::Tensor& input, const at::Tensor& weight,
                 const std::optional<at::Tensor>& bias = std::nullopt) const;
};
ConvCall ConvOf(NodeCall& n, const at::Tensor& x, const at::Tensor& weight);

}  // namespace ingot::onnx
