// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <functional>

#include "base/result.h"
#include "proto/frame.h"

namespace ingot::daemon {

/// Listens at an address; nothing that is started inherits it. What was closed there a moment ago keeps nobody from it.
/// kUnavailable, and the acceptor is closed: the address is another's, or not of this machine.
Status ListenAt(boost::asio::ip::tcp::acceptor& acceptor, const boost::asio::ip::tcp::endpoint& endpoint);

/// Hands over connections, which nothing that is started inherits, until the acceptor is closed. Where none can be
/// accepted, `refused` is told the reason (errno), and it goes on after `pause`. All on the acceptor's executor, and
/// the acceptor outlives it.
boost::asio::awaitable<void> AcceptAll(boost::asio::ip::tcp::acceptor& acceptor, std::chrono::milliseconds pause,
                                       std::function<void(UniqueFd)> accepted, std::function<void(int)> refused);

}  // namespace ingot::daemon
