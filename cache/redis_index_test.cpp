// SPDX-License-Identifier: Apache-2.0
#include "cache/redis_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "cache/index_contract.h"
#include "cache/indexed_blobs.h"
#include "tests/support/redis_server.h"
#include "tests/support/run_task.h"

namespace ingot::cache {
namespace {

using ingot::testing::IoThread;
using ingot::testing::RedisServer;

/// Clients with threads and connections of their own, at one or more servers.
class RedisWorld final : public IndexWorld {
 public:
  /// `falls_over`: the keys of a lost server live in the next.
  explicit RedisWorld(size_t shards, bool falls_over = false) {
    RedisIndexOptions options;
    for (size_t i = 0; i < shards; ++i) {
      servers_.push_back(std::make_unique<RedisServer>());
      options.urls.push_back(servers_.back()->url());
    }
    for (Client& client : clients_) {
      auto index = RedisIndex::Open(client.thread.io(), options);
      if (!index) ADD_FAILURE() << index.error().ToText();
      client.index = std::move(index).value();
      if (!falls_over) continue;
      client.sharded = std::make_unique<ShardedIndex>(client.index->Shards(), client.index, SystemClock());
    }
  }
  Index& client(size_t which) override {
    const Client& client = clients_[which % 3];
    return client.sharded ? static_cast<Index&>(*client.sharded) : *client.index;
  }

 private:
  struct Client {
    IoThread thread;
    std::shared_ptr<RedisIndex> index;
    std::unique_ptr<ShardedIndex> sharded;
  };
  std::vector<std::unique_ptr<RedisServer>> servers_;
  Client clients_[3];
};

IndexKind Shards(const char* name, size_t count, bool falls_over = false) {
  return {name, [count, falls_over] { return std::make_unique<RedisWorld>(count, falls_over); }};
}

std::vector<IndexKind> Kinds() {
  if (!RedisServer::IsInstalled()) return {};
  return {Shards("redis", 1), Shards("redis_in_shards", 3), Shards("redis_that_falls_over", 3, true)};
}

// A store of this machine refuses bytes of another name; Redis takes what it is given.
TEST(IndexedBlobs, GivesNoOtherBytesThanTheNameSays) {
  if (!RedisServer::IsInstalled()) GTEST_SKIP() << RedisServer::kMissing;
  RedisServer server;
  IoThread thread;
  RedisIndexOptions options;
  options.urls.push_back(server.url());
  const std::shared_ptr<RedisIndex> index = std::move(RedisIndex::Open(thread.io(), options)).value();
  IndexedBlobs blobs(index, 1000);
  const Buffer right(100, 1), wrong(100, 2);
  const Digest name = DigestOf(right);
  ASSERT_TRUE(RunTask(index->CompareAndSet({Table::kArtifacts, name}, 0, wrong, {}, Until())));
  EXPECT_EQ(RunTask(blobs.Get(name, Until())).error().code(), Code::kCorrupt);
  // It is gone, so that it can be written again.
  EXPECT_TRUE(RunTask(blobs.Put(name, SealedFile::Copy(right).value(), 1, Until())).value());
  const SealedRef got = RunTask(blobs.Get(name, Until())).value();
  EXPECT_EQ(Buffer(got->bytes().begin(), got->bytes().end()), right);
}

INSTANTIATE_TEST_SUITE_P(Redis, IndexContract, ::testing::ValuesIn(Kinds()), NameOfKind);
// Without a server there is no kind; RedisIndex tests say so.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(IndexContract);

}  // namespace
}  // namespace ingot::cache
