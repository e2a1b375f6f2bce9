// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace ingot::proto {

/// Where a client and its daemon meet. One daemon serves one store directory of one user.
struct Endpoint {
  std::string store_dir;
  std::string socket;
  std::string lock_path() const { return socket + ".lock"; }    ///< held by the daemon while it lives
  std::string start_path() const { return socket + ".start"; }  ///< held by who starts one
};

/// Fills what is empty: INGOT_STORE_DIR, else $XDG_CACHE_HOME/ingot, else ~/.cache/ingot;
/// INGOT_SOCKET, else $XDG_RUNTIME_DIR/ingot/<digest of the store directory>.sock, else the same
/// under <tmp>/ingot-<uid>. Both are absolute. kInvalid when the socket's path is longer than the
/// system allows, or names what is no socket.
Result<Endpoint> ResolveEndpoint(std::string store_dir = {}, std::string socket = {});

/// Creates the directory a socket lives in, mode 0700, following no link at its last part.
/// kUnavailable when others could replace the socket: the directory must be the user's own, or
/// a sticky one of root.
Status MakePrivateDirectory(const std::string& path);

/// The directory part of a path; "." when there is none.
std::string DirectoryOf(std::string_view path);

/// Names a build: equal for programs that speak the same messages and keep the same records.
std::string_view BuildId();
/// "0.1.0".
std::string_view Version();

}  // namespace ingot::proto
