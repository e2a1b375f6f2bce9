// SPDX-License-Identifier: Apache-2.0
#include "base/filesystem.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>

namespace ingot {
namespace {

Status WriteAll(int fd, Bytes bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrorFromErrno(errno, "write " + path);
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return {};
}

Status SyncDirectoryOf(const std::string& path) {
  std::string parent = std::filesystem::path(path).parent_path().string();
  if (parent.empty()) parent = ".";
  const UniqueFd dir(::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!dir) return ErrorFromErrno(errno, "open " + parent);
  if (::fsync(dir.get()) != 0) return ErrorFromErrno(errno, "sync " + parent);
  return {};
}

Status WriteSynced(const std::string& path, Bytes bytes) {
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd) return ErrorFromErrno(errno, "create " + path);
  TRY(WriteAll(fd.get(), bytes, path));
  if (::fsync(fd.get()) != 0) return ErrorFromErrno(errno, "sync " + path);
  if (fd.Reset() != 0) return ErrorFromErrno(errno, "close " + path);
  return {};
}

std::string_view KindOf(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  return S_ISSOCK(mode) ? "a socket" : "a device";
}

bool IsNetworkMagic(uint32_t magic) {
  // From linux/magic.h where it is there; that header lacks the last five.
  constexpr uint32_t kNetwork[] = {
      0x6969,      // NFS
      0xFF534D42,  // CIFS
      0xFE534D42,  // SMB2
      0x517B,      // SMB
      0x5346414F,  // AFS
      0x00C36400,  // Ceph
      0x01021997,  // 9p
      0x0BD00BD0,  // Lustre
      0x47504653,  // GPFS
      0x7461636F,  // OCFS2
      0x01161970,  // GFS2
      0x19830326,  // BeeGFS
  };
  return std::find(std::begin(kNetwork), std::end(kNetwork), magic) != std::end(kNetwork);
}

class PosixFilesystem final : public Filesystem {
 public:
  Result<Buffer> Read(const std::string& path, uint64_t bytes_max) override {
    TRY_ASSIGN(const UniqueFd fd, OpenRegular(path));
    Buffer all;
    uint8_t block[64 << 10];
    while (true) {
      const ssize_t n = ::read(fd.get(), block, sizeof block);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return ErrorFromErrno(errno, "read " + path);
      if (n == 0) return all;
      if (all.size() + static_cast<size_t>(n) > bytes_max) {
        return Error(Code::kExhausted, fmt::format("read {}: larger than the {} bytes expected", path, bytes_max));
      }
      all.insert(all.end(), block, block + n);
    }
  }

  Status WriteAtomic(const std::string& path, Bytes bytes) override {
    static std::atomic<uint64_t> serial{0};
    const std::string temporary = fmt::format("{}.{}.{}.tmp", path, ::getpid(), serial++);
    Status written = WriteSynced(temporary, bytes);
    if (written && ::rename(temporary.c_str(), path.c_str()) != 0) {
      written = ErrorFromErrno(errno, "rename " + temporary + " to " + path);
    }
    if (!written) {
      ::unlink(temporary.c_str());
      return written;
    }
    return SyncDirectoryOf(path);
  }

  Status MakeDirs(const std::string& path) override {
    if (path.empty()) return Error(Code::kInvalid, "create directory: the path is empty");
    for (size_t end = 1; end != std::string::npos;) {
      end = path.find('/', end);
      const std::string prefix = path.substr(0, end);
      if (end != std::string::npos) ++end;
      if (::mkdir(prefix.c_str(), 0700) == 0) continue;
      // mkdir reports EACCES, EROFS or EEXIST for what is there already, by file system.
      const int number = errno;
      struct stat found{};
      if (::stat(prefix.c_str(), &found) == 0) {
        if (S_ISDIR(found.st_mode)) continue;
        return ErrorFromErrno(ENOTDIR, "create directory " + prefix);
      }
      return ErrorFromErrno(number, "create directory " + prefix);
    }
    return {};
  }

