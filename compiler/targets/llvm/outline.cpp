// SPDX-License-Identifier: Apache-2.0
#include "compiler/targets/llvm/outline.h"

#include <llvm/ADT/SetVector.h>
#include <llvm/Bitcode/BitcodeWriter.h>
#include <llvm/IR/CFG.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>
#include <llvm/Transforms/Utils/Cloning.h>
#include <llvm/Transforms/Utils/CodeExtractor.h>

#include <string_view>

#include "base/digest.h"

namespace ingot::compiler::x86 {
namespace {

/// Those that leave the function are none of them: they are where all failures end.
llvm::SetVector<llvm::BasicBlock*> BlocksOf(const Region& region) {
  llvm::SetVector<llvm::BasicBlock*> found;
  found.insert(region.first);
  for (size_t i = 0; i < found.size(); ++i) {
    for (llvm::BasicBlock* next : llvm::successors(found[i])) {
      if (next != region.end && !llvm::isa<llvm::ReturnInst>(next->getTerminator())) found.insert(next);
    }
  }
  return found;
}

/// What a function names of its module.
void FindGlobals(const llvm::User& user, llvm::SetVector<llvm::GlobalValue*>& found) {
  for (llvm::Value* operand : user.operands()) {
    if (auto* global = llvm::dyn_cast<llvm::GlobalValue>(operand)) {
      found.insert(global);
    } else if (auto* constant = llvm::dyn_cast<llvm::Constant>(operand)) {
      FindGlobals(*constant, found);
    }
  }
}

/// The function in a module of its own, with what it names.
std::unique_ptr<llvm::Module> Alone(llvm::Function& function) {
  const llvm::Module& from = *function.getParent();
  auto module = std::make_unique<llvm::Module>(from.getModuleIdentifier(), from.getContext());
  module->setTargetTriple(from.getTargetTriple());
  module->setDataLayout(from.getDataLayout());
  llvm::SetVector<llvm::GlobalValue*> globals;
  for (const llvm::Instruction& inst : llvm::instructions(function)) FindGlobals(inst, globals);
  llvm::ValueToValueMapTy map;
  for (llvm::GlobalValue* global : globals) {
    if (auto* named = llvm::dyn_cast<llvm::Function>(global)) {
      auto* copy = llvm::Function::Create(named->getFunctionType(), named->getLinkage(), named->getName(), *module);
      copy->copyAttributesFrom(named);
      map[named] = copy;
      continue;
    }
    auto* table = llvm::cast<llvm::GlobalVariable>(global);
    auto* copy = new llvm::GlobalVariable(*module, table->getValueType(), table->isConstant(), table->getLinkage(),
                                          table->getInitializer());
    copy->copyAttributesFrom(table);
    map[table] = copy;
  }
  auto* copy = llvm::Function::Create(function.getFunctionType(), llvm::GlobalValue::ExternalLinkage, "", *module);
  for (size_t i = 0; i < function.arg_size(); ++i) map[function.getArg(i)] = copy->getArg(i);
  llvm::SmallVector<llvm::ReturnInst*, 4> returns;
  llvm::CloneFunctionInto(copy, &function, map, llvm::CloneFunctionChangeType::DifferentModule, returns);
  copy->setDSOLocal(true);
  return module;
}

/// Names of values are no part of what code does.
void Strip(llvm::Function& function) {
  for (llvm::Argument& argument : function.args()) argument.setName("");
  for (llvm::BasicBlock& block : function) {
    block.setName("");
    for (llvm::Instruction& inst : block) inst.setName("");
  }
}

std::string SymbolOf(const llvm::Module& module, const std::string& level) {
  constexpr size_t kDigits = 16;
  llvm::SmallVector<char, 0> bytes;
  llvm::BitcodeWriter writer(bytes);
  writer.writeModule(module);
  writer.writeStrtab();
  Hasher hasher;
  hasher.AddField(level);
  hasher.AddField(std::string_view(bytes.data(), bytes.size()));
  return "ingot_c_" + hasher.Finish().ToHex().substr(0, kDigits);
}

}  // namespace

std::vector<Outlined> Outline(llvm::Module& module, const std::vector<Region>& regions, const std::string& level) {
  std::vector<Outlined> all;
  for (const Region& region : regions) {
    llvm::Function& caller = *region.first->getParent();
    const llvm::CodeExtractorAnalysisCache cache(caller);
    const llvm::SetVector<llvm::BasicBlock*> blocks = BlocksOf(region);
    llvm::CodeExtractor extractor(blocks.getArrayRef());
    llvm::SetVector<llvm::Value*> inputs, outputs, allocas;
    extractor.findInputsOutputs(inputs, outputs, allocas);
    if (!outputs.empty()) continue;
    llvm::Function* function = extractor.extractCodeRegion(cache);
    if (function == nullptr) continue;
    function->setLinkage(llvm::GlobalValue::ExternalLinkage);
    Strip(*function);
    Outlined outlined{"", Alone(*function)};
    outlined.symbol = SymbolOf(*outlined.module, level);
    for (llvm::Function& one : *outlined.module) {
      if (!one.isDeclaration()) one.setName(outlined.symbol);
    }
    llvm::Function* declared = module.getFunction(outlined.symbol);
    if (declared == nullptr) {
      function->deleteBody();
      function->setName(outlined.symbol);
      function->setDSOLocal(true);
      all.push_back(std::move(outlined));
      continue;
    }
    function->replaceAllUsesWith(declared);
    function->eraseFromParent();
  }
  return all;
}

}  // namespace ingot::compiler::x86
