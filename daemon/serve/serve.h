// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "base/clock.h"
#include "daemon/serve/serve_ports.h"
#include "daemon/state/config.h"

namespace ingot::daemon {

/// For which tokens are issued: serve_name, or this machine's.
std::string ServeName(const Config& config);

/// Serves other daemons over TCP with TLS and tokens (docs/format/remote.md), on threads of its own. Thread-safe.
class Serve {
 public:
  /// Listens, and serves until it is destroyed. kInvalid, kUnavailable name the field: an address, certificate, key or
  /// file of tokens that cannot be used; an address beyond the loopback without TLS; neither tokens nor authorities
  /// of clients.
  static Result<std::unique_ptr<Serve>> Open(const Config& config, ServePorts ports,
                                             const Clock& clock = SystemClock());
  /// Ends all connections and what they wait for.
  ~Serve();

  uint16_t port() const;
  /// "ingots://0.0.0.0:7473".
  std::string Where() const;
  size_t sessions() const;

 private:
  struct State;
  explicit Serve(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace ingot::daemon
