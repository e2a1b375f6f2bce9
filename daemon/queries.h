// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "daemon/core.h"

namespace ingot::daemon {

/// What the verbs ask of the server. Callable from any thread.
struct QueryHooks {
  std::string socket;
  std::string store_dir;
  std::function<size_t()> clients;
  std::function<int64_t()> uptime_s;
  /// True: drain; false: stop at once.
  std::function<void(bool drain)> stop;
};

/// Answers the verbs of the CLI in JSON (docs/cli.md). Thread-safe; runs on the pool.
class Queries {
 public:
  Queries(Core& core, QueryHooks hooks) : core_(core), hooks_(std::move(hooks)) {}
  boost::asio::awaitable<Reply> Answer(Buffer body, Until until);
  /// kInvalid: no such verb or bad arguments.
  Task<std::string> Run(std::string verb, std::string arguments, Until until);

 private:
  Core& core_;
  const QueryHooks hooks_;
};

}  // namespace ingot::daemon
