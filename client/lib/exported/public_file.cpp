// SPDX-License-Identifier: Apache-2.0
#include "client/lib/exported/public_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>

#include "base/filesystem.h"

namespace ingot::client {

Result<PublicFile> PublicFile::Create(const std::string& path) {
  static std::atomic<unsigned> count{0};
  std::string temporary = fmt::format("{}.{}.{}.part", path, getpid(), ++count);
  // Of a process of this number that is gone. Never another's: in a folder of several users a link may lie there.
  if (unlink(temporary.c_str()) != 0 && errno != ENOENT) return ErrorFromErrno(errno, "remove " + temporary);
  UniqueFd file(open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
  if (!file) return ErrorFromErrno(errno, "open " + temporary);
  return PublicFile(path, std::move(temporary), std::move(file));
}

PublicFile::~PublicFile() {
  if (file_) unlink(temporary_.c_str());
}

Status PublicFile::PutInPlace() {
  // Some file systems say only here that the disk is full.
  if (const int failed = file_.Reset(); failed != 0) {
    const int why = errno;
    unlink(temporary_.c_str());
    return ErrorFromErrno(why, "write " + temporary_);
  }
  if (std::rename(temporary_.c_str(), path_.c_str()) == 0) return {};
  const int why = errno;
  unlink(temporary_.c_str());
  return ErrorFromErrno(why, "rename " + temporary_ + " to " + path_);
}

Status WriteParts(int descriptor, std::span<const Bytes> parts) {
  for (Bytes part : parts) {
    while (!part.empty()) {
      const ssize_t wrote = write(descriptor, part.data(), part.size());
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote < 0) return ErrorFromErrno(errno, "write");
      part = part.subspan(static_cast<size_t>(wrote));
    }
  }
  return {};
}

Status WritePublicFile(const std::string& path, std::span<const Bytes> parts) {
  TRY_ASSIGN(PublicFile file, PublicFile::Create(path));
  if (Status written = WriteParts(file.descriptor(), parts); !written) return std::move(written).error().Wrap(path);
  return file.PutInPlace();
}

}  // namespace ingot::client
