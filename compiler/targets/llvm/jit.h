// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "base/result.h"
#include "compiler/targets/target.h"
#include "kernels/abi.h"

namespace ingot::compiler::x86 {

/// Objects loaded into this process through LLVM ORC, for the proof step and for timing.
/// Functions live as long as the Jit.
class Jit : public Runner {
 public:
  static Result<std::unique_ptr<Jit>> Create();
  ~Jit() override;
  Status Add(const Object& object) override;
  Result<int32_t> Run(const std::string& symbol, const IngotCallFrame& frame) override;
  /// kNotFound when no object exported it.
  Result<IngotKernel> Find(const std::string& symbol);

 private:
  struct State;
  explicit Jit(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
  std::mutex lock_;
  std::map<std::string, IngotKernel> found_;  // Guarded by lock_, as what follows.
  std::set<std::string> shared_, added_;
};

}  // namespace ingot::compiler::x86
