// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/digest.h"
#include "base/mutex.h"
#include "base/steady_time.h"
#include "base/until.h"
#include "cache/store/key.h"
#include "daemon/compile/flights.h"
#include "proto/cluster_generated.h"

namespace ingot::daemon {

struct Core;

/// One client's look-ups so far. Belongs to its session and to Jobs. Thread-safe.
class Job {
 private:
  friend class Jobs;
  Mutex mutex_;
  Digest name_ GUARDED_BY(mutex_);  ///< Zero: nothing was looked up yet.
  std::string function_ GUARDED_BY(mutex_), ranks_ GUARDED_BY(mutex_);
  std::unordered_set<Digest> seen_ GUARDED_BY(mutex_);
  std::vector<Digest> used_ GUARDED_BY(mutex_);  ///< The same in order.
  size_t written_ GUARDED_BY(mutex_) = 0;        ///< So many of them are in the manifest.
  SteadyTime changed_ GUARDED_BY(mutex_);
};
using JobRef = std::shared_ptr<Job>;

/// Which entries jobs use: written down when a client goes, and now and then for those that stay, here and for other
/// machines; the first look-up of a job that is known brings the others from the cluster, behind everybody's back. Off
/// with cluster_prefetch_entries_max = 0, and where nothing is shared. Thread-safe.
class Jobs {
 public:
  explicit Jobs(Core& core) : core_(core) {}

  /// nullptr where it is off.
  JobRef Begin();
  /// A look-up was answered; may be called with nullptr. Never blocks.
  void Used(const JobRef& job, const Digest& entry, const cache::Key& key);
  /// Its client is gone.
  void End(const JobRef& job);
  /// Writes down what goes on, until the daemon stops.
  boost::asio::awaitable<void> Watch();

 private:
  bool is_on() const;
  boost::asio::awaitable<void> Write(JobRef job);
  boost::asio::awaitable<void> Prefetch(Digest name, Digest first);
  boost::asio::awaitable<std::vector<proto::JobEntry>> Known(Digest name, Until until);

  Core& core_;
  /// Prefetches under way: processes of one job begin together.
  FlightsOf<bool> flights_;
  Mutex mutex_;
  std::unordered_set<JobRef> going_on_ GUARDED_BY(mutex_);
};

}  // namespace ingot::daemon
