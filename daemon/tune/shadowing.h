// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "base/until.h"
#include "cache/async/task.h"
#include "cache/trust/shadow.h"
#include "daemon/tune/idle_watch.h"

namespace ingot::daemon {

struct Core;

/// Compiles some of what came from other machines again while this one has nothing better to do: builds are
/// deterministic, so a difference means that the builder, or whoever has its key, gives away something else than it
/// says. Its key goes into quarantine then, with all that came by its word (daemon/cluster/recall.h). Thread-safe.
class Shadowing {
 public:
  explicit Shadowing(Core& core);

  /// An artifact has been let in, made of the graph of this text for these gears. Costs nothing now.
  void Fetched(cache::Provenance provenance, Digest text, std::vector<int64_t> gears);
  /// Looks and compiles until the daemon stops.
  boost::asio::awaitable<void> Watch();
  /// All zero until something was fetched and the machine was idle.
  cache::ShadowPolicy::Counts counts() const;

 private:
  struct Source {
    Digest text;
    std::vector<int64_t> gears;
  };
  struct Came {
    cache::Provenance provenance;
    Source source;
  };
  bool HasWork() const;
  cache::Task<void> Prepare();
  cache::Task<void> CompileAgain(cache::Provenance provenance, Until until);

  Core& core_;
  IdleWatch idle_;
  mutable Mutex mutex_;
  std::deque<Came> came_ GUARDED_BY(mutex_);
  /// By artifact; of those the policy has chosen.
  std::unordered_map<Digest, Source> sources_ GUARDED_BY(mutex_);
  std::shared_ptr<cache::ShadowPolicy> policy_ GUARDED_BY(mutex_);
};

}  // namespace ingot::daemon
