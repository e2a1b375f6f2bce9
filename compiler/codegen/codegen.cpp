// SPDX-License-Identifier: Apache-2.0
#include "compiler/codegen/codegen.h"

#include <llvm/Config/llvm-config.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>

#include "compiler/codegen/backend.h"
#include "compiler/codegen/columns.h"
#include "compiler/codegen/lower_kernel.h"
#include "compiler/loop/text.h"

namespace ingot::compiler {
namespace {

using guards::Dim;

/// Raised by hand whenever lowering gives other code for the same kernel: objects are cached.
constexpr int kLoweringVersion = 8;

std::string SymbolOf(const loop::Kernel& kernel) {
  return "ingot_k_" + loop::KernelDigest(kernel).ToHex().substr(0, 16);
}

/// A module holding the optimised kernel.
Status BuildModule(const loop::Kernel& kernel, const std::string& symbol, const Target& target,
                   codegen::Backend& backend, llvm::Module& module) {
  TRY(loop::Verify(kernel));
  backend.Prepare(module);
  TRY(codegen::LowerKernel(kernel, symbol, backend.unit(), target.checks_accesses, module));
  std::string problem;
  llvm::raw_string_ostream stream(problem);
  if (llvm::verifyModule(module, &stream)) {
    return Error(Code::kInternal, "lowering made invalid LLVM IR: " + problem);
  }
  backend.Optimize(module);
  return {};
}

}  // namespace

guards::Dim ScratchBytes(const loop::Kernel& kernel) {
  Dim total;
  for (const loop::RowBuffer& buffer : kernel.row_buffers) {
    const Dim bytes = codegen::RowBufferBytes(kernel, buffer);
    // Rounding up is no polynomial: a symbolic extent counts with the most it can add.
    total = total + (bytes.is_const() ? Dim((bytes.const_value() + 63) & ~int64_t{63}) : bytes + Dim(63));
  }
  return total;
}

Result<Object> GenerateObject(const loop::Kernel& kernel, const Target& target) {
  TRY_ASSIGN(const codegen::Backend::Loan backend, codegen::Backend::Borrow(target.level));
  llvm::LLVMContext context;
  llvm::Module module("ingot", context);
  Object object;
  object.symbol = SymbolOf(kernel);
  TRY(BuildModule(kernel, object.symbol, target, *backend.operator->(), module));
  TRY_ASSIGN(object.bytes, backend->Emit(module, /*assembly=*/false));
  const Dim scratch = ScratchBytes(kernel);
  if (scratch.is_const()) object.scratch_bytes = static_cast<size_t>(scratch.const_value());
  return object;
}

Result<std::vector<Object>> GenerateObjects(std::span<const loop::Kernel> kernels, const Target& target,
                                            unsigned threads) {
  std::vector<std::optional<Result<Object>>> results(kernels.size());
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < kernels.size(); i = next++) {
      results[i] = GenerateObject(kernels[i], target);
    }
  };
  if (threads == 0) threads = std::max(1U, std::thread::hardware_concurrency());
  const size_t helpers = std::min<size_t>(threads, kernels.size());
  std::vector<std::thread> pool;
  for (size_t i = 1; i < helpers; ++i) pool.emplace_back(work);
  work();
  for (std::thread& thread : pool) thread.join();
  std::vector<Object> objects;
  for (size_t i = 0; i < kernels.size(); ++i) {
    if (!*results[i]) return std::move(*results[i]).error().Wrap("kernel " + kernels[i].name);
    objects.push_back(std::move(*results[i]).value());
  }
  return objects;
}

Result<std::string> GenerateText(const loop::Kernel& kernel, const Target& target, bool assembly) {
  TRY_ASSIGN(const codegen::Backend::Loan backend, codegen::Backend::Borrow(target.level));
  llvm::LLVMContext context;
  llvm::Module module("ingot", context);
  TRY(BuildModule(kernel, SymbolOf(kernel), target, *backend.operator->(), module));
  if (assembly) {
    TRY_ASSIGN(const Buffer text, backend->Emit(module, true));
    return std::string(AsText(text));
  }
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream, nullptr);
  return text;
}

std::string CodegenIdentity() { return "llvm " LLVM_VERSION_STRING " lowering " + std::to_string(kLoweringVersion); }

}  // namespace ingot::compiler
