// SPDX-License-Identifier: Apache-2.0
#include "daemon/web/token.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "proto/frame.h"

namespace ingot::daemon::web {
namespace {

constexpr size_t kTokenBytesMin = 16;
constexpr size_t kTokenBytesMax = 1024;

/// RFC 6750: what follows "Bearer ".
bool IsTokenCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("-._~+/=").find(c) != std::string_view::npos;
}

}  // namespace

Result<std::string> ReadToken(const std::string& path) {
  const auto wrong = [&path](const std::string& why) {
    return Error(Code::kInvalid, fmt::format("web_token_file: '{}' {}", path, why));
  };
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (!file) return wrong(fmt::format("cannot be read: {}", std::strerror(errno)));
  struct stat facts{};
  if (fstat(file.get(), &facts) != 0 || !S_ISREG(facts.st_mode)) return wrong("is no file");
  if (facts.st_uid != geteuid() && facts.st_uid != 0) return wrong("belongs to another user");
  if ((facts.st_mode & 077) != 0) {
    return wrong(fmt::format("has mode {:04o}, and others may use it; chmod 600", facts.st_mode & 07777));
  }
  std::array<char, kTokenBytesMax + 2> bytes;
  const ssize_t got = read(file.get(), bytes.data(), bytes.size());
  if (got < 0) return wrong(fmt::format("cannot be read: {}", std::strerror(errno)));
  std::string_view token(bytes.data(), static_cast<size_t>(got));
  if (token.ends_with('\n')) token.remove_suffix(1);
  if (token.size() < kTokenBytesMin || token.size() > kTokenBytesMax || !std::ranges::all_of(token, IsTokenCharacter)) {
    return wrong(
        fmt::format("must hold one line of {} to {} characters of a-z, A-Z, 0-9 and -._~+/=; "
                    "`openssl rand -hex 32` makes one",
                    kTokenBytesMin, kTokenBytesMax));
  }
  return std::string(token);
}

bool IsSame(std::string_view a, std::string_view b) {
  // The length is no secret.
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference |= static_cast<unsigned>(static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]));
    // Kept in a register that the compiler may not reason about, so that it leaves no loop early.
    asm volatile("" : "+r"(difference));
  }
  return difference == 0;
}

Result<std::string> Logins::Add() {
  std::array<unsigned char, 32> bytes;
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    return Error(Code::kUnavailable, fmt::format("no random numbers: {}", std::strerror(errno)));
  }
  std::string name;
  for (const unsigned char byte : bytes) name += fmt::format("{:02x}", byte);
  MutexLock lock(mutex_);
  logins_.push_back({name, clock_.steady_ns() + static_cast<int64_t>(config_.web_login_s_max) * 1'000'000'000});
  while (logins_.size() > config_.web_logins_max) logins_.pop_front();
  return name;
}

bool Logins::Has(std::string_view name) const {
  const int64_t now_ns = clock_.steady_ns();
  MutexLock lock(mutex_);
  bool found = false;
  for (const Login& login : logins_) found |= IsSame(login.name, name) && now_ns < login.end_ns;
  return found;
}

void Logins::Remove(std::string_view name) {
  MutexLock lock(mutex_);
  std::erase_if(logins_, [&](const Login& login) { return IsSame(login.name, name); });
}

}  // namespace ingot::daemon::web
