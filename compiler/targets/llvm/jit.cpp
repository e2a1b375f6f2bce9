// SPDX-License-Identifier: Apache-2.0
#include "compiler/targets/llvm/jit.h"

#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Support/TargetSelect.h>

#include <mutex>

namespace ingot::compiler::x86 {
namespace {

Error FromLlvm(llvm::Error error, Code code, const std::string& doing) {
  return Error(code, doing + ": " + llvm::toString(std::move(error)));
}

}  // namespace

struct Jit::State {
  std::unique_ptr<llvm::orc::LLJIT> lljit;
};

Jit::Jit(std::unique_ptr<State> state) : state_(std::move(state)) {}
Jit::~Jit() = default;

Result<std::unique_ptr<Jit>> Jit::Create() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
  });
  auto lljit = llvm::orc::LLJITBuilder().create();
  if (!lljit) return FromLlvm(lljit.takeError(), Code::kInternal, "creating the JIT");
  auto state = std::make_unique<State>();
  state->lljit = std::move(*lljit);
  return std::unique_ptr<Jit>(new Jit(std::move(state)));
}

Status Jit::Add(const Object& object) {
  {
    const std::lock_guard held(lock_);
    if (!added_.insert(object.symbol).second) return {};
  }
  const auto add = [&](const std::string& symbol, Bytes code) -> Status {
    auto bytes = llvm::MemoryBuffer::getMemBufferCopy(AsText(code), symbol);
    if (llvm::Error error = state_->lljit->addObjectFile(std::move(bytes))) {
      return FromLlvm(std::move(error), Code::kInvalid, "adding object " + symbol);
    }
    return {};
  };
  for (const std::shared_ptr<const OutlinedCode>& code : object.calls) {
    TRY_ASSIGN(const Bytes bytes, code->bytes());
    const std::lock_guard held(lock_);
    if (shared_.insert(code->symbol()).second) TRY(add(code->symbol(), bytes));
  }
  return add(object.symbol, object.bytes);
}

Result<int32_t> Jit::Run(const std::string& symbol, const IngotCallFrame& frame) {
  IngotKernel kernel = nullptr;
  {
    const std::lock_guard held(lock_);
    IngotKernel& known = found_[symbol];
    if (known == nullptr) {
      TRY_ASSIGN(known, Find(symbol));
    }
    kernel = known;
  }
  return kernel(&frame);
}

Result<IngotKernel> Jit::Find(const std::string& symbol) {
  auto address = state_->lljit->lookup(symbol);
  if (!address) return FromLlvm(address.takeError(), Code::kNotFound, "finding " + symbol);
  return address->toPtr<IngotKernel>();
}

}  // namespace ingot::compiler::x86
