// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "compiler/loop/kernel.h"

namespace ingot::compiler {

/// Memory of one operand that a step needs, in bytes: the smaller of the two. `range` spans it, gaps included;
/// `accessed` is how much the accesses come to when each place is touched once, which is less where a view leaves gaps
/// or an index picks rows, and more where elements are read again.
struct Moved {
  guards::Dim range, accessed;
};

/// The least that a step has to do at any size: floating-point operations, and each operand read once and each result
/// written once. What stays in registers, scratch memory and caches is not in it.
struct Cost {
  std::optional<guards::Dim> flops;  ///< nullopt: nobody counted them
  /// In which the operations are done: f32, f64, or bf16 where a product of bf16 matrices sums in f32.
  guards::DType dtype = guards::DType::kF32;
  std::vector<Moved> reads, writes;
};

namespace loop {

/// Of one launch, over the kernel's symbols. Each arithmetic operation on floats is one, a multiply-add two; casts,
/// comparisons, selections and integers are none. What does not depend on a loop variable is counted once for all its
/// values. Each parameter that is read or written has its place in `reads` or `writes`.
Cost CostOf(const Kernel& kernel);

}  // namespace loop
}  // namespace ingot::compiler
