// SPDX-License-Identifier: Apache-2.0
#include "daemon/serve/serve_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

#include "base/log.h"
#include "base/metrics.h"
#include "proto/message.h"

namespace ingot::daemon {
namespace {

namespace asio = boost::asio;
using cache::Task;
using proto::RemoteOp;
using proto::RemoteType;
using Verdict = cache::TokenTable::Verdict;
using RemoteClock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kLookPeriod{500};
constexpr std::chrono::milliseconds kFlushMax{2000};

void CountVerdict(Verdict verdict) {
  switch (verdict) {
    case Verdict::kGood: return;
    case Verdict::kUnknown: return GlobalMetrics().Add(Counter::serve_unknown_tokens);
    case Verdict::kRevoked: return GlobalMetrics().Add(Counter::serve_revoked_tokens);
    case Verdict::kExpired: return GlobalMetrics().Add(Counter::serve_expired_tokens);
    case Verdict::kOtherAudience: return GlobalMetrics().Add(Counter::serve_other_audience);
    case Verdict::kSmallScope: return GlobalMetrics().Add(Counter::serve_small_scope);
  }
}

std::chrono::seconds Seconds(uint64_t s) { return std::chrono::seconds(std::min<uint64_t>(s, 1u << 30)); }

Error RemoteBusy(std::string text) {
  GlobalMetrics().Add(Counter::serve_busy);
  return Error(Code::kExhausted, "busy: " + std::move(text));
}

}  // namespace

std::shared_ptr<void> ServeShare::Hold(uint64_t bytes) {
  const auto all = held_bytes;
  if (all->fetch_add(bytes) + bytes > config.serve_bytes_max) {
    all->fetch_sub(bytes);
    return nullptr;
  }
  return std::shared_ptr<void>(all.get(), [all, bytes](void*) { all->fetch_sub(bytes); });
}

bool ServeShare::MayLog() {
  const int64_t now_s = RemoteClock::now().time_since_epoch() / std::chrono::seconds(1);
  return logged_s.exchange(now_s) != now_s;
}

ServeSession::ServeSession(std::shared_ptr<ServeShare> share, asio::any_io_executor strand,
                           std::shared_ptr<cache::Transport> transport, std::string peer)
    : share_(std::move(share)),
      strand_(std::move(strand)),
      transport_(std::move(transport)),
      peer_(std::move(peer)),
      reader_(transport_),
      watch_(strand_),
      written_(strand_) {}

asio::awaitable<void> ServeSession::Run() {
  writer_ = std::make_shared<cache::RemoteWriter>(strand_, transport_, [weak = weak_from_this()](const Status& status) {
    const auto self = weak.lock();
    if (self == nullptr) return;
    self->written_.cancel();
    if (!status) return self->CloseNow();
    self->Note();
  });
  Watch();
  const Status ended = co_await Talk();
  if (!ended && ended.error().code() != Code::kUnavailable) {
    GlobalMetrics().Add(Counter::serve_bad_requests);
    if (share_->MayLog()) {
      LogWarn("ended a connection of another daemon", {{"peer", peer_}, {"who", who_}, {"reason", ended.error()}});
    }
  }
  CloseNow();
}

Task<void> ServeSession::Talk() {
  const Status shaken = co_await transport_->Connect();
  if (!shaken) {
    GlobalMetrics().Add(Counter::serve_tls_failures);
    LogDebug("no TLS with another daemon", {{"peer", peer_}, {"reason", shaken.error()}});
    co_return shaken;
  }
  CO_TRY(co_await Greet());
  while (true) {
    // Who does not read what was asked is not asked anything more.
    while (!is_closed_ && writer_->message_bytes() > share_->config.serve_replies_bytes_max / 2) {
      boost::system::error_code ignored;
      written_.expires_after(std::chrono::seconds(1));
      co_await written_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    }
    CO_TRY_ASSIGN(const proto::FrameHeader header, co_await reader_.Header());
    // What had come before it was closed is not begun.
    if (is_closed_) co_return Error(Code::kUnavailable, "closed");
    used_ = RemoteClock::now();
    // It closes when it has read the goodbye; closing before would take it away from it.
    if (is_parting_) {
      CO_TRY(co_await reader_.Skip(header.length));
      continue;
    }
    switch (static_cast<RemoteType>(header.type)) {
      case RemoteType::Request: CO_TRY(co_await TakeRequest(header)); break;
      case RemoteType::Chunk: CO_TRY(co_await TakeChunk(header)); break;
      case RemoteType::Cancel:
        if (header.length != 0) co_return Error(Code::kCorrupt, "a cancel with a body");
        Cancel(header.request);
        break;
      case RemoteType::Ping:
        if (header.length != 0) co_return Error(Code::kCorrupt, "a ping with a body");
        writer_->Send(RemoteType::Pong, 0);
        break;
      default: co_return Error(Code::kCorrupt, fmt::format("a frame of type {}, which no client sends", header.type));
    }
    Note();
  }
}

Task<void> ServeSession::Refuse(Error why) {
  proto::RemoteWelcomeT welcome;
  welcome.version = cache::kRemoteVersion;
  welcome.name = share_->name;
  welcome.code = static_cast<uint8_t>(why.code());
  welcome.message = why.message();
  writer_->Send(RemoteType::Welcome, 0, proto::PackMessage<proto::RemoteWelcome>(welcome));
  CO_TRY(co_await Flush());
  co_return Error(Code::kUnavailable, "refused: " + why.message());
}

Task<void> ServeSession::Greet() {
  CO_TRY_ASSIGN(const proto::FrameHeader header, co_await reader_.Header());
  if (header.type != static_cast<uint16_t>(RemoteType::Hello) || header.length > cache::kRemoteHelloBytesMax) {
    co_return Error(Code::kCorrupt, "what came first was no hello");
  }
  CO_TRY_ASSIGN(const Buffer body, co_await reader_.Message(header.length));
  const auto* hello = proto::ReadMessage<proto::RemoteHello>(body);
  if (hello == nullptr) co_return Error(Code::kCorrupt, "a hello that does not verify");
  if (hello->version() != cache::kRemoteVersion) {
    Error why(Code::kIncompatible, fmt::format("this server speaks version {} of the protocol between daemons, not {}",
                                               cache::kRemoteVersion, hello->version()));
    co_return co_await Refuse(std::move(why));
  }
  const Digest identity{hello->identity_low(), hello->identity_high()};
  if (!identity.IsZero() && identity == share_->ports.asks_as) {
    if (share_->MayLog()) LogError("refused itself: cluster_index leads back here", {{"peer", peer_}});
    Error why(Code::kUnavailable,
              fmt::format("server '{}' refuses: it is the daemon that asks. It serves what cluster_index names, and "
                          "that leads back to itself: name what it is to stand in front of, or serve a store of its "
                          "own (serve_source)",
                          share_->name));
    co_return co_await Refuse(std::move(why));
  }
  const auto answer = share_->tokens.Admit(hello->token() ? hello->token()->string_view() : "");
  CountVerdict(answer.verdict);
  if (answer.verdict != Verdict::kGood) {
    if (share_->MayLog()) LogWarn("refused another daemon", {{"peer", peer_}, {"reason", answer.text}});
    Error why(Code::kUnavailable, fmt::format("server '{}' refuses: {}", share_->name, answer.text));
    co_return co_await Refuse(std::move(why));
  }
  token_ = answer.grant.hash;
  who_ = answer.grant.name;
  proto::RemoteWelcomeT welcome;
  welcome.version = cache::kRemoteVersion;
  welcome.name = share_->name;
  welcome.blob_bytes_max = share_->config.serve_blob_bytes_max;
  writer_->Send(RemoteType::Welcome, 0, proto::PackMessage<proto::RemoteWelcome>(welcome));
  GlobalMetrics().Add(Counter::serve_sessions);
  LogDebug("serves another daemon", {{"peer", peer_}, {"who", who_}});
  used_ = RemoteClock::now();
  is_greeted_ = true;
  co_return Status();
}

Status ServeSession::Judge(RemoteOp op) {
  const auto answer = share_->tokens.Check(token_, ScopeOf(op));
  CountVerdict(answer.verdict);
  if (answer.verdict == Verdict::kGood) return {};
  if (answer.verdict == Verdict::kSmallScope) return Error(Code::kUnsupported, answer.text);
  return Error(Code::kUnavailable, fmt::format("server '{}' refuses: {}", share_->name, answer.text));
}

Task<void> ServeSession::TakeRequest(proto::FrameHeader header) {
  const Config& config = share_->config;
  const uint32_t id = header.request;
  GlobalMetrics().Add(Counter::serve_requests);
  if (header.length > cache::kRemoteRequestBytesMax) co_return Error(Code::kCorrupt, "a request larger than any");
  if (id == 0 || pending_.contains(id)) co_return Error(Code::kCorrupt, "a request id that is not free");
  const auto pending = std::make_shared<Pending>();
  pending->held = share_->Hold(header.length);
  if (pending->held == nullptr || pending_.size() >= config.serve_requests_max) {
    const bool is_bytes = pending->held == nullptr;
    pending->held.reset();
    CO_TRY(co_await reader_.Skip(header.length));
    Fail(id, RemoteBusy(is_bytes ? "too many bytes are on their way (serve_bytes_max)"
                                 : "too many requests of one connection (serve_requests_max)"));
    co_return Status();
  }
  {
    CO_TRY_ASSIGN(const Buffer body, co_await reader_.Message(header.length));
    const auto* request = proto::ReadMessage<proto::RemoteRequest>(body);
    if (request == nullptr) {
      GlobalMetrics().Add(Counter::serve_bad_requests);
      Fail(id, Error(Code::kCorrupt, "a request that does not verify"));
      co_return Status();
    }
    request->UnPackTo(&pending->request);
  }
  if (is_closed_) co_return Error(Code::kUnavailable, "closed");
  Status good = CheckRemoteRequest(pending->request);
  if (!good) GlobalMetrics().Add(Counter::serve_bad_requests);
  if (good) good = Judge(pending->request.op);
  if (!good) {
    Fail(id, good.error());
    co_return Status();
  }
  const std::chrono::milliseconds wait = std::chrono::milliseconds(pending->request.wait_ms);
  pending->due = RemoteClock::now() + std::min<std::chrono::milliseconds>(wait, Seconds(config.serve_wait_s_max));
  pending_[id] = pending;
  if (pending->request.op != RemoteOp::BlobPut) {
    Start(id, pending, nullptr);
    co_return Status();
  }
  const Status begun = BeginUpload(id, pending);
  if (!begun) {
    pending_.erase(id);
    Fail(id, begun.error());
  }
  co_return Status();
}

Status ServeSession::BeginUpload(uint32_t request, const PendingRef& pending) {
  const uint64_t bytes = pending->request.number;
  if (bytes > share_->config.serve_blob_bytes_max) {
    return Error(Code::kExhausted, fmt::format("a blob of {} bytes, the limit is {} (serve_blob_bytes_max)", bytes,
                                               share_->config.serve_blob_bytes_max));
  }
  // The request's own bytes are few, and are given back for those of the blob.
  pending->held = share_->Hold(bytes);
  if (pending->held == nullptr) return RemoteBusy("too many bytes are on their way (serve_bytes_max)");
  TRY_ASSIGN(cache::SealedRoom room, cache::SealedRoom::Make(bytes));
  if (bytes == 0) {
    TRY_ASSIGN(cache::SealedRef empty, std::move(room).Seal());
    Start(request, pending, std::move(empty));
    return {};
  }
  pending->room = std::move(room);
  // What fits into one piece is here before it is known whether it is needed.
  if (bytes > cache::kRemoteChunkBytes) LookForBlob(request, pending);
  return {};
}

/// What is here already need not come.
void ServeSession::LookForBlob(uint32_t request, const PendingRef& pending) {
  const Digest digest{pending->request.digests[0], pending->request.digests[1]};
  const Until until{pending->due, pending->stop.get_token()};
  const auto look = [](std::shared_ptr<ServeShare> share, Digest digest, Until until,
                       std::function<void()> found) -> asio::awaitable<void> {
    std::vector<Digest> digests = {digest};
    const Result<std::vector<bool>> has = co_await share->ports.blobs->Has(std::move(digests), until);
    if (!has || has->size() != 1 || !has->front()) co_return;
    share->ports.touch(cache::Table::kArtifacts, digest);
    found();
  };
  std::function<void()> found = [weak = weak_from_this(), strand = strand_, request, pending] {
    asio::post(strand, [weak, request, pending] {
      const auto self = weak.lock();
      if (self == nullptr || !pending->room) return;
      RemoteResult is_there;
      self->Finish(request, pending, std::move(is_there));
    });
  };
  asio::co_spawn(share_->pool, look(share_, digest, until, std::move(found)), asio::detached);
}

Task<void> ServeSession::TakeChunk(proto::FrameHeader header) {
  if (header.length == 0 || header.length > cache::kRemoteChunkBytes) {
    co_return Error(Code::kCorrupt, fmt::format("a piece of a blob of {} bytes", header.length));
  }
  const auto found = pending_.find(header.request);
  const PendingRef pending = found == pending_.end() ? nullptr : found->second;
  // Of one that was refused, or that nobody needs.
  if (pending == nullptr) co_return co_await reader_.Skip(header.length);
  const uint64_t left = pending->room ? pending->room->size() - pending->received : 0;
  // Small pieces would keep a large room for long.
  if (header.length != std::min<uint64_t>(left, cache::kRemoteChunkBytes)) {
    co_return Error(Code::kCorrupt, "a piece of a blob of another size than is due");
  }
  const std::span<uint8_t> into(pending->room->data() + pending->received, header.length);
  // It may be found needless meanwhile; its room stays until here.
  CO_TRY(co_await reader_.Body(into));
  pending->received += header.length;
  if (pending->received < pending->room->size() || !pending_.contains(header.request)) co_return Status();
  Result<cache::SealedRef> upload = std::move(*pending->room).Seal();
  pending->room.reset();
  if (upload) {
    Start(header.request, pending, std::move(upload).value());
  } else {
    Finish(header.request, pending, std::move(upload).error());
  }
  co_return Status();
}

void ServeSession::Start(uint32_t request, const PendingRef& pending, cache::SealedRef upload) {
  if (pending->request.op == RemoteOp::BlobGet) {
    const Digest digest{pending->request.digests[0], pending->request.digests[1]};
    if (const std::optional<uint64_t> bytes = share_->ports.blob_bytes(digest)) {
      pending->held = share_->Hold(*bytes);
      if (pending->held == nullptr) {
        return Finish(request, pending, RemoteBusy("too many bytes are on their way (serve_bytes_max)"));
      }
    } else {
      pending->held.reset();
    }
  }
  const Until until{pending->due, pending->stop.get_token()};
  const auto call = [](std::shared_ptr<ServeShare> share, proto::RemoteRequestT request, cache::SealedRef upload,
                       Until until, std::function<void(Result<RemoteResult>)> done) -> asio::awaitable<void> {
    Result<RemoteResult> result =
        co_await CallPorts(share->ports, share->config, std::move(request), std::move(upload), until);
    done(std::move(result));
  };
  std::function<void(Result<RemoteResult>)> done = [weak = weak_from_this(), strand = strand_, request,
                                                    pending](Result<RemoteResult> result) {
    asio::post(strand, [weak, request, pending, result = std::move(result)]() mutable {
      if (const auto self = weak.lock()) self->Finish(request, pending, std::move(result));
    });
  };
  asio::co_spawn(share_->pool, call(share_, std::move(pending->request), std::move(upload), until, std::move(done)),
                 asio::detached);
}

void ServeSession::Finish(uint32_t request, const PendingRef& pending, Result<RemoteResult> result) {
  const auto found = pending_.find(request);
  // One that was cancelled.
  if (is_closed_ || found == pending_.end() || found->second != pending) return;
  pending_.erase(found);
  used_ = RemoteClock::now();
  if (!result) return Fail(request, result.error());
  const cache::SealedRef blob = std::move(result->blob);
  std::shared_ptr<void> held = std::move(pending->held);
  if (blob == nullptr) {
    Reply(request, result->reply);
    return Note();
  }
  if (held == nullptr) held = share_->Hold(blob->size());
  if (held == nullptr) return Fail(request, RemoteBusy("too many bytes are on their way (serve_bytes_max)"));
  GlobalMetrics().Add(Counter::serve_bytes_read, blob->size());
  Reply(request, result->reply);
  // Its bytes are held as long as they are on their way.
  if (blob->size() > 0) writer_->Stream(request, blob, [held] {});
  Note();
}

void ServeSession::Reply(uint32_t request, const proto::RemoteReplyT& reply) {
  if (is_closed_) return;
  const Buffer body = proto::PackMessage<proto::RemoteReply>(reply);
  if (body.size() > cache::kRemoteReplyBytesMax) {
    return Fail(request, Error(Code::kExhausted, "the reply is larger than any may be; ask for less at once"));
  }
  writer_->Send(RemoteType::Reply, request, body);
}

void ServeSession::Fail(uint32_t request, const Error& error) {
  proto::RemoteReplyT reply;
  reply.code = static_cast<uint8_t>(error.code());
  reply.message = error.message();
  Reply(request, reply);
  Note();
}

void ServeSession::Cancel(uint32_t request) {
  writer_->Drop(request);
  const auto found = pending_.find(request);
  if (found == pending_.end()) return;
  found->second->stop.request_stop();
  pending_.erase(found);
}

Task<void> ServeSession::Flush() {
  const SteadyTime due = RemoteClock::now() + kFlushMax;
  while (!is_closed_ && !writer_->is_idle()) {
    if (RemoteClock::now() >= due) co_return Error(Code::kUnavailable, "it does not read what it is told");
    boost::system::error_code ignored;
    written_.expires_after(std::chrono::milliseconds(20));
    co_await written_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
  co_return Status();
}

void ServeSession::Part(std::string why) {
  asio::post(strand_, [self = shared_from_this(), why = std::move(why)] { self->PartNow(why); });
}

void ServeSession::PartNow(const std::string& why) {
  if (is_closed_ || is_parting_ || !pending_.empty() || !writer_->is_idle()) return;
  if (!is_greeted_) return CloseNow();
  is_parting_ = true;
  used_ = RemoteClock::now();
  proto::RemoteReplyT reply;
  reply.code = static_cast<uint8_t>(Code::kUnavailable);
  reply.message = why;
  writer_->Send(RemoteType::Goodbye, 0, proto::PackMessage<proto::RemoteReply>(reply));
}

void ServeSession::Close() {
  asio::post(strand_, [self = shared_from_this()] { self->CloseNow(); });
}

void ServeSession::CloseNow() {
  if (std::exchange(is_closed_, true)) return;
  watch_.cancel();
  written_.cancel();
  writer_->Close();
  transport_->Close();
  for (const auto& [request, pending] : std::exchange(pending_, {})) pending->stop.request_stop();
}

void ServeSession::Note() { is_idle_ = pending_.empty() && writer_->is_idle(); }

void ServeSession::Watch() {
  if (is_closed_) return;
  watch_.expires_after(kLookPeriod);
  watch_.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
    const auto self = weak.lock();
    if (!error && self) self->Look();
  });
}

