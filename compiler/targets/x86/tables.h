// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <optional>

#include "compiler/loop/kernel.h"

namespace ingot::compiler::x86 {

/// A float that four bits decide: weights of few bits, decoded.
struct Table {
  loop::Id field = loop::kNone;   ///< the bits: `and` with a mask, or `shr` that leaves no more of a byte
  loop::Id masked = loop::kNone;  ///< what an `and` masks
  std::array<float, 16> values = {};  ///< by the lowest four bits of what is masked or shifted
};

/// nullopt: `id` is no f32, or depends on more than one such field and constants.
std::optional<Table> TableOf(const loop::Kernel& kernel, loop::Id id);

}  // namespace ingot::compiler::x86
