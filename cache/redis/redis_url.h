// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "cache/net/transport.h"

namespace ingot::cache {

/// One Redis server as people write it:
///   redis://[USER@]HOST[:PORT][/DB]           TCP, on this machine alone; port 6379, database 0 without
///   rediss://...?ca=FILE&cert=FILE&key=FILE   through TLS; each FILE may be left out, cert and key go together
///   unix://[USER@]/PATH[?db=DB]               Unix socket
/// User and path may hold %XX. A URL is shown to people, so that it holds no password.
struct RedisUrl {
  Place place;
  std::string user;
  uint32_t db = 0;

  /// kInvalid with what is wrong; the message holds nothing of the text, in which somebody may have put a password.
  static Result<RedisUrl> Parse(std::string_view text);
  /// Without user: for people, and the name by which keys choose between servers.
  std::string ToText() const;
};

}  // namespace ingot::cache
