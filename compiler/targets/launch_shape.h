// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "compiler/loop/kernel.h"
#include "compiler/loop/schedule.h"

namespace ingot::compiler {

/// What a plan step must know of a kernel's code to launch it. Numbers are over the kernel's symbols.
struct LaunchShape {
  /// A dimension that tasks have a piece of each: ceil(extent / tile) pieces.
  struct Tiled {
    guards::Dim extent;
    int64_t tile = 1;
  };
  guards::Dim tasks;          ///< the range of IngotCallFrame, divided by the pieces of `tiled`
  std::vector<Tiled> tiled;
  guards::Dim scratch_bytes;  ///< of each thread; what the target adds to the shape
  guards::Dim task_elements;  ///< what one task works on, in elements that a vector loop passes

  int64_t Tasks(std::span<const int64_t> symbols) const;
};

/// The shape that a schedule gives a kernel on every target, without scratch memory.
LaunchShape ShapeOf(const loop::Kernel& kernel, const loop::Schedule& schedule);

/// The name under which an object exports the code of a kernel: "ingot_k_" + first 16 hex digits of its digest.
std::string SymbolOf(const loop::Kernel& kernel);

}  // namespace ingot::compiler
