// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <boost/asio/ip/tcp.hpp>
#include <optional>

namespace ingot::daemon::web {

/// The user whose program holds the other end of a connection over loopback, as the kernel's table of sockets says
/// (sock_diag(7)). A port on loopback is open to every user of the machine; this is how they are told apart. None:
/// the other end is not of this machine, has been closed, or the kernel does not say.
std::optional<uid_t> PeerUser(const boost::asio::ip::tcp::endpoint& ours, const boost::asio::ip::tcp::endpoint& theirs);

}  // namespace ingot::daemon::web
