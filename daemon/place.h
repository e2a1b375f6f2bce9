// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "proto/endpoint.h"

namespace ingot::daemon {

/// Where a daemon serves, and what makes it the only one there.
struct Place {
  std::string socket;
  /// The lock of the store; without it the daemon serves from memory, and `trouble` says why.
  std::optional<proto::LockFile> store_lock;
  std::optional<Error> trouble;
  /// The lock of the socket's name, where the socket is not the store's own.
  std::optional<proto::LockFile> socket_lock;

  /// Tells clients where to come, or (empty) to come no more.
  void Name(const std::string& at);
  /// False once somebody has removed or moved the directory of a lock: clients go elsewhere.
  bool IsInPlace() const;
};

/// Takes the place of the one daemon of its store; waits up to `wait_s` for one that starts or ends.
///
/// A store that cannot be used, or that is held by a daemon whose socket leads nowhere from here (another
/// container or host), gives a place in memory. kUnavailable: another daemon serves there and is named.
Result<Place> TakePlace(const proto::Endpoint& endpoint, bool allow_network, unsigned wait_s);

/// True when the store can be had at this moment: who serves from memory is in the way of a daemon that keeps things.
bool IsStoreFree(const proto::Endpoint& endpoint, bool allow_network);

}  // namespace ingot::daemon
