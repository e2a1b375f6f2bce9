// SPDX-License-Identifier: Apache-2.0
#include "daemon/serve/tcp_listener.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <utility>

namespace ingot::daemon {

using boost::asio::ip::tcp;

Status ListenAt(tcp::acceptor& acceptor, const tcp::endpoint& endpoint) {
  boost::system::error_code error;
  acceptor.open(endpoint.protocol(), error);
  if (!error) fcntl(acceptor.native_handle(), F_SETFD, FD_CLOEXEC);
  if (!error) acceptor.set_option(boost::asio::socket_base::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(boost::asio::socket_base::max_listen_connections, error);
  if (!error) acceptor.non_blocking(true, error);
  if (!error) return {};
  boost::system::error_code ignored;
  acceptor.close(ignored);
  return Error(Code::kUnavailable, error.message());
}

boost::asio::awaitable<void> AcceptAll(tcp::acceptor& acceptor, std::chrono::milliseconds pause,
                                       std::function<void(UniqueFd)> accepted, std::function<void(int)> refused) {
  boost::system::error_code error;
  auto token = boost::asio::redirect_error(boost::asio::use_awaitable, error);
  boost::asio::steady_timer timer(acceptor.get_executor());
  while (acceptor.is_open()) {
    co_await acceptor.async_wait(tcp::acceptor::wait_read, token);
    if (!acceptor.is_open()) break;
    // By hand: what Asio accepts is inherited.
    UniqueFd fd(accept4(acceptor.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    const int reason = errno;
    if (fd) {
      accepted(std::move(fd));
      continue;
    }
    if (reason == EAGAIN || reason == EINTR || reason == ECONNABORTED) continue;
    refused(reason);
    timer.expires_after(pause);
    co_await timer.async_wait(token);
  }
}

}  // namespace ingot::daemon
