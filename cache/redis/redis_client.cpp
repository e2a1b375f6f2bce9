// SPDX-License-Identifier: Apache-2.0
#include "cache/redis/redis_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <deque>
#include <map>
#include <set>
#include <utility>

#include "base/log.h"
#include "cache/async/jitter.h"
#include "cache/net/transport.h"

namespace ingot::cache {
namespace {

namespace asio = boost::asio;
using Steady = std::chrono::steady_clock;
constexpr size_t kReadBytes = 64u << 10;
/// Commands are written together up to this size.
constexpr size_t kWriteBytes = 256u << 10;
constexpr size_t kWriteCalls = 256;
/// A connection with more than this to carry is busy: the next one is opened.
constexpr size_t kBusyBytes = 256u << 10;
constexpr size_t kBusyCalls = 32;
constexpr size_t kErrorTextMax = 200;

/// Text of a server for people: one line, not too long.
std::string Printable(std::string_view text) {
  std::string out(text.substr(0, kErrorTextMax));
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7f) c = '?';
  }
  return out;
}

}  // namespace

namespace {

Error NodeOfACluster() {
  return Error(Code::kUnavailable, "is a node of a Redis Cluster; give one server or one managed endpoint");
}

/// Whether a server says in its answer to HELLO that it holds some of the keys of several: an array of names and
/// values.
bool SaysCluster(const RedisReply& hello) {
  for (size_t i = 0; i + 1 < hello.items.size(); i += 2) {
    if (hello.items[i].text == "mode") return hello.items[i + 1].text == "cluster";
  }
  return false;
}

}  // namespace

Error ErrorOf(const RedisReply& reply) {
  const bool is_full = reply.text.starts_with("OOM") || reply.text.starts_with("MISCONF");
  return Error(is_full ? Code::kExhausted : Code::kUnavailable, "Redis answered: " + Printable(reply.text));
}

namespace {
class RedisConnection;
}

/// Fields without a mutex belong to the strand.
struct RedisCall {
  std::string commands;
  size_t count = 0;
  std::function<void(RedisReply)> late;
  const WaiterRef waiter = std::make_shared<Waiter>();
  /// Written before the waiter is woken and read after that.
  std::vector<RedisReply> replies;
  Status status;
  bool is_done = false;
  bool is_abandoned = false;
  size_t unsent_bytes = 0;
  std::weak_ptr<RedisConnection> connection;
};

/// Who waits on which channel. Shared with subscriptions, which may outlive the client.
struct RedisChannels {
  struct Channel {
    size_t subscriptions = 0;
    std::vector<std::weak_ptr<Waiter>> waiters;
  };
  Mutex mutex;
  std::map<std::string, Channel> channels GUARDED_BY(mutex);
  /// Tells the client that a channel came or went.
  std::function<void(const std::string& channel)> changed GUARDED_BY(mutex);

  void Changed(const std::string& channel) {
    std::function<void(const std::string&)> tell;
    {
      MutexLock lock(mutex);
      tell = changed;
    }
    if (tell) tell(channel);
  }
  bool Has(const std::string& channel) {
    MutexLock lock(mutex);
    return channels.contains(channel);
  }
  void Wake(const std::string& name) {
    std::vector<std::weak_ptr<Waiter>> woken;
    {
      MutexLock lock(mutex);
      const auto found = channels.find(name);
      if (found != channels.end()) woken = std::exchange(found->second.waiters, {});
    }
    for (const auto& waiter : woken) {
      if (const WaiterRef held = waiter.lock()) held->Wake();
    }
  }
};

RedisSubscription::RedisSubscription(std::shared_ptr<RedisChannels> channels, std::string channel)
    : channels_(std::move(channels)), channel_(std::move(channel)) {
  {
    MutexLock lock(channels_->mutex);
    ++channels_->channels[channel_].subscriptions;
  }
  channels_->Changed(channel_);
}

RedisSubscription::~RedisSubscription() {
  {
    MutexLock lock(channels_->mutex);
    const auto found = channels_->channels.find(channel_);
    if (--found->second.subscriptions > 0) return;
    channels_->channels.erase(found);
  }
  channels_->Changed(channel_);
}

