// SPDX-License-Identifier: Apache-2.0
#include "daemon/web/peer_user.h"

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <array>
#include <cstring>

#include "proto/frame.h"

namespace ingot::daemon::web {
namespace {

namespace ip = boost::asio::ip;

struct Question {
  nlmsghdr header{};
  inet_diag_req_v2 body{};
};

void PutAddress(const ip::address& address, __be32 (&into)[4]) {
  if (address.is_v6()) {
    const auto bytes = address.to_v6().to_bytes();
    std::memcpy(into, bytes.data(), bytes.size());
  } else {
    const auto bytes = address.to_v4().to_bytes();
    std::memcpy(into, bytes.data(), bytes.size());
  }
}

}  // namespace

std::optional<uid_t> PeerUser(const ip::tcp::endpoint& ours, const ip::tcp::endpoint& theirs) {
  const UniqueFd socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  if (!socket) return std::nullopt;
  // The kernel answers at once; where something stands in for it, nobody waits.
  const timeval soon{.tv_sec = 0, .tv_usec = 200'000};
  setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof soon);
  Question question;
  question.header.nlmsg_len = sizeof question;
  question.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  question.header.nlmsg_flags = NLM_F_REQUEST;
  question.body.sdiag_family = theirs.address().is_v6() ? AF_INET6 : AF_INET;
  question.body.sdiag_protocol = IPPROTO_TCP;
  question.body.idiag_states = ~0u;
  // Seen from the other end, whose socket is the one that is asked about.
  PutAddress(theirs.address(), question.body.id.idiag_src);
  PutAddress(ours.address(), question.body.id.idiag_dst);
  question.body.id.idiag_sport = htons(theirs.port());
  question.body.id.idiag_dport = htons(ours.port());
  question.body.id.idiag_cookie[0] = question.body.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  if (send(socket.get(), &question, sizeof question, 0) != static_cast<ssize_t>(sizeof question)) return std::nullopt;
  alignas(nlmsghdr) std::array<char, 8192> bytes;
  const ssize_t got = recv(socket.get(), bytes.data(), bytes.size(), 0);
  const auto* header = reinterpret_cast<const nlmsghdr*>(bytes.data());
  if (got < 0 || !NLMSG_OK(header, static_cast<size_t>(got)) || header->nlmsg_type != SOCK_DIAG_BY_FAMILY ||
      header->nlmsg_len < NLMSG_LENGTH(sizeof(inet_diag_msg))) {
    return std::nullopt;
  }
  const auto* found = static_cast<const inet_diag_msg*>(NLMSG_DATA(header));
  // One that its program has closed is nobody's, and is said to be root's.
  if (found->idiag_inode == 0) return std::nullopt;
  return found->idiag_uid;
}

}  // namespace ingot::daemon::web
