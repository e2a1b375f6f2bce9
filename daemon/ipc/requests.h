// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "daemon/admin/queries.h"
#include "daemon/compile/compile_service.h"
#include "daemon/core.h"
#include "daemon/ipc/lookup_service.h"
#include "daemon/state/thread_pool.h"

namespace ingot::daemon {

/// One door to all services: bytes of a message in, a reply out. Thread-safe.
///
/// Queries have executors of their own, by what they wait for (Pace): neither lookups and compiles, however many, nor
/// a look through the whole store keep an operator from an answer.
class Requests {
 public:
  Requests(Core& core, QueryHooks hooks);

  /// The reply when memory has it. Never blocks.
  std::optional<Reply> Fast(uint16_t type, Bytes body, const Caller& caller = {});
  /// Answers on a pool: `done` is called once, on any thread. False when the pool's queue is full, and then `done` is
  /// not called. `on_wait`, if there is one, is told before how long the sender waits, where it has said so.
  bool Start(uint16_t type, Buffer body, ReplyDone done, std::function<void(uint32_t)> on_wait = {},
             Caller caller = {});
  /// Writes down what look-ups that memory answered come to, on a thread of its own.
  void ApplyUses();
  /// What clients use, for who knows them apart.
  Jobs& jobs() { return core_.jobs; }
  /// nullptr: nothing of this tenant's is known to other machines.
  JobRef BeginJob(const std::string& tenant) {
    return core_.cluster.is_shared() && !core_.cluster.Shares(tenant) ? nullptr : core_.jobs.Begin();
  }
  /// The verbs, for who brings threads of his own.
  Queries& queries() { return queries_; }
  /// Finishes what was started; nothing is taken any more.
  void Stop();
  /// How long the sender of this message waits; 0 = until done.
  static uint32_t WaitMaxMs(uint16_t type, Bytes body);

 private:
  boost::asio::awaitable<void> Serve(uint16_t type, Buffer body, ReplyDone done, std::function<void(uint32_t)> on_wait,
                                     Caller caller);
  boost::asio::awaitable<Reply> ReplyTo(uint16_t type, Buffer body, Until until, Caller& caller);
  ThreadPool& PoolOf(uint16_t type, Bytes body);

  Core& core_;
  LookupService lookups_;
  CompileService compiles_;
  Queries queries_;
  // After what their tasks use.
  ThreadPool reads_;
  ThreadPool memory_;
  ThreadPool admin_;
  ThreadPool upkeep_;
};

}  // namespace ingot::daemon
