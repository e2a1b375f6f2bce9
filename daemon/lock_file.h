// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/result.h"
#include "proto/frame.h"

namespace ingot::daemon {

/// The lock that makes a daemon the only one of its endpoint; the file holds its process id.
/// The kernel gives it up when the process ends, however it ends.
class LockFile {
 public:
  /// Waits up to `wait_s` for the holder to go. kUnavailable names the holder's process id.
  /// Uses SIGALRM: call it before there are threads.
  static Result<LockFile> Take(const std::string& path, unsigned wait_s);

 private:
  explicit LockFile(proto::UniqueFd fd) : fd_(std::move(fd)) {}
  proto::UniqueFd fd_;
};

}  // namespace ingot::daemon
