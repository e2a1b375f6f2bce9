// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/digest.h"
#include "base/mutex.h"
#include "cache/store/store.h"
#include "daemon/state/config.h"
#include "daemon/state/lru.h"
#include "proto/record_generated.h"

namespace ingot::daemon {

/// A function whose keys were served once and are served less often of late.
struct FallingFunction {
  std::string function;
  uint64_t lookups_before = 0, hits_before = 0;
  uint64_t lookups_now = 0, hits_now = 0;
  std::string cause;  ///< The most frequent one among the misses of late.
  uint64_t cause_count = 0;
  /// `net.f: 2 of 12 lookups hit of late, 30 of 30 before; mostly evicted to keep store_bytes_max (10)`
  std::string ToText() const;
};

/// How often the daemon could serve keys that it has served before, by function and window of time.
///
/// The first lookup of a new key is no fault of the cache and is not counted: what falls here is
/// the hit ratio of a workload that did not change. Kept in the store as one small record from one
/// daemon to the next; bounded by workload_functions_max, workload_keys_max and
/// workload_windows_max. Thread-safe.
class Workload {
 public:
  Workload(const Config& config, const Clock& clock);

  /// The key has a stored entry from here on; not a lookup.
  void Stored(const Digest& entry);
  void Hit(const Digest& entry, const std::string& function);
  /// `was_stored`: the cause itself proves that the key was known (an eviction); otherwise only a
  /// key that this daemon has seen stored counts.
  void Miss(const Digest& entry, const std::string& function, const std::string& cause, bool was_stored);
  /// A client could not use what its lookup found: that hit was a miss.
  void Rejected(const Digest& entry, const std::string& function, const std::string& cause);

  /// Adds what an earlier daemon counted. A record that makes no sense is left alone.
  void Restore(cache::Store& store);
  /// Writes the counts, when there are new ones.
  void Save(cache::Store& store);

  /// Functions whose hit ratio fell by workload_fall_percent or more, by name.
  std::vector<FallingFunction> Falling() const;

 private:
  struct Window {
    int64_t number = 0;  ///< Unix seconds / workload_window_s.
    uint64_t lookups = 0, hits = 0;
    std::map<std::string, uint64_t> causes;
  };
  using Windows = std::deque<Window>;  ///< The newest first.
  using Names = std::list<const std::string*>;
  struct Function {
    Windows windows;
    Names::iterator asked;
  };

  int64_t WindowSeconds() const;
  void Remember(const Digest& entry) REQUIRES(mutex_);
  void Add(const std::string& function, const proto::WorkloadWindow& stored) REQUIRES(mutex_);
  Buffer Pack() const REQUIRES(mutex_);
  Window& Now(const std::string& function) REQUIRES(mutex_);
  /// The function's windows, made empty at `place` in the order of asking.
  Function& Make(const std::string& function, Names::iterator place) REQUIRES(mutex_);
  void Count(Window& window, const std::string& cause) const;
  FallingFunction Compare(const std::string& function, const Windows& windows) const;

  const Config& config_;
  const Clock& clock_;
  mutable Mutex mutex_;
  Lru<bool> stored_ GUARDED_BY(mutex_);
  std::map<std::string, Function> functions_ GUARDED_BY(mutex_);
  /// Their names, that of the function asked for last first: the last makes room.
  Names asked_ GUARDED_BY(mutex_);
  bool is_saved_ GUARDED_BY(mutex_) = true;
};

}  // namespace ingot::daemon
