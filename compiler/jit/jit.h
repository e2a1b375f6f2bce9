// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>

#include "base/result.h"
#include "compiler/codegen/codegen.h"
#include "kernels/abi.h"

namespace ingot::compiler {

/// Objects loaded into this process through LLVM ORC, for the proof step and for timing.
/// Functions live as long as the Jit. Belongs to one thread.
class Jit {
 public:
  static Result<std::unique_ptr<Jit>> Create();
  ~Jit();
  Status Add(const Object& object);
  /// kNotFound when no object exported it.
  Result<IngotKernel> Find(const std::string& symbol);

 private:
  struct State;
  explicit Jit(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace ingot::compiler
