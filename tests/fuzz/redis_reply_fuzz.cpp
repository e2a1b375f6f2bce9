// SPDX-License-Identifier: Apache-2.0
// What a Redis server may send: replies within their limits, the same however the bytes are cut, and the same again
// once they are written out.
#include "cache/redis/redis_protocol.h"
#include "tests/fuzz/fuzz.h"

namespace ingot::fuzz {
namespace {

using cache::RedisReply;
constexpr cache::RedisReplyLimits kLimits{.bytes_max = 4096, .values_max = 64};

size_t Write(const RedisReply& reply, std::string& out) {
  size_t values = 1;
  switch (reply.kind) {
    case RedisReply::Kind::kNil: out += "$-1\r\n"; break;
    case RedisReply::Kind::kInteger: out += ":" + std::to_string(reply.integer) + "\r\n"; break;
    case RedisReply::Kind::kStatus: out += "+" + reply.text + "\r\n"; break;
    case RedisReply::Kind::kError: out += "-" + reply.text + "\r\n"; break;
    case RedisReply::Kind::kString:
      out += "$" + std::to_string(reply.text.size()) + "\r\n" + reply.text + "\r\n";
      break;
    case RedisReply::Kind::kArray:
      out += "*" + std::to_string(reply.items.size()) + "\r\n";
      for (const RedisReply& item : reply.items) values += Write(item, out);
      break;
  }
  return values;
}

/// All replies as they would be sent, of a stream that comes `step` bytes at a time.
std::string Read(std::string_view bytes, size_t step, bool& failed) {
  cache::RedisParser parser(kLimits);
  std::string out;
  for (size_t at = 0; at < bytes.size() && !failed; at += step) {
    failed = !parser.Feed(bytes.substr(at, step));
    while (!failed) {
      const auto reply = parser.Next();
      failed = !reply;
      if (failed || !*reply) break;
      accepted = true;
      Ensure(Write(**reply, out) <= kLimits.values_max, "a reply keeps to its limit of values");
    }
  }
  return out;
}

}  // namespace

std::vector<Buffer> Seeds() {
  const std::string text = "*3\r\n$4\r\na\r\nb\r\n$-1\r\n*2\r\n:-42\r\n+fine\r\n-ERR no\r\n*0\r\n$0\r\n\r\n";
  const std::string lease = "*6\r\n$7\r\ningot:l\r\n:1\r\n$2\r\n17\r\n$2\r\nme\r\n$0\r\n\r\n:30000\r\n";
  return {Buffer(text.begin(), text.end()), Buffer(lease.begin(), lease.end())};
}

}  // namespace ingot::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ingot;
  if (size > fuzz::kLimits.bytes_max) return 0;
  const std::string_view bytes = AsText({data, size});
  bool whole_failed = false, split_failed = false, again_failed = false;
  const std::string whole = fuzz::Read(bytes, size + 1, whole_failed);
  const std::string split = fuzz::Read(bytes, 3, split_failed);
  fuzz::Ensure(whole == split && whole_failed == split_failed, "replies are the same however their bytes arrive");
  fuzz::Ensure(fuzz::Read(whole, 4096, again_failed) == whole && !again_failed, "what was read is read again");
  return 0;
}
