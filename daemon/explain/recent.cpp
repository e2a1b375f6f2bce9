// SPDX-License-Identifier: Apache-2.0
#include "daemon/explain/recent.h"

#include <algorithm>

#include "base/metrics.h"

namespace ingot::daemon {
namespace {

constexpr size_t kTextBytesMax = 512;

void Cut(std::string& text) {
  if (text.size() <= kTextBytesMax) return;
  text.resize(kTextBytesMax);
  text += "...";
}

}  // namespace

void Recent::Take(size_t flights) {
  const Metrics& metrics = GlobalMetrics();
  Sample sample{clock_.now_s(),
                metrics.Get(Counter::entry_hits),
                metrics.Get(Counter::entry_misses),
                metrics.Get(Counter::compiles),
                metrics.Get(Counter::requests),
                flights};
  MutexLock lock(mutex_);
  samples_.push_back(sample);
  while (samples_.size() > config_.web_samples_max) samples_.pop_front();
}

void Recent::Missed(Miss miss) {
  Cut(miss.function);
  Cut(miss.why);
  MutexLock lock(mutex_);
  misses_.push_front(std::move(miss));
  while (misses_.size() > config_.web_misses_max) misses_.pop_back();
}

std::vector<Recent::Sample> Recent::samples() const {
  MutexLock lock(mutex_);
  return {samples_.begin(), samples_.end()};
}

std::vector<Recent::Miss> Recent::misses() const {
  MutexLock lock(mutex_);
  return {misses_.begin(), misses_.end()};
}

}  // namespace ingot::daemon
