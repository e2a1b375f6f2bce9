// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/error.h"
#include "guards/dtype.h"

namespace ingot::compiler {

/// A sequence that is the same everywhere, which std distributions are not.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t Next() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }

 private:
  uint64_t state_;
};

/// Which numbers a proof tries.
enum class Sampled : uint8_t {
  kOrdinary,   ///< uniform in [-1, 1)
  kSpecial,    ///< the same with NaN, infinities, zeros of both signs and extremes among them
};

/// Writes a number of the sequence. Integers are often indices: 0 and 1, which are most likely in range.
void PutSample(uint8_t* at, guards::DType dtype, Sampled which, Random& random);

/// Moves a float by its last digits, up or down in turn; other types stay.
void Nudge(uint8_t* at, guards::DType dtype, bool up);

/// Where a rounded value decides between results far apart, other digits may rightly decide otherwise: one of so many
/// trials with other inputs must agree in every element.
inline constexpr uint64_t kTriesAtSteps = 3;

/// Kept in f32 inside of kernels, where eager rounds each result.
constexpr bool IsStorageFloat(guards::DType t) { return t == guards::DType::kF16 || t == guards::DType::kBF16; }

/// Room for rounding in another order; 0: there is none.
double ToleranceOf(guards::DType dtype);

/// So many times what a nudge moves.
inline constexpr double kNudgeAllowance = 64;

/// Whether `found` is as good an answer as `expected`, given what the latter becomes where inputs are nudged: where a
/// sum cancels or a divisor is almost zero, any other order of rounding moves results by as much. `typical`: by how
/// much elements of the same tensor move (TypicalOf), of which this one may have moved less than it could by luck
/// alone.
bool IsClose(double found, double expected, double nudged, double tolerance, double typical = 0);

/// The one in the middle of those that are finite.
double TypicalOf(std::vector<double> distances);

/// Whether a proof that ended so may say that it could not run: types that nobody computes with, more work or memory
/// than there is time for, inputs that the kernel does not take. Any other end is a fault.
constexpr bool CouldNotRun(Code code) {
  return code == Code::kUnsupported || code == Code::kExhausted || code == Code::kInvalid;
}

using Memory = std::shared_ptr<uint8_t>;

/// Pages of large tables that nothing touches are never made. Not of the heap, which may hand out again what it would
/// have to clear. Null where there is no memory.
Memory Zeros(size_t bytes);
/// The same bytes in memory of their own. Null where there is none.
Memory CopyOf(const Memory& memory, size_t bytes);

}  // namespace ingot::compiler
