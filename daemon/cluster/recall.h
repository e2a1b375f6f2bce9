// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/until.h"
#include "cache/async/task.h"
#include "cache/trust/trust.h"

namespace ingot::daemon {

struct Core;

/// Takes back what came by the word of somebody who is not trusted any more out of this machine's store, as soon as the
/// trust file says so (Cluster::RemoveRevoked: out of the shared tiers). Programs that run already keep what they
/// have. Thread-safe.
class Recall {
 public:
  explicit Recall(Core& core) : core_(core) {}

  struct Counts {
    uint64_t entries = 0;  ///< Changed.
    uint64_t variants = 0;  ///< Taken out of them.
    uint64_t graphs = 0;  ///< Records of graphs deleted.
  };
  /// Looks at everything that came from elsewhere. Bytes that nothing names any more are left to gc.
  cache::Task<Counts> FromHere(Until until);
  /// Looks from time to time whether the trust file has changed, until the daemon stops. What it said when all was
  /// looked at last is kept in the store, so that a daemon that starts looks at nothing again.
  boost::asio::awaitable<void> Watch();

 private:
  /// What the trust file said then; none: nobody knows.
  std::optional<Digest> Seen() const;
  bool SetSeen(const Digest& policy);
  /// Whether there is anything to look at.
  bool HasRecords() const;

  Core& core_;
};

}  // namespace ingot::daemon
