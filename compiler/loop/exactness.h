// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "compiler/loop/kernel.h"

namespace ingot::compiler::loop {

/// How much two correct implementations of a kernel may differ in a result.
struct Exactness {
  bool is_exact = true;    ///< Not at all, but for the sign of a zero and the bits of a NaN.
  bool has_steps = false;  ///< By any amount where a rounded value lies at a step (IsDiscrete), else in last digits.
  bool is_single = false;  ///< Digits of f32, whatever the type of the result: it is made of a rounded f32.
};

/// One for each parameter, over all that is stored in it.
std::vector<Exactness> FindExactness(const Kernel& kernel);

}  // namespace ingot::compiler::loop
