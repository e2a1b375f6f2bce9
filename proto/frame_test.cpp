// SPDX-License-Identifier: Apache-2.0
#include "proto/frame.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace ingot::proto {
namespace {

/// Long enough for whatever does end.
Deadline Soon() { return Deadline::AfterS(60); }

constexpr FrameHeader kHeader{0x0102, 3, 0x04050607, 0x00080910};

TEST(FrameHeader, GivesBackWhatWasWritten) {
  const Result<FrameHeader> header = DecodeHeader(EncodeHeader(kHeader));
  ASSERT_TRUE(header) << header.error().ToText();
  EXPECT_EQ(header->type, kHeader.type);
  EXPECT_EQ(header->descriptors, kHeader.descriptors);
  EXPECT_EQ(header->request, kHeader.request);
  EXPECT_EQ(header->length, kHeader.length);
}

// Other programs may write these bytes, so their places are part of the format.
TEST(FrameHeader, HasItsFieldsWhereTheFormatSays) {
  const std::array<uint8_t, 16> expected = {'I',  'G',  'N',  '1',  1,    3,    0x02, 0x01,
                                            0x07, 0x06, 0x05, 0x04, 0x10, 0x09, 0x08, 0x00};
  EXPECT_EQ(EncodeHeader(kHeader), expected);
}

TEST(FrameHeader, RejectsEveryTruncation) {
  const auto bytes = EncodeHeader(kHeader);
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_EQ(DecodeHeader(Bytes(bytes).first(size)).error().code(), Code::kCorrupt) << size;
  }
}

TEST(FrameHeader, BitFlipsGiveTheErrorOfTheirFieldOrAnotherHeader) {
  const auto bytes = EncodeHeader(kHeader);
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    auto flipped = bytes;
    flipped[bit / 8] ^= 1 << (bit % 8);
    const Result<FrameHeader> header = DecodeHeader(flipped);
    if (bit < 32) {
      ASSERT_FALSE(header) << bit;
      EXPECT_EQ(header.error().code(), Code::kCorrupt);
    } else if (bit < 40) {
      ASSERT_FALSE(header) << bit;
      EXPECT_EQ(header.error().code(), Code::kIncompatible);
    } else if (header) {
      EXPECT_LE(header->length, kFrameBytesMax);
      EXPECT_LE(header->descriptors, kFrameDescriptorsMax);
      EXPECT_EQ(EncodeHeader(*header), flipped);
    } else {
      EXPECT_EQ(header.error().code(), Code::kExhausted);
    }
  }
}

TEST(FrameHeader, AcceptsTheLimitsAndNothingBeyond) {
  FrameHeader header{1, kFrameDescriptorsMax, 0, kFrameBytesMax};
  EXPECT_TRUE(DecodeHeader(EncodeHeader(header)));
  header.length = kFrameBytesMax + 1;
  EXPECT_EQ(DecodeHeader(EncodeHeader(header)).error().code(), Code::kExhausted);
  header.length = 0;
  header.descriptors = kFrameDescriptorsMax + 1;
  EXPECT_EQ(DecodeHeader(EncodeHeader(header)).error().code(), Code::kExhausted);
}

