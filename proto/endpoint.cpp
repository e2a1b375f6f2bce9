// SPDX-License-Identifier: Apache-2.0
#include "proto/endpoint.h"

#include <fmt/format.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
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

/// The same for every process of one user that has the same runtime directory.
std::string RuntimeDirectory() {
  if (std::string run = Environment("XDG_RUNTIME_DIR"); !run.empty() && access(run.c_str(), W_OK) == 0) {
    return run + "/ingot";
  }
  std::string tmp = Environment("TMPDIR");
  if (tmp.empty()) tmp = "/tmp";
  return fmt::format("{}/ingot-{}", tmp, getuid());
}

/// Not from the environment of who has started a program with more rights than his own.
Result<uid_t> DaemonUser() {
  const char* const said = secure_getenv("INGOT_DAEMON_UID");
  if (said == nullptr || *said == 0) return geteuid();
  const std::string_view text = said;
  uid_t user = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), user);
  if (error == std::errc() && end == text.data() + text.size()) return user;
  return Error(Code::kInvalid, fmt::format("INGOT_DAEMON_UID is '{}', and the number of a user is wanted", text));
}

constexpr size_t kSocketBytesMax = sizeof(sockaddr_un::sun_path) - 1;

Status CheckSocketPath(const std::string& path) {
  if (path.size() > kSocketBytesMax) {
    return Error(Code::kInvalid, fmt::format("socket path '{}' has {} bytes, the system allows {}; set INGOT_SOCKET",
                                             path, path.size(), kSocketBytesMax));
  }
  // A daemon makes its socket anew, which removes what has the name.
  struct stat facts;
  if (lstat(path.c_str(), &facts) == 0 && !S_ISSOCK(facts.st_mode)) {
    return Error(Code::kInvalid, fmt::format("socket path '{}' names something that is no socket; "
                                             "set INGOT_SOCKET to a name that is free",
                                             path));
  }
  return {};
}

}  // namespace

Result<Endpoint> ResolveEndpoint(std::string store_dir, std::string socket, std::string_view build) {
  Endpoint endpoint;
  endpoint.store_is_said = !store_dir.empty() || !Environment("INGOT_STORE_DIR").empty();
  if (store_dir.empty()) store_dir = DefaultStore();
  if (socket.empty()) socket = Environment("INGOT_SOCKET");
  std::error_code failed;
  // Two spellings of one directory must meet at one lock, and a daemon has a working directory of its own.
  const auto whole = [&](const std::string& path) {
    const std::filesystem::path absolute = std::filesystem::absolute(path, failed);
    const std::filesystem::path canonical =
        failed ? std::filesystem::path(path) : std::filesystem::weakly_canonical(absolute, failed);
    return failed ? path : canonical.string();
  };
  endpoint.store_dir = whole(store_dir);
  endpoint.home = fmt::format("{}/{}", endpoint.store_dir, build);
  TRY_ASSIGN(endpoint.daemon_uid, DaemonUser());
  endpoint.runtime_dir = std::filesystem::absolute(RuntimeDirectory(), failed).string();
  if (!socket.empty()) {
    endpoint.socket = endpoint.memory_socket = std::filesystem::absolute(socket, failed).string();
  } else {
    endpoint.memory_socket = fmt::format("{}/{}.sock", endpoint.runtime_dir, DigestOf(endpoint.home).ToShort());
    endpoint.socket = endpoint.home + "/socket";
    if (endpoint.socket.size() > kSocketBytesMax) endpoint.socket = endpoint.memory_socket;
  }
  TRY(CheckSocketPath(endpoint.socket));
  TRY(CheckSocketPath(endpoint.memory_socket));
  return endpoint;
}

std::string Endpoint::AdminSocket(const std::string& at, bool holds_store) const {
  if (std::string beside = home + "/admin"; holds_store && beside.size() <= kSocketBytesMax) return beside;
  // Of two daemons that serve one store from memory, at sockets that were said, each has its own.
  return fmt::format("{}/{}.admin", runtime_dir, DigestOf(home + "\n" + at).ToShort());
}

std::string SocketLockPath(const std::string& socket) { return socket + ".lock"; }

bool IsUntouched(const Endpoint& endpoint) {
  std::error_code ignored;
  for (const std::string& socket : {endpoint.socket, endpoint.memory_socket}) {
    if (std::filesystem::exists(socket, ignored)) return false;
  }
  // A folder may have been made for the store: a volume, a temporary one. A store that cannot be read is somebody's.
  const auto first = std::filesystem::directory_iterator(endpoint.home, ignored);
  return ignored ? ignored == std::errc::no_such_file_or_directory : first == end(first);
}

std::vector<OtherDaemon> OtherDaemons(const Endpoint& endpoint) {
  std::vector<OtherDaemon> found;
  std::error_code failed;
  std::filesystem::directory_iterator at(endpoint.store_dir, failed);
  for (; !failed && at != std::filesystem::directory_iterator(); at.increment(failed)) {
    if (at->path() == endpoint.home) continue;
    // Other programs have locks of that name, as databases do.
    if (auto holder = LockFile::HolderOf(at->path().string() + "/LOCK"); holder && holder->pid != 0) {
      found.push_back({at->path().filename().string(), std::move(*holder)});
    }
  }
  return found;
}

std::string DirectoryOf(std::string_view path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return ".";
  return std::string(path.substr(0, slash == 0 ? 1 : slash));
}

std::string_view BuildId() { return kBuildId; }
std::string_view Version() { return kVersion; }

}  // namespace ingot::proto
