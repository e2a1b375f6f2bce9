// SPDX-License-Identifier: Apache-2.0
#include "cache/trust/private_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/filesystem.h"
#include "proto/frame.h"

namespace ingot::cache {
namespace {

Result<UniqueFd> OpenPrivate(const std::string& path, std::string_view what) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return ErrorFromErrno(errno, fmt::format("open {} {}", what, path));
  struct stat found{};
  if (::fstat(fd.get(), &found) != 0) return ErrorFromErrno(errno, "stat " + path);
  if (!S_ISREG(found.st_mode)) return Error(Code::kUnavailable, fmt::format("{} {} is not a file", what, path));
  if (found.st_uid != ::geteuid()) {
    return Error(Code::kUnavailable,
                 fmt::format("{} {} belongs to user {}, not to user {}", what, path, found.st_uid, ::geteuid()));
  }
  if ((found.st_mode & 077) != 0) {
    return Error(Code::kUnavailable, fmt::format("{} {} is open to others (mode {:o}): run chmod 600 {}, and make "
                                                 "another where somebody may have read it",
                                                 what, path, found.st_mode & 07777, path));
  }
  TRY(CheckParentsAreKept(path));
  return fd;
}

}  // namespace

Status CheckPrivateFile(const std::string& path, std::string_view what) {
  TRY(OpenPrivate(path, what));
  return {};
}

Result<std::string> ReadPrivateFile(const std::string& path, std::string_view what, size_t bytes_max) {
  TRY_ASSIGN(const UniqueFd fd, OpenPrivate(path, what));
  std::string text;
  while (text.size() <= bytes_max) {
    const size_t have = text.size();
    text.resize(have + 4096);
    const ssize_t n = ::read(fd.get(), text.data() + have, 4096);
    text.resize(have + static_cast<size_t>(std::max<ssize_t>(n, 0)));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrorFromErrno(errno, "read " + path);
    if (n == 0) return text;
  }
  return Error(Code::kExhausted, fmt::format("{} {} has more than {} bytes", what, path, bytes_max));
}

Result<Secret> ReadSecretFile(const std::string& path, std::string_view what) {
  constexpr size_t kBytesMax = 4096;
  TRY_ASSIGN(std::string text, ReadPrivateFile(path, what, kBytesMax));
  text.resize(std::min(text.find_first_of("\r\n"), text.size()));
  if (text.empty()) return Error(Code::kCorrupt, fmt::format("the first line of {} {} is empty", what, path));
  return Secret(std::move(text));
}

}  // namespace ingot::cache
