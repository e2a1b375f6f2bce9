// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace ingot {

/// Who else may use a directory.
enum class Access {
  kNobody,     ///< Mode 0700 exactly; links to such a directory are followed.
  kNoWriters,  ///< Others may look; only the user, or in a sticky directory of root's the owner, replaces a file.
};

/// The disk as Ingot uses it, so that tests can make any single call fail. Thread-safe.
///
/// Errors: kNotFound: no such file; kUnavailable: no permission, read-only, not a directory;
/// kExhausted: the disk or a quota is full. Messages name the call, the path and the reason.
class Filesystem {
 public:
  virtual ~Filesystem() = default;
  /// kExhausted when the file is larger than `bytes_max`; kInvalid when it is none (OpenRegular).
  virtual Result<Buffer> Read(const std::string& path, uint64_t bytes_max) = 0;
  /// Replaces `path` as a whole, also across a crash: a synced temporary file (mode 0600) beside
  /// it, a rename, and a sync of the directory. A crash may leave the temporary file, whose name ends in ".tmp".
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
  /// Creates `path` and what is missing above it (mode 0700), and looks at what there is. An empty directory of this
  /// user's is narrowed to 0700. kUnavailable, with what to do: not a directory, another user's, open to others as
  /// `access` forbids, or below a directory in which everybody can replace it.
  virtual Status MakePrivateDirectory(const std::string& path, Access access) = 0;
};

/// The machine's disk; lives for ever.
Filesystem& RealFilesystem();

/// A file that is open to be read. kInvalid: a folder, a pipe, a device or a socket, which may keep who reads it
/// waiting for ever. Nothing is waited for.
Result<UniqueFd> OpenRegular(const std::string& path);

/// A file that gets its name, in the place of what had it, when it is whole. What is not finished is removed.
class NewFile {
 public:
  /// Under another name beside `path`; never through a link. `mode` as umask narrows it. Errors as Filesystem.
  static Result<NewFile> Create(std::string path, mode_t mode = 0600);
  NewFile(NewFile&&) = default;
  NewFile& operator=(NewFile&&) = delete;
  ~NewFile();

  int fd() const { return fd_.get(); }
  Status Finish();

 private:
  NewFile(std::string path, std::string temporary, UniqueFd fd)
      : path_(std::move(path)), temporary_(std::move(temporary)), fd_(std::move(fd)) {}

  std::string path_;
  std::string temporary_;  ///< Empty once it has its name, or has been moved from.
  UniqueFd fd_;
};

/// Whether nobody but root and this user can change what a file or directory of that path is, links followed: each
/// directory on the way belongs to one of them and is written by nobody else, but for sticky ones, in which only owners
/// replace files, and a group that has the user's own name. kUnavailable names the first that is otherwise, and what to
/// do.
Status CheckParentsAreKept(const std::string& path);

/// The Error for a failed system call: "rename /a/b: No space left on device".
Error ErrorFromErrno(int number, const std::string& what);

}  // namespace ingot
