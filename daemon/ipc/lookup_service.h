// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "daemon/admin/caller.h"
#include "daemon/core.h"
#include "daemon/explain/explain.h"
#include "daemon/ipc/ready_answers.h"

namespace ingot::daemon {

/// Answers lookups and fetches. Thread-safe.
///
/// A lookup whose bytes, entry and artifacts were seen before is answered from memory: no
/// unpacking, no read from the store, no copy of an artifact.
class LookupService {
 public:
  explicit LookupService(Core& core) : core_(core), seen_(kSeenMax, kSeenMax), ready_(kReadyMax) {}

  /// The answer when it is in memory. Of one thread alone; asked again it waits for nobody.
  std::optional<Reply> Fast(Bytes body, const Caller& caller);
  /// The answer; may read the store.
  boost::asio::awaitable<Reply> Lookup(Buffer body, Until until, Caller caller);
  boost::asio::awaitable<Reply> Fetch(Buffer body, Until until);

 private:
  static constexpr uint64_t kSeenMax = 16384;
  static constexpr uint64_t kReadyMax = 4096;

  /// The answer to a request of these bytes, from what can be looked at without waiting for another thread.
  std::optional<ReadyAnswers::Answer> FindInMemory(const Digest& request, const std::string& tenant);
  Task<EntryRef> Find(const cache::Key& key, Until until);
  boost::asio::awaitable<Reply> Answer(const cache::Key& key, bool again, Until until);
  Reply Found(const Entry& entry, std::vector<SealedRef> files);
  boost::asio::awaitable<Reply> FoundInPart(EntryRef entry, Until until);
  Reply Missed(const cache::Key& key, const Explanation& explanation);
  void CountServed(const std::vector<SealedRef>& files);

  Core& core_;
  Mutex mutex_;
  struct Seen {
    std::string tenant;
    Digest entry;  ///< A pure function of the request's bytes and the tenant.
  };
  /// By the digest of the request's bytes, which says nothing of whose they are.
  Lru<Seen> seen_ GUARDED_BY(mutex_);
  ReadyAnswers ready_;  ///< of the thread that calls Fast
};

}  // namespace ingot::daemon
