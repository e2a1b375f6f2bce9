// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "compiler/loop/kernel.h"

namespace ingot::compiler::loop {

/// One operand of a contraction: a value made of loads by scalar operations, which decode it (casts, zero points,
/// scales).
struct Operand {
  Id root = kNone;
  std::vector<Id> loads;
};

/// The shape of a contraction that can be computed in tiles.
struct Contraction {
  Operand left;   ///< does not depend on j; may read row buffers
  Operand right;  ///< does not depend on the last row dim, so that rows share it
  DType sum = DType::kF32;  ///< f32 or f64
};

/// nullopt: an operand depends on other variables, on indices read from tensors, or on conditions.
std::optional<Contraction> ContractionOf(const Kernel& kernel, const Block& block);

/// Whether vectors can run along k: what depends on k lies side by side along it.
bool RunsAlongDepth(const Kernel& kernel, const Contraction& contraction);
/// Whether vectors can run along j: what the right operand reads lies side by side along it, or does not depend on it.
bool RunsAlongColumns(const Kernel& kernel, const Contraction& contraction);

/// The load of which `operand` is nothing but the cast, or itself; kNone where it is more than that.
Id PlainLoad(const Kernel& kernel, const Operand& operand);

}  // namespace ingot::compiler::loop
