// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <set>
#include <string>

#include "base/temp_dir.h"
#include "tests/support/await.h"

namespace ingot::support {

/// Stands between a client and a service of a test, on a Unix socket and a port of the loopback, and does to the
/// bytes what networks do. Faults are set at any time, by any thread, and hold for what comes after.
class CuttingProxy {
 public:
  using Endpoint = boost::asio::generic::stream_protocol::endpoint;
  static Endpoint Unix(const std::string& path) { return boost::asio::local::stream_protocol::endpoint(path); }
  static Endpoint Loopback(uint16_t port) {
    return boost::asio::ip::tcp::endpoint(boost::asio::ip::address_v4::loopback(), port);
  }

  explicit CuttingProxy(Endpoint service) : service_(std::move(service)), unix_(thread_.io()), tcp_(thread_.io()) {
    unix_.open();
    unix_.bind(boost::asio::local::stream_protocol::endpoint(socket()));
    unix_.listen();
    tcp_.open(boost::asio::ip::tcp::v4());
    tcp_.bind({boost::asio::ip::address_v4::loopback(), 0});
    tcp_.listen();
    port_ = tcp_.local_endpoint().port();
    boost::asio::co_spawn(thread_.io(), Accept(unix_), boost::asio::detached);
    boost::asio::co_spawn(thread_.io(), Accept(tcp_), boost::asio::detached);
  }
  ~CuttingProxy() {
    thread_.Stop();
    pairs_.clear();
  }
  std::string socket() const { return dir_ / "proxy.sock"; }
  uint16_t port() const { return port_; }

  /// Cuts all connections that there are.
  void Cut() {
    std::promise<void> done;
    boost::asio::post(thread_.io(), [&] {
      for (const auto& pair : pairs_) pair->Close();
      done.set_value();
    });
    done.get_future().wait();
  }
  /// New connections are cut at once.
  std::atomic<bool> refuse{false};
  /// Bytes stay here until this is false again.
  std::atomic<bool> hold{false};
  /// Bytes are late by so many milliseconds.
  std::atomic<int> delay_ms{0};
  /// Each connection is cut after it has carried so many bytes of answers; negative: never.
  std::atomic<int64_t> cut_after{-1};
  /// One bit of each so many bytes of answers is another; zero: none.
  std::atomic<uint64_t> corrupt_every{0};
  /// Connections taken so far.
  std::atomic<int> connections{0};

 private:
  using Socket = boost::asio::generic::stream_protocol::socket;
  struct Pair {
    explicit Pair(boost::asio::io_context& io) : client(io), service(io) {}
    void Close() {
      boost::system::error_code ignored;
      client.close(ignored);
      service.close(ignored);
    }
    Socket client, service;
    int64_t answered = 0;
  };
  using PairRef = std::shared_ptr<Pair>;

  template <typename Acceptor>
  boost::asio::awaitable<void> Accept(Acceptor& acceptor) {
    while (true) {
      boost::system::error_code error;
      auto socket = co_await acceptor.async_accept(boost::asio::redirect_error(boost::asio::use_awaitable, error));
      if (error) co_return;
      ++connections;
      if (refuse) continue;
      auto pair = std::make_shared<Pair>(thread_.io());
      pair->client = Socket(std::move(socket));
      co_await pair->service.async_connect(service_, boost::asio::redirect_error(boost::asio::use_awaitable, error));
      if (error) continue;
      pairs_.insert(pair);
      boost::asio::co_spawn(thread_.io(), Carry(pair, true), boost::asio::detached);
      boost::asio::co_spawn(thread_.io(), Carry(pair, false), boost::asio::detached);
    }
  }

  boost::asio::awaitable<void> Carry(PairRef pair, bool is_answer) {
    Socket& from = is_answer ? pair->service : pair->client;
    Socket& to = is_answer ? pair->client : pair->service;
    std::string bytes(64 << 10, '\0');
    boost::system::error_code error;
    auto token = boost::asio::redirect_error(boost::asio::use_awaitable, error);
    boost::asio::steady_timer timer(thread_.io());
    while (true) {
      size_t count = co_await from.async_read_some(boost::asio::buffer(bytes), token);
      if (error) break;
      if (const int late = delay_ms; late > 0) {
        timer.expires_after(std::chrono::milliseconds(late));
        co_await timer.async_wait(token);
      }
      while (hold && from.is_open()) {
        timer.expires_after(std::chrono::milliseconds(2));
        co_await timer.async_wait(token);
      }
      bool is_last = false;
      if (is_answer) {
        if (const uint64_t every = corrupt_every; every > 0) {
          for (size_t i = 0; i < count; ++i) {
            if ((static_cast<uint64_t>(pair->answered) + i) % every == every - 1) bytes[i] ^= 1 << (i % 8);
          }
        }
        if (const int64_t most = cut_after; most >= 0 && pair->answered + static_cast<int64_t>(count) >= most) {
          count = static_cast<size_t>(std::max<int64_t>(0, most - pair->answered));
          is_last = true;
        }
        pair->answered += static_cast<int64_t>(count);
      }
      co_await boost::asio::async_write(to, boost::asio::buffer(bytes.data(), count), token);
      if (error || is_last) break;
    }
    pair->Close();
    pairs_.erase(pair);
  }

  TempDir dir_;
  const Endpoint service_;
  uint16_t port_ = 0;
  std::set<PairRef> pairs_;
  IoThread thread_;
  boost::asio::local::stream_protocol::acceptor unix_;
  boost::asio::ip::tcp::acceptor tcp_;
};

}  // namespace ingot::support
