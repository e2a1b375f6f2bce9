// SPDX-License-Identifier: Apache-2.0
#include "daemon/place.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/filesystem.h"
#include "base/log.h"

namespace ingot::daemon {
namespace {

using proto::LockFile;
using proto::LockHolder;

constexpr std::chrono::milliseconds kStep(20);
/// A process that ends gives up its files one by one: its socket may be dead before its lock is free.
constexpr std::chrono::milliseconds kEndingMax(500);

/// Why nobody can be reached there; without a value somebody answers.
std::optional<std::string> CannotReach(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return "its name is too long";
  std::memcpy(address.sun_path, path.data(), path.size());
  const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const auto* to = reinterpret_cast<const sockaddr*>(&address);
  // EAGAIN: somebody is there and has more connections than he can accept.
  if (!socket || connect(socket.get(), to, sizeof address) == 0 || errno == EAGAIN) return std::nullopt;
  return std::strerror(errno);
}

std::string HolderWords(const LockHolder& holder) {
  return fmt::format("process {}{}", holder.pid, holder.host.empty() ? "" : " of host " + holder.host);
}

/// The lock of `path`; without a value it cannot be had, and `trouble` says why: no such lock can be made, or its
/// holder cannot be reached from here. kUnavailable: its holder serves, or is still about to.
Result<std::optional<LockFile>> TakeLock(const std::string& path, std::chrono::steady_clock::time_point deadline,
                                         std::optional<Error>& trouble) {
  std::optional<std::chrono::steady_clock::time_point> dead_since;
  std::optional<LockHolder> last;
  while (true) {
    Result<std::optional<LockFile>> lock = LockFile::Take(path);
    if (!lock) {
      trouble = std::move(lock).error();
      return std::optional<LockFile>();
    }
    if (*lock) return lock;
    const std::optional<LockHolder> holder = LockFile::HolderOf(path);
    if (!holder) continue;
    if (holder != last) dead_since.reset();
    last = holder;
    if (!holder->socket.empty()) {
      const std::optional<std::string> why = CannotReach(holder->socket);
      if (!why) {
        return Error(Code::kUnavailable, fmt::format("another ingotd ({}) holds {} and serves at {}",
                                                     HolderWords(*holder), path, holder->socket));
      }
      if (!dead_since) dead_since = std::chrono::steady_clock::now();
      if (std::chrono::steady_clock::now() - *dead_since > kEndingMax) {
        trouble = Error(Code::kUnavailable,
                        fmt::format("{} is held by {}, whose socket {} cannot be reached from here: {}; share that "
                                    "socket's directory too, or give this place a store of its own",
                                    path, HolderWords(*holder), holder->socket, *why));
        return std::optional<LockFile>();
      }
    } else if (std::chrono::steady_clock::now() >= deadline) {
      return Error(Code::kUnavailable,
                   fmt::format("another ingotd ({}) holds {} and does not serve: it starts, ends or is stopped",
                               HolderWords(*holder), path));
    }
    std::this_thread::sleep_for(kStep);
  }
}

Status CheckDirectory(const proto::Endpoint& endpoint, bool allow_network) {
  Filesystem& disk = RealFilesystem();
  TRY(disk.MakePrivateDirectory(endpoint.store_dir, Access::kNobody));
  TRY(disk.MakePrivateDirectory(endpoint.home, Access::kNobody));
  TRY_ASSIGN(const bool is_network, disk.IsNetwork(endpoint.home));
  if (!is_network || allow_network) return {};
  return Error(Code::kUnavailable,
               endpoint.home +
                   " is on a network file system, where a database is not safe: use a local directory, or "
                   "set store_network = 1 in [daemon]");
}

}  // namespace

void Place::Name(const std::string& at) {
  for (std::optional<LockFile>* lock : {&store_lock, &socket_lock}) {
    if (*lock) Ignore((*lock)->Name(at), "clients look at the usual places");
  }
}

bool Place::IsInPlace() const {
  return (!store_lock || store_lock->IsInPlace()) && (!socket_lock || socket_lock->IsInPlace());
}

bool IsStoreFree(const proto::Endpoint& endpoint, bool allow_network) {
  if (!CheckDirectory(endpoint, allow_network) || LockFile::HolderOf(endpoint.lock_path())) return false;
  const auto lock = LockFile::Take(endpoint.lock_path());
  return lock && *lock;
}

Result<Place> TakePlace(const proto::Endpoint& endpoint, bool allow_network, unsigned wait_s) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(wait_s);
  Place place;
  if (Status usable = CheckDirectory(endpoint, allow_network); !usable) {
    place.trouble = std::move(usable).error();
  } else {
    TRY_ASSIGN(place.store_lock, TakeLock(endpoint.lock_path(), deadline, place.trouble));
  }
  place.socket = place.store_lock ? endpoint.socket : endpoint.memory_socket;
  const std::string directory = proto::DirectoryOf(place.socket);
  // The store's lock guards what is in its directory.
  if (place.store_lock && directory == endpoint.home) return place;
  TRY(RealFilesystem().MakePrivateDirectory(directory, Access::kNoWriters));
  std::optional<Error> trouble;
  TRY_ASSIGN(place.socket_lock, TakeLock(proto::SocketLockPath(place.socket), deadline, trouble));
  if (trouble) return *trouble;
  return place;
}

}  // namespace ingot::daemon
