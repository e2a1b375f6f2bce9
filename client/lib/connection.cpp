// SPDX-License-Identifier: Apache-2.0
#include "client/lib/connection.h"

#include <fmt/format.h>
#include <unistd.h>

#include "client/lib/start_daemon.h"
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
  TRY_ASSIGN(proto::Endpoint endpoint, proto::ResolveEndpoint(options.store_dir, options.socket));
  std::unique_ptr<Connection> connection(
      new Connection(std::move(options), std::move(endpoint)));
  TRY_ASSIGN(const std::shared_ptr<Channel> channel, connection->Ensure());
  return connection;
}

uint32_t Connection::daemon_pid() const {
  std::lock_guard lock(mutex_);
  return daemon_pid_;
}

Result<std::shared_ptr<Channel>> Connection::Ensure() {
  std::lock_guard lock(mutex_);
  if (channel_ && owner_ == getpid() && !channel_->broken()) return channel_;
  TRY_ASSIGN(channel_, Connect());
  owner_ = getpid();
  return channel_;
}

Result<std::pair<std::shared_ptr<Channel>, bool>> Connection::Greet() {
  TRY_ASSIGN(std::shared_ptr<Channel> channel, Channel::Connect(endpoint_.socket));
  proto::HelloT hello;
  hello.version = proto::Version();
  hello.build = options_.build;
  hello.pid = static_cast<uint32_t>(getpid());
  hello.kind = options_.kind;
  const Buffer body = proto::PackMessage<proto::Hello>(hello);
  Result<proto::Frame> frame = channel->Call(MessageType::Hello, body, options_.hello_ms_max);
  for (int i = 1; i < kConnectionsMax && !frame && channel->parted(); ++i) {
    TRY_ASSIGN(channel, Channel::Connect(endpoint_.socket));
    frame = channel->Call(MessageType::Hello, body, options_.hello_ms_max);
  }
  // A daemon that cannot read our greeting speaks another version of the wire.
  if (!frame && frame.error().code() == Code::kIncompatible) return std::pair(channel, false);
  if (!frame) return std::move(frame).error();
  proto::HelloReplyT reply;
  TRY(Unpack<proto::HelloReply>(*frame, reply));
  daemon_pid_ = reply.pid;
  return std::pair(std::move(channel), reply.same_build || options_.any_build);
}

Result<std::shared_ptr<Channel>> Connection::Connect() {
  auto running = Greet();
  if (running && running->second) return running->first;
  // It is there, and says that it serves no more connections.
  if (!running && running.error().code() == Code::kExhausted) return std::move(running).error();
  if (!options_.start) {
    if (!running) return std::move(running).error();
    return Error(Code::kUnavailable, "a daemon of another build serves this store");
  }
  TRY_ASSIGN(const std::string program, FindDaemon(options_.daemon));
  TRY_ASSIGN(const StartLock lock, StartLock::Take(endpoint_));
  // Another client may have started one while this one waited for the lock.
  running = Greet();
  if (running && running->second) return running->first;
  if (running) {
    proto::QueryT drain;
    drain.verb = "drain";
    const Buffer body = proto::PackMessage<proto::Query>(drain);
    Ignore(running->first->Call(MessageType::Query, body, options_.hello_ms_max),
           "a daemon that does not drain keeps its lock, and the start below says so");
  }
  TRY(StartDaemon(endpoint_, program, options_.daemon_arguments, options_.start_ms_max));
  TRY_ASSIGN(auto started, Greet());
  if (started.second) return started.first;
  return Error(Code::kUnavailable, fmt::format("{} is of another build than this client", program));
}

Result<proto::Frame> Connection::Call(MessageType type, MessageType reply, Bytes body,
                                      int deadline_ms) {
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
    return Error(Code::kCorrupt, fmt::format("asked message {}, got message {}",
                                             static_cast<int>(type), frame.header.type));
  }
  return frame;
}

Result<LookupAnswer> Connection::Lookup(const proto::LookupT& request, int deadline_ms) {
  const Buffer body = proto::PackMessage<proto::Lookup>(request);
  TRY_ASSIGN(proto::Frame frame,
             Call(MessageType::Lookup, MessageType::LookupReply, body, deadline_ms));
  LookupAnswer answer;
  TRY(Unpack<proto::LookupReply>(frame, answer.reply));
  answer.files = std::move(frame.descriptors);
  for (const auto& variant : answer.reply.variants) {
    TRY(CheckDescriptor(variant->descriptor, answer.files.size()));
  }
  return answer;
}

Result<LookupAnswer> Connection::Lookup(const proto::EntryKeyT& key, int deadline_ms) {
  proto::LookupT request;
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
  TRY_ASSIGN(proto::Frame frame,
             Call(MessageType::Compile, MessageType::CompileReply, body, deadline_ms));
  CompileAnswer answer;
  TRY(Unpack<proto::CompileReply>(frame, answer.reply));
  if (answer.reply.variant == nullptr || frame.descriptors.size() != 1) {
    return Error(Code::kCorrupt, "the compile reply carries no artifact");
  }
  answer.file = std::move(frame.descriptors[0]);
  return answer;
}

Result<std::string> Connection::Query(const std::string& verb, const std::string& json,
                                      int deadline_ms) {
  proto::QueryT request;
  request.verb = verb;
  request.json = json;
  const Buffer body = proto::PackMessage<proto::Query>(request);
  TRY_ASSIGN(const proto::Frame frame,
             Call(MessageType::Query, MessageType::QueryReply, body, deadline_ms));
  proto::QueryReplyT reply;
  TRY(Unpack<proto::QueryReply>(frame, reply));
  return reply.json;
}

Result<proto::UniqueFd> Connection::Fetch(const Digest& digest, int deadline_ms) {
  proto::FetchT request;
  request.low = digest.low;
  request.high = digest.high;
  const Buffer body = proto::PackMessage<proto::Fetch>(request);
  TRY_ASSIGN(proto::Frame frame,
             Call(MessageType::Fetch, MessageType::FetchReply, body, deadline_ms));
  if (frame.descriptors.size() != 1) {
    return Error(Code::kCorrupt, "the fetch reply carries no artifact");
  }
  return std::move(frame.descriptors[0]);
}

}  // namespace ingot::client
