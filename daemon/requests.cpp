// SPDX-License-Identifier: Apache-2.0
#include "daemon/requests.h"

#include <fmt/format.h>

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
  return core_.pool.Post([this, type, body = std::move(body), done = std::move(done)]() mutable {
    Serve(type, std::move(body), done);
  });
}

void Requests::Serve(uint16_t type, Buffer body, const ReplyDone& done) {
  switch (static_cast<MessageType>(type)) {
    case MessageType::Lookup:
      return done(lookups_.Lookup(body));
    case MessageType::Fetch:
      return done(lookups_.Fetch(body));
    case MessageType::Compile:
      return compiles_.Compile(std::move(body), done);
    case MessageType::Query:
      return done(queries_.Answer(body));
    default:
      GlobalMetrics().Add(Counter::bad_requests);
      return done(ErrorReplyOf(Error(
          Code::kUnsupported, fmt::format("message type {} is not one this daemon knows", type))));
  }
}

uint32_t Requests::WaitMaxMs(uint16_t type, Bytes body) {
  if (type != static_cast<uint16_t>(MessageType::Compile)) return 0;
  const auto* message = proto::ReadMessage<proto::Compile>(body);
  return message == nullptr ? 0 : message->wait_max_ms();
}

}  // namespace ingot::daemon
