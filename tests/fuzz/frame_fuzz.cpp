// SPDX-License-Identifier: Apache-2.0
// Bytes on a socket, read as frames until they end or break a rule.
#include <sys/socket.h>
#include <unistd.h>

#include "proto/frame.h"
#include "tests/fuzz/fuzz.h"

namespace ingot::fuzz {
namespace {

using namespace proto;  // NOLINT: one target, one format

/// Below what a socket takes without a reader.
constexpr size_t kBytesMax = 32768;

struct Pair {
  Pair() {
    int ends[2];
    Ensure(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "a socket pair opens");
    writer = UniqueFd(ends[0]);
    reader = UniqueFd(ends[1]);
  }
  UniqueFd writer, reader;
};

bool Same(const Frame& a, const Frame& b) {
  return a.header.type == b.header.type && a.header.request == b.header.request && a.header.length == b.header.length &&
         a.body == b.body;
}

void CheckFrame(const Frame& frame) {
  const Pair pair;
  const Status sent = SendFrame(pair.writer.get(), frame.header, frame.body, Deadline::AfterS(60));
  Ensure(sent.has_value(), "a frame can be sent");
  const Result<Frame> again = ReceiveFrame(pair.reader.get(), Deadline::AfterS(60));
  Ensure(again.has_value() && Same(*again, frame), "a frame arrives as it was sent");
}

Buffer FrameOf(uint16_t type, size_t length) {
  const auto head = EncodeHeader({.type = type, .request = 7, .length = static_cast<uint32_t>(length)});
  Buffer bytes(head.begin(), head.end());
  bytes.resize(head.size() + length, 'x');
  return bytes;
}

}  // namespace

std::vector<Buffer> Seeds() {
  Buffer two = FrameOf(1, 0);
  const Buffer second = FrameOf(5, 100);
  two.insert(two.end(), second.begin(), second.end());
  return {FrameOf(3, 10), two};
}

}  // namespace ingot::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ingot;
  if (size > fuzz::kBytesMax) return 0;
  if (const auto header = proto::DecodeHeader({data, size})) {
    const auto encoded = proto::EncodeHeader(*header);
    fuzz::Ensure(AsText(encoded) == AsText(Bytes(data, encoded.size())), "a header encodes to its bytes");
  }
  fuzz::Pair pair;
  fuzz::Ensure(write(pair.writer.get(), data, size) == static_cast<ssize_t>(size), "the socket takes all");
  pair.writer.Reset();
  while (const auto frame = proto::ReceiveFrame(pair.reader.get(), proto::Deadline::AfterS(60))) {
    fuzz::accepted = true;
    fuzz::CheckFrame(*frame);
  }
  return 0;
}
