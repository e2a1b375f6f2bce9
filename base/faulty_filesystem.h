// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cerrno>
#include <string>
#include <vector>

#include "base/filesystem.h"

namespace ingot {

/// Counts the calls that reach another Filesystem and fails one of them, for tests that fail the
/// first call, then the second, and so on until a run is clean. Thread-safe once armed.
class FaultyFilesystem final : public Filesystem {
 public:
  explicit FaultyFilesystem(Filesystem& under) : under_(under) {}

  /// From here on, call number `nth` (counted from 1) fails as `error_number` says; 0: none.
  void FailCall(uint64_t nth, int error_number) {
    calls_ = 0;
    nth_ = nth;
    errno_ = error_number;
  }
  /// Makes FreeBytes answer this.
  void SetFreeBytes(uint64_t bytes) { free_bytes_ = bytes; }
  /// Makes IsNetwork answer true.
  void SetNetwork(bool network) { network_ = network; }
  /// Calls since FailCall.
  uint64_t calls() const { return calls_; }

  Result<Buffer> Read(const std::string& path, uint64_t bytes_max) override {
    TRY(Count("read " + path));
    return under_.Read(path, bytes_max);
  }
  Status WriteAtomic(const std::string& path, Bytes bytes) override {
    TRY(Count("write " + path));
    return under_.WriteAtomic(path, bytes);
  }
  Status MakeDirs(const std::string& path) override {
    TRY(Count("create directory " + path));
    return under_.MakeDirs(path);
  }
  bool Exists(const std::string& path) override { return under_.Exists(path); }
  Status Remove(const std::string& path) override {
    TRY(Count("remove " + path));
    return under_.Remove(path);
  }
  Status Rename(const std::string& from, const std::string& to) override {
    TRY(Count("rename " + from));
    return under_.Rename(from, to);
  }
  Result<std::vector<std::string>> List(const std::string& path) override {
    TRY(Count("list " + path));
    return under_.List(path);
  }
  Result<uint64_t> FreeBytes(const std::string& path) override {
    TRY(Count("statvfs " + path));
    const uint64_t fixed = free_bytes_;
    if (fixed != kNotFixed) return fixed;
    return under_.FreeBytes(path);
  }
  Result<bool> IsNetwork(const std::string& path) override {
    TRY(Count("statfs " + path));
    if (network_) return true;
    return under_.IsNetwork(path);
  }
  Status MakePrivateDirectory(const std::string& path, Access access) override {
    TRY(Count("create directory " + path));
    return under_.MakePrivateDirectory(path, access);
  }

 private:
  static constexpr uint64_t kNotFixed = ~uint64_t{0};

  Status Count(const std::string& what) {
    if (++calls_ == nth_) return ErrorFromErrno(errno_, what);
    return {};
  }

  Filesystem& under_;
  std::atomic<uint64_t> calls_{0};
  std::atomic<uint64_t> nth_{0};
  std::atomic<int> errno_{0};
  std::atomic<uint64_t> free_bytes_{kNotFixed};
  std::atomic<bool> network_{false};
};

}  // namespace ingot
