// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/state/artifacts.h"
#include "daemon/state/entries.h"
#include "daemon/state/lru.h"

namespace ingot::daemon {

/// Answers of look-ups that were asked before, for the one thread that reads requests: it waits for nobody who changes
/// what they are made of. An answer holds nothing in memory, and is gone when a part of it is not served any more.
/// Thread-compatible.
class ReadyAnswers {
 public:
  using KeptEntry = std::shared_ptr<const Lru<EntryRef>::Kept>;
  using KeptFile = std::shared_ptr<const Lru<SealedRef>::Kept>;
  struct Answer {
    EntryRef entry;
    std::vector<SealedRef> files;
  };

  explicit ReadyAnswers(uint64_t count_max) : slots_(count_max, count_max) {}

  /// By the digest of the request's bytes, and whose they are.
  std::optional<Answer> Find(const Digest& request, const std::string& tenant);
  void Put(const Digest& request, const std::string& tenant, const KeptEntry& entry,
           const std::vector<KeptFile>& files);

 private:
  struct Slot {
    std::string tenant;
    std::weak_ptr<const Lru<EntryRef>::Kept> entry;
    std::vector<std::weak_ptr<const Lru<SealedRef>::Kept>> files;
  };
  Lru<Slot> slots_;
};

}  // namespace ingot::daemon
