// SPDX-License-Identifier: Apache-2.0
#include "daemon/web/listen_address.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "cache/net/loopback.h"

namespace ingot::daemon::web {
namespace {

namespace asio = boost::asio;

struct HostPort {
  std::string_view host, port;
};

/// None where a port without a host, or a bracket without its other, stands there.
std::optional<HostPort> Split(std::string_view text) {
  size_t end = 0;
  HostPort out;
  if (text.starts_with('[')) {
    const size_t bracket = text.find(']');
    if (bracket == std::string_view::npos) return std::nullopt;
    out.host = text.substr(1, bracket - 1);
    end = bracket + 1;
  } else {
    end = std::min(text.find(':'), text.size());
    out.host = text.substr(0, end);
  }
  if (end < text.size() && text[end] != ':') return std::nullopt;
  if (end < text.size()) out.port = text.substr(end + 1);
  return out;
}

bool IsPort(std::string_view text, uint16_t& port) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

Result<asio::ip::tcp::endpoint> ParseListen(std::string_view text) {
  const Error wrong(Code::kInvalid,
                    fmt::format("web_listen: '{}' must be ADDRESS:PORT, as 127.0.0.1:9464 or [::1]:0", text));
  const auto split = Split(text);
  uint16_t port = 0;
  if (!split || !IsPort(split->port, port)) return wrong;
  const std::string host = split->host == "localhost" ? "127.0.0.1" : std::string(split->host);
  boost::system::error_code error;
  const asio::ip::address address = asio::ip::make_address(host, error);
  if (error) return wrong;
  return asio::ip::tcp::endpoint(address, port);
}

std::string TextOf(const asio::ip::tcp::endpoint& endpoint) {
  const std::string address = endpoint.address().to_string();
  return endpoint.address().is_v6() ? fmt::format("[{}]:{}", address, endpoint.port())
                                    : fmt::format("{}:{}", address, endpoint.port());
}

bool IsLoopbackHost(std::string_view text) {
  const auto split = Split(text);
  uint16_t port = 0;
  if (!split || (!split->port.empty() && !IsPort(split->port, port))) return false;
  std::string host(split->host);
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; };
  std::ranges::transform(host, host.begin(), lower);
  return cache::IsLoopback(host);
}

}  // namespace ingot::daemon::web
