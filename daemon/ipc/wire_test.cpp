// SPDX-License-Identifier: Apache-2.0
// What hostile or broken clients do to the daemon: nothing.
#include "tests/support/daemon/test_wire.h"

namespace ingot::daemon {
namespace {

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