WaiterRef RedisSubscription::Enlist() {
  auto waiter = std::make_shared<Waiter>();
  {
    MutexLock lock(channels_->mutex);
    auto& waiters = channels_->channels[channel_].waiters;
    // One that waits long looks again each second and leaves a waiter behind.
    std::erase_if(waiters, [](const std::weak_ptr<Waiter>& other) { return other.expired(); });
    waiters.push_back(waiter);
  }
  // A connection that was cut is made anew by those who wait.
  channels_->Changed(channel_);
  return waiter;
}

namespace {

/// What the connections to one server share, on its strand.
struct RedisShare {
  explicit RedisShare(asio::io_context& io, RedisClientOptions options)
      : strand(asio::make_strand(io)), options(std::move(options)) {}

  /// Server texts may repeat what they were sent.
  std::string Mask(std::string text) const { return options.password.Masked(std::move(text)); }
  void Failed(const std::string& why) {
    backoff = backoff.count() == 0 ? options.backoff_min : std::min(backoff * 2, options.backoff_max);
    next_try = Steady::now() + Jittered(backoff);
    last_error = why;
    if (is_reachable.exchange(false)) {
      LogWarn("lost a Redis server", {{"url", options.url.ToText()}, {"reason", last_error}});
    }
  }
  void Succeeded() {
    backoff = {};
    next_try = {};
    if (!is_reachable.exchange(true)) LogInfo("reached a Redis server", {{"url", options.url.ToText()}});
  }
  Error Unavailable(std::string_view why) const {
    return Error(Code::kUnavailable, fmt::format("{}: {}", options.url.ToText(), why));
  }
  void End(RedisCall& call, Status status) {
    if (std::exchange(call.is_done, true)) return;
    --calls;
    unsent_bytes -= std::exchange(call.unsent_bytes, 0);
    if (call.is_abandoned && call.late && status && !call.replies.empty()) call.late(std::move(call.replies.back()));
    call.status = std::move(status);
    call.waiter->Wake();
  }

  const asio::any_io_executor strand;
  const RedisClientOptions options;
  size_t calls = 0;
  size_t unsent_bytes = 0;
  std::chrono::milliseconds backoff{0};
  SteadyTime next_try{};
  std::string last_error;
  bool is_closed = false;
  std::atomic<bool> is_reachable{true};
  std::atomic<bool> is_connected{false};
};

/// One connection and what it carries; all on the strand. Connects when Open is called, ends when it breaks, and may
/// be opened again.
class RedisConnection : public std::enable_shared_from_this<RedisConnection> {
 public:
  /// `channels`: this one is for wake-ups, and carries no calls.
  RedisConnection(RedisShare& share, std::shared_ptr<void> owner, std::shared_ptr<RedisChannels> channels)
      : share_(share), owner_(owner), channels_(std::move(channels)), watch_(share.strand) {}

  bool IsOpen() const { return state_ != State::kDown; }
  bool IsUp() const { return state_ == State::kUp; }
  size_t calls() const { return queued_.size() + sent_.size(); }
  bool IsBusy() const { return unsent_bytes_ > kBusyBytes || calls() > kBusyCalls; }

