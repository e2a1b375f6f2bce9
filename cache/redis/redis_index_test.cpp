// SPDX-License-Identifier: Apache-2.0
#include "cache/redis/redis_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "cache/index/indexed_blobs.h"
#include "tests/support/cache/index_contract.h"
#include "tests/support/redis_server.h"
#include "tests/support/run_task.h"

namespace ingot::cache {
namespace {

using ingot::support::IoThread;
using ingot::support::RedisServer;

/// Clients with threads and connections of their own.
class RedisWorld final : public IndexWorld {
 public:
  RedisWorld() {
    for (Client& client : clients_) {
      RedisIndexOptions options;
      options.url = server_.url();
      auto index = RedisIndex::Open(client.thread.io(), options);
      if (!index) ADD_FAILURE() << index.error().ToText();
      client.index = std::move(index).value();
    }
  }
  Index& client(size_t which) override { return *clients_[which % 3].index; }

 private:
  struct Client {
    IoThread thread;
    std::shared_ptr<Index> index;
  };
  RedisServer server_;
  Client clients_[3];
};

std::vector<IndexKind> Kinds() {
  if (!RedisServer::IsInstalled()) return {};
  return {{"redis", [] { return std::make_unique<RedisWorld>(); }}};
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
