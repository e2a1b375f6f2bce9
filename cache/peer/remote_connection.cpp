// SPDX-License-Identifier: Apache-2.0
#include "cache/peer/remote_connection.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "cache/async/jitter.h"
#include "cache/peer/remote_tokens.h"
#include "proto/message.h"

namespace ingot::cache {
namespace {

namespace asio = boost::asio;
using proto::RemoteOp;
using proto::RemoteType;
using Steady = std::chrono::steady_clock;

Error Late(std::string_view what, std::chrono::milliseconds limit) {
  return Error(Code::kUnavailable, fmt::format("{} within {} ms", what, limit.count()));
}

}  // namespace

void RemoteShare::Failed(const Error& why) {
  backoff = backoff.count() == 0 ? options.backoff_min : std::min(backoff * 2, options.backoff_max);
  next_try = Steady::now() + Jittered(backoff);
  last_error = why;
  if (is_reachable.exchange(false)) LogWarn("lost a serving daemon", {{"url", url}, {"reason", why}});
}

void RemoteShare::Succeeded() {
  backoff = {};
  next_try = {};
  if (!is_reachable.exchange(true)) LogInfo("reached a serving daemon", {{"url", url}});
}

Error RemoteShare::Named(const Error& why) const {
  return Error(why.code(), fmt::format("{}: {}", url, why.message()));
}

void RemoteShare::End(RemoteCall& call, Status status) {
  if (std::exchange(call.is_done, true)) return;
  --calls;
  Sent(call);
  call.upload.reset();
  call.status = std::move(status);
  call.waiter->Wake();
}

void RemoteConnection::Open() {
  if (state_ != State::kDown) return;
  state_ = State::kConnecting;
  reason_.reset();
  is_parting_ = false;
  // The client's state lives until the last connection has ended.
  asio::co_spawn(
      share_.strand, [self = shared_from_this(), owner = owner_.lock()] { return self->Run(); }, asio::detached);
}

void RemoteConnection::Add(RemoteCallRef call) {
  // Opening may fail at once, for instance where a certificate cannot be read.
  if (state_ == State::kDown) return share_.End(*call, share_.Named(share_.last_error));
  call->connection = weak_from_this();
  if (state_ != State::kUp) return queued_.push_back(std::move(call));
  Send(std::move(call));
}

void RemoteConnection::Break(Error why) {
  if (state_ == State::kDown || reason_) return;
  reason_ = std::move(why);
  if (transport_) transport_->Close();
}

void RemoteConnection::Forget(const RemoteCallRef& call) {
  if (std::erase(queued_, call) == 0 && sent_.erase(call->request) != 0 && writer_) {
    writer_->Drop(call->request);
    writer_->Send(RemoteType::Cancel, call->request);
  }
  share_.End(*call, Error(Code::kCancelled, "given up"));
}

asio::awaitable<void> RemoteConnection::Run() {
  const SteadyTime began = Steady::now();
  Place place = share_.options.url.place;
  Status status;
  auto made = MakeTransport(share_.strand, place);
  if (!made) {
    status = std::move(made).error();
  } else {
    transport_ = std::move(made).value();
    reader_ = std::make_unique<RemoteReader>(transport_);
    Watch(began + share_.options.connect_max);
    status = co_await Greet();
    if (status) {
      state_ = State::kUp;
      share_.Succeeded();
      ++share_.connected;
      writer_ = std::make_shared<RemoteWriter>(share_.strand, transport_, OnWritten());
      moved_ = Steady::now();
      for (RemoteCallRef& call : std::exchange(queued_, {})) Send(std::move(call));
      Watch(Steady::now() + share_.options.silence_max / 4);
      status = co_await Read();
    }
  }
  ++watch_round_;
  watch_.cancel();
  Down(reason_ ? *reason_ : std::move(status).error(), Steady::now() - began);
}

Task<void> RemoteConnection::Greet() {
  CO_TRY(co_await transport_->Connect());
  proto::RemoteHelloT hello;
  hello.version = kRemoteVersion;
  hello.client = share_.options.name;
  hello.identity_low = share_.options.identity.low;
  hello.identity_high = share_.options.identity.high;
  if (!share_.options.token_file.empty()) {
    // Each time: a token may be replaced while we run.
    CO_TRY_ASSIGN(const Secret token, ReadTokenFile(share_.options.token_file));
    hello.token = token.Reveal();
  }
  const Buffer message = proto::PackMessage<proto::RemoteHello>(hello);
  proto::FrameHeader header;
  header.type = static_cast<uint16_t>(RemoteType::Hello);
  header.length = static_cast<uint32_t>(message.size());
  const auto head = proto::EncodeHeader(header);
  std::vector<asio::const_buffer> buffers = {asio::buffer(head), asio::buffer(message)};
  CO_TRY(co_await transport_->Write(std::move(buffers)));
  Result<proto::FrameHeader> header_read = co_await reader_->Header();
  if (!header_read && share_.options.url.place.kind != Place::Kind::kTls) {
    // A port with TLS closes without a word.
    co_return Error(header_read.error().code(), header_read.error().message() + "; with TLS it is named ingots://");
  }
  CO_TRY_ASSIGN(const proto::FrameHeader found, std::move(header_read));
  if (found.type == static_cast<uint16_t>(RemoteType::Goodbye)) co_return Error(Code::kUnavailable, "it is busy");
  if (found.type != static_cast<uint16_t>(RemoteType::Welcome) || found.length > kRemoteHelloBytesMax) {
    co_return Error(Code::kCorrupt, "what answers is no serving daemon");
  }
  CO_TRY_ASSIGN(const Buffer body, co_await reader_->Message(found.length));
  const auto* welcome = proto::ReadMessage<proto::RemoteWelcome>(body);
  if (welcome == nullptr) co_return Error(Code::kCorrupt, "a welcome that does not verify");
  if (welcome->version() != kRemoteVersion) {
    co_return Error(Code::kIncompatible, fmt::format("it speaks version {} of the protocol between daemons, this one "
                                                     "{}; use the same version of Ingot on both sides",
                                                     welcome->version(), kRemoteVersion));
  }
  if (welcome->code() != 0) {
    co_return RemoteError(welcome->code(), welcome->message() ? welcome->message()->string_view() : "refused");
  }
  co_return Status();
}

std::function<void(const Status&)> RemoteConnection::OnWritten() {
  return [weak = weak_from_this()](const Status& status) {
    const auto self = weak.lock();
    if (self == nullptr) return;
    self->moved_ = Steady::now();
    if (!status) self->Break(status.error());
  };
}

void RemoteConnection::Send(RemoteCallRef call) {
  if (sent_.empty()) moved_ = Steady::now();
  call->request = next_request_++;
  if (next_request_ == 0) next_request_ = 1;
  call->connection = weak_from_this();
  share_.Sent(*call);
  writer_->Send(RemoteType::Request, call->request, call->message);
  if (call->upload && call->upload->size() > 0) writer_->Stream(call->request, call->upload, nullptr);
  sent_[call->request] = std::move(call);
}

Task<void> RemoteConnection::Read() {
  while (true) {
    CO_TRY_ASSIGN(const proto::FrameHeader header, co_await reader_->Header());
    moved_ = Steady::now();
    switch (static_cast<RemoteType>(header.type)) {
      case RemoteType::Reply:
      case RemoteType::Goodbye: {
        if (header.length > kRemoteReplyBytesMax) co_return Error(Code::kCorrupt, "a reply larger than any");
        CO_TRY_ASSIGN(const Buffer body, co_await reader_->Message(header.length));
        CO_TRY(header.type == static_cast<uint16_t>(RemoteType::Reply) ? TakeReply(header.request, body)
                                                                       : TakeGoodbye(body));
        break;
      }
      case RemoteType::Chunk: CO_TRY(co_await TakeChunk(header)); break;
      case RemoteType::Pong:
        if (header.length != 0) co_return Error(Code::kCorrupt, "a pong with a body");
        is_pinged_ = false;
        break;
      default: co_return Error(Code::kCorrupt, fmt::format("a frame of type {}, which no server sends", header.type));
    }
  }
}

Status RemoteConnection::TakeGoodbye(const Buffer& body) {
  const auto* why = proto::ReadMessage<proto::RemoteReply>(body);
  is_parting_ = true;
  const std::string text = why != nullptr && why->message() ? RemotePrintable(why->message()->string_view()) : "";
  return Error(Code::kUnavailable, "it closed the connection: " + text);
}

Status RemoteConnection::TakeReply(uint32_t request, const Buffer& body) {
  const auto* reply = proto::ReadMessage<proto::RemoteReply>(body);
  if (reply == nullptr) return Error(Code::kCorrupt, "a reply that does not verify");
  const auto found = sent_.find(request);
  // One that nobody waits for any more.
  if (found == sent_.end()) return {};
  const RemoteCallRef call = found->second;
  if (call->room) return Error(Code::kCorrupt, "a second reply to one request");
  // What is not needed any more is not sent.
  if (call->upload) writer_->Drop(request);
  reply->UnPackTo(&call->answer.reply);
  if (reply->code() != 0) {
    sent_.erase(found);
    share_.End(*call, RemoteError(reply->code(), call->answer.reply.message));
    return {};
  }
  if (call->op != RemoteOp::BlobGet) {
    sent_.erase(found);
    share_.End(*call, {});
    return {};
  }
  return BeginBlob(call);
}

Status RemoteConnection::BeginBlob(const RemoteCallRef& call) {
  const uint64_t bytes = call->answer.reply.number;
  Result<SealedRoom> room = bytes <= share_.options.blob_bytes_max
                                ? SealedRoom::Make(bytes)
                                : Error(Code::kExhausted, fmt::format("a blob of {} bytes, the limit is {}", bytes,
                                                                      share_.options.blob_bytes_max));
  if (!room) {
    const Error why = room.error();
    writer_->Send(RemoteType::Cancel, call->request);
    sent_.erase(call->request);
    share_.End(*call, why);
    return {};
  }
  call->room = std::move(room).value();
  if (bytes == 0) EndBlob(call);
  return {};
}

void RemoteConnection::EndBlob(const RemoteCallRef& call) {
  sent_.erase(call->request);
  Result<SealedRef> blob = std::move(*call->room).Seal();
  call->room.reset();
  if (!blob) return share_.End(*call, std::move(blob).error());
  call->answer.blob = std::move(blob).value();
  share_.End(*call, {});
}

Task<void> RemoteConnection::TakeChunk(proto::FrameHeader header) {
  if (header.length == 0 || header.length > kRemoteChunkBytes) {
    co_return Error(Code::kCorrupt, fmt::format("a piece of a blob of {} bytes", header.length));
  }
  const auto found = sent_.find(header.request);
  const RemoteCallRef call = found == sent_.end() ? nullptr : found->second;
  if (call == nullptr) co_return co_await reader_->Skip(header.length);
  if (!call->room || call->room->size() - call->received < header.length) {
    co_return Error(Code::kCorrupt, "a piece of a blob that has no room for it");
  }
  // The call keeps its room also where it is given up meanwhile.
  const std::span<uint8_t> into(call->room->data() + call->received, header.length);
  CO_TRY(co_await reader_->Body(into));
  call->received += header.length;
  if (call->received == call->room->size() && !call->is_done) EndBlob(call);
  co_return Status();
}

void RemoteConnection::Watch(SteadyTime time) {
  watch_.expires_at(time);
  watch_.async_wait([weak = weak_from_this(), round = ++watch_round_](const boost::system::error_code& error) {
    const auto self = weak.lock();
    if (!error && self && round == self->watch_round_) self->Look();
  });
}

void RemoteConnection::Look() {
  const auto silence_max = share_.options.silence_max;
  if (state_ == State::kConnecting) return Break(Late("no welcome", share_.options.connect_max));
  const SteadyTime now = Steady::now();
  // Bytes of one long frame are a sign of life, too.
  const SteadyTime moved = std::max(moved_, reader_->heard());
  const bool is_due = !sent_.empty() || is_pinged_;
  if (is_due && now - moved >= silence_max) return Break(Late("no answer", silence_max));
  if (is_due && !is_pinged_ && now - moved >= silence_max / 2) {
    is_pinged_ = true;
    writer_->Send(RemoteType::Ping, 0);
  }
  Watch(now + silence_max / 4);
}

void RemoteConnection::Down(const Error& reason, std::chrono::nanoseconds lived) {
  const bool was_up = state_ == State::kUp;
  // Damage on the way says as little of what was asked as a cut does. A version is the other side's own word.
  const bool is_word = !was_up && (reason.code() == Code::kIncompatible || reason.code() == Code::kExhausted);
  const Error why = is_word ? reason : Error(Code::kUnavailable, reason.message());
  state_ = State::kDown;
  if (transport_) transport_->Close();
  transport_.reset();
  if (writer_) writer_->Close();
  writer_.reset();
  reader_.reset();
  is_pinged_ = false;
  if (was_up) --share_.connected;
  // One that held for a while was cut; its successor may come at once. Others wait: a server that takes
  // connections only to close them would be asked for ever.
  if (!share_.is_closed) {
    if (!was_up || (lived < std::chrono::seconds(1) && !is_parting_)) {
      share_.Failed(why);
    } else {
      share_.last_error = why;
    }
  }
  std::vector<RemoteCallRef> open;
  for (auto& [request, call] : std::exchange(sent_, {})) {
    const bool is_untouched = is_parting_ && !call->is_sent_again && !call->room;
    if (is_untouched && !share_.is_closed) {
      call->is_sent_again = true;
      open.push_back(call);
    } else {
      share_.End(*call, share_.Named(why));
    }
  }
  for (RemoteCallRef& call : std::exchange(queued_, {})) {
    if (share_.is_closed || Steady::now() < share_.next_try) {
      share_.End(*call, share_.Named(why));
    } else {
      open.push_back(std::move(call));
    }
  }
  for (RemoteCallRef& call : open) again(std::move(call));
}

}  // namespace ingot::cache
