// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "proto/frame.h"
#include "tests/support/daemon/test_server.h"

namespace ingot::daemon {

/// Clients that keep to no rules.
class WireTest : public ServerTest {
 protected:
  /// A connection that sends what it likes.
  UniqueFd Raw() {
    UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::snprintf(address.sun_path, sizeof address.sun_path, "%s", socket_path().c_str());
    EXPECT_EQ(connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    return socket;
  }
  /// Sends, closes the writing side and reads until the daemon has closed too.
  static std::string SendAndDrain(const UniqueFd& socket, Bytes bytes) {
    // The daemon may close before it has read everything.
    const ssize_t sent = send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    (void)sent;
    shutdown(socket.get(), SHUT_WR);
    std::string all;
    char piece[4096];
    for (ssize_t got; (got = read(socket.get(), piece, sizeof piece)) > 0;) {
      all.append(piece, static_cast<size_t>(got));
    }
    return all;
  }
  static Buffer FrameOf(uint16_t type, const Buffer& body) {
    proto::FrameHeader header{.type = type, .request = 7, .length = static_cast<uint32_t>(body.size())};
    const auto head = proto::EncodeHeader(header);
    Buffer out(head.size() + body.size());
    std::ranges::copy(head, out.begin());
    std::ranges::copy(body, out.begin() + head.size());
    return out;
  }
  static Buffer LookupFrame() {
    proto::LookupT lookup;
    lookup.key = MakeKey("f");
    return FrameOf(3, proto::PackMessage<proto::Lookup>(lookup));
  }
  void ExpectAlive() { EXPECT_TRUE(Connect()->Query("status")); }
};

}  // namespace ingot::daemon
