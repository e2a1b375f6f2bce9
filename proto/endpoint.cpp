// SPDX-License-Identifier: Apache-2.0
#include "proto/endpoint.h"

#include <fmt/format.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/digest.h"
#include "proto/build_id.h"

namespace ingot::proto {
namespace {

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

std::string HomeDirectory() {
  if (std::string home = Environment("HOME"); !home.empty()) return home;
  const passwd* user = getpwuid(getuid());
  return user == nullptr ? std::string("/") : std::string(user->pw_dir);
}

std::string DefaultStore() {
  if (std::string dir = Environment("INGOT_STORE_DIR"); !dir.empty()) return dir;
  if (std::string cache = Environment("XDG_CACHE_HOME"); !cache.empty()) return cache + "/ingot";
  return HomeDirectory() + "/.cache/ingot";
}

std::string DefaultSocket(const std::string& store_dir) {
  if (std::string socket = Environment("INGOT_SOCKET"); !socket.empty()) return socket;
  const std::string name = DigestOf(store_dir).ToShort() + ".sock";
  if (std::string run = Environment("XDG_RUNTIME_DIR"); !run.empty() && access(run.c_str(), W_OK) == 0) {
    return run + "/ingot/" + name;
  }
  std::string tmp = Environment("TMPDIR");
  if (tmp.empty()) tmp = "/tmp";
  return fmt::format("{}/ingot-{}/{}", tmp, getuid(), name);
}

}  // namespace

Result<Endpoint> ResolveEndpoint(std::string store_dir, std::string socket) {
  Endpoint endpoint;
  if (store_dir.empty()) store_dir = DefaultStore();
  std::error_code failed;
  // Two spellings of one directory must meet at one socket, and a daemon has a working directory of its own.
  const auto whole = [&](const std::string& path) {
    const std::filesystem::path absolute = std::filesystem::absolute(path, failed);
    const std::filesystem::path canonical =
        failed ? std::filesystem::path(path) : std::filesystem::weakly_canonical(absolute, failed);
    return failed ? path : canonical.string();
  };
  endpoint.store_dir = whole(store_dir);
  endpoint.socket = std::filesystem::absolute(
                        socket.empty() ? DefaultSocket(endpoint.store_dir) : std::move(socket), failed)
                        .string();
  if (endpoint.socket.size() >= sizeof(sockaddr_un::sun_path)) {
    return Error(Code::kInvalid,
                 fmt::format("socket path '{}' has {} bytes, the system allows {}; set INGOT_SOCKET",
                             endpoint.socket, endpoint.socket.size(),
                             sizeof(sockaddr_un::sun_path) - 1));
  }
  // A daemon makes its socket anew, which removes what has the name.
  struct stat facts;
  if (lstat(endpoint.socket.c_str(), &facts) == 0 && !S_ISSOCK(facts.st_mode)) {
    return Error(Code::kInvalid,
                 fmt::format("socket path '{}' names something that is no socket; "
                             "set INGOT_SOCKET to a name that is free",
                             endpoint.socket));
  }
  return endpoint;
}

Status MakePrivateDirectory(const std::string& path) {
  std::error_code failed;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), failed);
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return Error(Code::kUnavailable, fmt::format("create {}: {}", path, std::strerror(errno)));
  }
  struct stat facts;
  if (lstat(path.c_str(), &facts) != 0) {
    return Error(Code::kUnavailable, fmt::format("look at {}: {}", path, std::strerror(errno)));
  }
  const bool ours = facts.st_uid == getuid() && (facts.st_mode & 0022) == 0;
  const bool sticky = facts.st_uid == 0 && (facts.st_mode & S_ISVTX) != 0;
  if (!S_ISDIR(facts.st_mode) || !(ours || sticky)) {
    return Error(Code::kUnavailable,
                 fmt::format("{} must be a directory in which only user {} can replace files; "
                             "remove it or set INGOT_SOCKET",
                             path, getuid()));
  }
  return {};
}

std::string DirectoryOf(std::string_view path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return ".";
  return std::string(path.substr(0, slash == 0 ? 1 : slash));
}

std::string_view BuildId() { return kBuildId; }
std::string_view Version() { return kVersion; }

}  // namespace ingot::proto