  void Open() {
    if (state_ != State::kDown) return;
    state_ = State::kConnecting;
    reason_.reset();
    // The client's state lives until the last connection has ended.
    asio::co_spawn(
        share_.strand, [self = shared_from_this(), owner = owner_.lock()] { return self->Run(); }, asio::detached);
  }
  void Add(RedisCallRef call) {
    // Opening may fail at once, for instance where a certificate cannot be read.
    if (state_ == State::kDown) return share_.End(*call, share_.Unavailable(share_.last_error));
    call->connection = weak_from_this();
    unsent_bytes_ += call->unsent_bytes;
    queued_.push_back(std::move(call));
    Write();
  }
  /// A subscription came or went.
  void Follow(const std::string& channel) {
    if (state_ != State::kUp) return;
    const bool is_wanted = channels_->Has(channel);
    if (is_wanted == subscribed_.contains(channel)) return;
    is_wanted ? (void)subscribed_.insert(channel) : (void)subscribed_.erase(channel);
    Say({is_wanted ? "SUBSCRIBE" : "UNSUBSCRIBE", channel});
  }
  /// `why` names no server.
  void Break(Error why) {
    if (state_ == State::kDown || reason_) return;
    reason_ = std::move(why);
    if (transport_) transport_->Close();
  }
  void Forget(const RedisCall& call) {
    // What is not written is not sent any more.
    const auto found = std::find_if(queued_.begin(), queued_.end(), [&](const auto& c) { return c.get() == &call; });
    if (found == queued_.end()) return;
    const RedisCallRef held = *found;
    queued_.erase(found);
    unsent_bytes_ -= held->unsent_bytes;
    share_.End(*held, share_.Unavailable("given up before it was sent"));
  }

 private:
  enum class State : uint8_t { kDown, kConnecting, kUp };

  asio::awaitable<void> Run() {
    const SteadyTime began = Steady::now();
    Status status;
    if (reason_) {
      status = *reason_;
    } else if (auto made = MakeTransport(share_.strand, share_.options.url.place)) {
      transport_ = std::move(made).value();
      parser_.emplace(share_.options.reply);
      Watch(began + share_.options.connect_max);
      status = co_await Greet();
      if (status) {
        state_ = State::kUp;
        share_.Succeeded();
        share_.is_connected = true;
        heard_ = Steady::now();
        Resubscribe();
        Write();
        Watch(heard_ + share_.options.silence_max);
        status = co_await Read();
      }
    } else {
      status = std::move(made).error();
    }
    watch_.cancel();
    ++watch_round_;
    Down(share_.Mask(reason_ ? reason_->message() : status.error().message()), Steady::now() - began);
  }

  /// Log-in: HELLO with the version of the protocol, who we are and what we are called; then the database.
  Task<void> Greet() {
    CO_TRY(co_await transport_->Connect());
    const RedisUrl& url = share_.options.url;
    std::vector<std::string_view> hello = {"HELLO", "2"};
    if (const Secret& password = share_.options.password; !password.empty()) {
      hello.insert(hello.end(), {"AUTH", url.user.empty() ? std::string_view("default") : url.user, password.Reveal()});
    }
    hello.insert(hello.end(), {"SETNAME", share_.options.name});
    std::string text = FormatRedisCommand(hello);
    size_t answers = 1;
    const std::string db = std::to_string(url.db);
    if (url.db != 0) {
      text += FormatRedisCommand(std::array<std::string_view, 2>{"SELECT", db});
      ++answers;
    }
    std::vector<asio::const_buffer> buffers = {asio::buffer(text)};
    CO_TRY(co_await transport_->Write(std::move(buffers)));
    std::string bytes(kReadBytes, '\0');
    while (answers > 0) {
      CO_TRY_ASSIGN(std::optional<RedisReply> reply, parser_->Next());
      if (!reply) {
        CO_TRY_ASSIGN(const size_t count, co_await transport_->ReadSome(asio::buffer(bytes)));
        CO_TRY(parser_->Feed(std::string_view(bytes).substr(0, count)));
        continue;
      }
      if (reply->Is(RedisReply::Kind::kError)) co_return ErrorOf(*reply);
      if (SaysCluster(*reply)) co_return NodeOfACluster();
      --answers;
    }
    co_return Status();
  }

  Task<void> Read() {
    std::string bytes(kReadBytes, '\0');
    while (true) {
      CO_TRY_ASSIGN(std::optional<RedisReply> reply, parser_->Next());
      if (reply) {
        CO_TRY(channels_ ? Hear(*reply) : Answer(*std::move(reply)));
        continue;
      }
      CO_TRY_ASSIGN(const size_t count, co_await transport_->ReadSome(asio::buffer(bytes)));
      heard_ = Steady::now();
      CO_TRY(parser_->Feed(std::string_view(bytes).substr(0, count)));
    }
  }

