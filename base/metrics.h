// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"

/// Every counter of Ingot, its name and what it counts. The names are the language of `ingot
/// stats`, of Prometheus and of the integration tests, so they do not change.
#define INGOT_COUNTERS(X)                                                                 \
  X(captures, "runs of a user's function that were recorded")                             \
  X(compiles, "compiler runs that produced an artifact")                                  \
  X(compile_failures, "compiler runs that ended in an error")                             \
  X(entry_hits, "lookups whose entry record was found")                                   \
  X(entry_misses, "lookups whose entry record was not found")                             \
  X(graph_hits, "recordings whose graph was stored already")                              \
  X(graph_misses, "recordings whose graph was not stored")                                \
  X(joins, "requests that waited for somebody else's compile")                            \
  X(proven, "recordings that proved a size of a stored template")                         \
  X(quarantined, "artifacts that gave another answer than eager")                         \
  X(guard_failures, "calls whose inputs fitted no variant")                               \
  X(fallbacks, "calls that were answered by eager")                                       \
  X(native_calls, "calls that were answered by an artifact")                              \
  X(native_steps, "plan steps that ran machine code")                                     \
  X(aten_steps, "plan steps that went through the dispatcher")                            \
  X(artifacts_served, "artifacts handed to clients")                                      \
  X(bytes_served, "bytes of the artifacts handed to clients")                             \
  X(requests, "requests the daemon answered")                                             \
  X(bad_requests, "requests whose bytes were refused")                                    \
  X(busy, "requests refused because a queue was full")                                    \
  X(timeouts, "requests whose deadline passed")                                           \
  X(sessions, "connections the daemon accepted")                                          \
  X(worker_starts, "compile workers started")                                             \
  X(worker_crashes, "compile workers that died in a job")                                 \
  X(store_reads, "values read from a store")                                              \
  X(store_writes, "values written to a store")                                            \
  X(store_corrupt, "stored values that did not match their digest")                       \
  X(store_full, "writes refused because the disk or a limit was full")                    \
  X(store_reset, "stores moved aside because they could not be opened")                   \
  X(improved, "artifacts whose place a better one took after they were served")           \
  X(arena_bytes_saved, "bytes by which arenas have become smaller by that")               \
  X(kernels_measured, "kernels whose schedules were held against each other")             \
  X(unproved, "compiles of which some proof could not run")                               \
  X(proved_whole, "artifacts held in idle time against their graph as captured")          \
  X(proved_in_part, "artifacts of which idle time found no way to prove all")             \
  X(proved_wrong, "artifacts that idle time found wrong, now in quarantine")              \
  X(kernels_tuned, "kernels for which another schedule than the first was faster")        \
  X(libraries_measured, "kernels that were held against PyTorch's library")               \
  X(libraries_chosen, "kernels in whose place the library is called, since it is faster") \
  X(tuned_ns_saved, "nanoseconds by which one launch of each of those has become faster") \
  X(cluster_hits, "entries and graphs that other machines had")                           \
  X(cluster_misses, "entries that no other machine had")                                  \
  X(cluster_writes, "entries and graphs given to other machines")                         \
  X(cluster_waits, "compiles that waited for another machine's")                          \
  X(cluster_blobs_read, "artifacts read from the cluster")                                \
  X(cluster_blobs_written, "artifacts written to the cluster")                            \
  X(cluster_errors, "calls of a cluster tier that failed or took too long")               \
  X(cluster_refused, "calls not made because a server of the cluster had failed of late") \
  X(cluster_distrusted, "records of the cluster that were not taken")                     \
  X(trust_walks, "walks through the store for what is not trusted any more")              \
  X(cluster_unsent, "entries and graphs that could not be given to other machines")       \
  X(cluster_prefetched, "entries brought because a job had used them before")             \
  X(cluster_manifests, "times that other machines were told what a job used")             \
  X(serve_sessions, "connections of other daemons that were served")                      \
  X(serve_requests, "requests of other daemons")                                          \
  X(serve_bad_requests, "requests of other daemons whose bytes were refused")             \
  X(serve_busy, "requests and connections of other daemons refused by a limit")           \
  X(serve_timeouts, "connections of other daemons ended because they stood still")        \
  X(serve_tls_failures, "connections of other daemons that ended before TLS held")        \
  X(serve_unknown_tokens, "other daemons refused: a token that nobody issued")            \
  X(serve_revoked_tokens, "other daemons refused: a token that was revoked")              \
  X(serve_expired_tokens, "other daemons refused: a token whose time is over")            \
  X(serve_other_audience, "other daemons refused: a token for another server")            \
  X(serve_small_scope, "requests of other daemons that their token does not allow")       \
  X(serve_bytes_read, "bytes of blobs that other daemons were given")                     \
  X(serve_bytes_written, "bytes of blobs that other daemons gave")                        \
  X(evictions, "stored values removed to keep a limit")                                   \
  X(evicted_bytes, "bytes of the stored values removed to keep a limit")

