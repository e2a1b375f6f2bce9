// SPDX-License-Identifier: Apache-2.0
// No client keeps others from being served, and none is left without a word.
#include <fcntl.h>
#include <poll.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "daemon/ipc/running.h"
#include "daemon/state/descriptors.h"
#include "tests/support/daemon/load_pages.h"
#include "tests/support/daemon/test_wire.h"
#include "tests/support/eventually.h"

namespace ingot::daemon {
namespace {

using ingot::support::Eventually;
using nlohmann::json;
using proto::MessageType;

class SessionTest : public WireTest {
 protected:
  /// The daemon anew, with other limits.
  template <typename Change>
  void Restart(Change change) {
    StopServer();
    change(config_);
    StartServer();
  }
  std::shared_ptr<client::Channel> OpenChannel(const std::string& more = "") {
    auto channel = client::Channel::Connect(socket_path() + more);
    EXPECT_TRUE(channel) << channel.error().ToText();
    return channel ? std::move(channel).value() : nullptr;
  }
  /// A connection on which a compile waits for the gate.
  std::shared_ptr<client::Channel> Waiting(const std::string& function) {
    auto channel = OpenChannel();
    const Buffer body = proto::PackMessage<proto::Compile>(MakeCompile(function, "graph " + function + " 4"));
    const size_t before = compilers_->started();
    EXPECT_EQ(channel->Call(MessageType::Compile, body, 0).error().code(), Code::kTimeout);
    EXPECT_TRUE(Eventually([&] { return compilers_->started() != before; }));
    return channel;
  }
  /// The last frame before the daemon closes, as an error.
  static Error LastWords(const UniqueFd& socket) {
    Error last(Code::kInternal, "not a word");
    while (true) {
      const Result<proto::Frame> frame = proto::ReceiveFrame(socket.get(), proto::Deadline::AfterS(60));
      if (!frame) return frame.error().code() == Code::kTimeout ? frame.error() : last;
      const auto* error = proto::ReadMessage<proto::ErrorReply>(frame->body);
      if (frame->header.request == 0 && error != nullptr) {
        last = Error(static_cast<Code>(error->code()), error->message()->str());
      }
    }
  }
  static Result<proto::Frame> Lookup(client::Channel& channel) {
    proto::LookupT lookup;
    lookup.key = MakeKey("f");
    return channel.Call(MessageType::Lookup, proto::PackMessage<proto::Lookup>(lookup), 60'000);
  }
};

TEST_F(SessionTest, IdleConnectionsMakeRoom) {
  Restart([](Config& config) {
    config.sessions_max = 8;
    config.sessions_reserved = 0;
    config.peer_sessions_max = 0;
  });
  std::vector<UniqueFd> idle;
  for (int i = 0; i < 20; ++i) idle.push_back(Raw());
  const auto connection = Connect();
  ASSERT_TRUE(connection);
  EXPECT_TRUE(connection->Lookup(*MakeKey("f")));
  EXPECT_EQ(json::parse(*connection->Query("status"))["clients"], 7) << "one place is that of who asks this";
  const Error why = LastWords(idle[0]);
  EXPECT_EQ(why.code(), Code::kUnavailable);
  EXPECT_NE(why.message().find("sessions_max"), std::string::npos) << why.message();
}

TEST_F(SessionTest, OneProcessHoldsSoManyConnections) {
  Restart([](Config& config) { config.peer_sessions_max = 4; });
  const auto used = Connect();
  std::vector<UniqueFd> idle;
  for (int i = 0; i < 10; ++i) {
    idle.push_back(Raw());
    ASSERT_TRUE(used->Query("status")) << "it is not the one that lay idle longest";
  }
  EXPECT_EQ(json::parse(*used->Query("status"))["clients"], 3) << "and one by which it administers";
  EXPECT_NE(LastWords(idle[0]).message().find("peer_sessions_max"), std::string::npos);
}

TEST_F(SessionTest, AnswersQueriesWhereEveryPlaceIsTaken) {
  Restart([](Config& config) { config.sessions_max = 2; });
  compilers_->CloseGate();
  const auto first = Waiting("f");
  const auto second = Waiting("g");
  const auto operator_ = Connect();
  ASSERT_TRUE(operator_);
  for (const char* verb : {"status", "stats", "list", "doctor"}) EXPECT_TRUE(operator_->Query(verb)) << verb;
  const auto channel = OpenChannel();
  const auto refused = Lookup(*channel);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kExhausted);
  EXPECT_TRUE(refused.error().message().starts_with("busy: ")) << refused.error().message();
  compilers_->OpenGate();
  // The same connection is served once another has its answer.
  while (!Lookup(*channel)) ASSERT_FALSE(channel->broken());
}

TEST_F(SessionTest, SaysWhyItTakesNoMore) {
  Restart([](Config& config) {
    config.sessions_max = 1;
    config.sessions_reserved = 0;
  });
  compilers_->CloseGate();
  const auto first = Waiting("f");
  client::ConnectionOptions options;
  options.store_dir = dir_.path() + "/store";
  options.socket = socket_path();
  const auto refused = client::Connection::Open(options);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kExhausted);
  EXPECT_TRUE(refused.error().message().starts_with("busy: ")) << refused.error().message();
  compilers_->OpenGate();
}

TEST_F(SessionTest, ClientsDoNotNoticeThatTheyLayIdle) {
  Restart([](Config& config) { config.session_idle_s_max = 1; });
  const auto connection = Connect();
  ASSERT_TRUE(connection->Compile(MakeCompile("f", "graph f 4")));
  // This one begins later, so that the other has been closed when it is.
  const Error why = LastWords(Raw());
  EXPECT_EQ(why.code(), Code::kUnavailable);
  EXPECT_NE(why.message().find("session_idle_s_max"), std::string::npos) << why.message();
  const uint64_t before = Count(Counter::sessions);
  const auto found = connection->Lookup(*MakeKey("f"));
  ASSERT_TRUE(found) << found.error().ToText();
  EXPECT_TRUE(found->reply.found);
  EXPECT_EQ(Count(Counter::sessions), before + 1);
}

TEST_F(SessionTest, KeepsWhoWaitsForAnAnswer) {
  Restart([](Config& config) { config.session_idle_s_max = 1; });
  compilers_->CloseGate();
  const auto waiting = Waiting("f");
  EXPECT_EQ(LastWords(Raw()).code(), Code::kUnavailable);
  EXPECT_FALSE(waiting->broken());
  compilers_->OpenGate();
  EXPECT_TRUE(Lookup(*waiting)) << "on the same connection";
}

TEST_F(SessionTest, EndsAFrameThatNeverEnds) {
  Restart([](Config& config) { config.session_read_s_max = 1; });
  const Buffer frame = LookupFrame();
  const auto socket = Raw();
  // A whole one and the start of another.
  ASSERT_EQ(send(socket.get(), frame.data(), frame.size(), 0), static_cast<ssize_t>(frame.size()));
  ASSERT_EQ(send(socket.get(), frame.data(), 20, 0), 20);
  const Error why = LastWords(socket);
  EXPECT_EQ(why.code(), Code::kTimeout);
  EXPECT_NE(why.message().find("session_read_s_max"), std::string::npos) << why.message();
}

TEST_F(SessionTest, EndsAClientThatReadsNothing) {
  Restart([](Config& config) {
    config.session_write_s_max = 1;
    config.replies_bytes_max = 1 << 20;
  });
  const Buffer frame = LookupFrame();
  const auto socket = Raw();
  while (true) {
    const ssize_t sent = send(socket.get(), frame.data(), frame.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno != EAGAIN) break;
    pollfd writable{socket.get(), POLLOUT, 0};
    ASSERT_EQ(poll(&writable, 1, 60'000), 1) << "the daemon neither reads nor closes";
  }
  ExpectAlive();
}

TEST_F(SessionTest, WhatAllLeaveUnreadIsBoundedAndOthersHaveTheirPart) {
  Restart([](Config& config) {
    config.unread_bytes_max = 1 << 20;
    config.sessions_max = 8;
  });
  const Buffer frame = LookupFrame();
  // Beside what the kernel holds for them the daemon may hold half of that, and what it has just read.
  constexpr size_t kTakenMax = 32u << 20;
  size_t taken = 0;
  std::vector<UniqueFd> sockets;
  for (int i = 0; i < 4; ++i) {
    sockets.push_back(Raw());
    while (taken < kTakenMax) {
      const ssize_t sent = send(sockets.back().get(), frame.data(), frame.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent > 0) taken += static_cast<size_t>(sent);
      pollfd writable{sockets.back().get(), POLLOUT, 0};
      if (sent < 0 && poll(&writable, 1, 500) == 0) break;
    }
  }
  EXPECT_LT(taken, kTakenMax);
  EXPECT_TRUE(Connect()->Query("status"));
}

TEST_F(SessionTest, CompilesStarveNeitherLookupsNorQueries) {
  Mutex mutex;
  CondVar changed;
  bool open = false;
  std::atomic<uint64_t> begun{0};
  const auto wait = [&] {
    ++begun;
    MutexLock lock(mutex);
    while (!open) changed.Wait(mutex);
  };
  // Every thread has one, and then the queue is full.
  EXPECT_TRUE(Eventually([&] {
    const bool all_wait = begun == config_.pool_threads;
    while (core_->pool.Post(wait)) {
    }
    return all_wait;
  }));
  const auto connection = Connect();
  for (const char* verb : {"status", "stats", "list", "verify"}) EXPECT_TRUE(connection->Query(verb)) << verb;
  EXPECT_EQ(connection->Fetch({1, 2}).error().code(), Code::kNotFound);
  EXPECT_FALSE(connection->Lookup(*MakeKey("f"))->reply.found);
  EXPECT_EQ(connection->Compile(MakeCompile("f", "graph f 4")).error().code(), Code::kExhausted);
  {
    MutexLock lock(mutex);
    open = true;
    changed.NotifyAll();
  }
  StopServer();  // Its tasks use what lives here.
}

TEST_F(SessionTest, LongVerbsDoNotStarveShortOnes) {
  const auto connection = Connect();
  ASSERT_TRUE(connection->Compile(MakeCompile("f", "graph f 4")));
  compilers_->CloseGate();
  std::vector<std::shared_ptr<client::Channel>> verifying;
  proto::QueryT verify;
  verify.verb = "verify";
  verify.json = R"({"recompile":true})";
  for (int i = 0; i < 8; ++i) {
    verifying.push_back(OpenChannel(".admin"));
    EXPECT_FALSE(verifying.back()->Call(MessageType::Query, proto::PackMessage<proto::Query>(verify), 0));
  }
  compilers_->WaitForJob();
  for (const char* verb : {"status", "list", "inspect", "pin", "unpin"}) {
    EXPECT_TRUE(connection->Query(verb, R"({"key":"f"})")) << verb;
  }
  EXPECT_NE(Running::ToText().find("query verify"), std::string::npos) << Running::ToText();
  compilers_->OpenGate();
}

TEST_F(SessionTest, DrainEndsAVerbThatTakesLong) {
  const auto connection = Connect();
  for (const char* name : {"f", "g"}) {
    ASSERT_TRUE(connection->Compile(MakeCompile(name, std::string("graph ") + name + " 4")));
  }
  compilers_->CloseGate();
  std::thread verifying([&] {
    const auto answer = connection->Query("verify", R"({"recompile":true})");
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().code(), Code::kCancelled) << answer.error().ToText();
  });
  compilers_->WaitForJob();
  ASSERT_TRUE(Connect()->Query("drain"));
  EXPECT_TRUE(Eventually([&] { return !client::Channel::Connect(socket_path()); }));
  compilers_->OpenGate();
  verifying.join();
  server_->Wait();
}

TEST_F(SessionTest, SaysThatAReplyIsTooLarge) {
  Restart([](Config& config) { config.replies_bytes_max = 2000; });
  const auto connection = Connect();
  const auto answer = connection->Query("config");
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code(), Code::kExhausted);
  EXPECT_NE(answer.error().message().find("replies_bytes_max"), std::string::npos) << answer.error().message();
  EXPECT_TRUE(connection->Query("status"));
  EXPECT_EQ(Count(Counter::sessions), 2u) << "both connections go on";
}

TEST_F(SessionTest, ListsInPages) {
  Restart([](Config& config) { config.list_entries_max = 3; });
  const auto connection = Connect();
  for (int i = 0; i < 8; ++i) {
    const std::string name = "f" + std::to_string(i);
    ASSERT_TRUE(connection->Compile(MakeCompile(name, "graph " + name + " 4")));
  }
  const auto pages = [&](json arguments) {
    std::multiset<std::string> functions;
    std::vector<size_t> sizes;
    while (true) {
      const json page = json::parse(*connection->Query("list", arguments.dump()));
      for (const json& entry : page["entries"]) functions.insert(entry["function"].get<std::string>());
      sizes.push_back(page["entries"].size());
      if (page["next"].is_null()) break;
      arguments["after"] = page["next"];
    }
    EXPECT_EQ(functions.size(), std::set(functions.begin(), functions.end()).size());
    return std::pair(functions.size(), sizes);
  };
  EXPECT_EQ(pages(json::object()), std::pair(size_t{8}, std::vector<size_t>({3, 3, 2})));
  EXPECT_EQ(pages({{"limit", 2}}), std::pair(size_t{8}, std::vector<size_t>({2, 2, 2, 2})));
  EXPECT_EQ(pages({{"function", "f5"}}), std::pair(size_t{1}, std::vector<size_t>({1})));
  EXPECT_EQ(connection->Query("list", R"({"after":"f5"})").error().code(), Code::kInvalid);
}

TEST_F(SessionTest, SocketsAreNotInherited) {
  const auto connection = Connect();
  ASSERT_TRUE(connection->Query("status"));
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    if (!std::filesystem::read_symlink(entry, gone).string().starts_with("socket:")) continue;
    EXPECT_NE(fcntl(std::stoi(entry.path().filename()), F_GETFD) & FD_CLOEXEC, 0) << entry.path();
  }
}

