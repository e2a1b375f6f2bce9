// SPDX-License-Identifier: Apache-2.0
#include "cache/redis/redis_url.h"

#include <fmt/format.h>

#include <boost/url/encode.hpp>
#include <boost/url/parse.hpp>
#include <boost/url/rfc/pchars.hpp>
#include <boost/url/src.hpp>  // Debian's package of headers has no library
#include <charconv>

#include "cache/net/loopback.h"

namespace ingot::cache {
namespace {

namespace urls = boost::urls;

Error Wrong(std::string_view what) {
  return Error(Code::kInvalid, fmt::format("a Redis URL {}; it reads redis://[USER@]HOST:PORT/DB, "
                                           "rediss://... with ?ca=FILE, or unix:///PATH",
                                           what));
}

Result<uint32_t> ParseDb(std::string_view text) {
  uint32_t db = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), db);
  if (code != std::errc() || end != text.data() + text.size()) return Wrong("has a database that is no number");
  return db;
}

}  // namespace

Result<RedisUrl> RedisUrl::Parse(std::string_view text) {
  const auto parsed = urls::parse_uri(text);
  if (!parsed) return Wrong("cannot be read");
  const urls::url_view url = *parsed;
  RedisUrl out;
  out.user = url.user();
  if (url.has_password()) {
    return Wrong(
        "has a password, which would stand wherever the URL does: put it into a file of mode 0600 that "
        "cluster_index_password_file names");
  }
  if (url.has_fragment()) return Wrong("has a part after '#'");
  std::string path = url.path();
  if (url.scheme() == "redis" || url.scheme() == "rediss") {
    out.place.kind = url.scheme() == "redis" ? Place::Kind::kTcp : Place::Kind::kTls;
    out.place.host = url.host_address();
    if (out.place.host.empty()) return Wrong("has no host");
    if (out.place.host != std::string_view(url.encoded_host_address())) return Wrong("has escapes in its host");
    if (out.place.kind == Place::Kind::kTcp && !IsLoopback(out.place.host)) {
      return Wrong("of another machine is not encrypted: use rediss://");
    }
    out.place.port = 6379;
    if (const std::string_view port = url.port(); !port.empty()) {
      const auto [end, code] = std::from_chars(port.data(), port.data() + port.size(), out.place.port);
      if (code != std::errc() || end != port.data() + port.size() || out.place.port == 0) {
        return Wrong("has a port that is none");
      }
    }
    if (path.size() > 1) {
      TRY_ASSIGN(out.db, ParseDb(std::string_view(path).substr(1)));
    }
  } else if (url.scheme() == "unix") {
    out.place.kind = Place::Kind::kUnix;
    if (!url.host().empty() || path.size() < 2 || path.front() != '/') return Wrong("has no path from the root");
    if (path.find('\0') != std::string::npos) return Wrong("has a path with a zero byte");
    out.place.path = std::move(path);
  } else {
    return Wrong("has a scheme that is none of redis, rediss, unix");
  }
  for (const auto& parameter : url.params()) {
    const bool is_tls = out.place.kind == Place::Kind::kTls;
    if (parameter.key == "ca" && is_tls) {
      out.place.ca_file = parameter.value;
    } else if (parameter.key == "cert" && is_tls) {
      out.place.cert_file = parameter.value;
    } else if (parameter.key == "key" && is_tls) {
      out.place.key_file = parameter.value;
    } else if (parameter.key == "db" && out.place.kind == Place::Kind::kUnix) {
      TRY_ASSIGN(out.db, ParseDb(parameter.value));
    } else {
      return Wrong("has a parameter that does not belong there");
    }
  }
  if (out.place.cert_file.empty() != out.place.key_file.empty()) {
    return Wrong("has one of cert and key without the other");
  }
  return out;
}

std::string RedisUrl::ToText() const {
  if (place.kind == Place::Kind::kUnix) {
    return fmt::format("unix://{}{}", urls::encode(place.path, urls::pchars + '/'),
                       db ? fmt::format("?db={}", db) : "");
  }
  const bool is_v6 = place.host.find(':') != std::string::npos;
  return fmt::format("{}://{}{}{}:{}/{}", place.kind == Place::Kind::kTls ? "rediss" : "redis", is_v6 ? "[" : "",
                     place.host, is_v6 ? "]" : "", place.port, db);
}

}  // namespace ingot::cache
