// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <unordered_map>

#include "daemon/core.h"
#include "proto/frame.h"

namespace ingot::daemon {

class Requests;

/// What the sessions of one server share; belongs to the I/O thread.
struct SessionShare {
  const Config& config;
  Requests& requests;
  std::function<proto::HelloReplyT()> hello;
  std::string build;
  uint64_t receiving_bytes = 0;
  uint64_t unanswered = 0;
  bool draining = false;
  /// Called when `unanswered` has come to zero, and while draining when replies were written.
  std::function<void()> on_quiet;
};

/// One connection: reads frames, hands requests on, writes replies in any order.
///
/// Nothing a client sends can hurt others: sizes and counts have limits, a frame that cannot be
/// read ends this connection alone, and a client that goes leaves its requests to finish unread.
/// Belongs to the I/O thread.
class Session : public std::enable_shared_from_this<Session> {
 public:
  using Socket = boost::asio::local::stream_protocol::socket;

  Session(Socket socket, SessionShare& share);
  ~Session();

  /// Reads until the peer goes, misbehaves or Close() is called.
  boost::asio::awaitable<void> Run();
  void Close();
  /// All replies so far are with the kernel.
  bool flushed() const { return outgoing_.empty(); }

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

  /// Bytes of `in` that were whole frames; kCorrupt and others end the connection.
  Result<size_t> TakeFrames(Bytes in);
  void Take(const proto::FrameHeader& header, Bytes body);
  void TakeHello(const proto::FrameHeader& header, Bytes body);
  void Answer(uint32_t request, Reply reply);
  void Finish(uint32_t request, Reply reply);
  void Expire(uint32_t request);
  void Send(uint32_t request, Reply reply);
  void Flush();
  /// Bytes written, 0 when the socket is full, -1 when it is dead.
  ssize_t WriteSome(Outgoing& out);

  Socket socket_;
  SessionShare& share_;
  std::unordered_map<uint32_t, Pending> pending_;
  std::deque<Outgoing> outgoing_;
  uint64_t outgoing_bytes_ = 0;
  uint64_t receiving_bytes_ = 0;
  bool waiting_to_write_ = false;
  bool close_when_flushed_ = false;
  bool closed_ = false;
};

}  // namespace ingot::daemon
