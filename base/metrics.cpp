// SPDX-License-Identifier: Apache-2.0
#include "base/metrics.h"

#include <algorithm>

namespace ingot {
namespace {

#define INGOT_NAME(name, help) #name,
#define INGOT_HELP(name, help) help,
constexpr std::string_view kCounterNames[] = {INGOT_COUNTERS(INGOT_NAME)};
constexpr std::string_view kCounterHelp[] = {INGOT_COUNTERS(INGOT_HELP)};
constexpr std::string_view kTimerNames[] = {INGOT_TIMERS(INGOT_NAME)};
constexpr std::string_view kTimerHelp[] = {INGOT_TIMERS(INGOT_HELP)};
#undef INGOT_NAME
#undef INGOT_HELP

}  // namespace

std::string_view NameOf(Counter counter) { return kCounterNames[static_cast<size_t>(counter)]; }
std::string_view HelpOf(Counter counter) { return kCounterHelp[static_cast<size_t>(counter)]; }
std::string_view NameOf(Timer timer) { return kTimerNames[static_cast<size_t>(timer)]; }
std::string_view HelpOf(Timer timer) { return kTimerHelp[static_cast<size_t>(timer)]; }

void Metrics::AddTime(Timer timer, uint64_t ns) {
  const auto bound = std::ranges::lower_bound(kTimerBounds, ns) - kTimerBounds.begin();
  timer_buckets_[static_cast<size_t>(timer)][static_cast<size_t>(bound)].fetch_add(1, std::memory_order_relaxed);
  timer_ns_[static_cast<size_t>(timer)].fetch_add(ns, std::memory_order_relaxed);
}

uint64_t Metrics::CountOf(Timer timer) const {
  uint64_t count = 0;
  for (const uint64_t bucket : BucketsOf(timer)) count += bucket;
  return count;
}

TimerBuckets Metrics::BucketsOf(Timer timer) const {
  TimerBuckets buckets;
  const auto& counts = timer_buckets_[static_cast<size_t>(timer)];
  for (size_t i = 0; i < buckets.size(); ++i) buckets[i] = counts[i].load(std::memory_order_relaxed);
  return buckets;
}

uint64_t Metrics::NsOf(Timer timer) const {
  return timer_ns_[static_cast<size_t>(timer)].load(std::memory_order_relaxed);
}

std::vector<Metric> Metrics::Snapshot() const {
  std::vector<Metric> all;
  all.reserve(kCounters + 2 * kTimers);
  for (size_t i = 0; i < kCounters; ++i) {
    all.push_back({std::string(kCounterNames[i]), Get(static_cast<Counter>(i))});
  }
  for (size_t i = 0; i < kTimers; ++i) {
    const Timer timer = static_cast<Timer>(i);
    all.push_back({std::string(kTimerNames[i]) + "_count", CountOf(timer)});
    all.push_back({std::string(kTimerNames[i]) + "_ns", NsOf(timer)});
  }
  return all;
}

std::string Metrics::ToText() const {
  std::string text;
  for (size_t i = 0; i < kCounters; ++i) {
    const uint64_t value = Get(static_cast<Counter>(i));
    if (value == 0) continue;
    if (!text.empty()) text += ' ';
    text.append(kCounterNames[i]).append("=").append(std::to_string(value));
  }
  return text;
}

void Metrics::Reset() {
  for (auto& buckets : timer_buckets_) {
    for (auto& value : buckets) value.store(0, std::memory_order_relaxed);
  }
  for (auto& value : timer_ns_) value.store(0, std::memory_order_relaxed);
  for (auto& value : counters_) value.store(0, std::memory_order_relaxed);
}

Metrics& GlobalMetrics() {
  static Metrics metrics;
  return metrics;
}

}  // namespace ingot
