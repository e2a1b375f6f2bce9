// SPDX-License-Identifier: Apache-2.0
#include "daemon/ipc/session.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/error.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <utility>

#include "base/log.h"
#include "base/metrics.h"
#include "daemon/ipc/requests.h"
#include "proto/message.h"

namespace ingot::daemon {
namespace {

namespace asio = boost::asio;
using proto::kFrameHeaderBytes;
using proto::MessageType;

constexpr size_t kReadBytes = 16384;
/// By so much the memory of a large frame grows: more would be cleared at once, and others wait for this thread.
constexpr size_t kLargeStepBytes = 128 << 10;
/// Written at a time of what is longer; others have their turns in between.
constexpr size_t kWriteBytesMax = 256 << 10;
constexpr auto kRetryAfter = std::chrono::milliseconds(20);

}  // namespace

Session::Session(Socket socket, SessionShare& share, Peer peer, Right right)
    : socket_(std::move(socket)),
      share_(share),
      peer_(std::move(peer)),
      right_(right),
      job_(share.requests.BeginJob(peer_.tenant)),
      watch_(socket_.get_executor()),
      retry_(socket_.get_executor()),
      room_(socket_.get_executor(), SteadyClock::time_point::max()) {
  boost::system::error_code ignored;
  socket_.non_blocking(true, ignored);
}

Session::~Session() {
  share_.held_bytes -= receiving_bytes_;
  if (seat_) share_.load.Leave(*seat_);
  if (closed_) return;
  share_.requests.jobs().End(job_);
}

asio::awaitable<void> Session::Run() {
  const auto self = shared_from_this();
  Buffer in(kReadBytes);
  size_t have = 0;
  Watch();
  while (!closed_ && !close_when_flushed_) {
    boost::system::error_code error;
    auto token = asio::redirect_error(asio::use_awaitable, error);
    if (is_full()) {
      co_await room_.async_wait(token);
    } else {
      const auto free = large_ ? RoomOfLarge() : std::span(in).subspan(have);
      const size_t got = co_await ReadSome(free, error);
      if (error || closed_) break;
      (large_ ? large_->have : have) += got;
    }
    Result<size_t> taken = 0;
    if (const Status large = TakeLarge(); !large) {
      taken = large.error();
    } else {
      taken = TakeFrames(Bytes(in.data(), have));
    }
    if (!taken) {
      GlobalMetrics().Add(Counter::bad_requests);
      Part(taken.error());
      break;
    }
    std::move(in.begin() + static_cast<long>(*taken), in.begin() + static_cast<long>(have), in.begin());
    have -= *taken;
    const bool is_partial = have != 0 || large_;
    if (*taken != 0 || !is_partial) partial_since_.reset();
    if (is_partial && !partial_since_ && !is_full()) partial_since_ = SteadyClock::now();
    Hold();
    Watch();
  }
  while (!closed_ && close_when_flushed_) {
    boost::system::error_code ignored;
    co_await room_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
  Close();
}

asio::awaitable<size_t> Session::ReadSome(std::span<uint8_t> into, boost::system::error_code& error) {
  auto token = asio::redirect_error(asio::use_awaitable, error);
  if (right_ != Right::kAdminister) {
    co_return co_await socket_.async_read_some(asio::buffer(into.data(), into.size()), token);
  }
  while (true) {
    co_await socket_.async_wait(Socket::wait_read, token);
    if (error || closed_) co_return 0;
    const ssize_t got = proto::ReceiveSome(socket_.native_handle(), into, descriptors_);
    if (got > 0 && descriptors_.size() <= proto::kFrameDescriptorsMax) co_return static_cast<size_t>(got);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    error = asio::error::eof;
    co_return 0;
  }
}

void Session::Hold() {
  share_.held_bytes -= receiving_bytes_;
  receiving_bytes_ = large_ ? large_->body.size() : 0;
  share_.held_bytes += receiving_bytes_;
}

void Session::Close() {
  if (closed_) return;
  closed_ = true;
  share_.requests.jobs().End(job_);
  if (seat_) share_.load.Leave(*seat_);
  boost::system::error_code ignored;
  socket_.close(ignored);
  outgoing_.clear();
  share_.unread_bytes -= std::exchange(outgoing_bytes_, 0);
  for (auto& [request, pending] : pending_) {
    if (pending.deadline) pending.deadline->cancel();
  }
  watch_.cancel();
  retry_.cancel();
  room_.cancel();
}

void Session::Part(const Error& reason) {
  if (closed_ || close_when_flushed_) return;
  close_when_flushed_ = true;
  if (seat_) share_.load.Leave(*seat_);
  // What comes from here on stays unread: whoever sends it reads why.
  boost::system::error_code ignored;
  socket_.shutdown(Socket::shutdown_receive, ignored);
  Send(0, ErrorReplyOf(reason));
}

Session::SteadyClock::time_point Session::used() const {
  return seat_ ? std::max(used_, SteadyClock::time_point(share_.load.Ran(*seat_))) : used_;
}

Session::SteadyClock::time_point Session::Due() const {
  const Config& config = share_.config;
  auto due = SteadyClock::time_point::max();
  const auto by = [&due](SteadyClock::time_point since, uint64_t limit_s) {
    if (limit_s != 0) due = std::min(due, since + std::chrono::seconds(limit_s));
  };
  if (partial_since_) by(*partial_since_, config.session_read_s_max);
  if (unread_since_) by(*unread_since_, config.session_write_s_max);
  if (is_idle()) by(used(), config.session_idle_s_max);
  return due;
}

void Session::Watch() {
  const auto due = Due();
  // A timer that comes too early looks again: most requests need none of their own.
  if (closed_ || due >= watched_) return;
  watched_ = due;
  watch_.expires_at(due);
  watch_.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
    const auto self = weak.lock();
    if (!error && self) self->OnDue();
  });
}

