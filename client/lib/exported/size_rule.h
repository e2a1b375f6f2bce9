// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "guards/ranges.h"

namespace ingot::client {

/// Which symbol values a variant may serve: those a recording has proved, and those a condition
/// holds for ("s0 >= 2 and s0 <= 64", guards/ranges.h). Immutable.
class SizeRule {
 public:
  /// kInvalid: `condition` does not parse.
  static Result<SizeRule> Make(const std::vector<std::vector<int64_t>>& proven, const std::string& condition);

  /// A variant without symbols serves whatever its guards let pass.
  bool Allows(std::span<const int64_t> symbols) const;
  /// What is allowed, in words: "proved: [4], [8]; or s0 >= 2 and s0 <= 64".
  std::string ToText() const;

 private:
  std::set<std::vector<int64_t>> proven_;
  guards::Ranges range_;
};

}  // namespace ingot::client
