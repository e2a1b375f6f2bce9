// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "compiler/ir/graph.h"
#include "compiler/loop/scalar.h"
#include "compiler/proof/samples.h"

namespace ingot::compiler {

/// The elements of a tensor, row-major, in memory of its own.
struct Array {
  DType dtype = DType::kF32;
  std::vector<int64_t> sizes;
  int64_t elements = 0;
  Memory memory;

  /// Zeros, of a type whose sizes are numbers. kExhausted: more than a proof takes. kUnsupported: complex numbers.
  static Result<Array> Of(const Type& type);

  std::vector<int64_t> Strides() const;   ///< row-major
  loop::Scalar At(int64_t number) const;
  void Set(int64_t number, loop::Scalar value);
  /// f16 and bf16 become the number above or below by chance, where they are rounded at all; other types as by Set.
  void SetEitherWay(int64_t number, loop::Scalar value, Random& random);
  /// A float as it is, another number as one; what f64 does not hold is rounded.
  double NumberAt(int64_t number) const;
  void SetNumber(int64_t number, double value);
  void Fill(uint64_t seed, Sampled which);
  /// Elements that lie in one place of memory, where dims lie `strides` apart, become the first of them.
  void Overlap(std::span<const int64_t> strides);
  /// With the last digits of its floats moved.
  Result<Array> Nudged(uint64_t seed) const;
};

/// The numbers of dims that have no symbols.
std::vector<int64_t> NumbersOf(const Dims& dims);

/// The place of element `number`, row-major in `sizes`, where dims lie `strides` apart.
int64_t PlaceOf(std::span<const int64_t> sizes, std::span<const int64_t> strides, int64_t number);

/// The first element in which two arrays of one type differ, floats by more than their tolerance and by more than
/// `other`, what is expected where the arithmetic goes another way, says that they may; -1: none. `moves`: how many
/// such moves an element may be off.
struct Compared {
  int64_t element = -1;
  double found = 0, expected = 0;
};
Compared FirstDifference(const Array& found, const Array& expected, const Array* other, double moves, DType digits);

}  // namespace ingot::compiler
