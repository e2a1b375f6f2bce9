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
  std::vector<Id> indices;   ///< the positions that it is made of besides
  bool is_guarded = false;   ///< a load of it stands under a condition, which is made of `indices` too
};

/// The shape of a contraction that can be computed in tiles.
struct Contraction {
  Operand left;   ///< does not depend on j; may read row buffers
  Operand right;  ///< does not depend on the last row dim, so that rows share it
  DType sum = DType::kF32;  ///< f32, f64 or i32
  Dims depths;              ///< of the block
};

/// nullopt: an operand depends on other variables or on indices read from tensors, or the right one on conditions.
std::optional<Contraction> ContractionOf(const Kernel& kernel, const Block& block);

/// The k along which vectors can run: what depends on it lies side by side there, or at a few elements' distance in
/// what rows read, which columns share. nullopt: there is none.
std::optional<size_t> DepthOfLanes(const Kernel& kernel, const Contraction& contraction);
/// Whether `id`, a value of the contraction's block, depends on a loop variable, by its number in an index.
bool DependsOn(const Kernel& kernel, Id id, size_t variable);
/// Whether the right operand depends on a row dim, by its number: rows that differ in it share nothing then.
bool RightDependsOnRow(const Kernel& kernel, const Contraction& contraction, size_t dim);
/// Whether vectors can run along j: what the right operand reads lies side by side along it, or does not depend on it.
bool RunsAlongColumns(const Kernel& kernel, const Contraction& contraction);

/// Whether the columns of the right operand can be packed while several k run: both operands are loads of f32, and
/// the right one lies side by side along a k.
bool IsWindow(const Kernel& kernel, const Contraction& contraction);

/// The load of which `operand` is nothing but the cast, or itself; kNone where it is more than that.
Id PlainLoad(const Kernel& kernel, const Operand& operand);

}  // namespace ingot::compiler::loop
