// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/secret.h"
#include "base/until.h"
#include "cache/async/task.h"
#include "cache/async/waiter.h"
#include "cache/redis/redis_protocol.h"
#include "cache/redis/redis_url.h"

namespace ingot::cache {

/// Limits of the connections to one server.
struct RedisClientOptions {
  RedisUrl url;
  /// Of `url.user`, or of the server's "default" where that is empty; none: nobody logs in.
  Secret password;
  /// What the server shows of us in CLIENT LIST.
  std::string name = "ingot";
  /// Connections for commands; one more for wake-ups, where somebody waits for one.
  size_t connections_max = 2;
  /// Commands whose answers are awaited or still to come; more are refused.
  size_t calls_max = 8192;
  /// Bytes of commands that are not written yet; more are refused.
  size_t unsent_bytes_max = 64u << 20;
  RedisReplyLimits reply;
  /// For look-up, connection, TLS and log-in together.
  std::chrono::milliseconds connect_max{2000};
  /// A connection on which answers are due and no byte comes for so long is closed.
  std::chrono::milliseconds silence_max{2000};
  /// Pause after a failed connection: doubled each time, with jitter.
  std::chrono::milliseconds backoff_min{20};
  std::chrono::milliseconds backoff_max{2000};
};

/// One call under way. Opaque.
struct RedisCall;
using RedisCallRef = std::shared_ptr<RedisCall>;
struct RedisChannels;

/// What somebody hears of a channel of wake-ups, until it is destroyed. Thread-safe.
class RedisSubscription {
 public:
  /// Woken by what is published from now on, and once when the subscription begins to hold (again): what was
  /// published before then is not heard, so that whoever waits looks again. A connection that is cut wakes nobody.
  WaiterRef Enlist();
  ~RedisSubscription();
  RedisSubscription(std::shared_ptr<RedisChannels> channels, std::string channel);
  RedisSubscription(const RedisSubscription&) = delete;
  RedisSubscription& operator=(const RedisSubscription&) = delete;

 private:
  const std::shared_ptr<RedisChannels> channels_;
  const std::string channel_;
};

/// One Redis server: a few connections that all callers share, with the commands of all in flight at once.
///
/// Thread-safe. Sockets are served by `io`, which somebody runs for as long as calls are made; calls come back on the
/// executor of whoever awaits them. Connects when there is something to send. A connection that breaks, says what is
/// no Redis, or does not answer is closed: what was sent on it ends in kUnavailable (it may have been done), and the
/// next call finds another. After a connection that failed, calls are refused at once until the pause is over.
class RedisClient {
 public:
  RedisClient(boost::asio::io_context& io, RedisClientOptions options);
  /// Ends all calls with kUnavailable.
  ~RedisClient();
  RedisClient(const RedisClient&) = delete;
  RedisClient& operator=(const RedisClient&) = delete;

  /// Sends commands, each made by FormatRedisCommand, so that Finish can await the answers. `late` is called on
  /// `io` with the last answer when it comes after the wait for it was over.
  RedisCallRef Start(std::string commands, size_t count, std::function<void(RedisReply)> late = nullptr);
  /// An answer for each command, errors that the server gave among them. kTimeout and kCancelled end the wait, not
  /// what was sent. kUnavailable; kExhausted: too much is under way.
  Task<std::vector<RedisReply>> Finish(RedisCallRef call, Until until);
  /// Closes the connection that carried a call: its answers do not fit what was asked.
  void Distrust(const RedisCallRef& call, std::string_view why);
  std::shared_ptr<RedisSubscription> Subscribe(std::string channel);

  /// "redis://host:6379/0, connected".
  std::string Describe() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// What an answer that is an error means for a caller: a full server is kExhausted, all else kUnavailable.
Error ErrorOf(const RedisReply& reply);

}  // namespace ingot::cache
