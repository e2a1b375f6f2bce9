// SPDX-License-Identifier: Apache-2.0
#include "cache/peer/remote_wire.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <cstring>

namespace ingot::cache {
namespace {

namespace asio = boost::asio;
using Steady = std::chrono::steady_clock;
constexpr size_t kReadBytes = 64u << 10;
/// Small messages are written together up to this size.
constexpr size_t kWriteBytes = 64u << 10;
constexpr size_t kPrintableMax = 400;

proto::FrameHeader HeaderOf(proto::RemoteType type, uint32_t request, size_t length) {
  proto::FrameHeader header;
  header.type = static_cast<uint16_t>(type);
  header.request = request;
  header.length = static_cast<uint32_t>(length);
  return header;
}

}  // namespace

RemoteReader::RemoteReader(std::shared_ptr<Transport> transport)
    : transport_(std::move(transport)), room_(kReadBytes) {}

Task<void> RemoteReader::Fill() {
  if (begin_ == end_) begin_ = end_ = 0;
  CO_TRY_ASSIGN(const size_t count,
                co_await transport_->ReadSome(asio::buffer(room_.data() + end_, room_.size() - end_)));
  end_ += count;
  heard_ = Steady::now();
  if (!partial_since_) partial_since_ = heard_;
  co_return Status();
}

void RemoteReader::Took(size_t bytes) {
  due_ -= bytes;
  if (due_ != 0) return;
  partial_since_.reset();
  if (begin_ != end_) partial_since_ = Steady::now();
}

Task<proto::FrameHeader> RemoteReader::Header() {
  if (room_.size() - begin_ < proto::kFrameHeaderBytes) {
    std::memmove(room_.data(), room_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  while (end_ - begin_ < proto::kFrameHeaderBytes) {
    CO_TRY(co_await Fill());
  }
  const Bytes bytes(room_.data() + begin_, proto::kFrameHeaderBytes);
  Result<proto::FrameHeader> header = proto::DecodeHeader(bytes);
  if (!header && bytes[0] == 0x15 && bytes[1] == 0x03) {
    co_return Error(Code::kCorrupt, "what came is TLS, no frame of Ingot: the other side wants ingots://");
  }
  CO_TRY_ASSIGN(const proto::FrameHeader found, std::move(header));
  if (found.descriptors != 0) co_return Error(Code::kCorrupt, "a frame with descriptors came over a network");
  begin_ += proto::kFrameHeaderBytes;
  due_ = found.length;
  Took(0);
  co_return found;
}

Task<void> RemoteReader::Body(std::span<uint8_t> into) {
  while (!into.empty()) {
    if (begin_ == end_ && into.size() >= room_.size()) {
      CO_TRY_ASSIGN(const size_t count, co_await transport_->ReadSome(asio::buffer(into.data(), into.size())));
      heard_ = Steady::now();
      into = into.subspan(count);
      Took(count);
      continue;
    }
    if (begin_ == end_) CO_TRY(co_await Fill());
    const size_t count = std::min(into.size(), end_ - begin_);
    std::memcpy(into.data(), room_.data() + begin_, count);
    begin_ += count;
    into = into.subspan(count);
    Took(count);
  }
  co_return Status();
}

Task<Buffer> RemoteReader::Message(uint32_t bytes) {
  Buffer body;
  while (body.size() < bytes) {
    const size_t have = body.size();
    // A header alone does not make its reader take the memory that it announces.
    body.resize(std::min<size_t>(bytes, have + std::max(have, kReadBytes)));
    const std::span<uint8_t> part(body.data() + have, body.size() - have);
    CO_TRY(co_await Body(part));
  }
  co_return body;
}

Task<void> RemoteReader::Skip(uint32_t bytes) {
  Buffer part(std::min<size_t>(bytes, kReadBytes));
  while (bytes > 0) {
    const std::span<uint8_t> into(part.data(), std::min<size_t>(bytes, part.size()));
    CO_TRY(co_await Body(into));
    bytes -= static_cast<uint32_t>(into.size());
  }
  co_return Status();
}

RemoteWriter::RemoteWriter(asio::any_io_executor executor, std::shared_ptr<Transport> transport,
                           std::function<void(const Status&)> on_change)
    : executor_(std::move(executor)), transport_(std::move(transport)), on_change_(std::move(on_change)) {}

void RemoteWriter::Send(proto::RemoteType type, uint32_t request, Bytes body) {
  if (is_closed_) return;
  const auto header = proto::EncodeHeader(HeaderOf(type, request, body.size()));
  Buffer frame;
  frame.reserve(header.size() + body.size());
  frame.insert(frame.end(), header.begin(), header.end());
  frame.insert(frame.end(), body.begin(), body.end());
  message_bytes_ += frame.size();
  messages_.push_back(std::move(frame));
  Begin();
}

void RemoteWriter::Stream(uint32_t request, SealedRef blob, std::function<void()> on_sent) {
  if (is_closed_) return;
  streams_.push_back({request, std::move(blob), 0, std::move(on_sent)});
  Begin();
}

void RemoteWriter::Drop(uint32_t request) {
  std::erase_if(streams_, [request](const Streaming& stream) { return stream.request == request; });
  if (streaming_ == request) is_dropped_ = true;
}

void RemoteWriter::Close() {
  is_closed_ = true;
  on_change_ = nullptr;
  messages_.clear();
  streams_.clear();
  message_bytes_ = 0;
}

void RemoteWriter::Begin() {
  if (is_writing_ || is_closed_) return;
  is_writing_ = true;
  asio::co_spawn(executor_, [self = shared_from_this()] { return self->Run(); }, asio::detached);
}

asio::awaitable<void> RemoteWriter::Run() {
  while (!is_closed_ && (!messages_.empty() || !streams_.empty())) {
    std::vector<Buffer> batch;
    std::vector<asio::const_buffer> buffers;
    size_t bytes = 0;
    while (!messages_.empty() && (batch.empty() || bytes + messages_.front().size() <= kWriteBytes)) {
      bytes += messages_.front().size();
      batch.push_back(std::move(messages_.front()));
      messages_.pop_front();
    }
    // One write of one piece: TLS makes a record of each buffer.
    if (batch.size() > 1) {
      Buffer together;
      together.reserve(bytes);
      for (const Buffer& frame : batch) together.insert(together.end(), frame.begin(), frame.end());
      batch.assign(1, std::move(together));
    }
    for (const Buffer& frame : batch) buffers.push_back(asio::buffer(frame));
    std::optional<Streaming> stream;
    std::array<uint8_t, proto::kFrameHeaderBytes> header;
    if (!streams_.empty()) {
      stream = std::move(streams_.front());
      streams_.pop_front();
      const Bytes blob = stream->blob->bytes();
      const size_t piece = std::min<size_t>(kRemoteChunkBytes, blob.size() - stream->sent);
      header = proto::EncodeHeader(HeaderOf(proto::RemoteType::Chunk, stream->request, piece));
      buffers.push_back(asio::buffer(header));
      buffers.push_back(asio::buffer(blob.data() + stream->sent, piece));
      stream->sent += piece;
      streaming_ = stream->request;
      is_dropped_ = false;
    }
    writing_since_ = Steady::now();
    const Status written = co_await transport_->Write(std::move(buffers));
    writing_since_.reset();
    streaming_ = 0;
    if (is_closed_) break;
    message_bytes_ -= bytes;
    if (!written) {
      const auto tell = on_change_;
      Close();
      if (tell) tell(written);
      break;
    }
    if (stream && !is_dropped_) {
      if (stream->sent < stream->blob->size()) {
        streams_.push_back(*std::move(stream));
      } else if (stream->on_sent) {
        stream->on_sent();
      }
    }
    if (on_change_) on_change_(Status());
  }
  is_writing_ = false;
}

uint32_t RemoteWaitMs(const Until& until) {
  const auto left = until.Left();
  if (left == std::chrono::nanoseconds::max()) return std::numeric_limits<uint32_t>::max();
  const int64_t ms = std::chrono::ceil<std::chrono::milliseconds>(left).count();
  return static_cast<uint32_t>(std::clamp<int64_t>(ms, 1, std::numeric_limits<uint32_t>::max()));
}

std::unique_ptr<proto::RemoteLeaseT> ToRemote(const Lease& lease) {
  auto out = std::make_unique<proto::RemoteLeaseT>();
  out->fence = lease.fence;
  out->holder = RemoteBytes(lease.holder);
  out->progress = RemoteBytes(lease.progress);
  out->left_ms = lease.left.count();
  out->is_ours = lease.is_ours;
  return out;
}

Lease FromRemote(const proto::RemoteLeaseT* lease) {
  if (lease == nullptr) return {};
  // Not more than can be added to a time.
  const int64_t left_ms = std::clamp<int64_t>(lease->left_ms, 0, 1ll << 40);
  return {lease->fence, RemoteText(lease->holder), RemoteText(lease->progress), std::chrono::milliseconds(left_ms),
          lease->is_ours};
}

std::string RemotePrintable(std::string_view text) {
  std::string out(text.substr(0, kPrintableMax));
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7f) c = '?';
  }
  return out;
}

Error RemoteError(uint8_t code, std::string_view text) {
  const bool is_known = code >= static_cast<uint8_t>(Code::kInvalid) && code <= static_cast<uint8_t>(Code::kDenied);
  return Error(is_known ? static_cast<Code>(code) : Code::kUnavailable, RemotePrintable(text));
}

}  // namespace ingot::cache
