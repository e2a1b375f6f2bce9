// SPDX-License-Identifier: Apache-2.0
#include "daemon/web/web_server.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <functional>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "base/log.h"
#include "base/mutex.h"
#include "daemon/serve/tcp_listener.h"
#include "daemon/web/listen_address.h"
#include "daemon/web/peer_user.h"
#include "daemon/web/site.h"
#include "daemon/web/token.h"
#include "proto/frame.h"

namespace ingot::daemon::web {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using tcp = asio::ip::tcp;
using SteadyClock = std::chrono::steady_clock;

constexpr auto kAgainAfter = std::chrono::seconds(5);
constexpr auto kAcceptWait = std::chrono::milliseconds(100);
constexpr auto kLingerFor = std::chrono::seconds(1);
constexpr size_t kLingerBytesMax = 256 << 10;
constexpr size_t kHeadReadBytes = 4096;

struct Connection {
  Connection(asio::io_context& io, size_t bytes_max) : stream(io), buffer(bytes_max) {}

  beast::tcp_stream stream;
  beast::flat_buffer buffer;
  std::optional<uid_t> user;
  /// A whole request came and its answer is not written.
  bool is_answering = false;
  SteadyClock::time_point used = SteadyClock::now();
};
using ConnectionRef = std::shared_ptr<Connection>;

/// The answer to bytes that are no request; 0: the other side has gone or was too slow, and hears nothing.
unsigned StatusOf(const boost::system::error_code& error) {
  if (error == http::error::header_limit || error == http::error::buffer_overflow) return 431;
  if (error == http::error::body_limit) return 413;
  if (error == http::error::end_of_stream || error == http::error::partial_message) return 0;
  return error.category() == make_error_code(http::error::bad_target).category() ? 400 : 0;
}

HttpRequest ToRequest(const http::request<http::string_body>& message, const std::optional<uid_t>& user) {
  const auto text = [&message](http::field name) {
    const auto value = message[name];
    return std::string(value.data(), value.size());
  };
  HttpRequest request;
  request.method = std::string(message.method_string());
  request.target = std::string(message.target());
  request.host = text(http::field::host);
  request.authorization = text(http::field::authorization);
  request.cookie = text(http::field::cookie);
  request.origin = text(http::field::origin);
  const auto site = message["Sec-Fetch-Site"];
  request.fetch_site = std::string(site.data(), site.size());
  request.body = message.body();
  request.user = user;
  return request;
}

http::response<http::string_body> ToResponse(HttpAnswer answer, unsigned version, bool keep_alive) {
  http::response<http::string_body> response(static_cast<http::status>(answer.status), version);
  response.set(http::field::content_type, answer.type);
  response.set(http::field::cache_control, "no-store");
  // Names and texts in the page come from users' code: whatever they are, no browser runs or fetches anything for it.
  response.set("Content-Security-Policy",
               "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
               "form-action 'self'; base-uri 'none'; frame-ancestors 'none'");
  response.set("X-Content-Type-Options", "nosniff");
  response.set("X-Frame-Options", "DENY");
  response.set("Referrer-Policy", "no-referrer");
  response.set("Cross-Origin-Resource-Policy", "same-origin");
  response.set("Cross-Origin-Opener-Policy", "same-origin");
  for (const auto& [name, value] : answer.headers) response.set(name, value);
  response.keep_alive(keep_alive);
  response.body() = std::move(answer.body);
  response.prepare_payload();
  return response;
}

}  // namespace

struct WebServer::State {
  State(Core& core, Queries& queries) : core(core), queries(queries) {}

  Status Bind();
  asio::awaitable<void> BindAgain();
  asio::awaitable<void> Accept();
  asio::awaitable<void> Sample();
  asio::awaitable<void> Serve(ConnectionRef connection);
  asio::awaitable<bool> ServeOne(Connection& connection);
  asio::awaitable<void> Write(Connection& connection, HttpAnswer answer, unsigned version, bool is_head,
                              bool keep_alive);
  asio::awaitable<void> Part(Connection& connection);
  void Welcome(UniqueFd fd);
  bool MakeRoom();
  void CloseAll(bool also_answering);
  void Say(std::string new_url, std::string new_trouble) {
    MutexLock lock(mutex);
    url = std::move(new_url);
    trouble = std::move(new_trouble);
  }
  std::chrono::seconds RequestTime() const { return std::chrono::seconds(core.config.web_request_s_max); }

  Core& core;
  Queries& queries;
  tcp::endpoint wanted;
  std::unique_ptr<Site> site;
  // After what its handlers refer to: destroying it destroys those that wait.
  asio::io_context io{1};
  asio::executor_work_guard<asio::io_context::executor_type> work{io.get_executor()};
  tcp::acceptor acceptor{io};
  asio::steady_timer again{io};
  asio::steady_timer sampling{io};
  std::set<ConnectionRef> connections;
  bool is_closed = false;
  std::thread thread;
  mutable Mutex mutex;
  std::string url GUARDED_BY(mutex);
  std::string trouble GUARDED_BY(mutex);
};

