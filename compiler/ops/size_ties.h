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
  /// A size that is a / b rounded down, b being above 0; none where there are too many.
  virtual std::optional<guards::Dim> Quotient(const guards::Dim& a, const guards::Dim& b) = 0;

 private:
  SizeTies* outer_;
};

/// a == b, or somebody says that they are.
bool SameSize(const guards::Dim& a, const guards::Dim& b);
/// a / b rounded down as a size, where b is above 0 and somebody can say it.
std::optional<guards::Dim> FloorQuotient(const guards::Dim& a, const guards::Dim& b);

}  // namespace ingot::compiler
