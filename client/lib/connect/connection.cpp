// SPDX-License-Identifier: Apache-2.0
#include "client/lib/connect/connection.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <thread>
#include <vector>

#include "client/lib/connect/start_daemon.h"
#include "proto/message.h"

namespace ingot::client {
namespace {

using proto::MessageType;

/// How often one call is asked again because the daemon closed the connection before it had begun.
constexpr int kConnectionsMax = 4;

template <typename T, typename Object>
Status Unpack(const proto::Frame& frame, Object& out) {
  const T* table = proto::ReadMessage<T>(frame.body);
  if (table == nullptr) return Error(Code::kCorrupt, "the daemon's reply does not verify");
  table->UnPackTo(&out);
  return {};
}

Status CheckDescriptor(int descriptor, size_t count) {
  if (descriptor < static_cast<int>(count)) return {};
  return Error(Code::kCorrupt, fmt::format("the reply names file {} of {}", descriptor, count));
}

}  // namespace

Connection::Connection(ConnectionOptions options, proto::Endpoint endpoint)
    : options_(std::move(options)), endpoint_(std::move(endpoint)) {}

Result<std::unique_ptr<Connection>> Connection::Open(ConnectionOptions options) {
  TRY_ASSIGN(proto::Endpoint endpoint, proto::ResolveEndpoint(options.store_dir, options.socket, options.build));
  std::unique_ptr<Connection> connection(new Connection(std::move(options), std::move(endpoint)));
  TRY_ASSIGN(const std::shared_ptr<Channel> channel, connection->Ensure());
  return connection;
}

uint32_t Connection::daemon_pid() const {
  MutexLock lock(mutex_);
  return daemon_pid_;
}

Result<std::shared_ptr<Channel>> Connection::Ensure() {
  MutexLock lock(mutex_);
  if (channel_ && owner_ == getpid() && !channel_->broken()) return channel_;
  TRY_ASSIGN(channel_, Connect());
  admin_.reset();
  owner_ = getpid();
  return channel_;
}

Result<std::shared_ptr<Channel>> Connection::Administer() {
  // Where the daemon has gone, or this is a child of fork, the one that is there now says where.
  TRY_ASSIGN(const std::shared_ptr<Channel> channel, Ensure());
  MutexLock lock(mutex_);
  if (admin_ && owner_ == getpid() && !admin_->broken()) return admin_;
  if (admin_socket_.empty()) return Error(Code::kUnavailable, "the daemon has no socket at which it is administered");
  TRY_ASSIGN(admin_, Channel::Connect(admin_socket_, options_.hello_ms_max, endpoint_.daemon_uid));
  return admin_;
}

std::string Connection::daemon_socket() const {
  MutexLock lock(mutex_);
  return daemon_socket_;
}

Result<std::shared_ptr<Channel>> Connection::Greet(const std::string& socket) {
  TRY_ASSIGN(std::shared_ptr<Channel> channel, Channel::Connect(socket, options_.hello_ms_max, endpoint_.daemon_uid));
  proto::HelloT hello;
  hello.version = proto::Version();
  hello.build = options_.build;
  hello.pid = static_cast<uint32_t>(getpid());
  hello.kind = options_.kind;
  hello.shares_load = options_.take_load != nullptr;
  const Buffer body = proto::PackMessage<proto::Hello>(hello);
  Result<proto::Frame> frame = channel->Call(MessageType::Hello, body, options_.hello_ms_max);
  for (int i = 1; i < kConnectionsMax && !frame && channel->parted(); ++i) {
    TRY_ASSIGN(channel, Channel::Connect(socket, options_.hello_ms_max, endpoint_.daemon_uid));
    frame = channel->Call(MessageType::Hello, body, options_.hello_ms_max);
  }
  proto::HelloReplyT reply;
  if (frame) TRY(Unpack<proto::HelloReply>(*frame, reply));
  // A daemon that cannot read our greeting speaks another version of the wire.
  if (frame ? !reply.same_build : frame.error().code() == Code::kIncompatible) {
    return Error(Code::kIncompatible,
                 fmt::format("the daemon at {} is of build {}, this is {}: give each build a socket of its own, or "
                             "set none",
                             socket, frame ? reply.build : "(another wire)", options_.build));
  }
  if (!frame) return std::move(frame).error();
  std::error_code failed;
  const std::string theirs = std::filesystem::weakly_canonical(reply.store, failed).string();
  if (endpoint_.store_is_said && theirs != endpoint_.store_dir) {
    return Error(Code::kInvalid, fmt::format("the daemon at {} serves the store {}, not {}: give each store a socket "
                                             "of its own, or set none",
                                             socket, reply.store, endpoint_.store_dir));
  }
  daemon_pid_ = reply.pid;
  daemon_socket_ = socket;
  admin_socket_ = reply.admin;
  if (options_.take_load != nullptr && reply.load_row >= 0 && frame->descriptors.size() == 2) {
    options_.take_load(
        {std::move(frame->descriptors[0]), std::move(frame->descriptors[1]), reply.load_row, reply.load_holder});
  }
  return channel;
}

Result<std::shared_ptr<Channel>> Connection::Find(int wait_ms) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(wait_ms);
  while (true) {
    const std::optional<proto::LockHolder> holder = proto::LockFile::HolderOf(endpoint_.lock_path());
    // Whoever is named in the lock has the store. Who serves from memory, or could not write its name, is elsewhere.
    std::vector<std::string> places = {endpoint_.socket, endpoint_.memory_socket};
    if (holder && !holder->socket.empty()) places.insert(places.begin(), holder->socket);
    std::optional<Error> why;
    for (const std::string& place : places) {
      auto channel = Greet(place);
      if (!channel && channel.error().code() == Code::kTimeout) return Silent(holder, channel.error());
      if (channel || channel.error().code() != Code::kUnavailable) return channel;
      if (!why) why = std::move(channel).error();
    }
    const bool is_settled =
        !holder || (!holder->socket.empty() && holder == proto::LockFile::HolderOf(endpoint_.lock_path()));
    if (is_settled || std::chrono::steady_clock::now() >= deadline) {
      if (!holder) return NoDaemon();
      return Error(Code::kUnavailable, fmt::format("process {} of host {} holds the store {}, but does not answer: {}",
                                                   holder->pid, holder->host, endpoint_.store_dir, why->message()));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

Error Connection::Silent(const std::optional<proto::LockHolder>& holder, const Error& why) const {
  const std::string who = holder ? fmt::format("process {} of host {}", holder->pid, holder->host) : "a process";
  const std::string hint = holder ? fmt::format("`kill -CONT {0}` if it is stopped, else `kill {0}`", holder->pid)
                                  : std::string("it may be stopped");
  return Error(Code::kTimeout, fmt::format("{} serves the store {}, but stands still ({}): {}", who,
                                           endpoint_.store_dir, why.message(), hint));
}

Error Connection::NoDaemon() const {
  std::string others;
  for (const proto::OtherDaemon& other : proto::OtherDaemons(endpoint_)) {
    others += fmt::format("; process {} of build {} does, for programs of that build", other.holder.pid, other.build);
  }
  return Error(Code::kUnavailable, fmt::format("no daemon serves {}{}", endpoint_.store_dir, others));
}

Result<std::shared_ptr<Channel>> Connection::Connect() {
  // One of another user is started by him.
  const bool may_start = options_.start && endpoint_.daemon_uid == geteuid();
  Result<std::shared_ptr<Channel>> running = Find(may_start ? 0 : options_.hello_ms_max);
  if (running || !may_start || running.error().code() != Code::kUnavailable) return running;
  TRY_ASSIGN(const std::string program, FindDaemon(options_.daemon));
  TRY_ASSIGN(const StartLock lock, StartLock::Take(endpoint_, options_.start_ms_max));
  // Another client may have started one while this one waited for the lock.
  running = Find(0);
  if (running || running.error().code() != Code::kUnavailable) return running;
  Status started = StartDaemon(endpoint_, program, options_.daemon_arguments, options_.start_ms_max);
  running = Find(started ? options_.hello_ms_max : 0);
  if (!running && !started) return std::move(started).error();
  return running;
}

Result<proto::Frame> Connection::Call(MessageType type, MessageType reply, Bytes body, int deadline_ms) {
  std::shared_ptr<Channel> channel;
  Result<proto::Frame> answer = Error(Code::kInternal, "nothing was asked");
  // A daemon parts with connections that lie idle; whoever comes back must not notice.
  for (int i = 0; i < kConnectionsMax; ++i) {
    TRY_ASSIGN(channel, Ensure());
    answer = channel->Call(type, body, deadline_ms);
    if (answer || !channel->parted()) break;
  }
  TRY_ASSIGN(proto::Frame frame, std::move(answer));
  if (frame.header.type != static_cast<uint16_t>(reply)) {
    return Error(Code::kCorrupt,
                 fmt::format("asked message {}, got message {}", static_cast<int>(type), frame.header.type));
  }
  return frame;
}

Result<LookupAnswer> Connection::Lookup(const proto::LookupT& request, int deadline_ms) {
  const Buffer body = proto::PackMessage<proto::Lookup>(request);
  TRY_ASSIGN(proto::Frame frame, Call(MessageType::Lookup, MessageType::LookupReply, body, deadline_ms));
  LookupAnswer answer;
  TRY(Unpack<proto::LookupReply>(frame, answer.reply));
  answer.files = std::move(frame.descriptors);
  for (const auto& variant : answer.reply.variants) {
    TRY(CheckDescriptor(variant->descriptor, answer.files.size()));
  }
  return answer;
}

Result<LookupAnswer> Connection::Lookup(const proto::EntryKeyT& key, int deadline_ms, bool again) {
  proto::LookupT request;
  request.again = again;
  request.key = std::make_unique<proto::EntryKeyT>();
  for (const auto& component : key.components) {
    auto copy = std::make_unique<proto::ComponentT>();
    copy->name = component->name;
    for (const auto& item : component->items) {
      copy->items.push_back(std::make_unique<proto::ItemT>(*item));
    }
    request.key->components.push_back(std::move(copy));
  }
  return Lookup(request, deadline_ms);
}

Result<CompileAnswer> Connection::Compile(const proto::CompileT& request, int deadline_ms) {
  const Buffer body = proto::PackMessage<proto::Compile>(request);
  TRY_ASSIGN(proto::Frame frame, Call(MessageType::Compile, MessageType::CompileReply, body, deadline_ms));
  CompileAnswer answer;
  TRY(Unpack<proto::CompileReply>(frame, answer.reply));
  if (answer.reply.variant == nullptr || frame.descriptors.size() != 1) {
    return Error(Code::kCorrupt, "the compile reply carries no artifact");
  }
  answer.file = std::move(frame.descriptors[0]);
  return answer;
}

Result<proto::Frame> Connection::AskAdmin(Bytes body, int deadline_ms, const std::vector<int>& files) {
  Result<proto::Frame> answer = Error(Code::kDenied, "nothing was asked");
  for (int i = 0; i < kConnectionsMax; ++i) {
    const Result<std::shared_ptr<Channel>> admin = Administer();
    if (!admin) return Error(Code::kDenied, admin.error().message());
    answer = (*admin)->Call(MessageType::Query, body, deadline_ms, files);
    // A daemon parts with connections that lie idle.
    if (answer || !(*admin)->parted()) break;
  }
  return answer;
}

Result<std::string> Connection::Query(const std::string& verb, const std::string& json, int deadline_ms,
                                      const std::vector<int>& files) {
  proto::QueryT request;
  request.verb = verb;
  request.json = json;
  const Buffer body = proto::PackMessage<proto::Query>(request);
  const auto ask = [&] { return Call(MessageType::Query, MessageType::QueryReply, body, deadline_ms); };
  const auto is_denied = [](const Result<proto::Frame>& of) { return !of && of.error().code() == Code::kDenied; };
  Result<proto::Frame> answer = options_.administers ? AskAdmin(body, deadline_ms, files) : ask();
  if (is_denied(answer)) {
    Result<proto::Frame> other = options_.administers ? ask() : AskAdmin(body, deadline_ms, files);
    // The daemon's own words say who may, and where.
    if (!is_denied(other) || options_.administers) answer = std::move(other);
  }
  TRY_ASSIGN(const proto::Frame frame, std::move(answer));
  proto::QueryReplyT reply;
  TRY(Unpack<proto::QueryReply>(frame, reply));
  return reply.json;
}

Result<UniqueFd> Connection::Fetch(const Digest& digest, int deadline_ms) {
  proto::FetchT request;
  request.low = digest.low;
  request.high = digest.high;
  const Buffer body = proto::PackMessage<proto::Fetch>(request);
  TRY_ASSIGN(proto::Frame frame, Call(MessageType::Fetch, MessageType::FetchReply, body, deadline_ms));
  if (frame.descriptors.size() != 1) {
    return Error(Code::kCorrupt, "the fetch reply carries no artifact");
  }
  return std::move(frame.descriptors[0]);
}

}  // namespace ingot::client
