// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <unordered_map>
#include <vector>

#include "base/digest.h"
#include "base/mutex.h"
#include "base/result.h"

namespace ingot::daemon {

/// What a compile came to.
struct Landed {
  Digest artifact;
  uint64_t bytes = 0;
  float compile_s = 0;
};

/// At most one compile in progress for each graph key; everybody else waits for it. A request
/// whose client is gone changes nothing: the flight belongs to the daemon. Thread-safe.
class Flights {
 public:
  using Done = std::function<void(const Result<Landed>&)>;

  /// True for the first: it must call Land in the end. `done` is called by Land either way.
  bool Join(const Digest& key, Done done) {
    MutexLock lock(mutex_);
    std::vector<Done>& waiters = flights_[key];
    waiters.push_back(std::move(done));
    return waiters.size() == 1;
  }

  /// Ends the flight and tells everybody, on this thread.
  void Land(const Digest& key, const Result<Landed>& result) {
    std::vector<Done> waiters;
    {
      MutexLock lock(mutex_);
      const auto at = flights_.find(key);
      if (at == flights_.end()) return;
      waiters = std::move(at->second);
      flights_.erase(at);
    }
    for (Done& done : waiters) done(result);
  }

  size_t size() const {
    MutexLock lock(mutex_);
    return flights_.size();
  }

 private:
  mutable Mutex mutex_;
  std::unordered_map<Digest, std::vector<Done>> flights_ GUARDED_BY(mutex_);
};

}  // namespace ingot::daemon
