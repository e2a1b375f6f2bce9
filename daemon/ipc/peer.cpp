// SPDX-License-Identifier: Apache-2.0
#include "daemon/ipc/peer.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <sstream>

namespace ingot::daemon {
namespace {

/// Of the process that connected, when it did: it cannot choose them.
std::vector<gid_t> GroupsOf(int socket, gid_t primary) {
  std::vector<gid_t> groups(64);
  socklen_t size = static_cast<socklen_t>(groups.size() * sizeof(gid_t));
  if (getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, groups.data(), &size) != 0) {
    groups.resize(errno == ERANGE ? size / sizeof(gid_t) : 0);
    size = static_cast<socklen_t>(groups.size() * sizeof(gid_t));
    if (groups.empty() || getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, groups.data(), &size) != 0) size = 0;
  }
  groups.resize(size / sizeof(gid_t));
  groups.push_back(primary);
  return groups;
}

}  // namespace

Result<std::vector<uint32_t>> ParseIds(const std::string& text, const char* field) {
  std::vector<uint32_t> ids;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    uint32_t id = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (error != std::errc() || end != word.data() + word.size()) {
      return Error(Code::kInvalid, fmt::format("{}: '{}' is no number of a user or group", field, word));
    }
    ids.push_back(id);
  }
  return ids;
}

Result<Peer> PeerOf(int socket, Right right, const Config& config) {
  ucred facts{};
  socklen_t size = sizeof facts;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &facts, &size) != 0) {
    return Error(Code::kDenied, "the kernel does not say who it is");
  }
  Peer peer{.pid = facts.pid};
  const bool is_own = facts.uid == geteuid();
  if (!is_own) {
    TRY_ASSIGN(const std::vector<uint32_t> users, ParseIds(config.client_uids, "client_uids"));
    if (right == Right::kAdminister || std::ranges::find(users, facts.uid) == users.end()) {
      return Error(Code::kDenied, fmt::format("it is of user {}", facts.uid));
    }
    peer.tenant = std::to_string(facts.uid);
  }
  if (right == Right::kAdminister) return peer;
  TRY_ASSIGN(const std::vector<uint32_t> tenants, ParseIds(config.client_gids, "client_gids"));
  if (tenants.empty()) return peer;
  const std::vector<gid_t> groups = GroupsOf(socket, facts.gid);
  const auto of = std::ranges::find_if(
      tenants, [&](uint32_t id) { return std::ranges::find(groups, static_cast<gid_t>(id)) != groups.end(); });
  if (of != tenants.end()) peer.tenant = fmt::format("{}:{}", facts.uid, *of);
  return peer;
}

}  // namespace ingot::daemon
