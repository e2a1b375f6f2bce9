// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "guards/dim.h"

namespace ingot::compiler {

/// What an operator relies on about sizes that are not the same polynomial: inference asks, and where
/// a template is made of one recording somebody answers from what was seen and notes the condition.
/// Elsewhere the answer is no. Belongs to a thread while it lives.
class SizeTies {
 public:
  SizeTies();
  virtual ~SizeTies();
  SizeTies(const SizeTies&) = delete;
  SizeTies& operator=(const SizeTies&) = delete;

  /// Whether the two are equal wherever the template may be used.
  virtual bool Tie(const guards::Dim& a, const guards::Dim& b) = 0;
  /// What a size was when it was recorded.
  virtual int64_t SeenAs(const guards::Dim& dim) const = 0;
  /// Whether it is at least 0: as it was, which is noted.
  virtual bool Decide(const guards::Dim& dim) = 0;
  /// The smaller or larger of two; one of them where it has been decided which.
  virtual guards::Dim Extreme(guards::Atom::Kind kind, const guards::Dim& a, const guards::Dim& b) = 0;
  /// The same size, with dividends whose remainders are known written by their quotients.
  virtual guards::Dim InQuotients(const guards::Dim& dim) const = 0;

 private:
  SizeTies* outer_;
};

/// a == b, or somebody says that they are.
bool SameSize(const guards::Dim& a, const guards::Dim& b);
/// a / b rounded down, where b is above 0 or somebody says that it is.
std::optional<guards::Dim> FloorQuotient(const guards::Dim& a, const guards::Dim& b);
/// The smaller of two sizes.
guards::Dim Smaller(const guards::Dim& a, const guards::Dim& b);
/// What a size was when it was recorded, where somebody says.
std::optional<int64_t> SeenSize(const guards::Dim& dim);
/// Whether it is at least 0, where that is known or somebody decides it.
std::optional<bool> IsAtLeastZero(const guards::Dim& dim);
/// The same sizes, so that those known to be equal are the same polynomial as far as somebody can say.
guards::Dims InQuotients(const guards::Dims& dims);

}  // namespace ingot::compiler
