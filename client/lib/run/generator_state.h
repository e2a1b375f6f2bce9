// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/CPUGeneratorImpl.h>

#include <optional>

#include "base/digest.h"

namespace ingot::client {

/// What the default generator of this process was: a run that ends before it has served a call gives back what it has
/// drawn, for the call is answered by another run that draws anew.
class GeneratorState {
 public:
  GeneratorState();
  void PutBack() const;
  /// Another after each draw.
  Digest Number() const;

 private:
  at::mt19937 engine_;
  std::optional<float> next_float_;
  std::optional<double> next_double_;
};

}  // namespace ingot::client
