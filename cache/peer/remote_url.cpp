// SPDX-License-Identifier: Apache-2.0
#include "cache/peer/remote_url.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <charconv>

#include "cache/net/loopback.h"

namespace ingot::cache {
namespace {

constexpr size_t kHostBytesMax = 253;

bool IsHostName(std::string_view host) {
  return !host.empty() && host.size() <= kHostBytesMax && std::all_of(host.begin(), host.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("-._").find(c) != std::string_view::npos;
  });
}

Error Wrong(std::string_view text, std::string_view what) {
  return Error(Code::kInvalid, fmt::format("'{}' {}; an address reads HOST:PORT or [ADDRESS]:PORT",
                                           text.substr(0, kHostBytesMax), what));
}

}  // namespace

Result<HostPort> HostPort::Parse(std::string_view text) {
  HostPort out;
  std::string_view port;
  bool has_port = false;
  if (text.starts_with('[')) {
    const size_t end = text.find(']');
    if (end == text.npos) return Wrong(text, "has a '[' without a ']'");
    out.host = text.substr(1, end - 1);
    boost::system::error_code error;
    boost::asio::ip::make_address_v6(out.host, error);
    if (error) return Wrong(text, "has no address between '[' and ']'");
    port = text.substr(end + 1);
    has_port = !port.empty();
    if (has_port && !port.starts_with(':')) return Wrong(text, "goes on after ']' without a ':'");
    if (has_port) port.remove_prefix(1);
  } else {
    const size_t colon = text.find(':');
    has_port = colon != text.npos;
    out.host = text.substr(0, colon);
    if (has_port) port = text.substr(colon + 1);
    if (!out.host.empty() && !IsHostName(out.host)) return Wrong(text, "has a host that is none");
  }
  if (has_port) {
    const auto [end, code] = std::from_chars(port.data(), port.data() + port.size(), out.port);
    if (code != std::errc() || end != port.data() + port.size()) return Wrong(text, "has a port that is none");
  }
  return out;
}

std::string HostPort::ToText() const {
  const bool is_v6 = host.find(':') != host.npos;
  return fmt::format("{}{}{}:{}", is_v6 ? "[" : "", host, is_v6 ? "]" : "", port);
}

Result<RemoteUrl> RemoteUrl::Parse(std::string_view text) {
  RemoteUrl out;
  if (!Is(text)) return Error(Code::kInvalid, "a serving daemon is named ingots://HOST:PORT");
  out.place.kind = text.starts_with("ingots://") ? Place::Kind::kTls : Place::Kind::kTcp;
  std::string_view rest = text.substr(text.find("//") + 2);
  if (rest.ends_with('/')) rest.remove_suffix(1);
  TRY_ASSIGN(HostPort where, HostPort::Parse(rest));
  if (where.host.empty()) return Wrong(text, "has no host");
  if (where.port == 0) return Wrong(text, "has port 0");
  if (out.place.kind == Place::Kind::kTcp && !IsLoopback(where.host)) {
    return Error(Code::kInvalid, fmt::format("'{}' would be spoken to without TLS, which is for addresses of the "
                                             "loopback alone: use ingots://",
                                             text.substr(0, kHostBytesMax)));
  }
  out.place.host = std::move(where.host);
  out.place.port = where.port;
  return out;
}

std::string RemoteUrl::ToText() const {
  return fmt::format("{}://{}", place.kind == Place::Kind::kTls ? "ingots" : "ingot",
                     HostPort{place.host, place.port}.ToText());
}

}  // namespace ingot::cache