WebServer::WebServer(Core& core, Queries& queries) : state_(std::make_unique<State>(core, queries)) {}
WebServer::~WebServer() { Stop(); }

std::string WebServer::url() const {
  MutexLock lock(state_->mutex);
  return state_->url;
}

std::string WebServer::trouble() const {
  MutexLock lock(state_->mutex);
  return state_->trouble;
}

Status WebServer::Listen() {
  State& s = *state_;
  const Config& config = s.core.config;
  if (config.web_listen.empty()) return {};
  TRY_ASSIGN(s.wanted, ParseListen(config.web_listen));
  std::string token;
  if (!config.web_token_file.empty()) {
    TRY_ASSIGN(token, ReadToken(config.web_token_file));
  } else if (!s.wanted.address().is_loopback()) {
    return Error(Code::kInvalid,
                 fmt::format("web_listen: {} can be reached from other machines: set web_token_file, or listen on "
                             "127.0.0.1",
                             TextOf(s.wanted)));
  }
  // Browsers send cookies to all ports of a host.
  s.site = std::make_unique<Site>(s.core, s.queries, std::move(token), fmt::format("ingot_{}", s.wanted.port()));
  if (const Status bound = s.Bind(); !bound) {
    s.Say("", bound.error().ToText());
    LogWarn("has no web page yet", {{"reason", bound.error()}});
  }
  asio::co_spawn(s.io, s.Accept(), asio::detached);
  asio::co_spawn(s.io, s.Sample(), asio::detached);
  s.thread = std::thread([&s] { s.io.run(); });
  return {};
}

/// kUnavailable: the address is another's, or not of this machine.
Status WebServer::State::Bind() {
  if (const Status listens = ListenAt(acceptor, wanted); !listens) {
    return Error(Code::kUnavailable, fmt::format("web_listen: {}: {}", TextOf(wanted), listens.error().message()));
  }
  boost::system::error_code ignored;
  const tcp::endpoint bound = acceptor.local_endpoint(ignored);
  const std::string place = fmt::format("http://{}/", TextOf(bound));
  Say(place, "");
  LogInfo("serves a web page", {{"url", place}});
  return {};
}

asio::awaitable<void> WebServer::State::BindAgain() {
  boost::system::error_code error;
  auto token = asio::redirect_error(asio::use_awaitable, error);
  while (!is_closed && !acceptor.is_open()) {
    again.expires_after(kAgainAfter);
    co_await again.async_wait(token);
    if (is_closed) break;
    if (const Status bound = Bind(); !bound) Say("", bound.error().ToText());
  }
}

asio::awaitable<void> WebServer::State::Accept() {
  co_await BindAgain();
  std::function<void(UniqueFd)> welcome = [this](UniqueFd fd) { Welcome(std::move(fd)); };
  // No descriptor is left: clients of the daemon come first.
  std::function<void(int)> refused = [](int) {};
  co_await AcceptAll(acceptor, kAcceptWait, std::move(welcome), std::move(refused));
}

asio::awaitable<void> WebServer::State::Sample() {
  boost::system::error_code error;
  auto token = asio::redirect_error(asio::use_awaitable, error);
  while (!is_closed) {
    core.recent.Take(core.flights.size());
    sampling.expires_after(std::chrono::seconds(std::max<uint64_t>(1, core.config.web_sample_s)));
    co_await sampling.async_wait(token);
  }
}

void WebServer::State::Welcome(UniqueFd fd) {
  if (!MakeRoom()) return;
  const Config& config = core.config;
  auto connection =
      std::make_shared<Connection>(io, config.web_header_bytes_max + config.web_body_bytes_max + kHeadReadBytes);
  boost::system::error_code error;
  tcp::socket& socket = connection->stream.socket();
  socket.assign(wanted.protocol(), fd.get(), error);
  if (error) return;
  fd.Release();
  const tcp::endpoint ours = socket.local_endpoint(error);
  const tcp::endpoint theirs = error ? tcp::endpoint() : socket.remote_endpoint(error);
  if (error) return;
  if (ours.address().is_loopback()) connection->user = PeerUser(ours, theirs);
  socket.set_option(tcp::no_delay(true), error);
  connections.insert(connection);
  asio::co_spawn(io, Serve(std::move(connection)), asio::detached);
}

/// False: everybody who has a connection waits for an answer.
bool WebServer::State::MakeRoom() {
  if (connections.size() < std::max<uint64_t>(1, core.config.web_connections_max)) return true;
  const ConnectionRef* longest = nullptr;
  for (const ConnectionRef& one : connections) {
    if (one->is_answering) continue;
    if (longest == nullptr || one->used < (*longest)->used) longest = &one;
  }
  if (longest == nullptr) return false;
  (*longest)->stream.close();
  connections.erase(*longest);
  return true;
}

