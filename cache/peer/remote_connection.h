// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "cache/async/task.h"
#include "cache/async/waiter.h"
#include "cache/peer/remote_client.h"
#include "cache/peer/remote_wire.h"

namespace ingot::cache {

class RemoteConnection;

/// One call while it is under way. Fields without a mutex belong to the strand.
struct RemoteCall {
  Buffer message;
  proto::RemoteOp op = proto::RemoteOp::None;
  SealedRef upload;
  const WaiterRef waiter = std::make_shared<Waiter>();
  /// Written before the waiter is woken and read after that.
  RemoteAnswer answer;
  Status status;

  size_t unsent_bytes = 0;
  bool is_done = false;
  bool is_abandoned = false;
  bool is_sent_again = false;
  uint32_t request = 0;
  std::weak_ptr<RemoteConnection> connection;
  /// Of a blob that comes.
  std::optional<SealedRoom> room;
  uint64_t received = 0;
};
using RemoteCallRef = std::shared_ptr<RemoteCall>;

/// What the connections to one server share, on its strand.
struct RemoteShare {
  RemoteShare(boost::asio::io_context& io, RemoteClientOptions options)
      : strand(boost::asio::make_strand(io)), options(std::move(options)), url(this->options.url.ToText()) {}

  /// A connection broke, or none came about: the next is tried after a pause.
  void Failed(const Error& why);
  void Succeeded();
  Error Named(const Error& why) const;
  void End(RemoteCall& call, Status status);
  void Sent(RemoteCall& call) { unsent_bytes -= std::exchange(call.unsent_bytes, 0); }

  const boost::asio::any_io_executor strand;
  const RemoteClientOptions options;
  const std::string url;
  size_t calls = 0;
  size_t unsent_bytes = 0;
  std::chrono::milliseconds backoff{0};
  SteadyTime next_try{};
  Error last_error{Code::kUnavailable, "not connected"};
  bool is_closed = false;
  std::atomic<bool> is_reachable{true};
  std::atomic<int> connected{0};
};

/// One connection and what it carries; all on the strand. Connects when Open is called, ends when it breaks, and may
/// be opened again.
class RemoteConnection : public std::enable_shared_from_this<RemoteConnection> {
 public:
  RemoteConnection(RemoteShare& share, std::shared_ptr<void> owner)
      : share_(share), owner_(owner), watch_(share.strand) {}

  bool IsOpen() const { return state_ != State::kDown; }
  /// Takes calls: also before it is up, not when the server has said that it goes.
  bool TakesCalls() const { return IsOpen() && !reason_ && !is_parting_; }
  size_t calls() const { return queued_.size() + sent_.size(); }

  void Open();
  void Add(RemoteCallRef call);
  void Break(Error why);
  void Forget(const RemoteCallRef& call);
  /// Calls that may be sent on another connection: the server has not begun them.
  std::function<void(RemoteCallRef)> again;

 private:
  enum class State : uint8_t { kDown, kConnecting, kUp };

  boost::asio::awaitable<void> Run();
  Task<void> Greet();
  std::function<void(const Status&)> OnWritten();
  void Send(RemoteCallRef call);
  Task<void> Read();
  Status TakeGoodbye(const Buffer& body);
  Status TakeReply(uint32_t request, const Buffer& body);
  Status BeginBlob(const RemoteCallRef& call);
  void EndBlob(const RemoteCallRef& call);
  Task<void> TakeChunk(proto::FrameHeader header);

  /// Closes what does not come to be by `time`, and later what stands still where answers are due.
  void Watch(SteadyTime time);
  void Look();
  void Down(const Error& reason, std::chrono::nanoseconds lived);

  RemoteShare& share_;
  const std::weak_ptr<void> owner_;
  boost::asio::steady_timer watch_;
  uint64_t watch_round_ = 0;
  State state_ = State::kDown;
  std::optional<Error> reason_;
  bool is_parting_ = false;
  std::shared_ptr<Transport> transport_;
  std::unique_ptr<RemoteReader> reader_;
  std::shared_ptr<RemoteWriter> writer_;
  std::deque<RemoteCallRef> queued_;
  std::unordered_map<uint32_t, RemoteCallRef> sent_;
  uint32_t next_request_ = 1;
  bool is_pinged_ = false;
  SteadyTime moved_{};
};

}  // namespace ingot::cache
