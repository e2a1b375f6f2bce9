// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace ingot {

/// The disk as Ingot uses it, so that tests can make any single call fail. Thread-safe.
///
/// Errors: kNotFound: no such file; kUnavailable: no permission, read-only, not a directory;
/// kExhausted: the disk or a quota is full. Messages name the call, the path and the reason.
class Filesystem {
 public:
  virtual ~Filesystem() = default;
  /// kExhausted when the file is larger than `bytes_max`.
  virtual Result<Buffer> Read(const std::string& path, uint64_t bytes_max) = 0;
  /// Replaces `path` as a whole, also across a crash: a synced temporary file (mode 0600) beside
  /// it, a rename, and a sync of the directory.
  virtual Status WriteAtomic(const std::string& path, Bytes bytes) = 0;
  /// Creates the directory and its parents with mode 0700; an existing directory is success.
  virtual Status MakeDirs(const std::string& path) = 0;
  virtual bool Exists(const std::string& path) = 0;
  /// Removes a file, or a directory with all it holds; links are removed, not followed.
  virtual Status Remove(const std::string& path) = 0;
  virtual Status Rename(const std::string& from, const std::string& to) = 0;
  /// Names in a directory, sorted, without "." and "..".
  virtual Result<std::vector<std::string>> List(const std::string& path) = 0;
  /// What an unprivileged user may still write.
  virtual Result<uint64_t> FreeBytes(const std::string& path) = 0;
  /// True on NFS, CIFS, Lustre and their like, where locks and renames promise less.
  virtual Result<bool> IsNetwork(const std::string& path) = 0;
  /// kUnavailable, with what to do, unless `path` is a directory that this user owns and that
  /// not everybody may write.
  virtual Status CheckPrivateDirectory(const std::string& path) = 0;
};

/// The machine's disk; lives for ever.
Filesystem& RealFilesystem();

/// The Error for a failed system call: "rename /a/b: No space left on device".
Error ErrorFromErrno(int number, const std::string& what);

}  // namespace ingot