void Session::OnDue() {
  watched_ = SteadyClock::time_point::max();
  if (closed_) return;
  if (SteadyClock::now() < Due()) return Watch();
  const Config& config = share_.config;
  const auto is_over = [now = SteadyClock::now()](const auto& since, uint64_t limit_s) {
    return since && limit_s != 0 && now >= *since + std::chrono::seconds(limit_s);
  };
  if (is_over(unread_since_, config.session_write_s_max)) {
    // Its socket is full: there is no room for a word.
    LogDebug("closed a connection", {{"peer", peer_.pid}, {"reason", "reads no replies (session_write_s_max)"}});
    return Close();
  }
  if (is_over(partial_since_, config.session_read_s_max)) {
    GlobalMetrics().Add(Counter::timeouts);
    return Part(Error(Code::kTimeout, fmt::format("a request did not arrive within {} s (session_read_s_max)",
                                                  config.session_read_s_max)));
  }
  Part(Error(Code::kUnavailable,
             fmt::format("idle for {} s (session_idle_s_max); connect again", config.session_idle_s_max)));
}

Result<size_t> Session::TakeFrames(Bytes in) {
  size_t at = 0;
  while (!large_ && in.size() - at >= kFrameHeaderBytes && !closed_ && !close_when_flushed_ && !is_full()) {
    TRY_ASSIGN(const proto::FrameHeader header, proto::DecodeHeader(in.subspan(at)));
    if (header.length > share_.config.request_bytes_max) {
      return Error(Code::kExhausted, fmt::format("request of {} bytes, the limit is {} (request_bytes_max)",
                                                 header.length, share_.config.request_bytes_max));
    }
    const size_t wanted = kFrameHeaderBytes + header.length;
    if (wanted > kReadBytes) {
      TRY(BeginLarge(header, in.subspan(at + kFrameHeaderBytes)));
      return in.size();
    }
    if (in.size() - at < wanted) break;
    used_ = SteadyClock::now();
    Take(header, in.subspan(at + kFrameHeaderBytes, header.length));
    at += wanted;
  }
  return at;
}

