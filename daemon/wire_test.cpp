// SPDX-License-Identifier: Apache-2.0
// What hostile or broken clients do to the daemon: nothing.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>

#include "daemon/test_server.h"

namespace ingot::daemon {
namespace {

class WireTest : public ServerTest {
 protected:
  /// A connection that sends what it likes.
  proto::UniqueFd Raw() {
    proto::UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::snprintf(address.sun_path, sizeof address.sun_path, "%s", socket_path().c_str());
    EXPECT_EQ(connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    return socket;
  }
  /// Sends, closes the writing side and reads until the daemon has closed too.
  static std::string SendAndDrain(const proto::UniqueFd& socket, Bytes bytes) {
    // The daemon may close before it has read everything.
    const ssize_t sent = send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    (void)sent;
    shutdown(socket.get(), SHUT_WR);
    std::string all;
    char piece[4096];
    for (ssize_t got; (got = read(socket.get(), piece, sizeof piece)) > 0;) {
      all.append(piece, static_cast<size_t>(got));
    }
    return all;
  }
  static Buffer FrameOf(uint16_t type, const Buffer& body) {
    proto::FrameHeader header{.type = type, .request = 7,
                              .length = static_cast<uint32_t>(body.size())};
    const auto head = proto::EncodeHeader(header);
    Buffer out(head.size() + body.size());
    std::ranges::copy(head, out.begin());
    std::ranges::copy(body, out.begin() + head.size());
    return out;
  }
  static Buffer LookupFrame() {
    proto::LookupT lookup;
    lookup.key = MakeKey("f");
    return FrameOf(3, proto::PackMessage<proto::Lookup>(lookup));
  }
  void ExpectAlive() { EXPECT_TRUE(Connect()->Query("status")); }
};

TEST_F(WireTest, SurvivesEveryTruncation) {
  const Buffer frame = LookupFrame();
  for (size_t size = 0; size < frame.size(); ++size) {
    EXPECT_EQ(SendAndDrain(Raw(), Bytes(frame).first(size)), "") << size;
  }
  ExpectAlive();
}

TEST_F(WireTest, SurvivesEveryBitFlip) {
  const Buffer frame = LookupFrame();
  for (size_t bit = 0; bit < frame.size() * 8; bit += 1) {
    Buffer damaged = frame;
    damaged[bit / 8] ^= static_cast<uint8_t>(1u << (bit % 8));
    SendAndDrain(Raw(), damaged);
  }
  ExpectAlive();
}

TEST_F(WireTest, RefusesABodyThatIsNotTheMessageItClaims) {
  const Buffer noise(300, 0xA5);
  for (const uint16_t type : {3, 5, 7, 9}) {
    auto channel = client::Channel::Connect(socket_path());
    ASSERT_TRUE(channel);
    auto answer = (*channel)->Call(static_cast<proto::MessageType>(type), noise, -1);
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().code(), Code::kCorrupt) << type;
    // The frame itself was whole: the connection goes on.
    EXPECT_FALSE((*channel)->broken());
  }
  EXPECT_EQ(Count(Counter::bad_requests), 4u);
}

TEST_F(WireTest, AnswersAnUnknownMessageAndGoesOn) {
  auto channel = client::Channel::Connect(socket_path());
  auto answer = (*channel)->Call(static_cast<proto::MessageType>(999), {}, -1);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code(), Code::kUnsupported);
  EXPECT_EQ(answer.error().message(), "message type 999 is not one this daemon knows");
  EXPECT_FALSE((*channel)->broken());
}

TEST_F(WireTest, ClosesAConnectionThatAnnouncesTooMuch) {
  StopServer();
  config_.request_bytes_max = 1000;
  StartServer();
  auto channel = client::Channel::Connect(socket_path());
  auto answer = (*channel)->Call(proto::MessageType::Lookup, Buffer(1001), -1);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code(), Code::kExhausted);
  EXPECT_TRUE((*channel)->broken());
  ExpectAlive();
}

TEST_F(WireTest, SaysBusyOverTheLimitOfOneConnection) {
  StopServer();
  config_.session_requests_max = 1;
  StartServer();
  compilers_->CloseGate();
  auto channel = client::Channel::Connect(socket_path());
  const Buffer body = proto::PackMessage<proto::Compile>(MakeCompile("f", "graph f 4"));
  EXPECT_EQ((*channel)->Call(proto::MessageType::Compile, body, 0).error().code(), Code::kTimeout);
  auto second = (*channel)->Call(proto::MessageType::Compile, body, -1);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), Code::kExhausted);
  EXPECT_EQ(Count(Counter::busy), 1u);
  compilers_->OpenGate();
}

TEST_F(WireTest, ServesManyRequestsOfOneChannelAtOnce) {
  const auto connection = Connect();
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const std::string name = "f" + std::to_string(t);
      if (!connection->Compile(MakeCompile(name, "graph " + name + " 4"))) return;
      for (int i = 0; i < 50; ++i) {
        auto hit = connection->Lookup(*MakeKey(name));
        if (!hit || !hit->reply.found || hit->files.size() != 1) return;
      }
      ++good;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 4);
}

}  // namespace
}  // namespace ingot::daemon
