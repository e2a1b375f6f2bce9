// SPDX-License-Identifier: Apache-2.0
#include "daemon/server.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <set>

#include "base/filesystem.h"
#include "base/log.h"
#include "base/metrics.h"
#include "daemon/requests.h"
#include "daemon/session.h"

namespace ingot::daemon {
namespace {

namespace asio = boost::asio;
using Protocol = asio::local::stream_protocol;

/// The other side must be the same user: whoever talks to the daemon gets code that it runs.
bool IsSameUser(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid();
}

}  // namespace

struct Server::State {
  State(Core& core, ServerOptions options)
      : core(core),
        options(std::move(options)),
        requests(core, Hooks()),
        share{core.config, requests, [this] { return Hello(); }, this->options.build} {
    share.on_quiet = [this] { MaybeEnd(); };
  }

  QueryHooks Hooks();
  proto::HelloReplyT Hello() const;
  asio::awaitable<void> Accept();
  asio::awaitable<void> Serve(std::shared_ptr<Session> session);
  void WaitForSignal();
  void ArmIdle();
  void ArmSweep();
  void BeginDrain();
  void MaybeEnd();
  void Unlink();

  Core& core;
  const ServerOptions options;
  const int64_t start_s = core.clock.now_s();
  Requests requests;
  SessionShare share;
  // After what its handlers refer to: destroying it destroys those that wait.
  asio::io_context io{1};
  Protocol::acceptor acceptor{io};
  asio::steady_timer idle{io};
  asio::steady_timer drain_limit{io};
  asio::steady_timer sweep{io};
  asio::signal_set signals{io};
  std::set<std::shared_ptr<Session>> sessions;
  std::atomic<size_t> session_count{0};
  bool listening = false;
  ino_t socket_inode = 0;
};

QueryHooks Server::State::Hooks() {
  QueryHooks hooks;
  hooks.socket = options.endpoint.socket;
  hooks.store_dir = options.endpoint.store_dir;
  hooks.clients = [this] { return session_count.load(); };
  hooks.uptime_s = [this] { return core.clock.now_s() - start_s; };
  hooks.stop = [this](bool drain) {
    asio::post(io, [this, drain] { drain ? BeginDrain() : io.stop(); });
  };
  return hooks;
}

proto::HelloReplyT Server::State::Hello() const {
  proto::HelloReplyT reply;
  reply.version = proto::Version();
  reply.build = options.build;
  reply.pid = static_cast<uint32_t>(getpid());
  reply.store = options.endpoint.store_dir;
  return reply;
}

Server::Server(Core& core, ServerOptions options)
    : state_(std::make_unique<State>(core, std::move(options))) {}

Server::~Server() {
  state_->Unlink();
  // Answers still on their way from the pool would reach for the sessions' share.
  state_->core.compilers.Stop();
  state_->core.pool.Stop();
}

Status Server::Listen() {
  State& s = *state_;
  const std::string& path = s.options.endpoint.socket;
  TRY(RealFilesystem().MakePrivateDirectory(proto::DirectoryOf(path), Access::kNoWriters));
  unlink(path.c_str());
  boost::system::error_code error;
  s.acceptor.open(Protocol(), error);
  // The mode is narrowed before the name exists for others: bind() creates the file.
  const mode_t mask = umask(0177);
  if (!error) s.acceptor.bind(Protocol::endpoint(path), error);
  umask(mask);
  if (!error) s.acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) {
    return Error(Code::kUnavailable, fmt::format("listen on {}: {}", path, error.message()));
  }
  struct stat facts {};
  if (lstat(path.c_str(), &facts) == 0) s.socket_inode = facts.st_ino;
  s.listening = true;
  return {};
}

void Server::Run(bool handle_signals) {
  State& s = *state_;
  asio::co_spawn(s.io, s.Accept(), asio::detached);
  if (handle_signals) {
    s.signals.add(SIGTERM);
    s.signals.add(SIGINT);
    s.WaitForSignal();
  }
  s.ArmIdle();
  s.ArmSweep();
  s.io.run();
  s.Unlink();
  for (const auto& session : std::set(s.sessions)) session->Close();
  // Lets the coroutines of closed sessions run to their end.
  s.io.restart();
  s.io.poll();
}