asio::awaitable<void> WebServer::State::Serve(ConnectionRef connection) {
  try {
    bool goes_on = true;
    while (goes_on && !is_closed) goes_on = co_await ServeOne(*connection);
  } catch (const std::exception& thrown) {
    LogError("failed to answer a browser", {{"reason", thrown.what()}});
  }
  connection->stream.close();
  connections.erase(connection);
}

/// Reads one request and answers it; whether another may follow.
asio::awaitable<bool> WebServer::State::ServeOne(Connection& connection) {
  const Config& config = core.config;
  beast::tcp_stream& stream = connection.stream;
  boost::system::error_code error;
  auto token = asio::redirect_error(asio::use_awaitable, error);
  if (connection.buffer.size() == 0) {
    if (config.web_idle_s_max != 0)
      stream.expires_after(std::chrono::seconds(config.web_idle_s_max));
    else
      stream.expires_never();
    const auto room = connection.buffer.prepare(kHeadReadBytes);
    const size_t got = co_await stream.async_read_some(room, token);
    if (error) co_return false;
    connection.buffer.commit(got);
  }
  // One time for all of it: bytes that come one by one do not win any.
  stream.expires_after(RequestTime());
  http::request_parser<http::string_body> parser;
  parser.header_limit(static_cast<uint32_t>(std::min<uint64_t>(config.web_header_bytes_max, UINT32_MAX)));
  parser.body_limit(config.web_body_bytes_max);
  co_await http::async_read(stream, connection.buffer, parser, token);
  if (error) {
    const unsigned status = StatusOf(error);
    if (status == 0) co_return false;
    HttpAnswer answer{.status = status,
                      .body = fmt::format("{} (web_header_bytes_max, web_body_bytes_max)\n", error.message())};
    co_await Write(connection, std::move(answer), 11, false, false);
    co_await Part(connection);
    co_return false;
  }
  connection.is_answering = true;
  const http::request<http::string_body>& message = parser.get();
  const bool is_head = message.method() == http::verb::head;
  const bool keep_alive = message.keep_alive() && !is_closed;
  // Its answer has a time of its own (Site); a browser that goes meanwhile is found out by the write.
  stream.expires_never();
  HttpRequest request = ToRequest(message, connection.user);
  HttpAnswer answer = co_await site->Answer(std::move(request));
  co_await Write(connection, std::move(answer), message.version(), is_head, keep_alive);
  connection.is_answering = false;
  connection.used = SteadyClock::now();
  if (keep_alive && stream.socket().is_open()) co_return true;
  co_await Part(connection);
  co_return false;
}

asio::awaitable<void> WebServer::State::Write(Connection& connection, HttpAnswer answer, unsigned version, bool is_head,
                                              bool keep_alive) {
  boost::system::error_code error;
  auto token = asio::redirect_error(asio::use_awaitable, error);
  http::response<http::string_body> response = ToResponse(std::move(answer), version, keep_alive);
  http::response_serializer<http::string_body> serializer(response);
  connection.stream.expires_after(RequestTime());
  if (is_head) {
    co_await http::async_write_header(connection.stream, serializer, token);
  } else {
    co_await http::async_write(connection.stream, serializer, token);
  }
  if (error) connection.stream.close();
}

/// Ends a connection so that the other side has read what was written: closed with bytes of its unread, the kernel
/// would throw that away.
asio::awaitable<void> WebServer::State::Part(Connection& connection) {
  boost::system::error_code error;
  auto token = asio::redirect_error(asio::use_awaitable, error);
  connection.stream.socket().shutdown(tcp::socket::shutdown_send, error);
  connection.stream.expires_after(kLingerFor);
  std::array<char, kHeadReadBytes> piece;
  const auto room = asio::buffer(piece);
  for (size_t all = 0; !error && all < kLingerBytesMax;) {
    all += co_await connection.stream.async_read_some(room, token);
  }
}

void WebServer::State::CloseAll(bool also_answering) {
  is_closed = true;
  boost::system::error_code ignored;
  acceptor.close(ignored);
  again.cancel();
  sampling.cancel();
  for (const ConnectionRef& one : std::set(connections)) {
    if (also_answering || !one->is_answering) one->stream.close();
  }
  Say("", "");
}

void WebServer::Close() {
  State& s = *state_;
  if (s.thread.joinable()) asio::post(s.io, [&s] { s.CloseAll(/*also_answering=*/false); });
}

void WebServer::Stop() {
  State& s = *state_;
  if (!s.thread.joinable()) return;
  // Answers first: connections wait for them.
  s.site->Stop();
  asio::post(s.io, [&s] {
    s.CloseAll(/*also_answering=*/true);
    s.work.reset();
  });
  s.thread.join();
}

}  // namespace ingot::daemon::web
