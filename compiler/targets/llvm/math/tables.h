// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <functional>
#include <optional>

#include "compiler/loop/kernel.h"

namespace ingot::compiler::x86 {

/// A float that four neighbouring bits of an integer in memory decide: a weight of few bits, decoded.
struct Table {
  loop::Id load = loop::kNone;
  unsigned shift = 0;                 ///< the lowest of the four bits
  std::array<float, 16> values = {};  ///< by those bits
};

/// What a kIndex gives, where that is known.
using KnownIndex = std::function<std::optional<int64_t>(loop::Id)>;

/// nullopt: `id` is no f32, or depends on more than four bits of one load, constants and known positions.
std::optional<Table> TableOf(const loop::Kernel& kernel, loop::Id id, const KnownIndex& known);

}  // namespace ingot::compiler::x86