TEST_F(SessionTest, BytesThatOthersHoldDoNotKeepASmallRequestOut) {
  Restart([](Config& config) {
    config.requests_bytes_max = 1 << 20;
    config.sessions_max = 8;
  });
  // Much of a large request, so that the room for all is taken.
  proto::FrameHeader header{.type = 5, .request = 1, .length = 1000 << 10};
  const auto head = proto::EncodeHeader(header);
  const auto socket = Raw();
  ASSERT_EQ(send(socket.get(), head.data(), head.size(), 0), static_cast<ssize_t>(head.size()));
  const Buffer part(600 << 10);
  size_t sent = 0;
  while (sent < part.size()) {
    const ssize_t more = send(socket.get(), part.data() + sent, part.size() - sent, MSG_NOSIGNAL);
    ASSERT_GT(more, 0);
    sent += static_cast<size_t>(more);
  }
  proto::CompileT request = MakeCompile("f", "graph f 4");
  request.signature.resize(100 << 10);
  EXPECT_TRUE(Connect()->Compile(request));
}

TEST_F(SessionTest, TakesFramesOfAllSizesFromOneStream) {
  Buffer stream;
  uint32_t request = 0;
  const auto add = [&](MessageType type, const Buffer& body) {
    const auto head = proto::EncodeHeader(
        {.type = static_cast<uint16_t>(type), .request = ++request, .length = static_cast<uint32_t>(body.size())});
    stream.insert(stream.end(), head.begin(), head.end());
    stream.insert(stream.end(), body.begin(), body.end());
  };
  proto::LookupT lookup;
  lookup.key = MakeKey("f");
  // Around the 16 KiB that are read at once, and far beyond.
  for (const size_t bytes : {0u, 16'000u, 16'384u, 40'000u, 1'000'000u}) {
    proto::CompileT compile = MakeCompile("f" + std::to_string(bytes), "graph f 4");
    compile.signature.resize(bytes);
    add(MessageType::Compile, proto::PackMessage<proto::Compile>(compile));
    add(MessageType::Lookup, proto::PackMessage<proto::Lookup>(lookup));
  }
  for (const size_t step : {977u, 20'011u, 2'000'003u}) {
    const auto socket = Raw();
    std::thread sending([&] {
      for (size_t at = 0; at < stream.size();) {
        const ssize_t more = send(socket.get(), stream.data() + at, std::min(step, stream.size() - at), MSG_NOSIGNAL);
        ASSERT_GT(more, 0);
        at += static_cast<size_t>(more);
      }
    });
    std::set<uint32_t> answered;
    for (uint32_t i = 0; i < request; ++i) {
      const Result<proto::Frame> frame = proto::ReceiveFrame(socket.get(), proto::Deadline::AfterS(60));
      ASSERT_TRUE(frame) << frame.error().ToText();
      const bool is_compile = frame->header.request % 2 == 1;
      EXPECT_EQ(frame->header.type,
                static_cast<uint16_t>(is_compile ? MessageType::CompileReply : MessageType::LookupReply));
      answered.insert(frame->header.request);
    }
    EXPECT_EQ(answered.size(), request);
    sending.join();
  }
}

// Half of them keep to the rules, and get every answer.
TEST_F(SessionTest, ServesTheGoodAmongTheBad) {
  Restart([](Config& config) { config.requests_bytes_max = 16 << 20; });
  ASSERT_TRUE(Connect()->Compile(MakeCompile("f", "graph f 4")));
  {
    // From the second on such a look-up is answered from memory, before the next is read: all may have one id.
    const UniqueFd socket = Raw();
    const Buffer frame = LookupFrame();
    ASSERT_EQ(send(socket.get(), frame.data(), frame.size(), 0), static_cast<ssize_t>(frame.size()));
    ASSERT_TRUE(proto::ReceiveFrame(socket.get(), proto::Deadline::AfterS(60)));
  }
  constexpr int kClients = 32;
  constexpr int kRequests = 200;
  std::atomic<int> good{0};
  std::atomic<bool> over{false};
  std::vector<std::thread> bad;
  for (int t = 0; t < kClients; ++t) {
    bad.emplace_back([&, t] {
      const Buffer frame = LookupFrame();
      while (!over) {
        const UniqueFd socket = Raw();
        Buffer bytes = frame;
        if (t % 4 == 0) bytes.assign(4096, static_cast<uint8_t>(t));
        if (t % 4 == 1) bytes.resize(bytes.size() / 2);
        if (t % 4 == 2) {
          const auto head = proto::EncodeHeader({.type = 5, .request = 1, .length = 200u << 20});
          bytes.assign(head.begin(), head.end());
          bytes.resize(1 << 16);
        }
        if (send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) < 0) continue;
        if (t % 8 < 4) shutdown(socket.get(), SHUT_WR);
      }
    });
  }
  std::vector<std::thread> clients;
  for (int t = 0; t < kClients; ++t) {
    clients.emplace_back([&] {
      const UniqueFd socket = Raw();
      const Buffer frame = LookupFrame();
      std::thread sender([&] {
        for (int i = 0; i < kRequests; ++i) {
          for (size_t sent = 0; sent < frame.size();) {
            const ssize_t more = send(socket.get(), frame.data() + sent, frame.size() - sent, MSG_NOSIGNAL);
            if (more < 0) return;
            sent += static_cast<size_t>(more);
          }
        }
      });
      for (int i = 0; i < kRequests; ++i) {
        const auto frame = proto::ReceiveFrame(socket.get(), proto::Deadline::AfterS(100));
        if (!frame) break;
        if (frame->header.type == static_cast<uint16_t>(MessageType::LookupReply) && frame->descriptors.size() == 1) {
          ++good;
        }
      }
      sender.join();
    });
  }
  for (std::thread& client : clients) client.join();
  over = true;
  for (std::thread& client : bad) client.join();
  EXPECT_EQ(good, kClients * kRequests);
  ExpectAlive();
}

/// A connection that shares the machine with others that run calls.
struct Sharing {
  UniqueFd socket;
  proto::HelloReplyT hello;
  std::vector<UniqueFd> files;
};

class SharingTest : public SessionTest {
 protected:
  static Buffer HelloBody(bool shares_load) {
    proto::HelloT hello;
    hello.pid = 1;  // It is not believed.
    hello.shares_load = shares_load;
    return proto::PackMessage<proto::Hello>(hello);
  }
  static size_t OpenDescriptors() {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return static_cast<size_t>(std::distance(begin(all), end(all)));
  }
  void Greet(Sharing& sharing) {
    const Buffer frame = FrameOf(1, HelloBody(true));
    ASSERT_EQ(send(sharing.socket.get(), frame.data(), frame.size(), MSG_NOSIGNAL), static_cast<ssize_t>(frame.size()));
    auto reply = proto::ReceiveFrame(sharing.socket.get(), proto::Deadline::AfterS(60));
    ASSERT_TRUE(reply) << reply.error().ToText();
    const auto* message = proto::ReadMessage<proto::HelloReply>(reply->body);
    ASSERT_NE(message, nullptr);
    message->UnPackTo(&sharing.hello);
    sharing.files = std::move(reply->descriptors);
  }
  Sharing Share() {
    Sharing sharing{.socket = Raw()};
    Greet(sharing);
    return sharing;
  }
  size_t clients() const { return core_->load.facts().clients.size(); }
};

TEST_F(SharingTest, WhoRunsCallsGetsPagesForAsLongAsItIsConnected) {
  const auto plain = Connect();
  EXPECT_TRUE(plain->Query("status"));
  EXPECT_EQ(clients(), 0u) << "it runs none";
  std::optional<Sharing> sharing(Share());
  ASSERT_EQ(sharing->files.size(), 2u);
  EXPECT_EQ(sharing->hello.load_row, 0);
  EXPECT_NE(sharing->hello.load_holder, 0u);
  const SharedPage own(sharing->files[0].get(), true), machine(sharing->files[1].get(), false);
  EXPECT_EQ(own.as<proto::ClientLoad>().magic, proto::kClientLoadMagic);
  const auto& page = machine.as<const proto::MachineLoad>();
  EXPECT_EQ(page.magic, proto::kMachineLoadMagic);
  EXPECT_EQ(page.rows[0].holder, sharing->hello.load_holder);
  EXPECT_TRUE(Eventually([&] { return clients() == 1; }));
  EXPECT_EQ(core_->load.facts().clients[0].pid, getpid()) << "as the kernel says it";
  for (const json& load : {json::parse(*plain->Query("load")), json::parse(*plain->Query("overview"))["load"]}) {
    EXPECT_GE(load["processors"], 1);
    EXPECT_EQ(load["clients_sharing"], 1);
    EXPECT_EQ(load["clients"][0]["pid"], getpid());
    EXPECT_EQ(load["clients"][0]["program"], "ingot_daemon_te") << "as long as the kernel keeps it";
  }
  EXPECT_EQ(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, sharing->files[1].get(), 0), MAP_FAILED);
  for (const UniqueFd& file : sharing->files) EXPECT_NE(ftruncate(file.get(), 0), 0);
  const uint32_t holder = sharing->hello.load_holder;
  Greet(*sharing);
  EXPECT_EQ(sharing->hello.load_row, 0);
  EXPECT_EQ(sharing->hello.load_holder, holder) << "the same row";
  EXPECT_TRUE(sharing->files.empty()) << "it has them";
  const auto second = Share();
  EXPECT_EQ(second.hello.load_row, 1);
  sharing.reset();
  EXPECT_TRUE(Eventually([&] { return page.rows[0].holder == 0; }));
  EXPECT_EQ(Share().hello.load_row, 0) << "it is given to others";
}

