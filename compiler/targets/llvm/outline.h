// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <llvm/IR/Module.h>

#include <memory>
#include <string>
#include <vector>

namespace ingot::compiler::x86 {

/// The blocks from `first` on, through which all ways into them lead, up to `end`, which is none of them.
struct Region {
  llvm::BasicBlock* first = nullptr;
  llvm::BasicBlock* end = nullptr;
};

/// A function in a module of its own, by a name that says all it does: those of equal names are one.
struct Outlined {
  std::string symbol;  ///< "ingot_c_" + first 16 hex digits of the digest of its code
  std::unique_ptr<llvm::Module> module;
};

/// Puts calls of functions in the place of regions of functions of `module`, which declares them from then on. Numbers
/// that regions take from outside become arguments, so that code of one form is the same function wherever it stands.
/// One that gives values to what is behind it stays where it is. `level`: of the processor that code is made for.
std::vector<Outlined> Outline(llvm::Module& module, const std::vector<Region>& regions, const std::string& level);

}  // namespace ingot::compiler::x86
