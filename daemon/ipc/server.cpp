// SPDX-License-Identifier: Apache-2.0
#include "daemon/ipc/server.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <cstring>
#include <set>
#include <stop_token>

#include "base/filesystem.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/priority.h"
#include "daemon/ipc/exit_watch.h"
#include "daemon/ipc/mailbox.h"
#include "daemon/ipc/peer.h"
#include "daemon/ipc/requests.h"
#include "daemon/ipc/session.h"
#include "daemon/state/descriptors.h"
#include "daemon/web/web_server.h"
#include "proto/frame.h"

namespace ingot::daemon {
namespace {

namespace asio = boost::asio;
using Protocol = asio::local::stream_protocol;

constexpr auto kAcceptAgainAfter = std::chrono::milliseconds(20);
/// By so much what follows from look-ups may come later than they.
constexpr auto kUsesWait = std::chrono::milliseconds(20);

/// Says why nobody serves this connection, which ends when its socket goes.
void Refuse(int socket, const std::string& text) {
  const Reply reply = ErrorReplyOf(Error(Code::kExhausted, "busy: " + text));
  // A new socket has room for it.
  const proto::Deadline soon = proto::Deadline::AfterMs(1);
  Ignore(proto::SendFrame(socket, {.type = static_cast<uint16_t>(reply.type)}, *reply.body, soon),
         "whoever asked may be gone");
}

/// A listening socket, what those may do who reach it, and its name.
struct Door {
  Door(asio::io_context& io, Right right) : acceptor(io), right(right) {}

  Protocol::acceptor acceptor;
  const Right right;
  std::string path = {};
  struct stat facts{};

  Status Listen(const std::string& at, Access access, mode_t mode) {
    TRY(RealFilesystem().MakePrivateDirectory(proto::DirectoryOf(at), access));
    unlink(at.c_str());
    boost::system::error_code error;
    acceptor.open(Protocol(), error);
    if (!error) fcntl(acceptor.native_handle(), F_SETFD, FD_CLOEXEC);
    // The mode is narrowed before the name exists for others: bind() creates the file.
    const mode_t mask = umask(0177);
    if (!error) acceptor.bind(Protocol::endpoint(at), error);
    umask(mask);
    if (!error && mode != 0600 && chmod(at.c_str(), mode) != 0) return ErrorFromErrno(errno, "chmod " + at);
    if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
    if (!error) acceptor.non_blocking(true, error);
    if (error) return Error(Code::kUnavailable, fmt::format("listen on {}: {}", at, error.message()));
    if (lstat(at.c_str(), &facts) != 0) return ErrorFromErrno(errno, "stat " + at);
    path = at;
    return {};
  }
  bool IsInPlace() const {
    struct stat found{};
    return lstat(path.c_str(), &found) == 0 && S_ISSOCK(found.st_mode) && found.st_ino == facts.st_ino &&
           found.st_dev == facts.st_dev;
  }
  /// Where somebody has removed it, the name may be another daemon's by now.
  void Unlink() {
    if (!path.empty() && IsInPlace()) unlink(path.c_str());
    path.clear();
  }
  void Close() {
    boost::system::error_code ignored;
    acceptor.close(ignored);
  }
};

}  // namespace

struct Server::State {
  State(Core& core, ServerOptions options)
      : core(core),
        options(std::move(options)),
        sessions_max(SessionsWithin(core.config, RaiseDescriptorLimit())),
        requests(core, Hooks()),
        share{core.config, requests, mailbox, core.load, [this] { return Hello(); }, this->options.build} {
    share.on_quiet = [this] { MaybeEnd(); };
    share.admit = [this](Session& session) { return Admit(session); };
  }

  /// Who holds sessions, and who could part with one: of those nobody waits for, the longest idle.
  struct Census {
    size_t of_peer = 0;
    size_t own = 0;
    size_t reserved = 0;
    Session* idle_of_peer = nullptr;
    Session* idle_own = nullptr;
    Session* idle_reserved = nullptr;
  };

