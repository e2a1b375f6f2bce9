// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <memory>
#include <string>

#include "base/until.h"
#include "cache/peer/remote_url.h"
#include "cache/peer/remote_wire.h"

namespace ingot::cache {

/// Limits of the connections to one serving daemon.
struct RemoteClientOptions {
  RemoteUrl url;
  std::string token_file;  ///< Read for each connection; empty: none is shown.
  std::string name;        ///< Who we are, for the server's log.
  /// Of this process, drawn at random: a server of the same knows that it asks itself. Zero: nothing is said.
  Digest identity;
  size_t connections_max = 1;
  /// Calls whose answers are awaited; more are refused.
  size_t calls_max = 8192;
  /// Bytes of messages that are not written yet; more are refused.
  size_t unsent_bytes_max = 64u << 20;
  /// A larger blob is refused.
  uint64_t blob_bytes_max = 4ull << 30;
  /// For look-up, connection, TLS and welcome together.
  std::chrono::milliseconds connect_max{2000};
  /// A connection on which answers are due and nothing moves for so long is closed.
  std::chrono::milliseconds silence_max{5000};
  /// Pause after a failed connection: doubled each time, with jitter.
  std::chrono::milliseconds backoff_min{20};
  std::chrono::milliseconds backoff_max{2000};
};

/// What a call was answered. `blob` where the request was for one.
struct RemoteAnswer {
  proto::RemoteReplyT reply;
  SealedRef blob;
};

/// One daemon that serves others: a few connections that all callers share, with all calls in flight at once.
///
/// Thread-safe; sockets are served by `io`, which somebody runs for as long as calls are made; calls come back on the
/// executor of whoever awaits them. Connects when there is something to send. A connection that breaks, says what is
/// no Ingot, or falls silent is closed, and what was sent on it ends in kUnavailable: it may have been done. A call
/// that the server says it has not begun is sent again. After a connection that failed, calls are refused at once
/// until the pause is over.
class RemoteClient {
 public:
  RemoteClient(boost::asio::io_context& io, RemoteClientOptions options);
  /// Ends all calls with kUnavailable.
  ~RemoteClient();
  RemoteClient(const RemoteClient&) = delete;
  RemoteClient& operator=(const RemoteClient&) = delete;

  /// The answer, where the server's code is none. `upload` travels behind the request. `wait_ms` is set here.
  /// Errors are the server's; or kTimeout and kCancelled by `until`, upon which the server is told; kUnavailable;
  /// kIncompatible: it speaks another version; kExhausted: too much is under way; kCorrupt: a blob that came damaged.
  Task<RemoteAnswer> Call(proto::RemoteRequestT request, SealedRef upload, Until until);

  /// "ingots://host:7473, connected".
  std::string Describe() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace ingot::cache
