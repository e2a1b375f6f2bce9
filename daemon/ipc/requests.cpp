// SPDX-License-Identifier: Apache-2.0
#include "daemon/ipc/requests.h"

#include <fmt/format.h>

#include "base/log.h"
#include "base/metrics.h"
#include "base/priority.h"
#include "daemon/ipc/running.h"

namespace ingot::daemon {

using proto::MessageType;

namespace {

constexpr size_t kVerbShown = 32;
/// Somebody looks at a terminal for what `admin_` does; nobody waits for upkeep. Lookups come before both.
constexpr int kAdminNice = 5;
constexpr int kUpkeepNice = 10;

/// For whoever must say what the daemon is at.
std::string WhatOf(uint16_t type, Bytes body) {
  if (type == static_cast<uint16_t>(MessageType::Query)) return "query " + Queries::VerbOf(body).substr(0, kVerbShown);
  return proto::EnumNameMessageType(static_cast<MessageType>(type));
}

}  // namespace

Requests::Requests(Core& core, QueryHooks hooks)
    : core_(core),
      lookups_(core),
      compiles_(core),
      queries_(core, std::move(hooks)),
      reads_(core.config.pool_threads, core.config.pool_queue_max, AnswerSoon),
      memory_(1, core.config.pool_queue_max, AnswerSoon),
      admin_(core.config.admin_threads, core.config.pool_queue_max, [] { GiveWay(kAdminNice); }),
      upkeep_(1, core.config.pool_queue_max, [] { GiveWay(kUpkeepNice); }) {}

std::optional<Reply> Requests::Fast(uint16_t type, Bytes body, const Caller& caller) {
  if (type != static_cast<uint16_t>(MessageType::Lookup)) return std::nullopt;
  return lookups_.Fast(body, caller);
}

bool Requests::Start(uint16_t type, Buffer body, ReplyDone done, std::function<void(uint32_t)> on_wait, Caller caller) {
  ThreadPool& pool = PoolOf(type, body);
  return pool.Spawn(Serve(type, std::move(body), std::move(done), std::move(on_wait), std::move(caller)));
}

boost::asio::awaitable<void> Requests::Serve(uint16_t type, Buffer body, ReplyDone done,
                                             std::function<void(uint32_t)> on_wait, Caller caller) {
  Until until{.stop = core_.stop.get_token()};
  if (const uint32_t wait_ms = WaitMaxMs(type, body); wait_ms != 0) {
    if (on_wait) on_wait(wait_ms);
    until = until.AtMost(std::chrono::milliseconds(wait_ms));
  }
  const Running running(WhatOf(type, body));
  Reply reply;
  try {
    reply = co_await ReplyTo(type, std::move(body), until, caller);
  } catch (const std::exception& thrown) {
    // Nothing of ours throws: what does is memory that is short, for this request alone.
    LogError("failed to answer", {{"type", type}, {"reason", thrown.what()}});
    reply = ErrorReplyOf(Error(Code::kExhausted, fmt::format("the daemon could not answer: {}", thrown.what())));
  }
  done(std::move(reply));
}

boost::asio::awaitable<Reply> Requests::ReplyTo(uint16_t type, Buffer body, Until until, Caller& caller) {
  switch (static_cast<MessageType>(type)) {
    case MessageType::Lookup: co_return co_await lookups_.Lookup(std::move(body), until, std::move(caller));
    case MessageType::Fetch: co_return co_await lookups_.Fetch(std::move(body), until);
    case MessageType::Compile: co_return co_await compiles_.Compile(std::move(body), until, std::move(caller.tenant));
    case MessageType::Query: co_return co_await queries_.Answer(std::move(body), until, std::move(caller));
    default:
      GlobalMetrics().Add(Counter::bad_requests);
      co_return ErrorReplyOf(
          Error(Code::kUnsupported, fmt::format("message type {} is not one this daemon knows", type)));
  }
}

ThreadPool& Requests::PoolOf(uint16_t type, Bytes body) {
  const auto is = [type](MessageType asked) { return type == static_cast<uint16_t>(asked); };
  // What reads waits for no write: each of those holds its thread until the disk has it.
  if (is(MessageType::Lookup) || is(MessageType::Fetch)) return reads_;
  if (!is(MessageType::Query)) return core_.pool;
  switch (Queries::PaceOf(body)) {
    case Pace::kMemory: return memory_;
    case Pace::kStore: return admin_;
    case Pace::kUpkeep: return upkeep_;
  }
  return admin_;
}

void Requests::ApplyUses() {
  // Where its queue is full, what it works on does it.
  memory_.Post([this] { core_.uses.Apply(); });
}

void Requests::Stop() {
  upkeep_.Stop();
  admin_.Stop();
  memory_.Stop();
  reads_.Stop();
}

uint32_t Requests::WaitMaxMs(uint16_t type, Bytes body) {
  if (type != static_cast<uint16_t>(MessageType::Compile)) return 0;
  const auto* message = proto::ReadMessage<proto::Compile>(body);
  return message == nullptr ? 0 : message->wait_max_ms();
}

}  // namespace ingot::daemon
