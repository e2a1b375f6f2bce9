// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "proto/frame.h"

namespace ingot::proto {

/// What the holder of a lock says of itself.
struct LockHolder {
  uint32_t pid = 0;
  std::string host;
  /// Where it answers; empty while it starts, and once it ends.
  std::string socket;
  bool operator==(const LockHolder&) const = default;
};

/// The lock that makes a process the only one of a store or of a socket's name, and the place where
/// others read whom to talk to instead.
///
/// The kernel gives it up when its process ends, however it ends, so what the file says counts only
/// while the lock is held. It belongs to the open file: children that close what they inherit
/// do not hold it. Asking who holds it takes nothing. Thread-compatible.
class LockFile {
 public:
  /// Tries once. Without a value: another open file holds it. kUnavailable: the file cannot be
  /// made or locked. Links are not followed.
  static Result<std::optional<LockFile>> Take(const std::string& path);
  /// Who holds the lock of that path; without a value: nobody. Creates nothing.
  static std::optional<LockHolder> HolderOf(const std::string& path);
  /// Who holds or has held it last; without a value: the file is no lock of this kind.
  static std::optional<LockHolder> LastHolderOf(const std::string& path);

  /// Says where this process answers; empty: not yet, or no more. A full disk is no Error: those
  /// who find the lock held and the socket unnamed look at the places a socket has by default.
  Status Name(const std::string& socket);
  /// True while the path still leads to this lock. Not so once somebody has removed or moved the
  /// directory: another process may hold the lock that is there now.
  bool IsInPlace() const;
  const std::string& path() const { return path_; }

 private:
  LockFile(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  std::string path_;
  UniqueFd fd_;
};

/// True when the file behind `path` is the one that `fd` has open.
bool IsSameFile(int fd, const std::string& path);

}  // namespace ingot::proto
