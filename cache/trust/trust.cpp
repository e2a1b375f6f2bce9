// SPDX-License-Identifier: Apache-2.0
#include "cache/trust/trust.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "base/filesystem.h"
#include "cache/trust/trust_text.h"
#include "proto/frame.h"

namespace ingot::cache {
namespace {

constexpr uint64_t kTrustFileBytesMax = 4u << 20;

Status CheckOwner(const struct stat& found, const std::string& path) {
  if (found.st_uid != ::geteuid() && found.st_uid != 0) {
    return Error(Code::kUnavailable, fmt::format("{} belongs to user {}, who could say whom to trust: it must be user "
                                                 "{}'s or root's",
                                                 path, found.st_uid, ::geteuid()));
  }
  return {};
}

Error Writable(const std::string& path, mode_t mode) {
  return Error(Code::kUnavailable, fmt::format("{} can be written by others (mode {:o}), who could say whom to trust: "
                                               "run chmod go-w {}",
                                               path, mode & 07777, path));
}

/// Of the directory that holds the file itself, links followed.
Status CheckDirectoryOf(const std::string& path) {
  const std::string directory = std::filesystem::path(path).parent_path().string();
  struct stat found{};
  if (::stat(directory.c_str(), &found) != 0) return ErrorFromErrno(errno, "stat " + directory);
  TRY(CheckOwner(found, directory));
  // In a sticky directory only owners replace files.
  if ((found.st_mode & 022) != 0 && (found.st_mode & S_ISVTX) == 0) return Writable(directory, found.st_mode);
  return CheckParentsAreKept(directory);
}

Result<std::string> Resolve(const std::string& path) {
  char* const real = ::realpath(path.c_str(), nullptr);
  if (real == nullptr) return ErrorFromErrno(errno, "trust file " + path);
  std::string out(real);
  std::free(real);
  return out;
}

Result<std::string> ReadAll(int fd, const std::string& path) {
  struct stat found{};
  if (::fstat(fd, &found) != 0) return ErrorFromErrno(errno, "stat " + path);
  if (!S_ISREG(found.st_mode)) return Error(Code::kUnavailable, path + " is not a file");
  TRY(CheckOwner(found, path));
  if ((found.st_mode & 022) != 0) return Writable(path, found.st_mode);
  std::string text;
  char block[64 << 10];
  while (true) {
    const ssize_t n = ::pread(fd, block, sizeof block, static_cast<off_t>(text.size()));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrorFromErrno(errno, "read " + path);
    if (n == 0) return text;
    text.append(block, static_cast<size_t>(n));
    if (text.size() > kTrustFileBytesMax) {
      return Error(Code::kExhausted, fmt::format("{} is larger than {} bytes", path, kTrustFileBytesMax));
    }
  }
}

}  // namespace

Result<std::string> TrustDirectory() {
  const char* const config = std::getenv("XDG_CONFIG_HOME");
  // The specification has relative paths ignored.
  if (config != nullptr && config[0] == '/') return std::string(config) + "/ingot";
  const char* const home = std::getenv("HOME");
  if (home != nullptr && home[0] == '/') return std::string(home) + "/.config/ingot";
  return Error(Code::kInvalid,
               "no directory for the trust file: neither XDG_CONFIG_HOME nor HOME is set; give --file "
               "and --private-key");
}

Result<std::string> ReadTrustText(const std::string& path) {
  TRY_ASSIGN(const std::string real, Resolve(path));
  TRY(CheckDirectoryOf(real));
  const UniqueFd fd(::open(real.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return ErrorFromErrno(errno, "open " + real);
  return ReadAll(fd.get(), real);
}

Status EditTrustText(const std::string& path, const std::function<Result<std::string>(const std::string&)>& edit) {
  const std::string given = std::filesystem::absolute(path).string();
  TRY(RealFilesystem().MakeDirs(std::filesystem::path(given).parent_path().string()));
  while (true) {
    const Result<std::string> there = Resolve(given);
    if (!there && there.error().code() != Code::kNotFound) return there.error();
    const std::string real = there ? *there : given;
    const UniqueFd fd(::open(real.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0600));
    if (!fd) return ErrorFromErrno(errno, "open " + real);
    while (::flock(fd.get(), LOCK_EX) != 0) {
      if (errno != EINTR) return ErrorFromErrno(errno, "lock " + real);
    }
    // Whoever held the lock has put another file in its place.
    struct stat locked{}, named{};
    if (::fstat(fd.get(), &locked) != 0) return ErrorFromErrno(errno, "stat " + real);
    if (::stat(real.c_str(), &named) != 0 || named.st_ino != locked.st_ino || named.st_dev != locked.st_dev) continue;
    TRY(CheckDirectoryOf(real));
    TRY_ASSIGN(const std::string before, ReadAll(fd.get(), real));
    const Result<std::string> after = edit(before.empty() ? EmptyTrustText() : before);
    if (!after) {
      // Nobody else opens a file that this edit made without waiting for the lock.
      if (before.empty() && !there) ::unlink(real.c_str());
      return after.error();
    }
    const std::string temporary = fmt::format("{}.{}.new", real, ::getpid());
    TRY(RealFilesystem().WriteAtomic(temporary, AsBytes(*after)));
    Status moved;
    if (::chmod(temporary.c_str(), locked.st_mode & 0755) != 0) moved = ErrorFromErrno(errno, "chmod " + temporary);
    if (moved) moved = RealFilesystem().Rename(temporary, real);
    if (!moved) ::unlink(temporary.c_str());
    return moved;
  }
}

Trust::Trust(Options options, const Clock& clock) : options_(std::move(options)), clock_(clock) {
  state_.trouble = "the trust file has not been read yet";
  Ignore(Refresh(), "the reason stands in every judgement");
}

std::string Trust::StampOf(const std::string& path) {
  if (path.empty()) return "";
  struct stat found{};
  if (::stat(path.c_str(), &found) != 0) return fmt::format("errno {};", errno);
  struct stat directory{};
  const std::string parent = std::filesystem::absolute(path).parent_path().string();
  if (::stat(parent.c_str(), &directory) != 0) return fmt::format("errno {};", errno);
  return fmt::format("{}.{}.{}.{}.{}.{}.{}.{}.{}.{};", found.st_dev, found.st_ino, found.st_size, found.st_mtim.tv_sec,
                     found.st_mtim.tv_nsec, found.st_ctim.tv_sec, found.st_ctim.tv_nsec, found.st_mode,
                     directory.st_mode, directory.st_uid);
}

Status Trust::Refresh() {
  MutexLock refreshing(refresh_mutex_);
  // Before the texts: what changes while they are read is read again next time.
  const std::string stamp = StampOf(options_.path) + StampOf(options_.quarantine_path);
  if (stamp == stamp_ && policy() != nullptr) return {};
  const auto read = [&]() -> Result<TrustPolicy> {
    TRY_ASSIGN(const std::string text, ReadTrustText(options_.path));
    std::string quarantine;
    if (!options_.quarantine_path.empty()) {
      Result<std::string> found = ReadTrustText(options_.quarantine_path);
      if (!found && found.error().code() != Code::kNotFound) return std::move(found).error();
      if (found) quarantine = std::move(*found);
    }
    return TrustPolicy::Parse(text, quarantine, options_.own);
  };
  Result<TrustPolicy> policy = read();
  State state;
  if (policy) {
    state.policy = std::make_shared<const TrustPolicy>(std::move(*policy));
  } else {
    state.trouble = policy.error().message();
  }
  stamp_ = stamp;
  MutexLock lock(mutex_);
  state_ = std::move(state);
  if (!policy) return policy.error();
  return {};
}

Trust::State Trust::Current() const {
  MutexLock lock(mutex_);
  return state_;
}

std::shared_ptr<const TrustPolicy> Trust::policy() const { return Current().policy; }

Judgement Trust::JudgeRecord(const Received& received, Bytes envelope) const {
  const State state = Current();
  if (state.policy == nullptr) return {Verdict::kNoTrustFile, "nobody is trusted: " + state.trouble, {}};
  return state.policy->JudgeRecord(received, envelope, clock_.now_s());
}

Judgement Trust::JudgeEnvelope(Bytes envelope, Statement kind) const {
  const State state = Current();
  if (state.policy == nullptr) return {Verdict::kNoTrustFile, "nobody is trusted: " + state.trouble, {}};
  return state.policy->JudgeEnvelope(envelope, clock_.now_s(), kind);
}

Judgement Trust::JudgeFor(const Asked& asked, Bytes envelope) const {
  const State state = Current();
  if (state.policy == nullptr) return {Verdict::kNoTrustFile, "nobody is trusted: " + state.trouble, {}};
  return state.policy->JudgeFor(asked, envelope, clock_.now_s());
}

Judgement Trust::Judge(const Received& received, Bytes envelope, Bytes artifact) const {
  return JudgeArtifact(JudgeRecord(received, envelope), artifact);
}

Status Trust::Quarantine(const Revocation& revocation) {
  if (options_.quarantine_path.empty()) return Error(Code::kUnsupported, "no quarantine file is configured");
  TRY(EditTrustText(options_.quarantine_path,
                    [&](const std::string& text) { return WithRevocation(text, revocation); }));
  return Refresh();
}

}  // namespace ingot::cache
