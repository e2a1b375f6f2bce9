// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "compiler/loop/kernel.h"

namespace ingot::compiler::loop {

/// The common shape of a contraction: two loads, cast to the type in which products are added up.
struct Contraction {
  Id left = kNone;         ///< a load, of a row buffer too, that does not depend on j
  Id right = kNone;        ///< a load that does not depend on the last row dim, so that rows share it
  DType sum = DType::kF32; ///< f32 or f64
};

/// Whether vectors can run along one of its variables: both operands lie side by side along k, or the
/// right one along j.
bool HasLanes(const Kernel& kernel, const Contraction& contraction);

/// nullopt: operands are decoded in another way, or depend on other variables.
std::optional<Contraction> ContractionOf(const Kernel& kernel, const Block& block);

}  // namespace ingot::compiler::loop