void ServeSession::Look() {
  const Config& config = share_->config;
  const SteadyTime now = RemoteClock::now();
  const char* stands = nullptr;
  const auto is_over = [now](SteadyTime since, uint64_t s) { return now - since > Seconds(s); };
  if (!is_greeted_ && is_over(began_, config.serve_handshake_s_max)) stands = "it did not say who it is";
  if (const auto since = reader_.partial_since(); is_greeted_ && since && is_over(*since, config.serve_read_s_max)) {
    // While it does not read, nothing is read from it either.
    if (writer_->message_bytes() <= config.serve_replies_bytes_max / 2) stands = "it sent a part of a frame";
  }
  if (const auto since = writer_->writing_since(); since && is_over(*since, config.serve_write_s_max)) {
    stands = "it does not read";
  }
  if (is_parting_ && now - used_.load() > kFlushMax) return CloseNow();
  if (stands != nullptr) {
    GlobalMetrics().Add(Counter::serve_timeouts);
    if (share_->MayLog()) {
      LogWarn("ended a connection of another daemon", {{"peer", peer_}, {"who", who_}, {"reason", stands}});
    }
    return CloseNow();
  }
  std::vector<uint32_t> late;
  for (const auto& [request, pending] : pending_) {
    if (pending->room && now > pending->due) late.push_back(request);
  }
  for (const uint32_t request : late) {
    Cancel(request);
    Fail(request, Error(Code::kTimeout, "the blob did not come within its time"));
  }
  if (config.serve_idle_s_max != 0 && is_idle() && is_over(used_, config.serve_idle_s_max)) {
    PartNow("idle for long");
  }
  Watch();
}

}  // namespace ingot::daemon
