// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "guards/dim.h"

namespace ingot::compiler::loop {

using guards::Dim;
using guards::Dims;

/// Sums and products of polynomials that notice when a number leaves the range in which they are
/// exact. What was computed before that is then of no use.
class Arithmetic {
 public:
  Dim Add(const Dim& a, const Dim& b);
  Dim Subtract(const Dim& a, const Dim& b);
  Dim Multiply(const Dim& a, const Dim& b);
  bool overflowed() const { return overflowed_; }

 private:
  bool overflowed_ = false;
};

/// Polynomials over sizes known to be 0 or more, and what follows from them. Every symbol is a size:
/// 0 or more itself. What quotients, minima and maxima lie between is known of itself.
class Facts {
 public:
  void Add(const Dim& not_negative);
  /// The polynomial is 0 or more wherever the facts hold. False where that does not show easily.
  bool Imply(const Dim& not_negative) const;

 private:
  /// Over t = s - lowest(s), which is 0 or more as well.
  Dim Shifted(const Dim& dim, Arithmetic& arithmetic) const;
  bool Follows(const Dim& shifted, const Dims& facts, int steps_left, Arithmetic& arithmetic) const;

  bool is_never_ = false;        ///< They contradict each other; whatever follows them does not happen.
  std::vector<int64_t> lowest_;  ///< of each symbol; 0 where it is not there
  Dims facts_;
};

}  // namespace ingot::compiler::loop
