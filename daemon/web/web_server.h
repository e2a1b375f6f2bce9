// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "daemon/admin/queries.h"
#include "daemon/core.h"

namespace ingot::daemon::web {

/// The web page and /metrics, over HTTP, on a thread of its own.
///
/// Nothing a browser sends, or does not send or read, reaches further than its own connection: those are bounded in
/// number, each in the bytes and the time of a request, and one that has sent no whole request makes room for others
/// first. Thread-safe.
class WebServer {
 public:
  WebServer(Core& core, Queries& queries);
  ~WebServer();

  /// Serves at web_listen from here on; nothing where that is empty. kInvalid: the address, or a token that is missing
  /// or cannot be used. An address that cannot be had is no error, since it stops nobody's program: `trouble` says so,
  /// and it is tried again.
  Status Listen();
  /// Gives the address back and closes connections that wait for no answer.
  void Close();
  /// As Close, and ends all others. When it returns nothing runs any more.
  void Stop();

  std::string url() const;  ///< "http://127.0.0.1:9464/"; empty: nothing is served.
  std::string trouble() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ingot::daemon::web
