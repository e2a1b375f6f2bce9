// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "guards/guard_set.h"

namespace ingot::guards {

/// Sizes that several recordings have proved, each under conditions of its own over one template's symbols: those of
/// one set must all hold. No set: no size.
///
/// Text: the sets' own, with "or" between them (docs/format/guards.md). "" has no set.
/// Thread-compatible. Asking allocates nothing.
class Ranges {
 public:
  static constexpr size_t kSetsMax = 32;

  /// kInvalid says what was expected at which column.
  static Result<Ranges> Parse(std::string_view text);
  /// Parses back to equal ranges.
  std::string ToText() const;

  bool empty() const { return sets_.empty(); }
  std::span<const GuardSet> sets() const { return sets_; }
  bool Holds(std::span<const int64_t> symbols) const;
  /// The first guard that fails in the set of which the fewest do, in words with what was found and the nearest values
  /// that would do; empty when a set holds, and where there is none.
  std::string Explain(std::span<const int64_t> symbols) const;
  /// Adds the sizes of a set, and leaves out sets that it contains. False: one that is here contains it, or there are
  /// kSetsMax.
  bool Add(const GuardSet& set);

 private:
  std::vector<GuardSet> sets_;
};

}  // namespace ingot::guards
