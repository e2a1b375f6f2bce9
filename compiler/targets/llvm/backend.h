// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <llvm/IR/Module.h>
#include <llvm/IR/PassManager.h>
#include <llvm/Target/TargetMachine.h>

#include <memory>
#include <string>

#include "base/bytes.h"
#include "base/result.h"
#include "compiler/targets/llvm/lower_kernel.h"

namespace ingot::compiler::x86 {

/// A target machine with its pass pipeline. Making one costs as much as compiling a kernel, so
/// they are kept and handed out (Borrow). Belongs to one thread at a time.
class Backend {
 public:
  /// Gives the Backend back when it goes.
  class Loan {
   public:
    explicit Loan(std::unique_ptr<Backend> backend) : backend_(std::move(backend)) {}
    Loan(Loan&&) = default;
    Loan& operator=(Loan&&) = delete;
    ~Loan();
    Backend* operator->() const { return backend_.get(); }

   private:
    std::unique_ptr<Backend> backend_;
  };

  /// kUnsupported for a level this compiler does not know. Thread-safe.
  static Result<Loan> Borrow(const std::string& level);
  ~Backend();

  /// Sets triple and layout; call before lowering into `module`.
  void Prepare(llvm::Module& module) const;
  /// The few passes that pay for themselves on code that is already vector code.
  void Optimize(llvm::Module& module);
  Result<Buffer> Emit(llvm::Module& module, bool assembly);

 private:
  struct Passes;
  Backend() = default;

  std::string level_;
  std::unique_ptr<llvm::TargetMachine> machine_;
  std::unique_ptr<Passes> passes_;
};

}  // namespace ingot::compiler::x86