class Sockets : public testing::Test {
 protected:
  Sockets() {
    int pair[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0) {
      left_ = UniqueFd(pair[0]);
      right_ = UniqueFd(pair[1]);
    }
  }
  void SendRaw(Bytes bytes) {
    ASSERT_EQ(::send(left_.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }

  UniqueFd left_;
  UniqueFd right_;
};

TEST_F(Sockets, CarryFramesInOrder) {
  ASSERT_TRUE(SendFrame(left_.get(), {7, 0, 1, 0}, AsBytes("hello"), Soon()));
  ASSERT_TRUE(SendFrame(left_.get(), {8, 0, 2, 0}, {}, Soon()));
  const Result<Frame> first = ReceiveFrame(right_.get(), Soon());
  ASSERT_TRUE(first) << first.error().ToText();
  EXPECT_EQ(first->header.type, 7);
  EXPECT_EQ(first->header.request, 1u);
  EXPECT_EQ(AsText(first->body), "hello");
  const Result<Frame> second = ReceiveFrame(right_.get(), Soon());
  ASSERT_TRUE(second) << second.error().ToText();
  EXPECT_EQ(second->header.type, 8);
  EXPECT_TRUE(second->body.empty());
}

// Larger than any socket buffer, so both sides meet partial writes and reads.
TEST_F(Sockets, CarryLargeFrames) {
  Buffer body(20 << 20);
  for (size_t i = 0; i < body.size(); ++i) body[i] = static_cast<uint8_t>(i * 31 >> 7);
  std::thread sender([&] { EXPECT_TRUE(SendFrame(left_.get(), {1, 0, 1, 0}, body, Soon())); });
  const Result<Frame> frame = ReceiveFrame(right_.get(), Soon());
  sender.join();
  ASSERT_TRUE(frame) << frame.error().ToText();
  EXPECT_TRUE(frame->body == body);
}

TEST_F(Sockets, CarryDescriptors) {
  Result<UniqueFd> one = MakeSealedMemory("one", AsBytes("first"));
  Result<UniqueFd> two = MakeSealedMemory("two", AsBytes("second one"));
  ASSERT_TRUE(one && two);
  ASSERT_TRUE(SendFrame(left_.get(), {1, 0, 1, 0}, AsBytes("x"), Soon(), {one->get(), two->get()}));
  ASSERT_TRUE(SendFrame(left_.get(), {2, 0, 2, 0}, AsBytes("y"), Soon()));
  const Result<Frame> frame = ReceiveFrame(right_.get(), Soon());
  ASSERT_TRUE(frame) << frame.error().ToText();
  ASSERT_EQ(frame->descriptors.size(), 2u);
  char text[16] = {};
  ASSERT_EQ(::pread(frame->descriptors[1].get(), text, sizeof text, 0), 10);
  EXPECT_STREQ(text, "second one");
  EXPECT_TRUE(::fcntl(frame->descriptors[0].get(), F_GETFD) & FD_CLOEXEC);
  const Result<Frame> next = ReceiveFrame(right_.get(), Soon());
  ASSERT_TRUE(next);
  EXPECT_TRUE(next->descriptors.empty());
}

TEST_F(Sockets, CarryAsManyDescriptorsAsTheLimitAndNoMore) {
  const std::vector<int> many(kFrameDescriptorsMax, left_.get());
  ASSERT_TRUE(SendFrame(left_.get(), {1, 0, 1, 0}, {}, Soon(), many));
  const Result<Frame> frame = ReceiveFrame(right_.get(), Soon());
  ASSERT_TRUE(frame) << frame.error().ToText();
  EXPECT_EQ(frame->descriptors.size(), kFrameDescriptorsMax);
  const std::vector<int> more(kFrameDescriptorsMax + 1, left_.get());
  EXPECT_EQ(SendFrame(left_.get(), {1, 0, 1, 0}, {}, Soon(), more).error().code(), Code::kExhausted);
}

TEST_F(Sockets, AnnouncedDescriptorsThatDoNotArriveAreCorrupt) {
  SendRaw(EncodeHeader({1, 2, 1, 0}));
  EXPECT_EQ(ReceiveFrame(right_.get(), Soon()).error().code(), Code::kCorrupt);
}

TEST_F(Sockets, EveryTruncatedFrameIsAGonePeer) {
  Buffer whole;
  const auto head = EncodeHeader({1, 0, 1, 5});
  whole.assign(head.begin(), head.end());
  for (const char c : {'h', 'e', 'l', 'l', 'o'}) whole.push_back(static_cast<uint8_t>(c));
  for (size_t size = 0; size < whole.size(); ++size) {
    left_.Reset();
    int pair[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    left_ = UniqueFd(pair[0]);
    right_ = UniqueFd(pair[1]);
    if (size > 0) SendRaw(Bytes(whole).first(size));
    left_.Reset();
    const Result<Frame> frame = ReceiveFrame(right_.get(), Soon());
    ASSERT_FALSE(frame) << size;
    EXPECT_EQ(frame.error().code(), Code::kUnavailable) << frame.error().ToText();
  }
}

TEST_F(Sockets, SilenceIsATimeout) {
  EXPECT_EQ(ReceiveFrame(right_.get(), Deadline::AfterMs(1)).error().code(), Code::kTimeout);
  SendRaw(Bytes(EncodeHeader({1, 0, 1, 5})).first(10));
  EXPECT_EQ(ReceiveFrame(right_.get(), Deadline::AfterMs(1)).error().code(), Code::kTimeout);
}

// A peer that takes nothing (stopped, say) holds its sender up until the deadline and no longer.
TEST_F(Sockets, APeerThatTakesNothingIsATimeout) {
  const Buffer body(20 << 20);
  EXPECT_EQ(SendFrame(left_.get(), {1, 0, 1, 0}, body, Deadline::AfterMs(20)).error().code(), Code::kTimeout);
}

// The deadline is for the frame, not for each of its pieces.
TEST_F(Sockets, APeerThatSendsByteAfterByteIsATimeout) {
  std::atomic<bool> done = false;
  std::thread sender([&] {
    SendRaw(EncodeHeader({1, 0, 1, 1 << 20}));
    while (!done) {
      ::send(left_.get(), "x", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
      std::this_thread::yield();  // On purpose: one byte at a time.
    }
  });
  EXPECT_EQ(ReceiveFrame(right_.get(), Deadline::AfterMs(20)).error().code(), Code::kTimeout);
  done = true;
  sender.join();
}

TEST_F(Sockets, ALongerFrameThanExpectedIsRefusedByItsHeader) {
  SendRaw(EncodeHeader({1, 0, 1, 1001}));
  EXPECT_EQ(ReceiveFrame(right_.get(), Soon(), 1000).error().code(), Code::kExhausted);
}

TEST_F(Sockets, GonePeerIsUnavailableAndNoSignal) {
  right_.Reset();
  EXPECT_EQ(SendFrame(left_.get(), {1, 0, 1, 0}, AsBytes("x"), Soon()).error().code(), Code::kUnavailable);
  EXPECT_EQ(ReceiveFrame(left_.get(), Soon()).error().code(), Code::kUnavailable);
}

TEST_F(Sockets, RefuseGarbage) {
  SendRaw(AsBytes("GET / HTTP/1.1\r\n"));
  EXPECT_EQ(ReceiveFrame(right_.get(), Soon()).error().code(), Code::kCorrupt);
}

TEST(SealedMemory, HoldsTheBytesAndCannotBeChanged) {
  Result<UniqueFd> fd = MakeSealedMemory("test", AsBytes("sealed bytes"));
  ASSERT_TRUE(fd) << fd.error().ToText();
  EXPECT_TRUE(CheckSealed(fd->get()));
  char text[16] = {};
  EXPECT_EQ(::pread(fd->get(), text, sizeof text, 0), 12);
  EXPECT_STREQ(text, "sealed bytes");
  EXPECT_LT(::pwrite(fd->get(), "x", 1, 0), 0);
  EXPECT_NE(::ftruncate(fd->get(), 0), 0);
  EXPECT_NE(::ftruncate(fd->get(), 100), 0);
  EXPECT_EQ(::mmap(nullptr, 12, PROT_READ | PROT_WRITE, MAP_SHARED, fd->get(), 0), MAP_FAILED);
  EXPECT_TRUE(MakeSealedMemory("empty", {}));
}

TEST(SealedMemory, WaitsForWhoeverCanStillWrite) {
  const Result<UniqueFd> fd = MakeMemory("busy", 4096);
  ASSERT_TRUE(fd) << fd.error().ToText();
  void* const pages = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd->get(), 0);
  ASSERT_NE(pages, MAP_FAILED);
  const Status busy = SealMemory(fd->get());
  EXPECT_EQ(busy.error().code(), Code::kInternal) << "somebody writes to it for good";
  std::thread writer([&] { ::munmap(pages, 4096); });
  const Status sealed = SealMemory(fd->get());
  writer.join();
  EXPECT_TRUE(sealed) << sealed.error().ToText();
  EXPECT_TRUE(CheckSealed(fd->get()));
}

TEST(SealedMemory, CheckRefusesEveryWeakerSeal) {
  const UniqueFd plain(::memfd_create("plain", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(CheckSealed(plain.get()).error().code(), Code::kIncompatible);
  for (const int seals :
       {F_SEAL_WRITE, F_SEAL_WRITE | F_SEAL_GROW, F_SEAL_GROW | F_SEAL_SHRINK, F_SEAL_WRITE | F_SEAL_SHRINK}) {
    const UniqueFd weak(::memfd_create("weak", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    ASSERT_EQ(::fcntl(weak.get(), F_ADD_SEALS, seals), 0);
    EXPECT_EQ(CheckSealed(weak.get()).error().code(), Code::kIncompatible) << seals;
  }
  int pipe[2];
  ASSERT_EQ(::pipe2(pipe, O_CLOEXEC), 0);
  const UniqueFd read(pipe[0]), write(pipe[1]);
  EXPECT_EQ(CheckSealed(read.get()).error().code(), Code::kIncompatible);
  EXPECT_FALSE(CheckSealed(-1));
}

TEST(UniqueFd, ClosesOnceAndMoves) {
  int pipe[2];
  ASSERT_EQ(::pipe2(pipe, O_CLOEXEC), 0);
  {
    UniqueFd read(pipe[0]);
    UniqueFd moved = std::move(read);
    EXPECT_FALSE(read);  // NOLINT: a moved-from UniqueFd holds nothing.
    EXPECT_EQ(moved.get(), pipe[0]);
    UniqueFd write(pipe[1]);
    write = std::move(moved);
    EXPECT_EQ(::fcntl(pipe[1], F_GETFD), -1);
    EXPECT_NE(::fcntl(pipe[0], F_GETFD), -1);
  }
  EXPECT_EQ(::fcntl(pipe[0], F_GETFD), -1);
}

}  // namespace
}  // namespace ingot::proto
