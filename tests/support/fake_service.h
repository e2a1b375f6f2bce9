// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <functional>
#include <string>
#include <utility>

#include "base/temp_dir.h"
#include "tests/support/await.h"

namespace ingot::support {

/// Something on a Unix socket that answers whatever comes with whatever a test wants.
class FakeService {
 public:
  /// What to send once the `n`-th bytes (from 0) of a connection have come.
  using Answer = std::function<std::string(size_t n, const std::string& bytes)>;

  /// `hang_up`: closes after the second answer.
  explicit FakeService(Answer answer, bool hang_up = false)
      : answer_(std::move(answer)), hang_up_(hang_up), acceptor_(thread_.io()) {
    acceptor_.open();
    acceptor_.bind(Unix::endpoint(socket()));
    acceptor_.listen();
    boost::asio::co_spawn(thread_.io(), Accept(), boost::asio::detached);
  }
  ~FakeService() { thread_.Stop(); }
  std::string socket() const { return dir_ / "fake.sock"; }

 private:
  using Unix = boost::asio::local::stream_protocol;

  boost::asio::awaitable<void> Accept() {
    while (true) {
      boost::system::error_code error;
      Unix::socket socket =
          co_await acceptor_.async_accept(boost::asio::redirect_error(boost::asio::use_awaitable, error));
      if (error) co_return;
      boost::asio::co_spawn(thread_.io(), Serve(std::move(socket)), boost::asio::detached);
    }
  }
  boost::asio::awaitable<void> Serve(Unix::socket socket) {
    std::string bytes(64 << 10, '\0');
    boost::system::error_code error;
    auto token = boost::asio::redirect_error(boost::asio::use_awaitable, error);
    for (size_t n = 0; !(hang_up_ && n == 2); ++n) {
      const size_t count = co_await socket.async_read_some(boost::asio::buffer(bytes), token);
      if (error) co_return;
      const std::string out = answer_(n, bytes.substr(0, count));
      co_await boost::asio::async_write(socket, boost::asio::buffer(out), token);
      if (error) co_return;
    }
  }

  TempDir dir_;
  const Answer answer_;
  const bool hang_up_;
  IoThread thread_;
  Unix::acceptor acceptor_;
};

}  // namespace ingot::support
