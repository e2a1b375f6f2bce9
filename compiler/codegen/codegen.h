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

/// What a plan step must know of a kernel's code to launch it. Numbers are over the kernel's symbols.
struct LaunchShape {
  /// A dimension that tasks have a piece of each: ceil(extent / tile) pieces.
  struct Tiled {
    guards::Dim extent;
    int64_t tile = 1;
  };
  guards::Dim tasks;          ///< the range of IngotCallFrame, times the pieces of `tiled`
  std::vector<Tiled> tiled;
  guards::Dim scratch_bytes;  ///< of each thread (row buffers 64-byte aligned)
  guards::Dim task_elements;  ///< what one task works on, in elements that a vector loop passes

  int64_t Tasks(std::span<const int64_t> symbols) const;
};

/// How the code that GenerateObject makes for this kernel and target is launched.
Result<LaunchShape> LaunchOf(const loop::Kernel& kernel, const Target& target);

/// Relocatable machine code of one kernel: exports `symbol`, imports nothing.
struct Object {
  std::string symbol;                 ///< "ingot_k_" + first 16 hex digits of the kernel digest
  Buffer bytes;
  LaunchShape launch;
  std::vector<std::string> features;  ///< of the processor, beyond its level
};

/// LLVM lowering with explicit vectors. Deterministic. Thread-safe; LLVM stays behind this door.
Result<Object> GenerateObject(const loop::Kernel& kernel, const Target& target);
/// Distinct kernels in parallel on `threads` threads; order follows the input.
Result<std::vector<Object>> GenerateObjects(std::span<const loop::Kernel> kernels, const Target& target,
                                            unsigned threads);
/// LLVM IR or assembly text, for f.as_text("llvm" | "asm").
/// The kernel's schedule for this target as text (loop/schedule.h).
Result<std::string> DescribeSchedule(const loop::Kernel& kernel, const Target& target);
Result<std::string> GenerateText(const loop::Kernel& kernel, const Target& target, bool assembly);

/// One ELF shared object without undefined symbols, needed libraries or initialisers.
Result<Buffer> LinkShared(std::span<const Object> objects);

/// LLVM's version and that of the lowering: objects of equal kernels, targets and identities are
/// equal.
std::string CodegenIdentity();

}  // namespace ingot::compiler