  Status Answer(RedisReply reply) {
    if (sent_.empty()) return Error(Code::kCorrupt, "an answer that nobody asked for");
    // What stands before a cluster may not say so when it is greeted.
    const bool is_redirected = reply.text.starts_with("MOVED ") || reply.text.starts_with("ASK ");
    if (reply.Is(RedisReply::Kind::kError) && is_redirected) return NodeOfACluster();
    const RedisCallRef call = sent_.front();
    // Nobody keeps what nobody reads; the last is what `late` is given.
    if (call->is_abandoned) call->replies.clear();
    call->replies.push_back(std::move(reply));
    if (++answered_ < call->count) return {};
    answered_ = 0;
    sent_.pop_front();
    share_.End(*call, {});
    return {};
  }

  /// ["message", channel, text], ["subscribe", channel, count], ["unsubscribe", ...], ["pong", text].
  Status Hear(const RedisReply& reply) {
    using Kind = RedisReply::Kind;
    if (reply.Is(Kind::kError)) return ErrorOf(reply);
    is_pinged_ = false;
    if (!reply.Is(Kind::kArray) || reply.items.size() < 2 || !reply.items[0].Is(Kind::kString) ||
        !reply.items[1].Is(Kind::kString)) {
      // A PING without subscriptions is answered in the usual way.
      if (reply.Is(Kind::kStatus) && reply.text == "PONG") return {};
      return Error(Code::kCorrupt, "no message of a channel");
    }
    if (reply.items[0].text == "message" || reply.items[0].text == "subscribe") channels_->Wake(reply.items[1].text);
    return {};
  }

  void Resubscribe() {
    if (channels_ == nullptr) return;
    subscribed_.clear();
    std::vector<std::string> names;
    {
      MutexLock lock(channels_->mutex);
      for (const auto& [name, channel] : channels_->channels) names.push_back(name);
    }
    for (const std::string& name : names) Follow(name);
  }

  /// A command of the connection for wake-ups; its answers come as messages.
  void Say(std::initializer_list<std::string_view> words) {
    auto call = std::make_shared<RedisCall>();
    call->commands = FormatRedisCommand(std::vector<std::string_view>(words));
    queued_.push_back(std::move(call));
    Write();
  }

  void Write() {
    if (state_ != State::kUp || is_writing_ || queued_.empty() || reason_) return;
    is_writing_ = true;
    asio::co_spawn(
        share_.strand, [self = shared_from_this(), owner = owner_.lock()] { return self->WriteQueued(); },
        asio::detached);
  }

  asio::awaitable<void> WriteQueued() {
    const std::shared_ptr<Transport> transport = transport_;
    while (transport == transport_ && state_ == State::kUp && !queued_.empty()) {
      // Calls own the bytes until they are written.
      std::vector<RedisCallRef> batch;
      std::vector<asio::const_buffer> buffers;
      size_t bytes = 0;
      if (sent_.empty()) heard_ = Steady::now();
      while (!queued_.empty() && bytes < kWriteBytes && batch.size() < kWriteCalls) {
        RedisCallRef call = std::move(queued_.front());
        queued_.pop_front();
        bytes += call->commands.size();
        buffers.push_back(asio::buffer(call->commands));
        if (channels_ == nullptr) sent_.push_back(call);
        batch.push_back(std::move(call));
      }
      const Status written = co_await transport->Write(std::move(buffers));
      for (const RedisCallRef& call : batch) {
        unsent_bytes_ -= std::min(unsent_bytes_, call->unsent_bytes);
        share_.unsent_bytes -= std::exchange(call->unsent_bytes, 0);
        call->commands = {};
      }
      if (!written && transport == transport_) Break(written.error());
    }
    is_writing_ = false;
    Write();
  }

  /// Closes what does not come to be by `time`, and later what is silent where answers are due.
  void Watch(SteadyTime time) {
    watch_.expires_at(time);
    watch_.async_wait([self = shared_from_this(), round = ++watch_round_](const boost::system::error_code& error) {
      if (!error && round == self->watch_round_) self->Look();
    });
  }

