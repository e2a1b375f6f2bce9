// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "proto/endpoint.h"
#include "proto/lock_file.h"

namespace ingot::client {

/// Held by the one client that starts a daemon; the others wait and find it running.
/// The kernel gives it up when its holder dies.
class StartLock {
 public:
  /// In the store's directory; beside the socket where that cannot be had. kTimeout after `deadline_ms`.
  static Result<StartLock> Take(const proto::Endpoint& endpoint, int deadline_ms);

 private:
  explicit StartLock(proto::LockFile lock) : lock_(std::move(lock)) {}
  proto::LockFile lock_;
};

/// Path of ingotd: `given`, else INGOT_DAEMON, else beside this library, beside this program, or
/// on PATH. kUnavailable lists where it was looked for.
Result<std::string> FindDaemon(const std::string& given);

/// Starts `program` in the background and waits until it listens. kUnavailable with the daemon's
/// own reason; kTimeout after `deadline_ms`.
Status StartDaemon(const proto::Endpoint& endpoint, const std::string& program,
                   const std::vector<std::string>& arguments, int deadline_ms);

}  // namespace ingot::client
