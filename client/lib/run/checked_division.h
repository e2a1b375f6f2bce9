// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/stack.h>

#include <stdexcept>
#include <string_view>

namespace ingot::client {

/// An operator would end the process with these arguments.
struct WouldTrap : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Checks the arguments of an operator before it is called; throws WouldTrap.
using CheckArguments = void (*)(const torch::jit::Stack& stack);

/// What has to be asked before PyTorch's operator of this name ("aten::div.Tensor_mode") runs; nullptr: nothing.
///
/// Integers divided towards zero: the smallest by -1 has no quotient, and the processor's trap for it would end the
/// process. Tensors are read by operators, unseen by any recorder.
CheckArguments DivisionCheckOf(std::string_view op);

}  // namespace ingot::client