  void Look() {
    const auto silence_max = share_.options.silence_max;
    if (state_ == State::kConnecting) {
      return Break(Late("no log-in", share_.options.connect_max));
    }
    const SteadyTime now = Steady::now();
    const bool is_due = !sent_.empty() || is_pinged_;
    if (is_due && now - heard_ >= silence_max) {
      return Break(Late("no answer", silence_max));
    }
    if (channels_ && !is_pinged_ && now - heard_ >= 2 * silence_max) {
      heard_ = now;
      is_pinged_ = true;
      Say({"PING"});
    }
    Watch(is_due ? heard_ + silence_max : now + silence_max / 2);
  }

  static Error Late(std::string_view what, std::chrono::milliseconds limit) {
    return Error(Code::kUnavailable, fmt::format("{} within {} ms", what, limit.count()));
  }

  void Down(const std::string& why, std::chrono::nanoseconds lived) {
    const Error error = share_.Unavailable(why);
    const bool was_up = state_ == State::kUp;
    state_ = State::kDown;
    if (transport_) transport_->Close();
    transport_.reset();
    is_pinged_ = false;
    answered_ = 0;
    if (was_up) share_.is_connected = false;
    // One that held for a while was cut; its successor may come at once. Others wait: a server that takes
    // connections only to close them would be asked for ever.
    if (share_.is_closed) {
      // Nobody asks any more.
    } else if (!was_up || lived < std::chrono::seconds(1)) {
      share_.Failed(why);
    } else {
      share_.last_error = why;
    }
    for (const RedisCallRef& call : std::exchange(sent_, {})) {
      // Some of its answers are no answer.
      call->replies.clear();
      share_.End(*call, error);
    }
    if (channels_) queued_.clear();
    if (share_.is_closed || Steady::now() < share_.next_try) {
      for (const RedisCallRef& call : std::exchange(queued_, {})) share_.End(*call, error);
    } else if (!queued_.empty()) {
      Open();
    }
    unsent_bytes_ = 0;
    for (const RedisCallRef& call : queued_) unsent_bytes_ += call->unsent_bytes;
  }

  RedisShare& share_;
  const std::weak_ptr<void> owner_;
  const std::shared_ptr<RedisChannels> channels_;
  asio::steady_timer watch_;
  uint64_t watch_round_ = 0;
  State state_ = State::kDown;
  std::optional<Error> reason_;
  std::shared_ptr<Transport> transport_;
  std::optional<RedisParser> parser_;
  std::deque<RedisCallRef> queued_;
  std::deque<RedisCallRef> sent_;
  size_t answered_ = 0;  ///< Of the commands of the first that was sent
  size_t unsent_bytes_ = 0;
  bool is_writing_ = false;
  bool is_pinged_ = false;
  SteadyTime heard_{};
  std::set<std::string> subscribed_;
};

}  // namespace

struct RedisClient::State : std::enable_shared_from_this<RedisClient::State> {
  State(asio::io_context& io, RedisClientOptions options) : share(io, std::move(options)) {}

  void Begin() {
    for (size_t i = 0; i < std::max<size_t>(share.options.connections_max, 1); ++i) {
      connections.push_back(std::make_shared<RedisConnection>(share, shared_from_this(), nullptr));
    }
    listener = std::make_shared<RedisConnection>(share, shared_from_this(), channels);
    MutexLock lock(channels->mutex);
    channels->changed = [weak = weak_from_this()](const std::string& channel) {
      const auto self = weak.lock();
      if (self) asio::post(self->share.strand, [self, channel] { self->Follow(channel); });
    };
  }

  void Follow(const std::string& channel) {
    if (listener->IsOpen()) return listener->Follow(channel);
    if (!share.is_closed && channels->Has(channel) && Steady::now() >= share.next_try) listener->Open();
  }