TEST_F(SharingTest, WhoRunsCallsIsNotIdle) {
  Restart([](Config& config) { config.session_idle_s_max = 1; });
  const auto sharing = Share();
  ASSERT_EQ(sharing.files.size(), 2u);
  const SharedPage own(sharing.files[0].get(), true), machine(sharing.files[1].get(), false);
  std::atomic<bool> is_over = false;
  std::thread calls([&] {
    while (!is_over) {
      ++own.as<proto::ClientLoad>().calls;
      std::this_thread::yield();  // On purpose: calls follow each other.
    }
  });
  const uint32_t holder = machine.as<const proto::MachineLoad>().rows[0].holder;
  // This one begins later, and is closed, since it does nothing.
  EXPECT_NE(LastWords(Raw()).message().find("session_idle_s_max"), std::string::npos);
  EXPECT_EQ(machine.as<const proto::MachineLoad>().rows[0].holder, holder);
  is_over = true;
  calls.join();
  EXPECT_NE(LastWords(sharing.socket).message().find("session_idle_s_max"), std::string::npos);
  EXPECT_TRUE(Eventually([&] { return machine.as<const proto::MachineLoad>().rows[0].holder == 0; }));
}

// The first reply finds nobody who reads, and ends the session; what was sent behind it takes no row.
TEST_F(SharingTest, WhoHasGoneTakesNoRow) {
  const auto kept = Share();
  const SharedPage machine(kept.files[1].get(), false);
  for (int i = 0; i < 20; ++i) {
    const UniqueFd socket = Raw();
    shutdown(socket.get(), SHUT_RD);
    proto::HelloT plain, sharing;
    sharing.shares_load = true;
    for (const proto::HelloT& hello : {std::cref(plain), std::cref(sharing)}) {
      (void)proto::SendFrame(socket.get(), {.type = static_cast<uint16_t>(proto::MessageType::Hello), .request = 1},
                             proto::PackMessage<proto::Hello>(hello), proto::Deadline::Never());
    }
  }
  EXPECT_TRUE(Eventually([&] {
    const auto& rows = machine.as<const proto::MachineLoad>().rows;
    return std::ranges::count_if(rows, [](const auto& row) { return row.holder != 0; }) == 1;
  }));
}

