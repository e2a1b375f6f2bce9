// SPDX-License-Identifier: Apache-2.0
#include "cache/redis/redis_protocol.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "cache/redis/redis_url.h"

namespace ingot::cache {
namespace {

using Kind = RedisReply::Kind;

using std::string_literals::operator""s;

const std::string kFirst = "*3\r\n$4\r\na\r\nb\r\n$-1\r\n*2\r\n:-42\r\n+fine\r\n";
const std::string kStream = kFirst + "-ERR no\r\n$3\r\n\0\r\n\r\n*0\r\n$0\r\n\r\n"s;

void ExpectStream(const std::vector<RedisReply>& replies) {
  ASSERT_EQ(replies.size(), 5u);
  ASSERT_EQ(replies[0].items.size(), 3u);
  EXPECT_EQ(replies[0].items[0].text, "a\r\nb");
  EXPECT_TRUE(replies[0].items[1].Is(Kind::kNil));
  ASSERT_EQ(replies[0].items[2].items.size(), 2u);
  EXPECT_EQ(replies[0].items[2].items[0].integer, -42);
  EXPECT_TRUE(replies[0].items[2].items[1].Is(Kind::kStatus));
  EXPECT_TRUE(replies[1].Is(Kind::kError));
  EXPECT_EQ(replies[1].text, "ERR no");
  EXPECT_EQ(replies[2].text, std::string("\0\r\n", 3));
  EXPECT_TRUE(replies[3].Is(Kind::kArray));
  EXPECT_TRUE(replies[3].items.empty());
  EXPECT_TRUE(replies[4].Is(Kind::kString));
}

/// Replies of bytes that come in two parts; how it ended.
Status Parse(std::string_view first, std::string_view second, std::vector<RedisReply>& replies,
             RedisReplyLimits limits = {}) {
  RedisParser parser(limits);
  for (const std::string_view part : {first, second}) {
    TRY(parser.Feed(part));
    while (true) {
      TRY_ASSIGN(std::optional<RedisReply> reply, parser.Next());
      if (!reply) break;
      replies.push_back(*std::move(reply));
    }
  }
  return {};
}

TEST(RedisProtocolTest, ReadsRepliesHoweverTheyArrive) {
  for (size_t at = 0; at <= kStream.size(); ++at) {
    std::vector<RedisReply> replies;
    const Status status = Parse(std::string_view(kStream).substr(0, at), std::string_view(kStream).substr(at), replies);
    ASSERT_TRUE(status) << at << " " << status.error().ToText();
    ExpectStream(replies);
  }
}

TEST(RedisProtocolTest, WhatIsCutShortIsNoReply) {
  for (size_t size = 0; size < kFirst.size(); ++size) {
    std::vector<RedisReply> replies;
    EXPECT_TRUE(Parse(std::string_view(kStream).substr(0, size), "", replies)) << size;
    EXPECT_TRUE(replies.empty()) << size;
  }
}

TEST(RedisProtocolTest, BitFlipsEndInRepliesOrErrors) {
  for (size_t bit = 0; bit < kStream.size() * 8; ++bit) {
    std::string bytes = kStream;
    bytes[bit / 8] ^= 1 << (bit % 8);
    std::vector<RedisReply> replies;
    Ignore(Parse(bytes, kStream, replies), "either is fine");
    EXPECT_LE(replies.size(), 64u);
  }
}

TEST(RedisProtocolTest, ReplyIsBoundedInBytesValuesAndDepth) {
  std::vector<RedisReply> replies;
  const RedisReplyLimits limits{.bytes_max = 1000, .values_max = 10};
  Status status = Parse("$2000000000\r\n", std::string(2000, 'x'), replies, limits);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), Code::kExhausted);
  std::string many = "*2147483647\r\n";
  for (int i = 0; i < 20; ++i) many += ":1\r\n";
  status = Parse(many, "", replies, limits);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), Code::kExhausted);
  std::string deep;
  for (int i = 0; i < 20; ++i) deep += "*1\r\n";
  EXPECT_FALSE(Parse(deep + ":1\r\n", "", replies, {}));
  EXPECT_FALSE(Parse("*99999999999999999999\r\n", "", replies, {}));
  EXPECT_FALSE(Parse("$-7\r\n", "", replies, {}));
  EXPECT_FALSE(Parse("?\r\n", "", replies, {}));
  EXPECT_TRUE(replies.empty());
  // A reply at the limit passes, and the next starts from nothing.
  const std::string full = "$990\r\n" + std::string(990, 'x') + "\r\n";
  EXPECT_TRUE(Parse(full, full, replies, limits));
  EXPECT_EQ(replies.size(), 2u);
}

