// SPDX-License-Identifier: Apache-2.0
#include "daemon/requests.h"

#include <fmt/format.h>

#include "base/log.h"
#include "base/metrics.h"

namespace ingot::daemon {

using proto::MessageType;

Requests::Requests(Core& core, QueryHooks hooks)
    : core_(core), lookups_(core), compiles_(core), queries_(core, std::move(hooks)) {}

std::optional<Reply> Requests::Fast(uint16_t type, Bytes body) {
  if (type != static_cast<uint16_t>(MessageType::Lookup)) return std::nullopt;
  return lookups_.Fast(body);
}

bool Requests::Start(uint16_t type, Buffer body, ReplyDone done) {
  return core_.pool.Spawn(Serve(type, std::move(body), std::move(done)));
}

boost::asio::awaitable<void> Requests::Serve(uint16_t type, Buffer body, ReplyDone done) {
  Reply reply;
  try {
    reply = co_await ReplyTo(type, std::move(body));
  } catch (const std::exception& thrown) {
    // Nothing of ours throws: what does is memory that is short, for this request alone.
    LogError("failed to answer", {{"type", type}, {"reason", thrown.what()}});
    reply = ErrorReplyOf(Error(Code::kExhausted, fmt::format("the daemon could not answer: {}", thrown.what())));
  }
  done(std::move(reply));
}

boost::asio::awaitable<Reply> Requests::ReplyTo(uint16_t type, Buffer body) {
  Until until{.stop = core_.stop.get_token()};
  switch (static_cast<MessageType>(type)) {
    case MessageType::Lookup:
      co_return co_await lookups_.Lookup(std::move(body), until);
    case MessageType::Fetch:
      co_return co_await lookups_.Fetch(std::move(body), until);
    case MessageType::Compile:
      if (const uint32_t wait_ms = WaitMaxMs(type, body)) until = until.AtMost(std::chrono::milliseconds(wait_ms));
      co_return co_await compiles_.Compile(std::move(body), until);
    case MessageType::Query:
      co_return co_await queries_.Answer(std::move(body), until);
    default:
      GlobalMetrics().Add(Counter::bad_requests);
      co_return ErrorReplyOf(
          Error(Code::kUnsupported, fmt::format("message type {} is not one this daemon knows", type)));
  }
}

uint32_t Requests::WaitMaxMs(uint16_t type, Bytes body) {
  if (type != static_cast<uint16_t>(MessageType::Compile)) return 0;
  const auto* message = proto::ReadMessage<proto::Compile>(body);
  return message == nullptr ? 0 : message->wait_max_ms();
}

}  // namespace ingot::daemon
