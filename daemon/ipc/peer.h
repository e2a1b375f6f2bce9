// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/result.h"
#include "daemon/admin/caller.h"
#include "daemon/state/config.h"

namespace ingot::daemon {

/// Who is at the other end of a connection, by the kernel's word.
struct Peer {
  pid_t pid = 0;  ///< 0: a process of another namespace, which has no number here.
  /// Whose entries it is served (docs/security.md): "" of the daemon's own user; else its user and, where
  /// those are told apart, its group: "1001", "1001:2001".
  std::string tenant = {};
};
/// kDenied: nobody who is served here. Whoever administers is the daemon's own user.
Result<Peer> PeerOf(int socket, Right right, const Config& config);

/// The numbers of a list like "1001 1002"; kInvalid names what is none.
Result<std::vector<uint32_t>> ParseIds(const std::string& text, const char* field);

}  // namespace ingot::daemon
