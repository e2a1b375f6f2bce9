// SPDX-License-Identifier: Apache-2.0
#include "daemon/admin/check_serve.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <optional>
#include <string>

#include "cache/net/certificate.h"
#include "cache/net/transport.h"
#include "cache/peer/remote_tokens.h"
#include "cache/peer/remote_url.h"
#include "daemon/serve/serve.h"
#include "daemon/state/utc_text.h"

namespace ingot::daemon {
namespace {

constexpr int64_t kDayS = 86'400;
/// A certificate that ends within so long is to be renewed now.
constexpr int64_t kRenewDays = 14;

void CheckCertificate(const Config& config, const Clock& clock, Checks& checks) {
  const auto server = cache::MakeTlsServer({config.serve_certificate, config.serve_key, config.serve_client_ca});
  if (!server) return checks.Add("serving: certificate", false, server.error().ToText());
  const auto certificate = cache::ReadCertificate(config.serve_certificate);
  if (!certificate) return checks.Add("serving: certificate", false, certificate.error().ToText());
  const int64_t now_s = clock.now_s();
  const int64_t days = (certificate->ends_s - now_s) / kDayS;
  std::string names;
  for (const std::string& name : certificate->names) names += (names.empty() ? "" : ", ") + name;
  if (names.empty()) names = "no name that clients could hold it against";
  std::string text = fmt::format("{}, for {}: ", config.serve_certificate, names);
  bool is_good = !certificate->names.empty();
  if (now_s < certificate->begins_s) {
    text += "it does not hold before " + UtcText(certificate->begins_s);
    is_good = false;
  } else if (now_s >= certificate->ends_s) {
    text += fmt::format("it has ended on {}: no client takes it any more", UtcText(certificate->ends_s));
    is_good = false;
  } else {
    text += fmt::format("it holds for {} more days, until {}", days, UtcText(certificate->ends_s));
    if (days < kRenewDays) {
      text += "; renew it";
      is_good = false;
    }
  }
  checks.Add("serving: certificate", is_good, std::move(text));
}

void CheckTokens(const Config& config, const Clock& clock, Checks& checks) {
  const auto grants = cache::ReadTokens(config.serve_tokens);
  if (!grants) return checks.Add("serving: tokens", false, grants.error().ToText());
  const std::string name = ServeName(config);
  size_t good = 0, others = 0, over = 0;
  for (const cache::TokenGrant& grant : *grants) {
    if (grant.is_revoked || (grant.expires_s != 0 && grant.expires_s <= clock.now_s())) {
      ++over;
    } else if (grant.audience != "*" && grant.audience != name) {
      ++others;
    } else {
      ++good;
    }
  }
  checks.Add(
      "serving: tokens", good > 0,
      fmt::format("{}: {} let somebody in here ('{}'), {} are for other servers, {} have expired or are "
                  "revoked{}",
                  config.serve_tokens, good, name, others, over, good > 0 ? "" : "; `ingot token new` makes one"));
}

/// Connects, for TLS with the handshake, and leaves.
Status Reach(const cache::Place& place, std::chrono::milliseconds timeout) {
  boost::asio::io_context io;
  auto transport = cache::MakeTransport(io.get_executor(), place);
  if (!transport) return std::move(transport).error();
  std::optional<Status> ended;
  const auto connect = [](cache::Transport& to, std::optional<Status>& into) -> boost::asio::awaitable<void> {
    into = co_await to.Connect();
  };
  boost::asio::co_spawn(io, connect(**transport, ended), [](std::exception_ptr /*nothing throws*/) {});
  io.run_for(timeout);
  (*transport)->Close();
  io.restart();
  io.run();
  if (!ended) return Error(Code::kTimeout, fmt::format("no answer within {} ms", timeout.count()));
  return *std::move(ended);
}

void CheckReachable(const Config& config, const cache::HostPort& listen, std::chrono::milliseconds timeout,
                    Checks& checks) {
  if (listen.port == 0) {
    return checks.Add("serving: reachable", true, "not tried: serve_listen leaves the port to the system");
  }
  const bool is_any = listen.host.empty() || listen.host == "0.0.0.0" || listen.host == "::";
  cache::Place place;
  place.host = is_any ? "127.0.0.1" : listen.host;
  place.port = listen.port;
  if (!config.serve_certificate.empty()) {
    if (!config.serve_client_ca.empty() && config.cluster_certificate.empty()) {
      return checks.Add("serving: reachable", true,
                        "not tried: serve_client_ca wants a certificate, and this machine has none to show "
                        "(cluster_certificate)");
    }
    const auto certificate = cache::ReadCertificate(config.serve_certificate);
    if (!certificate) return;
    place.kind = cache::Place::Kind::kTls;
    // By a name that the certificate stands for, as clients would.
    const auto& names = certificate->names;
    const auto is_host = [](const std::string& name) { return !name.starts_with('*'); };
    const auto named = std::ranges::find_if(names, is_host);
    if (std::ranges::find(names, place.host) == names.end() && named != names.end()) place.host = *named;
    place.ca_file = config.cluster_ca.empty() ? config.serve_certificate : config.cluster_ca;
    place.cert_file = config.cluster_certificate;
    place.key_file = config.cluster_certificate_key;
  }
  const std::string at = cache::HostPort{place.host, place.port}.ToText();
  const Status reached = Reach(place, timeout);
  if (reached) return checks.Add("serving: reachable", true, at);
  checks.AddError("serving: reachable", Error(reached.error()).Wrap(at));
}

}  // namespace

void CheckServe(const Config& config, std::chrono::milliseconds timeout, const Clock& clock, Checks& checks) {
  if (config.serve_listen.empty()) return;
  const auto listen = cache::HostPort::Parse(config.serve_listen);
  if (!listen) return checks.Add("serving: address", false, "serve_listen: " + listen.error().ToText());
  if (!config.serve_certificate.empty() || !config.serve_key.empty()) CheckCertificate(config, clock, checks);
  if (!config.serve_tokens.empty()) CheckTokens(config, clock, checks);
  CheckReachable(config, *listen, timeout, checks);
}

}  // namespace ingot::daemon