TEST_F(SharingTest, WhoRunsCallsMakesRoomAllTheSame) {
  Restart([](Config& config) { config.peer_sessions_max = 1; });
  const auto sharing = Share();
  ASSERT_EQ(sharing.files.size(), 2u);
  const SharedPage own(sharing.files[0].get(), true), machine(sharing.files[1].get(), false);
  own.as<proto::ClientLoad>().running = 1;
  const auto other = Share();
  EXPECT_EQ(other.files.size(), 2u);
  EXPECT_NE(LastWords(sharing.socket).message().find("peer_sessions_max"), std::string::npos);
  EXPECT_EQ(machine.as<const proto::MachineLoad>().rows[0].holder, other.hello.load_holder);
}

// Sessions that end at any instant, half closed, in the middle of a frame or beside a page that means nothing.
TEST_F(SharingTest, HoweverSessionsEndNothingOfThemStays) {
  const auto kept = Share();
  const SharedPage machine(kept.files[1].get(), false);
  const auto rows = [&machine] {
    return std::ranges::count_if(machine.as<const proto::MachineLoad>().rows,
                                 [](const auto& row) { return row.holder != 0; });
  };
  ASSERT_EQ(rows(), 1);
  const size_t open_before = OpenDescriptors();
  std::mt19937 random(46);
  std::deque<Sharing> open;
  const auto put = [](const UniqueFd& socket, const Buffer& frame, size_t bytes) {
    (void)send(socket.get(), frame.data(), std::min(bytes, frame.size()), MSG_NOSIGNAL | MSG_DONTWAIT);
  };
  const std::vector<std::function<void(Sharing&)>> steps{
      [&](Sharing& one) {
        if (one.files.size() == 2) return;
        pollfd waits{one.socket.get(), POLLIN, 0};
        if (poll(&waits, 1, 0) == 0) Greet(one);
      },
      [&](Sharing& one) { put(one.socket, FrameOf(1, HelloBody(false)), SIZE_MAX); },
      [&](Sharing& one) { put(one.socket, FrameOf(1, HelloBody(true)), SIZE_MAX); },
      [&](Sharing& one) { put(one.socket, FrameOf(1, HelloBody(true)), random() % 60); },
      [&](Sharing& one) { put(one.socket, Buffer(random() % 100, static_cast<uint8_t>(random())), SIZE_MAX); },
      [](Sharing& one) { shutdown(one.socket.get(), SHUT_RD); },
      [](Sharing& one) { shutdown(one.socket.get(), SHUT_WR); },
      [&](Sharing& one) {
        if (one.files.size() != 2) return;
        const SharedPage own(one.files[0].get(), true);
        own.as<proto::ClientLoad>().running = static_cast<uint32_t>(random());
        own.as<proto::ClientLoad>().calls = random();
      },
      [](Sharing& one) {
        if (one.files.size() != 2) return;
        (void)fallocate(one.files[0].get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, proto::kLoadPageBytes);
      },
  };
  // The first step is Greet more often than any other: else few have pages.
  for (int i = 0; i < 300; ++i) {
    Sharing one{.socket = Raw()};
    if (random() % 2 == 0) steps[0](one);
    for (uint32_t left = random() % 5; left != 0; --left) steps[1 + random() % (steps.size() - 1)](one);
    open.push_back(std::move(one));
    while (open.size() > random() % 8) open.erase(open.begin() + static_cast<ptrdiff_t>(random() % open.size()));
  }
  open.clear();
  EXPECT_TRUE(Eventually([&] { return rows() == 1; }));
  EXPECT_EQ(machine.as<const proto::MachineLoad>().rows[0].holder, kept.hello.load_holder);
  EXPECT_TRUE(Eventually([&] { return clients() == 1; }));
  EXPECT_TRUE(Eventually([&] { return OpenDescriptors() <= open_before; }))
      << OpenDescriptors() << " of " << open_before;
  const auto next = Share();
  EXPECT_EQ(next.files.size(), 2u) << "it is served as the first was";
}