Status Session::CheckRoom(const proto::FrameHeader& header) const {
  if (share_.HasRoomFor(kFrameHeaderBytes + header.length, receiving_bytes_)) return {};
  return Error(Code::kExhausted, "busy: too many bytes of requests (requests_bytes_max)");
}

Status Session::BeginLarge(const proto::FrameHeader& header, Bytes begun) {
  TRY(CheckRoom(header));
  large_.emplace().header = header;
  try {
    // Pages that nothing has come for yet are not there.
    large_->body.reserve(header.length);
  } catch (const std::bad_alloc&) {
    return Error(Code::kExhausted, fmt::format("busy: no memory for a request of {} bytes", header.length));
  }
  large_->body.assign(begun.begin(), begun.end());
  large_->have = begun.size();
  return {};
}

std::span<uint8_t> Session::RoomOfLarge() {
  Buffer& body = large_->body;
  if (large_->have == body.size()) {
    body.resize(std::min<size_t>(large_->header.length, body.size() + kLargeStepBytes));
  }
  return std::span(body).subspan(large_->have);
}

Status Session::TakeLarge() {
  if (!large_ || is_full() || close_when_flushed_) return {};
  if (large_->have < large_->header.length) return CheckRoom(large_->header);
  const proto::FrameHeader header = large_->header;
  Buffer body = std::move(large_->body);
  large_.reset();
  Hold();
  partial_since_.reset();
  used_ = SteadyClock::now();
  const Bytes view = body;
  Take(header, view, std::move(body));
  return {};
}

void Session::Take(const proto::FrameHeader& header, Bytes body, Buffer own) {
  GlobalMetrics().Add(Counter::requests);
  // Before anything is refused: those of the next frame come after them.
  std::vector<UniqueFd> files;
  if (right_ == Right::kAdminister && header.descriptors > descriptors_.size()) {
    return Part(Error(Code::kCorrupt, fmt::format("a frame announced {} descriptors, {} arrived", header.descriptors,
                                                  descriptors_.size())));
  }
  if (right_ == Right::kAdminister) {
    const auto end = descriptors_.begin() + header.descriptors;
    files.assign(std::move_iterator(descriptors_.begin()), std::move_iterator(end));
    descriptors_.erase(descriptors_.begin(), end);
  }
  if (header.type == static_cast<uint16_t>(MessageType::Hello)) return TakeHello(header, body);
  const bool is_query = header.type == static_cast<uint16_t>(MessageType::Query);
  const auto busy = [&](const std::string& text) {
    GlobalMetrics().Add(Counter::busy);
    Send(header.request, ErrorReplyOf(Error(Code::kExhausted, "busy: " + text)));
  };
  if (reserved && !is_query && !share_.admit(*this)) {
    return busy("too many connections wait for answers (sessions_max); this one is answered queries only");
  }
  if (body.size() <= share_.config.fast_bytes_max) {
    if (auto reply = share_.requests.Fast(header.type, body, Caller(right_, peer_.tenant, job_)))
      return Send(header.request, std::move(*reply));
  }
  if (share_.draining && !is_query) {
    return Send(header.request, ErrorReplyOf(Error(Code::kUnavailable, "the daemon drains")));
  }
  if (pending_.contains(header.request)) {
    return Send(header.request, ErrorReplyOf(Error(Code::kInvalid, "this request id is still being answered")));
  }
  if (pending_.size() >= share_.config.session_requests_max) {
    return busy("too many requests of one connection (session_requests_max)");
  }
  if (!share_.HasRoomFor(body.size(), receiving_bytes_)) return busy("too many bytes of requests (requests_bytes_max)");
  // A copy of its own is aligned as FlatBuffers reads it; the receive buffer is not.
  if (own.empty()) own.assign(body.begin(), body.end());
  Begin(header, std::move(own), std::move(files));
}

