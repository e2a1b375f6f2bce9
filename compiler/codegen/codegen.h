// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "compiler/compile.h"
#include "compiler/loop/kernel.h"

namespace ingot::compiler {

/// Relocatable machine code of one kernel: exports `symbol`, imports nothing.
struct Object {
  std::string symbol;        ///< "ingot_k_" + first 16 hex digits of the kernel digest
  Buffer bytes;
  size_t scratch_bytes = 0;  ///< 0 where it depends on symbols; see ScratchBytes
};

/// Scratch memory a kernel needs, in bytes, over its symbols (each row buffer 64-byte aligned).
guards::Dim ScratchBytes(const loop::Kernel& kernel);

/// LLVM lowering with explicit vectors. Deterministic. Thread-safe; LLVM stays behind this door.
Result<Object> GenerateObject(const loop::Kernel& kernel, const Target& target);
/// Distinct kernels in parallel on `threads` threads; order follows the input.
Result<std::vector<Object>> GenerateObjects(std::span<const loop::Kernel> kernels, const Target& target,
                                            unsigned threads);
/// LLVM IR or assembly text, for f.as_text("llvm" | "asm").
Result<std::string> GenerateText(const loop::Kernel& kernel, const Target& target, bool assembly);

/// One ELF shared object without undefined symbols, needed libraries or initialisers.
Result<Buffer> LinkShared(std::span<const Object> objects);

/// LLVM's version and that of the lowering: objects of equal kernels, targets and identities are
/// equal.
std::string CodegenIdentity();

}  // namespace ingot::compiler