TEST(RedisProtocolTest, CommandsCarryAllBytes) {
  const std::string_view word("a\0\r\n", 4);
  EXPECT_EQ(FormatRedisCommand(std::array<std::string_view, 2>{"SET", word}), "*2\r\n$3\r\nSET\r\n$4\r\na\0\r\n\r\n"s);
}

TEST(RedisUrlTest, ReadsWhatPeopleWrite) {
  auto url = RedisUrl::Parse("rediss://m%40e@cache.example:7000/3");
  ASSERT_TRUE(url) << url.error().ToText();
  EXPECT_EQ(url->user, "m@e");
  EXPECT_EQ(url->place.host, "cache.example");
  EXPECT_EQ(url->place.port, 7000);
  EXPECT_EQ(url->db, 3u);
  EXPECT_EQ(url->ToText(), "rediss://cache.example:7000/3");
  for (const std::string here : {"localhost", "127.0.0.1", "127.9.9.9", "[::1]"}) {
    EXPECT_TRUE(RedisUrl::Parse("redis://" + here)) << here;
  }
  url = RedisUrl::Parse("rediss://[::1]?ca=/etc/ca.pem&cert=/c&key=/k");
  ASSERT_TRUE(url) << url.error().ToText();
  EXPECT_EQ(url->place.kind, Place::Kind::kTls);
  EXPECT_EQ(url->place.host, "::1");
  EXPECT_EQ(url->place.port, 6379);
  EXPECT_EQ(url->place.ca_file, "/etc/ca.pem");
  EXPECT_EQ(url->place.key_file, "/k");
  EXPECT_EQ(url->ToText(), "rediss://[::1]:6379/0");
  url = RedisUrl::Parse("unix:///run/redis.sock?db=2");
  ASSERT_TRUE(url) << url.error().ToText();
  EXPECT_EQ(url->place.path, "/run/redis.sock");
  EXPECT_EQ(url->db, 2u);
  url = RedisUrl::Parse("unix://u@/run/redis.sock");
  ASSERT_TRUE(url) << url.error().ToText();
  EXPECT_EQ(url->user, "u");
  EXPECT_EQ(url->ToText(), "unix:///run/redis.sock");
}

TEST(RedisUrlTest, RefusesTheRestWithoutRepeatingIt) {
  for (const char* text :
       {"", "hush", "http://u@hush/", "rediss://hush@/0", "rediss://hush@host/x", "rediss://hush@host:99999",
        "redis://hush@localhost?ca=/hush", "rediss://hush@host?cert=/c", "unix://", "unix://host/hush", "unix:///",
        "rediss://hush@host/1#x", "rediss://hush@host:0/", "rediss://h?verify=hush",
        // Passwords, and what would go to another machine in the clear.
        "rediss://u:hush@host/", "rediss://:hush@host/", "redis://:hush@localhost/", "unix://u:hush@/run/redis.sock",
        "rediss://hush:@host/", "redis://hush.example/", "redis://127.hush.example/", "redis://10.1.2.3/"}) {
    const auto url = RedisUrl::Parse(text);
    ASSERT_FALSE(url) << text;
    EXPECT_EQ(url.error().code(), Code::kInvalid);
    EXPECT_THAT(url.error().message(), ::testing::Not(::testing::HasSubstr("hush")));
  }
}

}  // namespace
}  // namespace ingot::cache