void Server::Drain() {
  asio::post(state_->io, [this] { state_->BeginDrain(); });
}
void Server::Stop() { state_->io.stop(); }

asio::awaitable<void> Server::State::Accept() {
  while (acceptor.is_open()) {
    boost::system::error_code error;
    auto token = asio::redirect_error(asio::use_awaitable, error);
    Protocol::socket socket = co_await acceptor.async_accept(token);
    if (!acceptor.is_open()) break;
    if (error) {
      // Out of descriptors: those who wait are served once others have gone.
      LogWarn("accepted no connection", {{"reason", error.message()}});
      asio::steady_timer pause(io, std::chrono::milliseconds(100));
      co_await pause.async_wait(token);
      continue;
    }
    if (!IsSameUser(socket.native_handle())) {
      LogWarn("refused a connection", {{"reason", "another user"}});
      continue;
    }
    if (sessions.size() >= core.config.sessions_max) {
      GlobalMetrics().Add(Counter::busy);
      continue;
    }
    GlobalMetrics().Add(Counter::sessions);
    auto session = std::make_shared<Session>(std::move(socket), share);
    asio::co_spawn(io, Serve(std::move(session)), asio::detached);
  }
}

asio::awaitable<void> Server::State::Serve(std::shared_ptr<Session> session) {
  sessions.insert(session);
  session_count = sessions.size();
  idle.cancel();
  co_await session->Run();
  sessions.erase(session);
  session_count = sessions.size();
  if (sessions.empty()) ArmIdle();
}

void Server::State::WaitForSignal() {
  signals.async_wait([this](const boost::system::error_code& error, int signal) {
    if (error) return;
    LogInfo("received a signal", {{"signal", signal}});
    if (share.draining) return io.stop();
    BeginDrain();
    WaitForSignal();
  });
}

void Server::State::ArmIdle() {
  if (core.config.idle_exit_s == 0 || share.draining) return;
  idle.expires_after(std::chrono::seconds(core.config.idle_exit_s));
  idle.async_wait([this](const boost::system::error_code& error) {
    if (error || !sessions.empty()) return;
    // A compile whose client is gone is still wanted by the next one.
    if (share.unanswered != 0) return ArmIdle();
    LogInfo("is idle", {{"idle_exit_s", core.config.idle_exit_s}});
    io.stop();
  });
}

void Server::State::ArmSweep() {
  if (core.config.gc_interval_s == 0) return;
  sweep.expires_after(std::chrono::seconds(core.config.gc_interval_s));
  sweep.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    core.sweeper.Ask();
    core.pool.Post([&core = core] { core.workload.Save(core.store); });
    ArmSweep();
  });
}

void Server::State::BeginDrain() {
  if (share.draining) return;
  LogInfo("drains", {{"unanswered", share.unanswered}});
  share.draining = true;
  Unlink();
  boost::system::error_code ignored;
  acceptor.close(ignored);
  drain_limit.expires_after(std::chrono::seconds(core.config.drain_s_max));
  drain_limit.async_wait([this](const boost::system::error_code& error) {
    if (!error) io.stop();
  });
  MaybeEnd();
}

void Server::State::MaybeEnd() {
  if (!share.draining || share.unanswered != 0) return;
  for (const auto& session : sessions) {
    if (!session->flushed()) return;
  }
  io.stop();
}

void Server::State::Unlink() {
  if (!listening) return;
  listening = false;
  if (options.before_close) options.before_close();
  const std::string& path = options.endpoint.socket;
  struct stat facts {};
  // Where somebody has removed it, the name may be another daemon's by now.
  if (lstat(path.c_str(), &facts) == 0 && facts.st_ino == socket_inode) unlink(path.c_str());
}

}  // namespace ingot::daemon
