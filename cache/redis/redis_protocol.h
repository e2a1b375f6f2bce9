// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ingot::cache {

/// What a Redis server answered to one command (RESP2).
struct RedisReply {
  enum class Kind : uint8_t { kNil, kInteger, kString, kStatus, kError, kArray };
  Kind kind = Kind::kNil;
  int64_t integer = 0;
  std::string text;               ///< kString, kStatus, kError: any bytes
  std::vector<RedisReply> items;  ///< kArray

  bool Is(Kind what) const { return kind == what; }
};

/// Bytes of one command.
std::string FormatRedisCommand(std::span<const std::string_view> words);

struct RedisReplyLimits {
  size_t bytes_max = 17u << 20;   ///< Of one reply as it is sent
  size_t values_max = 1u << 16;  ///< Of one reply, nested ones counted
};

/// Takes replies apart as their bytes arrive. Whatever the other side sends, memory stays within the limits of one
/// reply and nesting within seven levels. After an error only its destructor may be called. Not thread-safe.
class RedisParser {
 public:
  explicit RedisParser(RedisReplyLimits limits = {});
  ~RedisParser();
  RedisParser(const RedisParser&) = delete;
  RedisParser& operator=(const RedisParser&) = delete;

  /// More of the stream. kCorrupt: no RESP2; kExhausted: a reply over its limits.
  Status Feed(std::string_view bytes);
  /// The next whole reply; nothing while it is not all there. Errors as Feed.
  Result<std::optional<RedisReply>> Next();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ingot::cache
