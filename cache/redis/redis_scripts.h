// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace ingot::cache {

/// A script that Redis runs as one step, named by the SHA-1 of its text.
struct RedisScript {
  explicit RedisScript(std::string text);
  std::string text;
  std::string sha;  ///< 40 hex digits
};

/// What writes and lists (docs/format/redis.md). Each answers with an array whose first item is its first key: an
/// answer to something else is noticed.
struct RedisScripts {
  RedisScript set, remove, list, list_group, list_groups, acquire, renew, release, lease;
};
/// Lives for ever.
const RedisScripts& TheRedisScripts();

}  // namespace ingot::cache
