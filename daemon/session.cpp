// SPDX-License-Identifier: Apache-2.0
#include "daemon/session.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>

#include "base/metrics.h"
#include "proto/message.h"
#include "daemon/requests.h"

namespace ingot::daemon {
namespace {

namespace asio = boost::asio;
using proto::kFrameHeaderBytes;
using proto::MessageType;

constexpr size_t kReadBytes = 16384;

}  // namespace

Session::Session(Socket socket, SessionShare& share) : socket_(std::move(socket)), share_(share) {
  boost::system::error_code ignored;
  socket_.non_blocking(true, ignored);
}

Session::~Session() { share_.receiving_bytes -= receiving_bytes_; }

asio::awaitable<void> Session::Run() {
  const auto self = shared_from_this();
  Buffer in(kReadBytes);
  size_t have = 0;
  while (!closed_) {
    if (have == in.size()) in.resize(in.size() * 2);
    boost::system::error_code error;
    auto token = asio::redirect_error(asio::use_awaitable, error);
    const auto space = asio::buffer(in.data() + have, in.size() - have);
    const size_t got = co_await socket_.async_read_some(space, token);
    if (error || closed_) break;
    have += got;
    const Result<size_t> taken = TakeFrames(Bytes(in.data(), have));
    if (!taken) {
      GlobalMetrics().Add(Counter::bad_requests);
      close_when_flushed_ = true;
      Send(0, ErrorReplyOf(taken.error()));
      break;
    }
    std::move(in.begin() + static_cast<long>(*taken), in.begin() + static_cast<long>(have),
              in.begin());
    have -= *taken;
    // A large frame's room is given back once it was read.
    if (have == 0 && in.size() > 16 * kReadBytes) in = Buffer(kReadBytes);
    share_.receiving_bytes += in.size() - std::min(in.size(), kReadBytes) - receiving_bytes_;
    receiving_bytes_ = in.size() - std::min(in.size(), kReadBytes);
  }
  if (!close_when_flushed_ || outgoing_.empty()) Close();
}

void Session::Close() {
  if (closed_) return;
  closed_ = true;
  boost::system::error_code ignored;
  socket_.close(ignored);
  outgoing_.clear();
  for (auto& [request, pending] : pending_) {
    if (pending.deadline) pending.deadline->cancel();
  }
}

Result<size_t> Session::TakeFrames(Bytes in) {
  size_t at = 0;
  while (in.size() - at >= kFrameHeaderBytes && !close_when_flushed_) {
    TRY_ASSIGN(const proto::FrameHeader header, proto::DecodeHeader(in.subspan(at)));
    if (header.length > share_.config.request_bytes_max) {
      return Error(Code::kExhausted,
                   fmt::format("request of {} bytes, the limit is {} (request_bytes_max)",
                               header.length, share_.config.request_bytes_max));
    }
    const size_t wanted = kFrameHeaderBytes + header.length;
    if (in.size() - at < wanted) {
      if (share_.receiving_bytes + wanted > share_.config.requests_bytes_max) {
        return Error(Code::kExhausted, "busy: too many bytes of requests (requests_bytes_max)");
      }
      break;
    }
    Take(header, in.subspan(at + kFrameHeaderBytes, header.length));
    at += wanted;
  }
  return at;
}

void Session::Take(const proto::FrameHeader& header, Bytes body) {
  GlobalMetrics().Add(Counter::requests);
  if (header.type == static_cast<uint16_t>(MessageType::Hello)) return TakeHello(header, body);
  if (auto reply = share_.requests.Fast(header.type, body)) {
    return Send(header.request, std::move(*reply));
  }
  const bool is_query = header.type == static_cast<uint16_t>(MessageType::Query);
  if (share_.draining && !is_query) {
    return Send(header.request, ErrorReplyOf(Error(Code::kUnavailable, "the daemon drains")));
  }
  if (pending_.contains(header.request)) {
    return Send(header.request,
                ErrorReplyOf(Error(Code::kInvalid, "this request id is still being answered")));
  }
  if (pending_.size() >= share_.config.session_requests_max) {
    GlobalMetrics().Add(Counter::busy);
    return Send(header.request,
                ErrorReplyOf(Error(Code::kExhausted, "busy: too many requests of one connection "
                                                     "(session_requests_max)")));
  }
  Pending& pending = pending_[header.request];
  // A copy of its own is aligned as FlatBuffers reads it; the receive buffer is not.
  Buffer copy(body.begin(), body.end());
  const std::weak_ptr<Session> weak = weak_from_this();
  const uint32_t request = header.request;
  if (const uint32_t wait_ms = Requests::WaitMaxMs(header.type, copy); wait_ms != 0) {
    pending.deadline = std::make_unique<asio::steady_timer>(socket_.get_executor(),
                                                            std::chrono::milliseconds(wait_ms));
    pending.deadline->async_wait([weak, request](const boost::system::error_code& error) {
      const auto self = weak.lock();
      if (!error && self) self->Expire(request);
    });
  }
  ++share_.unanswered;
  // The share outlives all sessions; a session may be gone when its answer comes.
  const auto finish = [weak, share = &share_, executor = socket_.get_executor(),
                       request](Reply reply) {
    asio::post(executor, [weak, share, request, reply = std::move(reply)]() mutable {
      if (const auto self = weak.lock()) self->Finish(request, std::move(reply));
      if (--share->unanswered == 0) share->on_quiet();
    });
  };
  if (share_.requests.Start(header.type, std::move(copy), finish)) return;
  GlobalMetrics().Add(Counter::busy);
  finish(ErrorReplyOf(Error(Code::kExhausted, "busy: too many requests wait (pool_queue_max)")));
}

void Session::TakeHello(const proto::FrameHeader& header, Bytes body) {
  const Buffer copy(body.begin(), body.end());
  const auto* hello = proto::ReadMessage<proto::Hello>(copy);
  if (hello == nullptr) {
    GlobalMetrics().Add(Counter::bad_requests);
    return Send(header.request, ErrorReplyOf(Error(Code::kCorrupt, "the hello does not verify")));
  }
  proto::HelloReplyT reply = share_.hello();
  reply.same_build = hello->build() != nullptr && hello->build()->string_view() == share_.build;
  Send(header.request, ReplyOf<proto::HelloReply>(MessageType::HelloReply, reply));
}

void Session::Finish(uint32_t request, Reply reply) {
  const auto at = pending_.find(request);
  if (at == pending_.end()) return;
  if (at->second.deadline) at->second.deadline->cancel();
  pending_.erase(at);
  Send(request, std::move(reply));
}

void Session::Expire(uint32_t request) {
  if (pending_.erase(request) == 0) return;
  GlobalMetrics().Add(Counter::timeouts);
  Send(request, ErrorReplyOf(Error(Code::kTimeout, "no answer within wait_max_ms; the compile "
                                                   "goes on and will be found by a later lookup")));
}

void Session::Send(uint32_t request, Reply reply) {
  if (closed_) return;
  Outgoing out;
  proto::FrameHeader header;
  header.type = static_cast<uint16_t>(reply.type);
  header.request = request;
  header.length = static_cast<uint32_t>(reply.body->size());
  header.descriptors = static_cast<uint8_t>(reply.files.size());
  out.header = proto::EncodeHeader(header);
  out.reply = std::move(reply);
  outgoing_bytes_ += out.size();
  outgoing_.push_back(std::move(out));
  if (outgoing_bytes_ > share_.config.replies_bytes_max) return Close();
  Flush();
}

void Session::Flush() {
  while (!closed_ && !waiting_to_write_ && !outgoing_.empty()) {
    Outgoing& front = outgoing_.front();
    const ssize_t sent = WriteSome(front);
    if (sent < 0) return Close();
    if (sent == 0) {
      waiting_to_write_ = true;
      socket_.async_wait(Socket::wait_write,
                         [self = shared_from_this()](const boost::system::error_code& error) {
                           self->waiting_to_write_ = false;
                           if (error) return self->Close();
                           self->Flush();
                         });
      return;
    }
    front.sent += static_cast<size_t>(sent);
    if (front.sent < front.size()) continue;
    outgoing_bytes_ -= front.size();
    outgoing_.pop_front();
  }
  if (close_when_flushed_ && outgoing_.empty()) Close();
  if (share_.draining && outgoing_.empty()) share_.on_quiet();
}

ssize_t Session::WriteSome(Outgoing& out) {
  const Buffer& body = *out.reply.body;
  const size_t header_sent = std::min(out.sent, out.header.size());
  const size_t body_sent = out.sent - header_sent;
  iovec parts[2] = {{out.header.data() + header_sent, out.header.size() - header_sent},
                    {const_cast<uint8_t*>(body.data()) + body_sent, body.size() - body_sent}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * proto::kFrameDescriptorsMax)];
  // Descriptors travel with the first byte of their frame.
  if (out.sent == 0 && !out.reply.files.empty()) {
    const size_t bytes = out.reply.files.size() * sizeof(int);
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(bytes);
    cmsghdr* part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(bytes);
    int* fds = reinterpret_cast<int*>(CMSG_DATA(part));
    for (const SealedRef& file : out.reply.files) *fds++ = file->fd();
  }
  while (true) {
    const ssize_t sent = sendmsg(socket_.native_handle(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) return sent;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return 0;
    if (errno != EINTR) return -1;
  }
}

}  // namespace ingot::daemon
