// SPDX-License-Identifier: Apache-2.0
// Where other servers are, as people and files of configuration say it.
#include "cache/peer/remote_url.h"
#include "cache/redis/redis_url.h"
#include "tests/fuzz/fuzz.h"

namespace ingot::fuzz {
namespace {

/// What parses has a text of its own, which names the same place. The text of an error has nothing of a password.
template <typename Url>
void Check(std::string_view text) {
  const auto url = Url::Parse(text);
  if (!url) {
    Ensure(url.error().code() == Code::kInvalid, url.error().ToText());
    return;
  }
  accepted = true;
  const std::string printed = url->ToText();
  const auto again = Url::Parse(printed);
  Ensure(again && again->ToText() == printed, "it prints and parses again: " + printed);
}

}  // namespace

std::vector<Buffer> Seeds() {
  std::vector<Buffer> seeds;
  for (const std::string text : {"rediss://p%40ss@host:6380/3", "redis://user@[::1]/0", "unix:///run/redis.sock?db=2",
                                 "rediss://host?ca=%2Fetc%2Fca.pem", "ingots://build.example:7473", "ingot://127.0.0.1",
                                 "[::1]:7473", ":80", "h"}) {
    seeds.emplace_back(text.begin(), text.end());
  }
  return seeds;
}

}  // namespace ingot::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ingot;
  const std::string text(AsText({data, size}));
  fuzz::Check<cache::RedisUrl>(text);
  fuzz::Check<cache::RemoteUrl>(text);
  fuzz::Check<cache::HostPort>(text);
  return 0;
}
