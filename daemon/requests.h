// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "daemon/compile_service.h"
#include "daemon/core.h"
#include "daemon/lookup_service.h"
#include "daemon/queries.h"

namespace ingot::daemon {

/// One door to all services: bytes of a message in, a reply out. Thread-safe.
class Requests {
 public:
  Requests(Core& core, QueryHooks hooks);

  /// The reply when memory has it. Never blocks.
  std::optional<Reply> Fast(uint16_t type, Bytes body);
  /// Answers on the pool: `done` is called once, on any thread. False when the pool's queue is
  /// full, and then `done` is not called.
  bool Start(uint16_t type, Buffer body, ReplyDone done);
  /// How long the sender of this message waits; 0 = until done.
  static uint32_t WaitMaxMs(uint16_t type, Bytes body);

 private:
  boost::asio::awaitable<void> Serve(uint16_t type, Buffer body, ReplyDone done);
  boost::asio::awaitable<Reply> ReplyTo(uint16_t type, Buffer body);

  Core& core_;
  LookupService lookups_;
  CompileService compiles_;
  Queries queries_;
};

}  // namespace ingot::daemon
