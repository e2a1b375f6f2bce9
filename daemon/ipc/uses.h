// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <boost/lockfree/spsc_queue.hpp>
#include <functional>

#include "base/mutex.h"
#include "daemon/cluster/jobs.h"
#include "daemon/state/entries.h"

namespace ingot::daemon {

struct Core;

/// What follows from look-ups that memory answered: order of eviction, hits, workload, jobs. The thread that answers
/// them only notes it; it is written down soon, and before anybody reads any of it.
class Uses {
 public:
  explicit Uses(Core& core) : core_(core) {}

  /// Of one thread alone, which waits for nobody here.
  void Note(const EntryRef& entry, const JobRef& job);
  /// Thread-safe.
  void Apply();
  /// As if it were noted and applied; any thread.
  void Write(const Entry& entry);

  /// Called by Note with the first that waits: somebody should call Apply soon. Set before it is used.
  std::function<void()> on_first = [] {};

 private:
  static constexpr size_t kNotedMax = 4096;
  struct Noted {
    EntryRef entry;
    JobRef job;
  };

  Core& core_;
  std::atomic<bool> is_waiting_{false};
  boost::lockfree::spsc_queue<Noted, boost::lockfree::capacity<kNotedMax>> noted_;
  Mutex apply_mutex_;  ///< of who takes from it
};

}  // namespace ingot::daemon
