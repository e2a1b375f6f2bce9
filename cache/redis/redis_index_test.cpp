// SPDX-License-Identifier: Apache-2.0
#include "cache/redis/redis_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "cache/index/indexed_blobs.h"
#include "cache/index/sharded_index.h"
#include "tests/support/cache/index_contract.h"
#include "tests/support/redis_server.h"
#include "tests/support/run_task.h"

namespace ingot::cache {
namespace {

using ingot::support::IoThread;
using ingot::support::RedisServer;

/// Clients with threads and connections of their own, at one or more servers.
class RedisWorld final : public IndexWorld {
 public:
  explicit RedisWorld(size_t shards) {
    for (size_t i = 0; i < shards; ++i) servers_.push_back(std::make_unique<RedisServer>());
    for (Client& client : clients_) {
      std::vector<IndexShard> all;
      for (const auto& server : servers_) {
        RedisIndexOptions options;
        options.url = server->url();
        auto index = RedisIndex::Open(client.thread.io(), options);
        if (!index) ADD_FAILURE() << index.error().ToText();
        const std::string name = (*index)->name();
        all.push_back({name, std::move(index).value()});
      }
      client.index = all.front().port;
      if (shards > 1) client.index = std::make_shared<ShardedIndex>(std::move(all), SystemClock(), PatientShards());
    }
  }
  Index& client(size_t which) override { return *clients_[which % 3].index; }

 private:
  struct Client {
    IoThread thread;
    std::shared_ptr<Index> index;
  };
  std::vector<std::unique_ptr<RedisServer>> servers_;
  Client clients_[3];
};

IndexKind Servers(const char* name, size_t count) {
  return {name, [count] { return std::make_unique<RedisWorld>(count); }};
}

std::vector<IndexKind> Kinds() {
  if (!RedisServer::IsInstalled()) return {};
  return {Servers("redis", 1), Servers("redis_in_shards", 3)};
}

// A store of this machine refuses bytes of another name; Redis takes what it is given.
TEST(IndexedBlobs, GivesNoOtherBytesThanTheNameSays) {
  if (!RedisServer::IsInstalled()) GTEST_SKIP() << RedisServer::kMissing;
  RedisServer server;
  IoThread thread;
  RedisIndexOptions options;
  options.url = server.url();
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