  bool Exists(const std::string& path) override {
    struct stat found{};
    return ::lstat(path.c_str(), &found) == 0;
  }

  Status Remove(const std::string& path) override {
    std::error_code code;
    const std::uintmax_t removed = std::filesystem::remove_all(path, code);
    if (code) return ErrorFromErrno(code.value(), "remove " + path);
    if (removed == 0) return ErrorFromErrno(ENOENT, "remove " + path);
    return {};
  }

  Status Rename(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) {
      return ErrorFromErrno(errno, "rename " + from + " to " + to);
    }
    return SyncDirectoryOf(to);
  }

  Result<std::vector<std::string>> List(const std::string& path) override {
    std::error_code code;
    std::vector<std::string> names;
    std::filesystem::directory_iterator it(path, code);
    for (; !code && it != std::filesystem::directory_iterator(); it.increment(code)) {
      names.push_back(it->path().filename().string());
    }
    if (code) return ErrorFromErrno(code.value(), "list " + path);
    std::sort(names.begin(), names.end());
    return names;
  }

  Result<uint64_t> FreeBytes(const std::string& path) override {
    struct statvfs found{};
    if (::statvfs(path.c_str(), &found) != 0) return ErrorFromErrno(errno, "statvfs " + path);
    return static_cast<uint64_t>(found.f_bavail) * found.f_frsize;
  }

  Result<bool> IsNetwork(const std::string& path) override {
    struct statfs found{};
    if (::statfs(path.c_str(), &found) != 0) return ErrorFromErrno(errno, "statfs " + path);
    return IsNetworkMagic(static_cast<uint32_t>(found.f_type));
  }

  Status MakePrivateDirectory(const std::string& path, Access access) override {
    TRY(MakeDirs(path));
    std::error_code failed;
    const std::string real = std::filesystem::canonical(path, failed).string();
    if (failed) return Error(Code::kUnavailable, ErrorFromErrno(failed.value(), "look at " + path).message());
    struct stat found{};
    if (::stat(real.c_str(), &found) != 0) return ErrorFromErrno(errno, "stat " + path);
    const unsigned mode = found.st_mode & 07777;
    const bool is_sticky_of_root = found.st_uid == 0 && (mode & S_ISVTX) != 0;
    if (access == Access::kNoWriters && is_sticky_of_root) return {};
    if (found.st_uid != ::geteuid()) {
      return Error(Code::kUnavailable, fmt::format("{} belongs to user {}, not to user {}: choose a directory of "
                                                   "your own",
                                                   path, found.st_uid, ::geteuid()));
    }
    if ((mode & (access == Access::kNobody ? 0077 : 0022)) != 0) {
      const bool is_empty = std::filesystem::is_empty(real, failed) && !failed;
      if (!is_empty || ::chmod(real.c_str(), 0700) != 0) {
        return Error(Code::kUnavailable, fmt::format("{} is open to other users (mode {:04o}): run chmod 700 {}, or "
                                                     "choose another directory",
                                                     path, mode, path));
      }
    }
    return CheckParents(real);
  }

 private:
  /// Whoever may replace a directory on the way decides what is found at its end.
  static Status CheckParents(const std::string& real) {
    for (auto at = std::filesystem::path(real); at.has_relative_path();) {
      at = at.parent_path();
      struct stat found{};
      if (::stat(at.c_str(), &found) != 0) return ErrorFromErrno(errno, "stat " + at.string());
      if ((found.st_mode & S_IWOTH) != 0 && (found.st_mode & S_ISVTX) == 0) {
        return Error(Code::kUnavailable, fmt::format("in {} everybody can replace what leads to {} (mode {:04o}): run "
                                                     "chmod +t {}, or choose a directory elsewhere",
                                                     at.string(), real, found.st_mode & 07777, at.string()));
      }
    }
    return {};
  }
};

}  // namespace