  QueryHooks Hooks();
  proto::HelloReplyT Hello() const;
  asio::awaitable<void> Accept(Door& door);
  asio::awaitable<void> Serve(std::shared_ptr<Session> session);
  void Welcome(UniqueFd fd, Right right);
  /// Who administers is no client.
  void CountClients() {
    session_count = static_cast<size_t>(
        std::ranges::count_if(sessions, [](const auto& session) { return session->right() == Right::kUse; }));
  }
  bool AcceptOutOfDescriptors(Door& door);
  Census Count(const Peer& peer) const;
  void Displace(Session* session, const char* why);
  Status MakeRoom(const Peer& peer, bool& reserved);
  bool Admit(Session& session);
  void LimitExit(uint64_t seconds);
  void ArmIdle();
  void ArmSweep();
  void ArmUses();
  void BeginDrain();
  void MaybeEnd();
  void Unlink();

  Core& core;
  const ServerOptions options;
  const uint64_t sessions_max;
  const int64_t start_ns = core.clock.steady_ns();
  std::stop_source stopping;
  /// Set where the process is this server's: then its end is watched.
  std::atomic<ExitWatch*> exit_watch{nullptr};
  Requests requests;
  web::WebServer web{core, requests.queries()};
  SessionShare share;
  // After what its handlers refer to: destroying it destroys those that wait.
  asio::io_context io{1};
  Mailbox mailbox{io};
  Door clients{io, Right::kUse};
  Door admin{io, Right::kAdminister};
  asio::steady_timer idle{io};
  asio::steady_timer drain_limit{io};
  asio::steady_timer sweep{io};
  asio::steady_timer uses{io};
  std::set<std::shared_ptr<Session>> sessions;
  std::atomic<size_t> session_count{0};
  /// Closed to accept a connection, and refuse it, when there is no other descriptor.
  UniqueFd spare{open("/dev/null", O_RDONLY | O_CLOEXEC)};
};

QueryHooks Server::State::Hooks() {
  QueryHooks hooks;
  hooks.socket = options.endpoint.socket;
  hooks.admin_socket = options.admin_socket;
  hooks.store_dir = options.endpoint.store_dir;
  hooks.clients = [this] { return session_count.load(); };
  hooks.uptime_s = [this] { return (core.clock.steady_ns() - start_ns) / 1'000'000'000; };
  hooks.stop = [this](bool drain) {
    LimitExit(core.config.exit_s_max + (drain ? core.config.drain_s_max : 0));
    asio::post(io, [this, drain] { drain ? BeginDrain() : io.stop(); });
  };
  hooks.stopping = stopping.get_token();
  hooks.web = [this] { return web.url(); };
  hooks.web_trouble = [this] { return web.trouble(); };
  if (sessions_max < core.config.sessions_max) {
    hooks.sessions_trouble = fmt::format(
        "serves {} connections at one time, not {} (sessions_max): more open files are not allowed; raise the limit "
        "(`ulimit -Hn`) or lower artifacts_cached_max",
        sessions_max, core.config.sessions_max);
    LogWarn("serves fewer connections", {{"sessions", sessions_max}, {"sessions_max", core.config.sessions_max}});
  }
  return hooks;
}

proto::HelloReplyT Server::State::Hello() const {
  proto::HelloReplyT reply;
  reply.version = proto::Version();
  reply.build = options.build;
  reply.pid = static_cast<uint32_t>(getpid());
  reply.store = options.endpoint.store_dir;
  reply.admin = admin.path;
  return reply;
}

Server::Server(Core& core, ServerOptions options) : state_(std::make_unique<State>(core, std::move(options))) {}

Server::~Server() {
  state_->Unlink();
  StopServices();
}

void Server::StopServices() {
  State& s = *state_;
  s.stopping.request_stop();
  s.core.stop.request_stop();
  s.web.Stop();
  // Answers still on their way from the pools would reach for the sessions' share.
  s.core.compilers.Stop();
  if (s.core.background != nullptr) s.core.background->Stop();
  s.requests.Stop();
  s.core.pool.Stop();
  s.core.uses.Apply();
}

Status Server::Listen() {
  State& s = *state_;
  TRY(s.web.Listen());
  TRY_ASSIGN(const std::vector<uint32_t> users, ParseIds(s.core.config.client_uids, "client_uids"));
  TRY(ParseIds(s.core.config.client_gids, "client_gids"));
  // Whoever can connect is asked who he is.
  const bool serves_others = !users.empty();
  TRY(s.clients.Listen(s.options.endpoint.socket, Access::kNoWriters, serves_others ? 0666 : 0600));
  if (s.options.admin_socket.empty()) return {};
  if (const Status listens = s.admin.Listen(s.options.admin_socket, Access::kNobody, 0600); !listens) {
    s.admin.Close();
    LogError("is administered by nobody", {{"reason", listens.error()}});
  }
  return {};
}

bool Server::IsInPlace() const { return state_->clients.IsInPlace(); }

void Server::Run(bool handle_signals) {
  State& s = *state_;
  AnswerSoon();
  asio::co_spawn(s.io, s.mailbox.Run(), asio::detached);
  asio::co_spawn(s.io, s.Accept(s.clients), asio::detached);
  asio::co_spawn(s.io, s.Accept(s.admin), asio::detached);
  s.core.uses.on_first = [&s] { s.ArmUses(); };
  if (handle_signals) {
    s.exit_watch = &ExitWatch::Get();
    ExitWatch::Get().TakeSignals([&s] {
      s.LimitExit(s.core.config.drain_s_max + s.core.config.exit_s_max);
      asio::post(s.io, [&s] { s.BeginDrain(); });
    });
  }
  s.ArmIdle();
  s.ArmSweep();
  // What daemons before this one could not give away is given by this one.
  if (s.core.cluster.is_shared()) {
    s.core.pool.SpawnAlways(s.core.recall.Watch());
    s.core.pool.SpawnAlways(s.core.shadowing.Watch());
    s.core.pool.SpawnAlways(s.core.jobs.Watch());
  }
  const Result<Tuning> tuning = ParseTuning(s.core.config.tuning);
  if (s.core.background != nullptr && tuning && *tuning == Tuning::kIdle) {
    s.core.pool.SpawnAlways(s.core.improving.Watch());
  }
  if (s.core.cluster.can_write()) s.core.pool.SpawnAlways(s.core.sharing.Send());
  s.io.run();
  if (handle_signals) ExitWatch::Get().Forget();
  s.LimitExit(s.core.config.exit_s_max);
  s.Unlink();
  for (const auto& session : std::set(s.sessions)) {
    if (session->is_idle()) session->Part(Error(Code::kUnavailable, "the daemon ends"));
    session->Close();
  }
  // Lets the coroutines of closed sessions run to their end.
  s.io.restart();
  s.io.poll();
  // Here, and not when this goes: what still runs may need the store, which its owner closes next.
  StopServices();
}

void Server::Drain() {
  asio::post(state_->io, [this] { state_->BeginDrain(); });
}
void Server::Stop() { state_->io.stop(); }

void Server::State::LimitExit(uint64_t seconds) {
  if (ExitWatch* const watch = exit_watch.load()) watch->Limit(std::chrono::seconds(seconds));
}

asio::awaitable<void> Server::State::Accept(Door& door) {
  Protocol::acceptor& acceptor = door.acceptor;
  while (acceptor.is_open()) {
    boost::system::error_code error;
    auto token = asio::redirect_error(asio::use_awaitable, error);
    co_await acceptor.async_wait(Protocol::acceptor::wait_read, token);
    if (!acceptor.is_open()) break;
    // By hand: workers must not inherit it.
    UniqueFd fd(accept4(acceptor.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (fd) {
      Welcome(std::move(fd), door.right);
      continue;
    }
    const int reason = errno;
    if (reason == EAGAIN || reason == EINTR || reason == ECONNABORTED) continue;
    if ((reason == EMFILE || reason == ENFILE) && AcceptOutOfDescriptors(door)) continue;
    LogWarn("accepted no connection", {{"reason", std::strerror(reason)}});
    asio::steady_timer pause(io, kAcceptAgainAfter);
    co_await pause.async_wait(token);
  }
}

/// Whoever waits is served with the descriptor of a session that nobody needs, or is told that there is none. False
/// when nothing could be done.
bool Server::State::AcceptOutOfDescriptors(Door& door) {
  if (Session* const idle = Count({}).idle_own) {
    Displace(idle, "there are no more descriptors");
    return true;
  }
  if (!spare) return false;
  GlobalMetrics().Add(Counter::busy);
  spare.Reset();
  if (const UniqueFd fd{accept4(door.acceptor.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)}) {
    Refuse(fd.get(), "there are no more descriptors");
  }
  spare = UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC));
  return static_cast<bool>(spare);
}

void Server::State::Welcome(UniqueFd fd, Right right) {
  Result<Peer> peer = PeerOf(fd.get(), right, core.config);
  if (!peer) {
    LogWarn("refused a connection", {{"reason", peer.error().message()}});
    return;
  }
  bool reserved = false;
  if (const Status room = MakeRoom(*peer, reserved); !room) {
    GlobalMetrics().Add(Counter::busy);
    return Refuse(fd.get(), room.error().message());
  }
  boost::system::error_code error;
  Protocol::socket accepted(io);
  accepted.assign(Protocol(), fd.get(), error);
  if (error) {
    LogWarn("accepted no connection", {{"reason", error.message()}});
    return;
  }
  fd.Release();
  GlobalMetrics().Add(Counter::sessions);
  auto session = std::make_shared<Session>(std::move(accepted), share, std::move(*peer), right);
  session->reserved = reserved;
  sessions.insert(session);
  CountClients();
  idle.cancel();
  asio::co_spawn(io, Serve(std::move(session)), asio::detached);
}

Server::State::Census Server::State::Count(const Peer& peer) const {
  Census census;
  const auto consider = [](Session*& longest, Session* session) {
    if (!session->is_idle()) return;
    if (longest == nullptr || session->used() < longest->used()) longest = session;
  };
  for (const auto& session : sessions) {
    ++(session->reserved ? census.reserved : census.own);
    consider(session->reserved ? census.idle_reserved : census.idle_own, session.get());
    // A process of another namespace has no number here: those of one tenant are counted together.
    if (session->peer().pid != peer.pid || session->peer().tenant != peer.tenant) continue;
    ++census.of_peer;
    consider(census.idle_of_peer, session.get());
  }
  return census;
}

/// Its client connects again when it next asks something.
void Server::State::Displace(Session* session, const char* why) {
  const auto kept = session->shared_from_this();
  sessions.erase(kept);
  kept->Part(Error(Code::kUnavailable, fmt::format("idle, and {}; connect again", why)));
}

/// Finds a place for a session of this process. kExhausted: there is none, and nobody who could make room.
Status Server::State::MakeRoom(const Peer& peer, bool& reserved) {
  const uint64_t peer_max = core.config.peer_sessions_max;
  if (peer_max != 0 && (peer.pid != 0 || !peer.tenant.empty())) {
    const Census census = Count(peer);
    if (census.of_peer >= peer_max) {
      if (census.idle_of_peer == nullptr) {
        const std::string who = peer.pid == 0 ? peer.tenant : fmt::format("process {}", peer.pid);
        return Error(Code::kExhausted,
                     fmt::format("{} waits for answers on {} connections (peer_sessions_max)", who, census.of_peer));
      }
      Displace(census.idle_of_peer, "its process has opened others (peer_sessions_max)");
    }
  }
  const Census census = Count(peer);
  reserved = false;
  if (census.own < sessions_max) return {};
  if (census.idle_own != nullptr) {
    Displace(census.idle_own, "others need its place (sessions_max)");
    return {};
  }
  reserved = true;
  if (census.reserved < core.config.sessions_reserved) return {};
  if (census.idle_reserved == nullptr) {
    return Error(Code::kExhausted, fmt::format("{} connections wait for answers (sessions_max, sessions_reserved)",
                                               census.own + census.reserved));
  }
  Displace(census.idle_reserved, "others need its place (sessions_reserved)");
  return {};
}

bool Server::State::Admit(Session& session) {
  const Census census = Count(session.peer());
  if (census.own >= sessions_max) {
    if (census.idle_own == nullptr) return false;
    Displace(census.idle_own, "others need its place (sessions_max)");
  }
  session.reserved = false;
  return true;
}

asio::awaitable<void> Server::State::Serve(std::shared_ptr<Session> session) {
  try {
    co_await session->Run();
  } catch (const std::exception& e) {
    LogWarn("ended a session", {{"reason", e.what()}});
  }
  sessions.erase(session);
  CountClients();
  if (sessions.empty()) ArmIdle();
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

void Server::State::ArmUses() {
  uses.expires_after(kUsesWait);
  uses.async_wait([this](const boost::system::error_code& error) {
    if (!error) requests.ApplyUses();
  });
}

void Server::State::BeginDrain() {
  if (share.draining) return;
  LogInfo("drains", {{"unanswered", share.unanswered}});
  share.draining = true;
  // What looks through the whole store would hold up whoever waits for this daemon to go.
  stopping.request_stop();
  web.Close();
  Unlink();
  clients.Close();
  admin.Close();
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
  if (clients.path.empty()) return;
  if (options.before_close) options.before_close();
  clients.Unlink();
  admin.Unlink();
}

}  // namespace ingot::daemon
