// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <unordered_map>

#include "cache/peer/remote_tokens.h"
#include "cache/peer/remote_wire.h"
#include "daemon/serve/serve_calls.h"
#include "daemon/serve/serve_ports.h"
#include "daemon/state/config.h"

namespace ingot::daemon {

/// What the sessions of one serving daemon share. Thread-safe.
struct ServeShare {
  ServeShare(const Config& config, ServePorts ports, std::string name, const Clock& clock)
      : config(config),
        ports(std::move(ports)),
        name(std::move(name)),
        tokens(config.serve_tokens, this->name, clock),
        pool(std::max<uint64_t>(1, config.serve_pool_threads)) {}

  /// Bytes taken of serve_bytes_max, given back when the last copy goes; nullptr: there is no room.
  std::shared_ptr<void> Hold(uint64_t bytes);
  /// At most once a second: others decide how often something is wrong with them.
  bool MayLog();

  const Config& config;
  const ServePorts ports;
  const std::string name;
  cache::TokenTable tokens;
  std::shared_ptr<std::atomic<uint64_t>> held_bytes = std::make_shared<std::atomic<uint64_t>>(0);
  std::atomic<int64_t> logged_s{0};
  boost::asio::thread_pool pool;
};

/// One connection of another daemon: TLS, its hello, then requests that are answered in any order.
///
/// Nothing that it sends, or does not send or read, hurts others: it says who it is within a time, frames have sizes
/// and times, what it asks at once and what it leaves unread have limits, and what it waits for ends with it. All on
/// its strand, but the facts.
class ServeSession : public std::enable_shared_from_this<ServeSession> {
 public:
  ServeSession(std::shared_ptr<ServeShare> share, boost::asio::any_io_executor strand,
               std::shared_ptr<cache::Transport> transport, std::string peer);

  boost::asio::awaitable<void> Run();
  /// Says why and closes, where it waits for nothing; else it goes on. From any thread.
  void Part(std::string why);
  /// Ends it as it is. From any thread.
  void Close();

  // From any thread.
  const std::string& peer() const { return peer_; }
  bool is_greeted() const { return is_greeted_; }
  bool is_idle() const { return is_greeted_ && is_idle_; }
  std::chrono::steady_clock::time_point used() const { return used_; }

 private:
  struct Pending {
    std::stop_source stop;
    SteadyTime due;
    std::shared_ptr<void> held;
    /// Of a blob that comes.
    proto::RemoteRequestT request;
    std::optional<cache::SealedRoom> room;
    uint64_t received = 0;
  };
  using PendingRef = std::shared_ptr<Pending>;

  cache::Task<void> Talk();
  cache::Task<void> Greet();
  cache::Task<void> Refuse(Error why);
  cache::Task<void> TakeRequest(proto::FrameHeader header);
  cache::Task<void> TakeChunk(proto::FrameHeader header);
  Status Judge(proto::RemoteOp op);
  Status BeginUpload(uint32_t request, const PendingRef& pending);
  void LookForBlob(uint32_t request, const PendingRef& pending);
  void Start(uint32_t request, const PendingRef& pending, cache::SealedRef upload);
  void Finish(uint32_t request, const PendingRef& pending, Result<RemoteResult> result);
  void Reply(uint32_t request, const proto::RemoteReplyT& reply);
  void Fail(uint32_t request, const Error& error);
  void Cancel(uint32_t request);
  void PartNow(const std::string& why);
  void CloseNow();
  cache::Task<void> Flush();
  void Watch();
  void Look();
  void Note();

  const std::shared_ptr<ServeShare> share_;
  const boost::asio::any_io_executor strand_;
  const std::shared_ptr<cache::Transport> transport_;
  const std::string peer_;
  cache::RemoteReader reader_;
  std::shared_ptr<cache::RemoteWriter> writer_;
  boost::asio::steady_timer watch_;
  /// Cancelled when something was written.
  boost::asio::steady_timer written_;
  cache::Sha256 token_;
  std::string who_;
  std::unordered_map<uint32_t, PendingRef> pending_;
  bool is_closed_ = false;
  bool is_parting_ = false;
  const SteadyTime began_ = std::chrono::steady_clock::now();
  std::atomic<bool> is_greeted_{false};
  std::atomic<bool> is_idle_{true};
  std::atomic<SteadyTime> used_{std::chrono::steady_clock::now()};
};

}  // namespace ingot::daemon