  /// The connection with the least to do; another is opened where all are busy.
  RedisConnection* Choose() {
    RedisConnection* best = nullptr;
    for (const auto& connection : connections) {
      if (connection->IsOpen() && (!best || connection->calls() < best->calls())) best = connection.get();
    }
    if (best && !best->IsBusy()) return best;
    if (Steady::now() < share.next_try) return best;
    for (const auto& connection : connections) {
      if (connection->IsOpen()) continue;
      connection->Open();
      return best && best->IsUp() ? best : connection.get();
    }
    return best;
  }

  void Send(const RedisCallRef& call) {
    ++share.calls;
    share.unsent_bytes += call->unsent_bytes;
    if (share.is_closed) return share.End(*call, share.Unavailable("the client has ended"));
    if (call->is_abandoned) return share.End(*call, share.Unavailable("given up before it was sent"));
    if (share.calls > share.options.calls_max || share.unsent_bytes > share.options.unsent_bytes_max) {
      return share.End(*call, Error(Code::kExhausted, fmt::format("{}: {} calls with {} bytes are under way; try later",
                                                                  share.options.url.ToText(), share.calls - 1,
                                                                  share.unsent_bytes - call->unsent_bytes)));
    }
    RedisConnection* connection = Choose();
    if (connection == nullptr) {
      return share.End(*call, share.Unavailable(fmt::format("not tried again yet after: {}", share.last_error)));
    }
    connection->Add(call);
  }

  void Abandon(const RedisCallRef& call) {
    if (std::exchange(call->is_abandoned, true)) return;
    if (call->is_done) {
      if (call->late && call->status && !call->replies.empty()) call->late(std::move(call->replies.back()));
    } else if (const auto connection = call->connection.lock()) {
      connection->Forget(*call);
    }
  }

  void Close() {
    share.is_closed = true;
    const Error why(Code::kUnavailable, "the client has ended");
    for (const auto& connection : connections) connection->Break(why);
    listener->Break(why);
  }

  RedisShare share;
  const std::shared_ptr<RedisChannels> channels = std::make_shared<RedisChannels>();
  std::vector<std::shared_ptr<RedisConnection>> connections;
  std::shared_ptr<RedisConnection> listener;
};

RedisClient::RedisClient(asio::io_context& io, RedisClientOptions options)
    : state_(std::make_shared<State>(io, std::move(options))) {
  state_->Begin();
}

RedisClient::~RedisClient() {
  asio::post(state_->share.strand, [state = state_] { state->Close(); });
}

RedisCallRef RedisClient::Start(std::string commands, size_t count, std::function<void(RedisReply)> late) {
  auto call = std::make_shared<RedisCall>();
  call->unsent_bytes = commands.size();
  call->commands = std::move(commands);
  call->count = count;
  call->late = std::move(late);
  asio::post(state_->share.strand, [state = state_, call] { state->Send(call); });
  return call;
}

Task<std::vector<RedisReply>> RedisClient::Finish(RedisCallRef call, Until until) {
  const auto state = state_;
  Status woken = co_await Waiter::Wait(call->waiter, std::move(until));
  if (!woken) {
    asio::post(state->share.strand, [state, call] { state->Abandon(call); });
    co_return std::move(woken).error().Wrap(state->share.options.url.ToText());
  }
  CO_TRY(std::move(call->status));
  co_return std::move(call->replies);
}

void RedisClient::Distrust(const RedisCallRef& call, std::string_view why) {
  asio::post(state_->share.strand, [state = state_, call, why = std::string(why)] {
    if (const auto connection = call->connection.lock()) connection->Break(Error(Code::kUnavailable, why));
  });
}

std::shared_ptr<RedisSubscription> RedisClient::Subscribe(std::string channel) {
  return std::make_shared<RedisSubscription>(state_->channels, std::move(channel));
}

std::string RedisClient::Describe() const {
  const RedisShare& share = state_->share;
  return fmt::format("{}, {}", share.options.url.ToText(),
                     share.is_connected   ? "connected"
                     : share.is_reachable ? "not connected"
                                          : "cannot be reached");
}

}  // namespace ingot::cache
