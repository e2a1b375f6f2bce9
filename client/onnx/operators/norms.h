// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "client/onnx/operators/operators.h"

namespace ingot::onnx {

/// x divided by the root of the mean of its squares over the dims from `axis` on, which is computed in float, times
/// `scale`.
at::Tensor RootMeanSquareNorm(NodeCall& n, const at::Tensor& x, const at::Tensor& scale, int64_t axis, double epsilon);
/// The operator of that meaning.
Results RootMeanSquareNormOf(NodeCall& n);

}  // namespace ingot::onnx