/// Every timer, its name and what it times.
#define INGOT_TIMERS(X)                                \
  X(capture, "recording one run")                      \
  X(compile, "one compiler run")                       \
  X(lookup, "one entry lookup in the daemon")          \
  X(cluster_lookup, "one entry lookup in the cluster") \
  X(load, "mapping and binding one artifact")          \
  X(store_open, "opening a store")                     \
  X(store_read, "reading one value from a store")      \
  X(store_write, "writing one value to a store")

namespace ingot {

enum class Counter : uint8_t {
#define INGOT_ENUMERATOR(name, help) name,
  INGOT_COUNTERS(INGOT_ENUMERATOR)
#undef INGOT_ENUMERATOR
};
enum class Timer : uint8_t {
#define INGOT_ENUMERATOR(name, help) name,
  INGOT_TIMERS(INGOT_ENUMERATOR)
#undef INGOT_ENUMERATOR
};

inline constexpr size_t kCounters = 0
#define INGOT_COUNT(name, help) +1
    INGOT_COUNTERS(INGOT_COUNT);
inline constexpr size_t kTimers = 0 INGOT_TIMERS(INGOT_COUNT);
#undef INGOT_COUNT

std::string_view NameOf(Counter counter);
std::string_view HelpOf(Counter counter);
std::string_view NameOf(Timer timer);
std::string_view HelpOf(Timer timer);

/// Times are counted by these upper bounds, in nanoseconds, and one more for what took longer: fine enough from a
/// look-up in memory to a compile.
inline constexpr auto kTimerBounds = std::to_array<uint64_t>(
    {10'000,         25'000,         50'000,         100'000,        250'000,       500'000,
     1'000'000,      2'500'000,      5'000'000,      10'000'000,     25'000'000,    50'000'000,
     100'000'000,    250'000'000,    500'000'000,    1'000'000'000,  2'500'000'000, 5'000'000'000,
     10'000'000'000, 25'000'000'000, 50'000'000'000, 100'000'000'000});
/// How many times were at most each bound and more than the one before; the last: more than all.
using TimerBuckets = std::array<uint64_t, kTimerBounds.size() + 1>;

/// One value of a snapshot: a counter under its name, a timer under `<name>_count` and `<name>_ns`.
struct Metric {
  std::string name;
  uint64_t value = 0;
  bool operator==(const Metric&) const = default;
};

/// One set of counters and timers. Thread-safe: single values are exact, a snapshot is not one
/// instant of all of them.
class Metrics {
 public:
  void Add(Counter counter, uint64_t n = 1) {
    counters_[static_cast<size_t>(counter)].fetch_add(n, std::memory_order_relaxed);
  }
  uint64_t Get(Counter counter) const {
    return counters_[static_cast<size_t>(counter)].load(std::memory_order_relaxed);
  }
  void AddTime(Timer timer, uint64_t ns);
  uint64_t CountOf(Timer timer) const;
  uint64_t NsOf(Timer timer) const;
  TimerBuckets BucketsOf(Timer timer) const;

  /// All values in the order of the lists above.
  std::vector<Metric> Snapshot() const;
  /// "compiles=1 entry_hits=7": what is not zero, counters only, for logs and tests.
  std::string ToText() const;
  /// Back to zero.
  void Reset();

 private:
  std::array<std::atomic<uint64_t>, kCounters> counters_{};
  std::array<std::array<std::atomic<uint64_t>, kTimerBounds.size() + 1>, kTimers> timer_buckets_{};
  std::array<std::atomic<uint64_t>, kTimers> timer_ns_{};
};

/// The process's own set.
Metrics& GlobalMetrics();

/// Adds the time of a scope to a timer.
class TimeScope {
 public:
  explicit TimeScope(Timer timer, Metrics& metrics = GlobalMetrics(), const Clock& clock = SystemClock())
      : timer_(timer), metrics_(metrics), clock_(clock), start_ns_(clock.steady_ns()) {}
  ~TimeScope() { metrics_.AddTime(timer_, static_cast<uint64_t>(clock_.steady_ns() - start_ns_)); }
  TimeScope(const TimeScope&) = delete;
  TimeScope& operator=(const TimeScope&) = delete;

 private:
  const Timer timer_;
  Metrics& metrics_;
  const Clock& clock_;
  const int64_t start_ns_;
};

}  // namespace ingot
