// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <stop_token>
#include <string>

#include "daemon/admin/caller.h"
#include "daemon/core.h"

namespace ingot::daemon {

/// What the verbs ask of the server. Callable from any thread.
struct QueryHooks {
  std::string socket;
  std::string store_dir;
  std::function<size_t()> clients;
  std::function<int64_t()> uptime_s;
  /// Where the daemon is administered, for who is told that it is not there; empty: nowhere.
  std::string admin_socket = {};
  /// True: drain; false: stop at once.
  std::function<void(bool drain)> stop;
  /// Asked to stop when the daemon drains: what takes long ends early.
  std::stop_token stopping = {};
  /// Why fewer sessions are served than sessions_max says; empty when that is not so.
  std::string sessions_trouble = {};
  /// Where the web page is, and why it is not: one of them is empty, or both.
  std::function<std::string()> web = [] { return std::string(); };
  std::function<std::string()> web_trouble = [] { return std::string(); };
};

/// What a verb waits for, and so which executor it runs on.
enum class Pace : uint8_t {
  kMemory,  ///< Nothing: it answers from memory.
  kStore,   ///< The store or a worker, for a part of what there is.
  kUpkeep,  ///< A look through all that is stored.
};

/// Answers the verbs of the CLI in JSON (docs/cli.md). Thread-safe; runs on the pool.
class Queries {
 public:
  Queries(Core& core, QueryHooks hooks) : core_(core), hooks_(std::move(hooks)) {}
  /// The verb ends early when the daemon drains.
  boost::asio::awaitable<Reply> Answer(Buffer body, Until until, Caller caller);
  /// The verb of a message; empty when that does not verify.
  static std::string VerbOf(Bytes body);
  static Pace PaceOf(Bytes body);
  /// kInvalid: no such verb or bad arguments; kDenied: not for this caller.
  Task<std::string> Run(std::string verb, std::string arguments, Until until, Caller caller);

 private:
  Core& core_;
  const QueryHooks hooks_;
};

}  // namespace ingot::daemon
