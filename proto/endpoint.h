// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "proto/lock_file.h"

namespace ingot::proto {

/// Names a build: equal for programs of the same sources, which speak the same messages, keep the same records, and
/// record and compile alike.
std::string_view BuildId();
/// "0.1.0".
std::string_view Version();

/// Where a client and its daemon meet. One daemon of each build serves one store directory of one user.
///
/// Builds differ in the records and artifacts they keep, so each has a directory of its own below
/// the store's: several serve side by side, and none ever has to end for another. The lock there
/// names the socket of the daemon, wherever that is: the environment of a client decides nothing.
struct Endpoint {
  std::string store_dir{};  ///< What the user calls the store.
  /// Where a daemon listens that holds the store.
  std::string socket{};
  std::string home{};  ///< `store_dir`/<build>: what daemons of this build keep.
  /// Where a daemon listens that cannot have the store and serves from memory.
  std::string memory_socket{};
  bool store_is_said = false;  ///< By an argument or the environment.
  /// Where what belongs to no store is: a directory of this user alone, named after `home`.
  std::string runtime_dir{};
  /// Whose process the daemon is: this user's, unless INGOT_DAEMON_UID names another, as for the clients of one that
  /// serves several (docs/security.md).
  uid_t daemon_uid = geteuid();

  std::string lock_path() const { return home + "/LOCK"; }  ///< Held by the daemon while it lives.
  /// Where the daemon is administered that serves at `socket`: beside what it keeps, never in the directory of a socket
  /// that was said, which others may have been given (containers).
  std::string AdminSocket(const std::string& socket, bool holds_store) const;
};

/// Fills what is empty: INGOT_STORE_DIR, else $XDG_CACHE_HOME/ingot, else ~/.cache/ingot. A socket
/// that is not said (argument, INGOT_SOCKET) is in `home`, where that path is short enough, else at
/// `memory_socket`: $XDG_RUNTIME_DIR/ingot/<digest of home>.sock, or the same under <tmp>/ingot-<uid>.
/// All paths are absolute. kInvalid when the socket's path is longer than the system allows, or
/// names what is no socket.
Result<Endpoint> ResolveEndpoint(std::string store_dir = {}, std::string socket = {},
                                 std::string_view build = BuildId());

/// The lock that guards a socket's name where daemons of other stores could take it.
std::string SocketLockPath(const std::string& socket);

/// True when there is neither a daemon nor anything stored: nobody to ask. Creates nothing.
bool IsUntouched(const Endpoint& endpoint);

/// A daemon of another build that serves the same store directory.
struct OtherDaemon {
  std::string build;
  LockHolder holder;
};
std::vector<OtherDaemon> OtherDaemons(const Endpoint& endpoint);

/// The directory part of a path; "." when there is none.
std::string DirectoryOf(std::string_view path);

}  // namespace ingot::proto
