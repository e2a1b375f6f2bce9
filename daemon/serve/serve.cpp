// SPDX-License-Identifier: Apache-2.0
#include "daemon/serve/serve.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <cerrno>
#include <climits>
#include <cstring>
#include <functional>
#include <set>
#include <thread>
#include <vector>

#include "base/log.h"
#include "base/metrics.h"
#include "cache/net/transport.h"
#include "cache/peer/remote_url.h"
#include "daemon/serve/serve_session.h"
#include "daemon/serve/tcp_listener.h"

namespace ingot::daemon {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using SessionRef = std::shared_ptr<ServeSession>;
constexpr std::chrono::milliseconds kAcceptPause{20};

Error InField(const char* field, const Error& error) { return Error(error).Wrap(field); }

}  // namespace

std::string ServeName(const Config& config) {
  if (!config.serve_name.empty()) return config.serve_name;
  char name[HOST_NAME_MAX + 1] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

struct Serve::State {
  State(const Config& config, ServePorts ports, const Clock& clock)
      : config(config), share(std::make_shared<ServeShare>(config, std::move(ports), ServeName(config), clock)) {}

  Status Listen();
  asio::awaitable<void> Accept();
  void Welcome(UniqueFd socket);
  bool MakeRoom(const std::string& peer);

  const Config& config;
  const std::shared_ptr<ServeShare> share;
  std::shared_ptr<cache::TlsServer> tls;
  asio::io_context io;
  /// Of the listener and the set of sessions.
  const asio::any_io_executor strand = asio::make_strand(io);
  tcp::acceptor acceptor{strand};
  std::set<SessionRef> sessions;
  std::atomic<size_t> session_count{0};
  std::string where;
  std::vector<std::thread> threads;
};

Status Serve::State::Listen() {
  auto parsed = cache::HostPort::Parse(config.serve_listen);
  if (!parsed) return InField("serve_listen", parsed.error());
  const cache::HostPort& place = *parsed;
  if (config.serve_certificate.empty() != config.serve_key.empty()) {
    return Error(Code::kInvalid, "serve_certificate and serve_key go together");
  }
  if (!config.serve_certificate.empty()) {
    auto made = cache::MakeTlsServer({config.serve_certificate, config.serve_key, config.serve_client_ca});
    if (!made) return std::move(made).error().Wrap("serve");
    tls = std::move(made).value();
  }
  if (config.serve_tokens.empty() && (tls == nullptr || config.serve_client_ca.empty())) {
    return Error(Code::kInvalid, "say who is served: serve_tokens (`ingot token new`), or serve_client_ca with TLS");
  }
  if (const Status read = share->tokens.Refresh(); !read) return InField("serve_tokens", read.error());

  boost::system::error_code error;
  tcp::resolver resolver(io);
  const std::string host = place.host.empty() ? "::" : place.host;
  std::vector<tcp::endpoint> endpoints;
  for (const auto& found : resolver.resolve(host, std::to_string(place.port), tcp::resolver::passive, error)) {
    endpoints.push_back(found.endpoint());
  }
  // A machine without IPv6.
  if (place.host.empty()) endpoints.emplace_back(tcp::v4(), place.port);
  if (endpoints.empty()) {
    return Error(Code::kInvalid,
                 fmt::format("serve_listen: '{}' is no address of this machine: {}", place.host, error.message()));
  }
  Status listens;
  for (const tcp::endpoint& endpoint : endpoints) {
    if (tls == nullptr && !endpoint.address().is_loopback()) {
      return Error(Code::kInvalid, fmt::format("serve_listen: {} is beyond the loopback, where nothing is served "
                                               "without TLS: say serve_certificate and serve_key",
                                               endpoint.address().to_string()));
    }
    listens = ListenAt(acceptor, endpoint);
    if (listens) break;
  }
  if (!listens) {
    return Error(Code::kUnavailable,
                 fmt::format("serve_listen: listen on {}: {}", place.ToText(), listens.error().message()));
  }
  const tcp::endpoint own = acceptor.local_endpoint(error);
  const cache::HostPort named{place.host.empty() ? own.address().to_string() : place.host, own.port()};
  where = fmt::format("{}://{}", tls ? "ingots" : "ingot", named.ToText());
  return {};
}

asio::awaitable<void> Serve::State::Accept() {
  std::function<void(int)> refused = [this](int reason) {
    if (share->MayLog()) LogWarn("accepted no connection of another daemon", {{"reason", std::strerror(reason)}});
    // Whoever is idle gives its descriptor.
    if (reason == EMFILE || reason == ENFILE) MakeRoom("");
  };
  std::function<void(UniqueFd)> welcome = [this](UniqueFd fd) { Welcome(std::move(fd)); };
  co_await AcceptAll(acceptor, kAcceptPause, std::move(welcome), std::move(refused));
}

/// Whether there is a place for a connection of that address; the longest idle one, or the oldest that has not said
/// who it is, may be ended for it. `peer` empty: one is to be ended, whoever it is.
bool Serve::State::MakeRoom(const std::string& peer) {
  size_t unknown = 0, of_peer = 0;
  SessionRef oldest, idle, idle_of_peer;
  const auto consider = [](SessionRef& longest, const SessionRef& session) {
    if (!longest || session->used() < longest->used()) longest = session;
  };
  for (const SessionRef& session : sessions) {
    if (!session->is_greeted()) {
      ++unknown;
      consider(oldest, session);
    } else if (session->is_idle()) {
      consider(idle, session);
      if (session->peer() == peer) consider(idle_of_peer, session);
    }
    if (session->peer() == peer) ++of_peer;
  }
  const auto end = [this](const SessionRef& session, const char* why) {
    if (!session) return false;
    session->is_greeted() ? session->Part(why) : session->Close();
    sessions.erase(session);
    return true;
  };
  if (config.serve_peer_sessions_max != 0 && of_peer >= config.serve_peer_sessions_max &&
      !end(idle_of_peer, "another connection of your address needs its place (serve_peer_sessions_max)")) {
    return false;
  }
  if (unknown >= config.serve_handshakes_max) return end(oldest, "");
  if (!peer.empty() && sessions.size() < config.serve_sessions_max) return true;
  return end(idle, "another needs its place (serve_sessions_max)");
}

void Serve::State::Welcome(UniqueFd socket) {
  sockaddr_storage other{};
  socklen_t size = sizeof other;
  if (getpeername(socket.get(), reinterpret_cast<sockaddr*>(&other), &size) != 0) return;
  tcp::endpoint endpoint;
  std::memcpy(endpoint.data(), &other, std::min<size_t>(size, endpoint.capacity()));
  const std::string peer = endpoint.address().to_string();
  if (!MakeRoom(peer)) return GlobalMetrics().Add(Counter::serve_busy);
  const asio::any_io_executor own = asio::make_strand(io);
  auto transport = cache::MakeAccepted(own, std::move(socket), tls);
  if (!transport) return;
  const auto session = std::make_shared<ServeSession>(share, own, std::move(transport).value(), peer);
  sessions.insert(session);
  session_count = sessions.size();
  asio::co_spawn(
      own, [session] { return session->Run(); },
      [this, session](std::exception_ptr /*nothing throws*/) {
        asio::post(strand, [this, session] {
          sessions.erase(session);
          session_count = sessions.size();
        });
      });
}

Serve::Serve(std::unique_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<Serve>> Serve::Open(const Config& config, ServePorts ports, const Clock& clock) {
  auto state = std::make_unique<State>(config, std::move(ports), clock);
  TRY(state->Listen());
  State& s = *state;
  asio::co_spawn(s.strand, s.Accept(), asio::detached);
  for (uint64_t i = 0; i < std::max<uint64_t>(1, config.serve_threads); ++i) {
    s.threads.emplace_back([&s] { s.io.run(); });
  }
  LogInfo("serves other daemons", {{"at", s.where}, {"name", s.share->name}});
  return std::unique_ptr<Serve>(new Serve(std::move(state)));
}

Serve::~Serve() {
  State& s = *state_;
  asio::post(s.strand, [&s] {
    boost::system::error_code ignored;
    s.acceptor.close(ignored);
    for (const SessionRef& session : s.sessions) session->Close();
  });
  // Nothing is left to do once all have closed; what they waited for has been stopped.
  for (std::thread& thread : s.threads) thread.join();
  s.share->pool.join();
}

uint16_t Serve::port() const { return state_->acceptor.local_endpoint().port(); }
std::string Serve::Where() const { return state_->where; }
size_t Serve::sessions() const { return state_->session_count; }

}  // namespace ingot::daemon
