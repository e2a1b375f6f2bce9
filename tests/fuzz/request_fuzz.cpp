// SPDX-License-Identifier: Apache-2.0
// What one client says to a daemon: frames in order, each answered before the next is read. The
// graphs are real, the compiler is a fake, the store is memory.
#include <future>

#include "cache/store/memory_store.h"
#include "daemon/compile/compiler_graphs.h"
#include "daemon/ipc/requests.h"
#include "proto/message.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/messages.h"
#include "tests/support/daemon/fake_compilers.h"
#include "tests/support/recording_builder.h"

namespace ingot::fuzz {
namespace {

using proto::MessageType;

constexpr size_t kRequestsMax = 8;

/// A daemon without its socket.
class Daemon {
 public:
  Daemon() : core_(config_, store_, graphs_, compilers_), requests_(core_, Hooks()) {}
  ~Daemon() { compilers_.Stop(); }

  void Serve(uint16_t type, Bytes body) {
    Serve(type, body, daemon::Caller(daemon::Right::kUse, "1001"));
    Serve(type, body, daemon::Caller(daemon::Right::kAdminister));
  }

 private:
  void Serve(uint16_t type, Bytes body, daemon::Caller caller) {
    const Buffer copy(body.begin(), body.end());
    const auto fast = requests_.Fast(type, copy, caller);
    if (fast) return CheckReply(*fast);
    daemon::Requests::WaitMaxMs(type, copy);
    std::promise<daemon::Reply> answer;
    const auto done = [&](daemon::Reply reply) { answer.set_value(std::move(reply)); };
    const bool started = requests_.Start(type, copy, done, {}, std::move(caller));
    Ensure(started, "an idle daemon takes a request");
    CheckReply(answer.get_future().get());
  }

  static daemon::QueryHooks Hooks() {
    daemon::QueryHooks hooks;
    hooks.clients = [] { return size_t{1}; };
    hooks.uptime_s = [] { return int64_t{0}; };
    hooks.stop = [](bool) {};
    return hooks;
  }
  static daemon::Config SmallConfig() {
    daemon::Config config;
    config.pool_threads = 1;
    return config;
  }

  static void CheckReply(const daemon::Reply& reply) {
    const Bytes body = *reply.body;
    const auto has = [&](MessageType type, bool verifies) { return reply.type != type || verifies; };
    Ensure(has(MessageType::Error, proto::ReadMessage<proto::ErrorReply>(body)) &&
               has(MessageType::LookupReply, proto::ReadMessage<proto::LookupReply>(body)) &&
               has(MessageType::CompileReply, proto::ReadMessage<proto::CompileReply>(body)) &&
               has(MessageType::QueryReply, proto::ReadMessage<proto::QueryReply>(body)) &&
               has(MessageType::FetchReply, proto::ReadMessage<proto::FetchReply>(body)),
           "a reply is the message it says it is");
    if (reply.type != MessageType::Error) accepted = true;
  }

  const daemon::Config config_ = SmallConfig();
  cache::MemoryStore store_;
  const daemon::CompilerGraphs graphs_;
  daemon::FakeCompilers compilers_;
  daemon::Core core_;
  daemon::Requests requests_;
};

template <typename T>
void AppendFrame(Buffer& out, MessageType type, const typename T::NativeTableType& object) {
  const Buffer body = proto::PackMessage<T>(object);
  const auto head = proto::EncodeHeader(
      {.type = static_cast<uint16_t>(type), .request = 1, .length = static_cast<uint32_t>(body.size())});
  out.insert(out.end(), head.begin(), head.end());
  out.insert(out.end(), body.begin(), body.end());
}

Buffer Recording(int64_t rows) {
  support::RecordingBuilder r("f");
  const uint32_t x = r.Input("x", guards::DType::kF32, {rows, 4});
  const uint32_t y = r.Fresh(guards::DType::kF32, {rows, 4});
  r.Step("aten::silu", support::Args(support::V(x)), support::Args(support::V(y)));
  return r.Finish({y});
}

/// Two sizes, which make a template, a third, which proves one, and a look at what came of it.
Buffer Life() {
  Buffer out;
  for (const int64_t rows : {2, 3, 5}) {
    AppendFrame<proto::Compile>(out, MessageType::Compile, SmallCompile(Recording(rows)));
  }
  AppendFrame<proto::Lookup>(out, MessageType::Lookup, SmallLookup());
  AppendFrame<proto::Lookup>(out, MessageType::Lookup, SmallLookup("g"));
  AppendFrame<proto::Query>(out, MessageType::Query, SmallQuery("inspect", R"({"key":"f"})"));
  return out;
}

/// A graph that is to have a pattern applied, at any number and at one.
Buffer Patterned() {
  Buffer out;
  for (const int64_t rows : {2, 3}) {
    proto::CompileT compile = SmallCompile(Recording(rows));
    compile.patterns.push_back(std::make_unique<proto::PatternT>());
    proto::PatternT& pattern = *compile.patterns.back();
    pattern.name = "silu";
    pattern.search = pattern.replace = Recording(4);
    if (rows == 2) pattern.varied_search = pattern.varied_replace = Recording(4);
    AppendFrame<proto::Compile>(out, MessageType::Compile, compile);
  }
  return out;
}

Buffer Verbs(std::initializer_list<const char*> verbs) {
  Buffer out;
  AppendFrame<proto::Compile>(out, MessageType::Compile, SmallCompile(Recording(2)));
  for (const char* verb : verbs) {
    AppendFrame<proto::Query>(out, MessageType::Query, SmallQuery(verb, R"({"key":"f","function":"f"})"));
  }
  return out;
}

}  // namespace

std::vector<Buffer> Seeds() {
  return {Life(), Patterned(), Verbs({"list", "stats", "why-miss", "verify"}),
          Verbs({"pin", "unpin", "evict", "why-miss", "retry"}), Verbs({"text", "config", "gc", "status"})};
}

}  // namespace ingot::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ingot;
  fuzz::Daemon daemon;
  Bytes left{data, size};
  for (size_t i = 0; i < fuzz::kRequestsMax; ++i) {
    const auto header = proto::DecodeHeader(left);
    if (!header) return 0;
    left = left.subspan(proto::kFrameHeaderBytes);
    const size_t length = std::min<size_t>(header->length, left.size());
    daemon.Serve(header->type, left.first(length));
    left = left.subspan(length);
  }
  return 0;
}