namespace {

/// A group that the system has made for this user alone, as many do.
bool IsOwnGroup(gid_t group) {
  char user_text[4096], group_text[4096];
  passwd user{}, *found_user = nullptr;
  struct group named{}, *found_group = nullptr;
  if (getpwuid_r(geteuid(), &user, user_text, sizeof user_text, &found_user) != 0 || found_user == nullptr)
    return false;
  if (getgrgid_r(group, &named, group_text, sizeof group_text, &found_group) != 0 || found_group == nullptr)
    return false;
  const bool is_alone = named.gr_mem[0] == nullptr;
  return is_alone && user.pw_gid == group && std::string_view(user.pw_name) == named.gr_name;
}

}  // namespace

Status CheckParentsAreKept(const std::string& path) {
  char* const real = ::realpath(path.c_str(), nullptr);
  if (real == nullptr) return ErrorFromErrno(errno, "resolve " + path);
  const std::string whole(real);
  std::free(real);
  for (auto at = std::filesystem::path(whole); at.has_relative_path();) {
    at = at.parent_path();
    struct stat found{};
    if (::stat(at.c_str(), &found) != 0) return ErrorFromErrno(errno, "stat " + at.string());
    if (found.st_uid != 0 && found.st_uid != geteuid()) {
      return Error(Code::kUnavailable,
                   fmt::format("{} belongs to user {}, who can replace what leads to {}: keep it in "
                               "a directory of user {}'s or root's",
                               at.string(), found.st_uid, whole, geteuid()));
    }
    const bool by_group = (found.st_mode & S_IWGRP) != 0 && !IsOwnGroup(found.st_gid);
    const bool by_others = (found.st_mode & S_IWOTH) != 0;
    if ((found.st_mode & S_ISVTX) == 0 && (by_group || by_others)) {
      return Error(Code::kUnavailable,
                   fmt::format("others can replace what leads to {}, since {} is theirs to write (mode "
                               "{:04o}): run chmod go-w {}, or keep it elsewhere",
                               whole, at.string(), found.st_mode & 07777, at.string()));
    }
  }
  return {};
}

Result<NewFile> NewFile::Create(std::string path, mode_t mode) {
  std::string temporary = path + "." + std::to_string(getpid()) + ".tmp";
  unlink(temporary.c_str());
  UniqueFd fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode));
  if (!fd) return ErrorFromErrno(errno, "create " + temporary);
  return NewFile(std::move(path), std::move(temporary), std::move(fd));
}

NewFile::~NewFile() {
  if (fd_ && !temporary_.empty()) unlink(temporary_.c_str());
}

Status NewFile::Finish() {
  if (::fsync(fd_.get()) != 0) return ErrorFromErrno(errno, "sync " + temporary_);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return ErrorFromErrno(errno, "rename " + temporary_);
  temporary_.clear();
  return {};
}

Result<UniqueFd> OpenRegular(const std::string& path) {
  // Without O_NONBLOCK the call itself waits for a pipe's other end.
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (!fd) return ErrorFromErrno(errno, "open " + path);
  struct stat found{};
  if (::fstat(fd.get(), &found) != 0) return ErrorFromErrno(errno, "stat " + path);
  if (S_ISREG(found.st_mode)) return fd;
  return Error(Code::kInvalid, fmt::format("{} is {}, no file", path, KindOf(found.st_mode)));
}

Error ErrorFromErrno(int number, const std::string& what) {
  const std::string message = what + ": " + std::generic_category().message(number);
  switch (number) {
    case ENOENT: return Error(Code::kNotFound, message);
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE: return Error(Code::kExhausted, message);
    case EINVAL:
    case ENAMETOOLONG: return Error(Code::kInvalid, message);
    default: return Error(Code::kUnavailable, message);
  }
}

Filesystem& RealFilesystem() {
  static PosixFilesystem filesystem;
  return filesystem;
}

}  // namespace ingot
