// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/operator_name.h>

namespace ingot::client {

/// PyTorch's own C++ shape function of an operator, which the CPU's kernel uses as well, as a kernel for tensors on the
/// meta device; null where there is none here. Importing torch puts Python code in the place of most of them, which
/// takes up to a millisecond a call and gives other strides where inputs are not contiguous.
const c10::KernelFunction* ShapeKernelOf(const c10::OperatorName& name);

}  // namespace ingot::client