void Session::Begin(const proto::FrameHeader& header, Buffer body, std::vector<UniqueFd> files) {
  const uint32_t request = header.request;
  pending_[request];
  const std::weak_ptr<Session> weak = weak_from_this();
  // Large bodies are looked at by the pool alone: here others wait.
  std::function<void(uint32_t)> on_wait;
  if (body.size() <= share_.config.fast_bytes_max) {
    if (const uint32_t wait_ms = Requests::WaitMaxMs(header.type, body); wait_ms != 0) {
      Expect(request, used_ + std::chrono::milliseconds(wait_ms));
    }
  } else {
    on_wait = [weak, mailbox = &share_.mailbox, request, since = used_](uint32_t wait_ms) {
      mailbox->Post([weak, request, deadline = since + std::chrono::milliseconds(wait_ms)] {
        if (const auto self = weak.lock()) self->Expect(request, deadline);
      });
    };
  }
  ++share_.unanswered;
  share_.held_bytes += body.size();
  // The share outlives all sessions; a session may be gone when its answer comes.
  const auto finish = [weak, share = &share_, request, bytes = body.size()](Reply reply) {
    share->mailbox.Post([weak, share, request, bytes, reply = std::move(reply)]() mutable {
      share->held_bytes -= bytes;
      if (const auto self = weak.lock()) self->Finish(request, std::move(reply));
      if (--share->unanswered == 0) share->on_quiet();
    });
  };
  Caller caller(right_, peer_.tenant, job_, std::move(files));
  if (share_.requests.Start(header.type, std::move(body), finish, on_wait, std::move(caller))) return;
  GlobalMetrics().Add(Counter::busy);
  finish(ErrorReplyOf(Error(Code::kExhausted, "busy: too many requests wait (pool_queue_max)")));
}

void Session::Expect(uint32_t request, SteadyClock::time_point deadline) {
  const auto at = pending_.find(request);
  if (closed_ || at == pending_.end()) return;
  at->second.deadline = std::make_unique<asio::steady_timer>(socket_.get_executor(), deadline);
  at->second.deadline->async_wait([weak = weak_from_this(), request](const boost::system::error_code& error) {
    const auto self = weak.lock();
    if (!error && self) self->Expire(request);
  });
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
  std::vector<std::shared_ptr<const UniqueFd>> pages;
  if (hello->shares_load()) {
    if (!seat_) {
      seat_ = share_.load.Join(peer_.pid);
      if (seat_) pages = {std::move(seat_->own), seat_->machine};
    }
    if (seat_) {
      reply.load_row = static_cast<int32_t>(seat_->row);
      reply.load_holder = seat_->holder;
    }
  }
  Reply answer = ReplyOf<proto::HelloReply>(MessageType::HelloReply, reply);
  answer.pages = std::move(pages);
  Send(header.request, std::move(answer));
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
  Send(request, ErrorReplyOf(Error(Code::kTimeout,
                                   "no answer within wait_max_ms; the compile "
                                   "goes on and will be found by a later lookup")));
}

Reply Session::Bounded(Reply reply) const {
  const uint64_t bytes = reply.body->size();
  const uint64_t bytes_max = share_.config.replies_bytes_max;
  const auto refused = [](std::string text) { return ErrorReplyOf(Error(Code::kExhausted, std::move(text))); };
  if (bytes > std::min<uint64_t>(bytes_max, proto::kFrameBytesMax)) {
    return refused(
        fmt::format("the reply has {} bytes, the limit is {} (replies_bytes_max; a frame holds {}); ask for "
                    "less at once",
                    bytes, bytes_max, proto::kFrameBytesMax));
  }
  if (reply.files.size() > proto::kFrameDescriptorsMax) {
    return refused(
        fmt::format("the reply has {} files, a frame holds {}", reply.files.size(), proto::kFrameDescriptorsMax));
  }
  if (reply.type != MessageType::Error && outgoing_bytes_ + bytes > bytes_max) {
    return refused(fmt::format("busy: {} bytes of replies are unread, the limit is {} (replies_bytes_max)",
                               outgoing_bytes_, bytes_max));
  }
  if (reply.type != MessageType::Error && !share_.HasRoomForReply(bytes, outgoing_bytes_)) {
    return refused(
        fmt::format("busy: {} bytes of replies are unread by all clients together, the limit is {} "
                    "(unread_bytes_max)",
                    share_.unread_bytes, share_.config.unread_bytes_max));
  }
  return reply;
}

