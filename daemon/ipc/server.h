// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "daemon/admin/queries.h"
#include "daemon/core.h"
#include "proto/endpoint.h"

namespace ingot::daemon {

struct ServerOptions {
  proto::Endpoint endpoint;
  /// What clients are told to be; other builds are answered and told apart.
  std::string build = std::string(proto::BuildId());
  /// Where it is administered (proto::Endpoint::AdminSocket); empty: nowhere.
  std::string admin_socket{};
  /// Called before the socket is closed, so that nobody is sent there any more.
  std::function<void()> before_close{};
};

/// The socket of the daemon: accepts, serves, drains. One I/O thread, which is the caller of
/// Run(); Stop() and Drain() may be called from any thread.
class Server {
 public:
  Server(Core& core, ServerOptions options);
  ~Server();

  /// Creates the sockets, mode 0600, in place of stale ones. The caller holds the lock that guards their names. Without
  /// the one at which it is administered it serves all the same, and says so in its log.
  Status Listen();
  /// Whether its socket is still where it made it, and no other is.
  bool IsInPlace() const;
  /// Serves until stopped, drained, signalled (SIGTERM and SIGINT drain) or idle for `idle_exit_s`; when it returns
  /// nothing of a request runs any more. With `handle_signals` the process is this server's: it ends `exit_s_max`
  /// seconds after that, `drain_s_max` later at most when it drains, and at once at a second signal, whatever hangs.
  void Run(bool handle_signals);
  /// Takes no connection and no request from here on, and ends when the last is answered.
  void Drain();
  void Stop();

 private:
  void StopServices();

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ingot::daemon
