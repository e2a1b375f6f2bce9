// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>

#include "daemon/admin/caller.h"
#include "daemon/core.h"
#include "daemon/ipc/mailbox.h"
#include "daemon/ipc/peer.h"
#include "proto/frame.h"

namespace ingot::daemon {

class Requests;
class Session;

/// What the sessions of one server share; belongs to the I/O thread.
struct SessionShare {
  const Config& config;
  Requests& requests;
  Mailbox& mailbox;
  LoadBoard& load;
  std::function<proto::HelloReplyT()> hello;
  std::string build;
  /// Bytes of requests that are being received or answered.
  uint64_t held_bytes = 0;
  /// Bytes of replies that are not with the kernel yet.
  uint64_t unread_bytes = 0;
  uint64_t unanswered = 0;
  bool draining = false;
  /// Called when `unanswered` has come to zero, and while draining when replies were written.
  std::function<void()> on_quiet;
  /// Whether a session in a reserved place may have one of its own now: it asks for more than a query.
  std::function<bool(Session&)> admit;

  /// Whether there is room for a request of so many bytes, of which its session holds some already. Each session may
  /// always have its part of what all may.
  bool HasRoomFor(uint64_t bytes, uint64_t held) const {
    return HasRoom(bytes, held_bytes - held, config.requests_bytes_max);
  }
  /// The same for a reply of so many bytes to a session that has left some unread.
  bool HasRoomForReply(uint64_t bytes, uint64_t unread) const {
    return HasRoom(unread + bytes, unread_bytes - unread, config.unread_bytes_max);
  }

 private:
  /// For so many bytes of one session beside those of the others.
  bool HasRoom(uint64_t own, uint64_t others, uint64_t bytes_max) const {
    return own <= bytes_max / std::max<uint64_t>(1, config.sessions_max) || others + own <= bytes_max;
  }
};

/// One connection: reads frames, hands requests on, writes replies in any order.
///
/// Nothing a client sends, or does not send or read, can hurt others: sizes, counts and times have limits, a frame that
/// cannot be read ends this connection alone, a client that does not read its replies is not read from, and one that
/// goes leaves its requests to finish unread. A connection that is ended is told why by a frame for request 0: with
/// kUnavailable when nothing that was asked and is not answered has been begun, so that asking again on another
/// connection is safe. Times are steady ones. Belongs to the I/O thread.
class Session : public std::enable_shared_from_this<Session> {
 public:
  using Socket = boost::asio::local::stream_protocol::socket;
  using SteadyClock = std::chrono::steady_clock;

  Session(Socket socket, SessionShare& share, Peer peer, Right right);
  ~Session();

  /// Reads until the peer goes, misbehaves or Close() is called.
  boost::asio::awaitable<void> Run();
  void Close();
  /// Closes it when `reason` and the replies before it are with the kernel.
  void Part(const Error& reason);
  /// All replies so far are with the kernel.
  bool flushed() const { return outgoing_.empty(); }
  /// Nothing that it asked is unanswered or unread: parting with it loses nothing.
  bool is_idle() const { return pending_.empty() && outgoing_.empty() && !close_when_flushed_; }
  /// When it last sent a whole request or got a reply, or was seen to run a call.
  SteadyClock::time_point used() const;
  const Peer& peer() const { return peer_; }
  Right right() const { return right_; }

  /// In one of the places kept for queries: it is answered nothing else.
  bool reserved = false;

 private:
  struct Outgoing {
    std::array<uint8_t, proto::kFrameHeaderBytes> header;
    Reply reply;
    size_t sent = 0;
    size_t size() const { return header.size() + reply.body->size(); }
  };
  struct Pending {
    std::unique_ptr<boost::asio::steady_timer> deadline;
  };
  enum class Written { kSome, kFull, kLater, kDead };

  /// A frame that the receive buffer cannot hold: its body comes into memory of its own, which is handed on as it is.
  struct Large {
    proto::FrameHeader header;
    Buffer body;
    size_t have = 0;
  };

  /// Bytes that have come, 0 and an error where nothing more will. Descriptors are taken of who administers alone: of
  /// others the kernel keeps them.
  boost::asio::awaitable<size_t> ReadSome(std::span<uint8_t> into, boost::system::error_code& error);
  /// Bytes of `in` that were whole frames, or belong to a large one, and were taken; kCorrupt and others end the
  /// connection.
  Result<size_t> TakeFrames(Bytes in);
  Status BeginLarge(const proto::FrameHeader& header, Bytes begun);
  /// Where the next bytes of it belong.
  std::span<uint8_t> RoomOfLarge();
  /// Takes it once it is whole.
  Status TakeLarge();
  Status CheckRoom(const proto::FrameHeader& header) const;
  /// `own`, where there is one, is what `body` views.
  void Take(const proto::FrameHeader& header, Bytes body, Buffer own = {});
  void TakeHello(const proto::FrameHeader& header, Bytes body);
  void Begin(const proto::FrameHeader& header, Buffer body, std::vector<UniqueFd> files);
  void Expect(uint32_t request, SteadyClock::time_point deadline);
  void Finish(uint32_t request, Reply reply);
  void Expire(uint32_t request);
  void Send(uint32_t request, Reply reply);
  /// The reply, or why it cannot be sent.
  Reply Bounded(Reply reply) const;
  void Flush();
  Written WriteSome(Outgoing& out);
  /// So much is unread that nothing more is begun.
  bool is_full() const {
    return outgoing_bytes_ > share_.config.replies_bytes_max / 2 ||
           (outgoing_bytes_ != 0 && share_.unread_bytes > share_.config.unread_bytes_max / 2);
  }
  void Hold();
  /// The earliest of the times at which this session is ended unless something happens.
  SteadyClock::time_point Due() const;
  void Watch();
  void OnDue();

  Socket socket_;
  SessionShare& share_;
  const Peer peer_;
  const Right right_;
  /// Descriptors of frames that are not whole yet, in their order.
  std::vector<UniqueFd> descriptors_;
  /// What this client uses; nullptr: nobody asks.
  const JobRef job_;
  /// Since it shares the machine with others that run calls.
  std::optional<LoadBoard::Seat> seat_;
  std::unordered_map<uint32_t, Pending> pending_;
  std::deque<Outgoing> outgoing_;
  uint64_t outgoing_bytes_ = 0;
  std::optional<Large> large_;
  uint64_t receiving_bytes_ = 0;  ///< of what has come of it
  bool waiting_to_write_ = false;
  bool close_when_flushed_ = false;
  bool closed_ = false;
  SteadyClock::time_point used_ = SteadyClock::now();
  /// When the first byte came of a frame that is not whole.
  std::optional<SteadyClock::time_point> partial_since_;
  /// Since when the first reply in the queue waits for its client to read.
  std::optional<SteadyClock::time_point> unread_since_;
  SteadyClock::time_point watched_ = SteadyClock::time_point::max();
  boost::asio::steady_timer watch_;
  boost::asio::steady_timer retry_;
  /// Cancelled when replies have been written or the session is closed.
  boost::asio::steady_timer room_;
};

}  // namespace ingot::daemon
