// SPDX-License-Identifier: Apache-2.0
#include "cache/peer/remote_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <utility>
#include <vector>

#include "cache/async/waiter.h"
#include "cache/peer/remote_connection.h"
#include "proto/message.h"

namespace ingot::cache {
namespace {

namespace asio = boost::asio;
using Steady = std::chrono::steady_clock;
/// A connection with so many calls is busy: another is opened.
constexpr size_t kBusyCalls = 4;

}  // namespace

struct RemoteClient::State : std::enable_shared_from_this<RemoteClient::State> {
  State(asio::io_context& io, RemoteClientOptions options) : share(io, std::move(options)) {}

  void Begin() {
    for (size_t i = 0; i < std::max<size_t>(share.options.connections_max, 1); ++i) {
      connections.push_back(std::make_shared<RemoteConnection>(share, shared_from_this()));
      connections.back()->again = [weak = weak_from_this()](RemoteCallRef call) {
        if (const auto self = weak.lock()) self->Place(call);
      };
    }
  }

  /// The connection with the least to do; another is opened where all are busy.
  RemoteConnection* Choose() {
    RemoteConnection* best = nullptr;
    for (const auto& connection : connections) {
      if (connection->TakesCalls() && (!best || connection->calls() < best->calls())) best = connection.get();
    }
    if ((best && best->calls() < kBusyCalls) || Steady::now() < share.next_try) return best;
    for (const auto& connection : connections) {
      if (connection->IsOpen()) continue;
      connection->Open();
      return connection.get();
    }
    return best;
  }

  void Place(const RemoteCallRef& call) {
    if (share.is_closed) return share.End(*call, Ended());
    if (call->is_abandoned) return share.End(*call, Error(Code::kCancelled, "given up before it was sent"));
    RemoteConnection* const connection = Choose();
    if (connection != nullptr) return connection->Add(call);
    const Error why(share.last_error.code(), "not tried again yet after: " + share.last_error.message());
    share.End(*call, share.Named(why));
  }

  void Send(const RemoteCallRef& call) {
    ++share.calls;
    share.unsent_bytes += call->unsent_bytes;
    if (share.calls > share.options.calls_max || share.unsent_bytes > share.options.unsent_bytes_max) {
      return share.End(
          *call, Error(Code::kExhausted, fmt::format("{}: {} calls with {} bytes are under way; try later", share.url,
                                                     share.calls - 1, share.unsent_bytes - call->unsent_bytes)));
    }
    Place(call);
  }

  void Abandon(const RemoteCallRef& call) {
    if (std::exchange(call->is_abandoned, true) || call->is_done) return;
    if (const auto connection = call->connection.lock()) connection->Forget(call);
  }

  Error Ended() const { return share.Named(Error(Code::kUnavailable, "the client has ended")); }
  void Close() {
    share.is_closed = true;
    for (const auto& connection : connections) connection->Break(Error(Code::kUnavailable, "the client has ended"));
  }

  RemoteShare share;
  std::vector<std::shared_ptr<RemoteConnection>> connections;
};

RemoteClient::RemoteClient(asio::io_context& io, RemoteClientOptions options)
    : state_(std::make_shared<State>(io, std::move(options))) {
  state_->Begin();
}

RemoteClient::~RemoteClient() {
  asio::post(state_->share.strand, [state = state_] { state->Close(); });
}

Task<RemoteAnswer> RemoteClient::Call(proto::RemoteRequestT request, SealedRef upload, Until until) {
  CO_TRY(until.Check());
  const auto state = state_;
  const auto call = std::make_shared<RemoteCall>();
  request.wait_ms = RemoteWaitMs(until);
  call->op = request.op;
  call->message = proto::PackMessage<proto::RemoteRequest>(request);
  request = {};
  if (call->message.size() > kRemoteRequestBytesMax) {
    co_return Error(Code::kInvalid, fmt::format("a request of {} bytes, the limit is {}", call->message.size(),
                                                kRemoteRequestBytesMax));
  }
  call->unsent_bytes = call->message.size();
  call->upload = std::move(upload);
  asio::post(state->share.strand, [state, call] { state->Send(call); });
  Status woken = co_await Waiter::Wait(call->waiter, std::move(until));
  if (!woken) {
    asio::post(state->share.strand, [state, call] { state->Abandon(call); });
    co_return std::move(woken).error().Wrap(state->share.url);
  }
  CO_TRY(std::move(call->status));
  co_return std::move(call->answer);
}

std::string RemoteClient::Describe() const {
  const RemoteShare& share = state_->share;
  return fmt::format("{}, {}", share.url,
                     share.connected > 0  ? "connected"
                     : share.is_reachable ? "not connected"
                                          : "cannot be reached");
}

}  // namespace ingot::cache
