// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ingot {

/// A file descriptor that closes itself.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.Release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept;
  ~UniqueFd() { Reset(); }
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int Release() {
    int fd = fd_;
    fd_ = -1;
    return fd;
  }
  /// Closes it. What close() gives: on some file systems that is where a full disk shows. 0 where there is none.
  int Reset();

 private:
  int fd_ = -1;
};

}  // namespace ingot
