// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "proto/endpoint.h"
#include "proto/frame.h"

namespace ingot::client {

/// Held by the one client that starts a daemon; the others wait and find it running.
/// The kernel gives it up when its holder dies.
class StartLock {
 public:
  static Result<StartLock> Take(const proto::Endpoint& endpoint);

 private:
  explicit StartLock(proto::UniqueFd fd) : fd_(std::move(fd)) {}
  proto::UniqueFd fd_;
};

/// Path of ingotd: `given`, else INGOT_DAEMON, else beside this library, beside this program, or
/// on PATH. kUnavailable lists where it was looked for.
Result<std::string> FindDaemon(const std::string& given);

/// Starts `program` in the background and waits until it listens. kUnavailable with the daemon's
/// own reason; kTimeout after `deadline_ms`.
Status StartDaemon(const proto::Endpoint& endpoint, const std::string& program,
                   const std::vector<std::string>& arguments, int deadline_ms);

}  // namespace ingot::client
