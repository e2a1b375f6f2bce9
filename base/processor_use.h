// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ingot {

/// How many processors of the machine are at work. Belongs to one thread at a time.
class ProcessorUse {
 public:
  /// `root` stands before /proc, for tests.
  explicit ProcessorUse(std::string root = "") : root_(std::move(root)) {}

  /// Counts those of `processors` alone, by their numbers; empty: all.
  void LookAt(std::vector<bool> processors) { looked_at_ = std::move(processors); }

  /// Takes processors that run niced work alone for free: whoever is not niced takes them from it.
  void LeaveOutNiced() { counts_niced_ = false; }

  /// Processors that were busy on average since it was asked before; none: the first time, no time has passed, or the
  /// machine does not say.
  std::optional<double> Busy();

 private:
  struct Times {
    uint64_t busy = 0;  ///< ticks of all processors together
    uint64_t all = 0;
    uint64_t processors = 0;
  };
  std::optional<Times> Read() const;

  const std::string root_;
  std::vector<bool> looked_at_;
  bool counts_niced_ = true;
  std::optional<Times> before_;
};

}  // namespace ingot