void Session::Send(uint32_t request, Reply reply) {
  if (closed_) return;
  Outgoing out;
  out.reply = Bounded(std::move(reply));
  proto::FrameHeader header;
  header.type = static_cast<uint16_t>(out.reply.type);
  header.request = request;
  header.length = static_cast<uint32_t>(out.reply.body->size());
  header.descriptors = static_cast<uint8_t>(out.reply.files.size() + out.reply.pages.size());
  out.header = proto::EncodeHeader(header);
  outgoing_bytes_ += out.size();
  share_.unread_bytes += out.size();
  outgoing_.push_back(std::move(out));
  Flush();
}

void Session::Flush() {
  while (!closed_ && !waiting_to_write_ && !outgoing_.empty()) {
    Outgoing& front = outgoing_.front();
    const Written written = WriteSome(front);
    if (written == Written::kDead) return Close();
    if (written != Written::kSome || front.sent < front.size()) {
      if (!unread_since_) unread_since_ = SteadyClock::now();
      waiting_to_write_ = true;
      const auto again = [self = shared_from_this()](const boost::system::error_code& error) {
        self->waiting_to_write_ = false;
        if (error) return self->Close();
        self->Flush();
      };
      if (written != Written::kLater) {
        socket_.async_wait(Socket::wait_write, again);
      } else {
        retry_.expires_after(kRetryAfter);
        retry_.async_wait(again);
      }
      return Watch();
    }
    outgoing_bytes_ -= front.size();
    share_.unread_bytes -= front.size();
    outgoing_.pop_front();
    used_ = SteadyClock::now();
    // The next one has a time of its own.
    if (unread_since_) unread_since_ = used_;
  }
  if (outgoing_.empty()) unread_since_.reset();
  if (!is_full()) room_.cancel();
  if (close_when_flushed_ && outgoing_.empty()) Close();
  if (share_.draining && outgoing_.empty()) share_.on_quiet();
  Watch();
}

Session::Written Session::WriteSome(Outgoing& out) {
  const Buffer& body = *out.reply.body;
  const size_t header_sent = std::min(out.sent, out.header.size());
  const size_t body_sent = out.sent - header_sent;
  iovec parts[2] = {{out.header.data() + header_sent, out.header.size() - header_sent},
                    {const_cast<uint8_t*>(body.data()) + body_sent, std::min(body.size() - body_sent, kWriteBytesMax)}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * proto::kFrameDescriptorsMax)];
  // Descriptors travel with the first byte of their frame.
  if (const size_t files = out.reply.files.size() + out.reply.pages.size(); out.sent == 0 && files != 0) {
    const size_t bytes = files * sizeof(int);
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(bytes);
    cmsghdr* part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(bytes);
    int* fds = reinterpret_cast<int*>(CMSG_DATA(part));
    for (const SealedRef& file : out.reply.files) *fds++ = file->fd();
    for (const auto& page : out.reply.pages) *fds++ = page->get();
  }
  while (true) {
    const ssize_t sent = sendmsg(socket_.native_handle(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      out.sent += static_cast<size_t>(sent);
      return Written::kSome;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) return Written::kFull;
    // Too many files of this user are on their way to processes that do not read: others must not pay for that.
    if (errno == ETOOMANYREFS || errno == ENOBUFS || errno == ENOMEM) return Written::kLater;
    if (errno != EINTR) return Written::kDead;
  }
}

}  // namespace ingot::daemon
