// SPDX-License-Identifier: Apache-2.0
#include "proto/lock_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <string_view>

#include "base/filesystem.h"

namespace ingot::proto {
namespace {

/// Of fixed size, so that it is replaced by one write that needs no more room than the file has.
constexpr size_t kRecordBytes = 512;

struct flock Whole() {
  struct flock lock{};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "";
}

LockHolder ParseRecord(std::string_view text) {
  LockHolder holder;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    const size_t space = line.find(' ');
    if (space == std::string_view::npos) continue;
    const std::string_view value = line.substr(space + 1);
    if (line.starts_with("pid ")) std::from_chars(value.data(), value.data() + value.size(), holder.pid);
    if (line.starts_with("host ")) holder.host = value;
    if (line.starts_with("socket ")) holder.socket = value;
  }
  return holder;
}

LockHolder ReadRecord(int fd) {
  char text[kRecordBytes] = {};
  const ssize_t got = pread(fd, text, sizeof text, 0);
  return ParseRecord(std::string_view(text, got < 0 ? 0 : static_cast<size_t>(got)));
}

}  // namespace

bool IsSameFile(int fd, const std::string& path) {
  struct stat open{};
  struct stat named{};
  return fstat(fd, &open) == 0 && lstat(path.c_str(), &named) == 0 && open.st_dev == named.st_dev &&
         open.st_ino == named.st_ino;
}

Result<std::optional<LockFile>> LockFile::Take(const std::string& path) {
  while (true) {
    UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!fd) return Error(Code::kUnavailable, ErrorFromErrno(errno, "open " + path).message());
    struct flock lock = Whole();
    if (fcntl(fd.get(), F_OFD_SETLK, &lock) != 0) {
      if (errno == EAGAIN || errno == EACCES) return std::optional<LockFile>();
      return Error(Code::kUnavailable, ErrorFromErrno(errno, "lock " + path).message());
    }
    // Who removed the file meanwhile left us the lock of nothing.
    if (!IsSameFile(fd.get(), path)) continue;
    LockFile taken(path, std::move(fd));
    TRY(taken.Name(""));
    return std::optional<LockFile>(std::move(taken));
  }
}

std::optional<LockHolder> LockFile::HolderOf(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd) return std::nullopt;
  struct flock lock = Whole();
  if (fcntl(fd.get(), F_OFD_GETLK, &lock) != 0 || lock.l_type == F_UNLCK) return std::nullopt;
  return ReadRecord(fd.get());
}

std::optional<LockHolder> LockFile::LastHolderOf(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd) return std::nullopt;
  LockHolder last = ReadRecord(fd.get());
  if (last.pid == 0) return std::nullopt;
  return last;
}

Status LockFile::Name(const std::string& socket) {
  std::string text = fmt::format("pid {}\nhost {}\nsocket {}\n", getpid(), HostName(), socket);
  text.resize(kRecordBytes, '\n');
  if (pwrite(fd_.get(), text.data(), text.size(), 0) == static_cast<ssize_t>(text.size())) return {};
  Error error = ErrorFromErrno(errno, "write " + path_);
  if (error.code() == Code::kExhausted) return {};
  return Error(Code::kUnavailable, error.message());
}

bool LockFile::IsInPlace() const { return IsSameFile(fd_.get(), path_); }

}  // namespace ingot::proto