/// Places in the kernel's table of this process's open files.
uint64_t DescriptorPlaces() {
  std::ifstream status("/proc/self/status");
  std::string word;
  uint64_t places = 0;
  while (status >> word && word != "FDSize:") continue;
  status >> places;
  return places;
}

TEST(MakeRoomForDescriptors, MakesItForAllThatMayBeOpen) {
  Config config;
  config.sessions_max = 3000;
  EXPECT_LT(DescriptorPlaces(), 3000u);
  MakeRoomForDescriptors(config);
  EXPECT_GE(DescriptorPlaces(), std::min<uint64_t>(RaiseDescriptorLimit(), 3000));
}

TEST(KeepWithin, LeavesAQuarterOfTheDescriptorsToOthers) {
  const Config usual;
  Config config;
  KeepWithin(config, 1 << 20);
  EXPECT_EQ(config.artifacts_cached_max, usual.artifacts_cached_max);
  EXPECT_EQ(config.store_files_open_max, usual.store_files_open_max);
  KeepWithin(config, 1024);
  EXPECT_EQ(config.artifacts_cached_max, 512u);
  EXPECT_EQ(config.store_files_open_max, 256u);
  config.artifacts_cached_max = config.store_files_open_max = 3;
  KeepWithin(config, 1024);
  EXPECT_EQ(config.artifacts_cached_max, 3u);
  EXPECT_EQ(config.store_files_open_max, 3u);
}

TEST(SessionsWithin, LeavesWhatOthersNeed) {
  Config config;
  config.workers = 2;
  EXPECT_EQ(SessionsWithin(config, 1 << 20), config.sessions_max);
  KeepWithin(config, 1024);
  const uint64_t some = SessionsWithin(config, 1024);
  EXPECT_GE(some, 50u);
  EXPECT_LE(some, 1024 - config.store_files_open_max - config.artifacts_cached_max);
  EXPECT_EQ(SessionsWithin(config, 100), 1u);
}

}  // namespace
}  // namespace ingot::daemon
