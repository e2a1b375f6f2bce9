// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <unordered_map>

#include "base/digest.h"
#include "base/steady_time.h"

namespace ingot::daemon {

/// When entries that could not be sent are tried again: each later and later, so that none keeps back the others, and
/// none for ever. A failure counts against the entry only where the tier is known to take something: a tier that is
/// away says nothing of what it is given. Remembers entries that failed alone. Belongs to one coroutine.
class SendRetries {
 public:
  SendRetries(uint64_t tries_max, std::chrono::milliseconds pause_min, std::chrono::milliseconds pause_max)
      : tries_max_(tries_max), pause_min_(pause_min), pause_max_(std::max(pause_min, pause_max)) {}

  bool IsDue(const Digest& entry) const {
    const auto found = late_.find(entry);
    return found == late_.end() || found->second.due <= SteadyNow();
  }
  void Sent(const Digest& entry) { late_.erase(entry); }
  /// `counts`: it is the entry's fault. True: it is given up, and forgotten here.
  bool Failed(const Digest& entry, bool counts) {
    Late& late = late_[entry];
    late.counted += counts;
    if (late.counted >= tries_max_) {
      late_.erase(entry);
      return true;
    }
    late.pause = std::clamp(late.pause * 2, pause_min_, pause_max_);
    late.due = SteadyNow() + late.pause;
    return false;
  }
  /// The tier has taken something: what waited for it alone is due at once.
  void Works() {
    for (auto& [entry, late] : late_) {
      if (late.counted == 0) late.due = SteadyNow();
    }
  }
  /// When the first is due; SteadyTime::max(): none waits.
  SteadyTime next() const {
    SteadyTime first = SteadyTime::max();
    for (const auto& [entry, late] : late_) first = std::min(first, late.due);
    return first;
  }

 private:
  struct Late {
    uint64_t counted = 0;
    std::chrono::milliseconds pause{0};
    SteadyTime due;
  };
  const uint64_t tries_max_;
  const std::chrono::milliseconds pause_min_, pause_max_;
  std::unordered_map<Digest, Late> late_;
};

}  // namespace ingot::daemon
