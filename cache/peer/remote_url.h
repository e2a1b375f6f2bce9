// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "cache/net/transport.h"

namespace ingot::cache {

inline constexpr uint16_t kRemotePort = 7473;

/// A daemon that serves others, as people write it:
///   ingots://HOST[:PORT]   TLS; port 7473 without
///   ingot://HOST[:PORT]    nothing but TCP, for addresses of the loopback alone
struct RemoteUrl {
  Place place;  ///< kTls or kTcp; certificates are the caller's to say.

  /// True of texts that begin as one of these.
  static bool Is(std::string_view text) { return text.starts_with("ingots://") || text.starts_with("ingot://"); }
  /// kInvalid with what is wrong.
  static Result<RemoteUrl> Parse(std::string_view text);
  std::string ToText() const;
};

/// "HOST:PORT", "[V6]:PORT", "HOST" or ":PORT" (all addresses), as a server is told where to listen. kInvalid.
struct HostPort {
  std::string host;
  uint16_t port = kRemotePort;
  static Result<HostPort> Parse(std::string_view text);
  std::string ToText() const;
};

}  // namespace ingot::cache
