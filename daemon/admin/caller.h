// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/unique_fd.h"
#include "daemon/cluster/jobs.h"

namespace ingot::daemon {

/// What who asks may do (docs/security.md).
enum class Right : uint8_t {
  kUse,         ///< Whoever reaches the clients' socket: look up, compile, fetch, and ask about what is its own.
  kAdminister,  ///< Whoever reaches the daemon's own socket: everything.
};

/// Who asks something of the daemon, and what came with it.
struct Caller {
  // Not an aggregate: GCC 12 copies those by their bytes where they are made within what a coroutine waits for.
  Caller() = default;
  explicit Caller(Right right, std::string tenant = {}, JobRef job = nullptr, std::vector<UniqueFd> files = {})
      : right(right), tenant(std::move(tenant)), job(std::move(job)), files(std::move(files)) {}

  Right right = Right::kUse;
  /// Whose entries it is served (daemon/ipc/peer.h).
  std::string tenant = {};
  /// What it uses; nullptr: nobody asks.
  JobRef job = nullptr;
  /// Files that it has opened by its own rights. Only of who administers.
  std::vector<UniqueFd> files = {};
};

}  // namespace ingot::daemon
