// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace ingot::compiler::fusion {

/// Which units of a schedule must run before which, transitively, while units are still being
/// formed: one bit row for each unit.
class Reachability {
 public:
  explicit Reachability(size_t units_max) : words_((units_max + 63) / 64) {}

  size_t Add() {
    rows_.emplace_back(words_);
    return rows_.size() - 1;
  }
  /// `from` runs before `to`, or they are the same.
  bool Reaches(size_t from, size_t to) const { return rows_[from][to / 64] >> (to % 64) & 1; }

  void Connect(size_t from, size_t to) {
    if (Reaches(from, to)) return;
    std::vector<uint64_t> added = rows_[to];
    added[to / 64] |= uint64_t{1} << (to % 64);
    for (size_t unit = 0; unit < rows_.size(); ++unit) {
      if (unit == from || Reaches(unit, from)) Merge(rows_[unit], added);
    }
  }
  /// Both become one: what reaches either reaches what either reaches.
  void Unite(size_t a, size_t b) {
    std::vector<uint64_t> added = rows_[a];
    Merge(added, rows_[b]);
    const std::vector<uint64_t> below = added;
    added[a / 64] |= uint64_t{1} << (a % 64);
    added[b / 64] |= uint64_t{1} << (b % 64);
    for (size_t unit = 0; unit < rows_.size(); ++unit) {
      if (unit == a || unit == b) {
        Merge(rows_[unit], below);
      } else if (Reaches(unit, a) || Reaches(unit, b)) {
        Merge(rows_[unit], added);
      }
    }
  }

 private:
  static void Merge(std::vector<uint64_t>& into, const std::vector<uint64_t>& from) {
    for (size_t w = 0; w < into.size(); ++w) into[w] |= from[w];
  }

  size_t words_;
  std::vector<std::vector<uint64_t>> rows_;
};

}  // namespace ingot::compiler::fusion
