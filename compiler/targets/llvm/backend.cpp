// SPDX-License-Identifier: Apache-2.0
#include "compiler/targets/llvm/backend.h"

#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/LICM.h>
#include <llvm/Transforms/Scalar/LoopPassManager.h>

#include "base/mutex.h"

namespace ingot::compiler::x86 {
namespace {

constexpr const char* kTriple = "x86_64-unknown-linux-gnu";

/// Loops come with one counter and addresses x86 forms by itself: the pass changes nothing in them
/// and takes a sixth of the time of a compile. Only an option of LLVM's command line turns it off.
void DisableLoopStrengthReduction() {
  const auto& options = llvm::cl::getRegisteredOptions();
  const auto found = options.find("disable-lsr");
  if (found == options.end()) return;
  // As the initial value, because lld sets all options back to theirs.
  static_cast<llvm::cl::opt<bool>*>(found->second)->setInitialValue(true);
}

void InitializeTarget() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeX86AsmParser();
    DisableLoopStrengthReduction();
  });
}

std::unique_ptr<llvm::TargetMachine> MakeMachine(const std::string& level, std::string& error) {
#if LLVM_VERSION_MAJOR >= 22
  const llvm::Triple triple(kTriple);
  const llvm::Triple& lookup = triple;
#elif LLVM_VERSION_MAJOR >= 21
  const llvm::Triple triple(kTriple);
  const char* lookup = kTriple;
#else
  const char* triple = kTriple;
  const char* lookup = kTriple;
#endif
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(lookup, error);
  if (target == nullptr) return nullptr;
  llvm::TargetOptions options;
  options.FunctionSections = false;
  return std::unique_ptr<llvm::TargetMachine>(target->createTargetMachine(
      triple, level, "", options, llvm::Reloc::PIC_, llvm::CodeModel::Small, llvm::CodeGenOptLevel::Default));
}

/// The machines nobody uses at the moment; a process keeps as many as it ever used at once.
struct Shelf {
  Mutex mutex;
  std::vector<std::unique_ptr<Backend>> idle GUARDED_BY(mutex);
};
Shelf& TheShelf() {
  static Shelf* shelf = new Shelf;  // Outlives static destruction of LLVM on purpose.
  return *shelf;
}

}  // namespace

struct Backend::Passes {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  llvm::FunctionPassManager pipeline;
};

Backend::~Backend() = default;

Backend::Loan::~Loan() {
  if (backend_ == nullptr) return;
  Shelf& shelf = TheShelf();
  const MutexLock lock(shelf.mutex);
  shelf.idle.push_back(std::move(backend_));
}

Result<Backend::Loan> Backend::Borrow(const std::string& level) {
  {
    Shelf& shelf = TheShelf();
    const MutexLock lock(shelf.mutex);
    for (std::unique_ptr<Backend>& idle : shelf.idle) {
      if (idle->level_ != level) continue;
      std::swap(idle, shelf.idle.back());
      Loan loan(std::move(shelf.idle.back()));
      shelf.idle.pop_back();
      return loan;
    }
  }
  InitializeTarget();
  std::unique_ptr<Backend> backend(new Backend);
  backend->level_ = level;
  std::string error;
  backend->machine_ = MakeMachine(level, error);
  if (backend->machine_ == nullptr) return Error(Code::kInternal, "LLVM: " + error);
  backend->passes_ = std::make_unique<Passes>();
  Passes& p = *backend->passes_;
  llvm::PassBuilder builder(backend->machine_.get());
  builder.registerModuleAnalyses(p.modules);
  builder.registerCGSCCAnalyses(p.components);
  builder.registerFunctionAnalyses(p.functions);
  builder.registerLoopAnalyses(p.loops);
  builder.crossRegisterProxies(p.loops, p.functions, p.components, p.modules);
  p.pipeline.addPass(llvm::EarlyCSEPass(true));
  p.pipeline.addPass(llvm::InstCombinePass());
  p.pipeline.addPass(llvm::createFunctionToLoopPassAdaptor(llvm::LICMPass(llvm::LICMOptions()), /*UseMemorySSA=*/true));
  return Loan(std::move(backend));
}

void Backend::Prepare(llvm::Module& module) const {
#if LLVM_VERSION_MAJOR >= 21
  module.setTargetTriple(llvm::Triple(kTriple));
#else
  module.setTargetTriple(kTriple);
#endif
  module.setDataLayout(machine_->createDataLayout());
}

void Backend::Optimize(llvm::Module& module) {
  for (llvm::Function& function : module) {
    if (!function.isDeclaration()) passes_->pipeline.run(function, passes_->functions);
  }
  // Analyses are keyed by address; the next module may reuse these.
  passes_->loops.clear();
  passes_->functions.clear();
  passes_->components.clear();
  passes_->modules.clear();
}

Result<Buffer> Backend::Emit(llvm::Module& module, bool assembly) {
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager passes;
  const auto type = assembly ? llvm::CodeGenFileType::AssemblyFile : llvm::CodeGenFileType::ObjectFile;
  if (machine_->addPassesToEmitFile(passes, stream, nullptr, type, /*DisableVerify=*/true)) {
    return Error(Code::kInternal, "LLVM cannot emit code for " + level_);
  }
  passes.run(module);
  return Buffer(bytes.begin(), bytes.end());
}

}  // namespace ingot::compiler::x86
