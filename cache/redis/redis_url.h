// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "cache/net/transport.h"

namespace ingot::cache {

/// One Redis server as people write it:
///   redis://[[USER]:PASSWORD@]HOST[:PORT][/DB]      TCP; port 6379, database 0 without
///   rediss://...?ca=FILE&cert=FILE&key=FILE         the same through TLS; each FILE may be left out, cert and key go
///                                                   together
///   unix://[[USER]:PASSWORD@]/PATH[?db=DB]          Unix socket
/// User, password and path may hold %XX.
struct RedisUrl {
  Place place;
  std::string user;
  std::string password;
  uint32_t db = 0;

  /// kInvalid with what is wrong; the message holds nothing of the text, which may hold a password.
  static Result<RedisUrl> Parse(std::string_view text);
  /// Without user and password: for people, and the name by which keys choose between servers.
  std::string ToText() const;
};

}  // namespace ingot::cache
