// SPDX-License-Identifier: Apache-2.0
#include "cache/index/local_blobs.h"

#include "base/temp_dir.h"
#include "cache/index/indexed_blobs.h"
#include "cache/index/local_index.h"
#include "cache/store/memory_store.h"
#include "cache/store/open_store.h"
#include "tests/support/cache/blob_contract.h"

namespace ingot::cache {
namespace {

struct Around {
  TempDir dir;
  std::unique_ptr<Store> store;
};

BlobWorld WorldOf(std::shared_ptr<Around> around) {
  BlobWorld world;
  world.store = std::make_unique<LocalBlobs>(*around->store);
  world.around = std::move(around);
  return world;
}

BlobWorld MakeMemory() {
  auto around = std::make_shared<Around>();
  around->store = std::make_unique<MemoryStore>(MemoryStoreOptions{.bytes_max = 1u << 30});
  return WorldOf(std::move(around));
}

BlobWorld MakeDisk() {
  auto around = std::make_shared<Around>();
  StoreOptions options;
  options.disk_free_bytes_min = 0;
  around->store = OpenStore(around->dir / "store", options).value();
  return WorldOf(std::move(around));
}

/// As records of an index, which are small.
BlobWorld MakeIndexed() {
  auto around = std::make_shared<Around>();
  around->store = std::make_unique<MemoryStore>(MemoryStoreOptions{.bytes_max = 1u << 30});
  BlobWorld world;
  world.store = std::make_unique<IndexedBlobs>(std::make_shared<LocalIndex>(*around->store), kRecordBytesMax);
  world.around = std::move(around);
  return world;
}

TEST(IndexedBlobs, RefusesWhatWouldHoldUpTheIndex) {
  MemoryStore store{MemoryStoreOptions{.bytes_max = 1u << 20}};
  IndexedBlobs blobs(std::make_shared<LocalIndex>(store), 1000);
  const Buffer small(1000, 1), large(1001, 1);
  EXPECT_TRUE(Await(blobs.Put(DigestOf(small), SealedFile::Copy(small).value(), 1, Until())).value());
  const auto put = Await(blobs.Put(DigestOf(large), SealedFile::Copy(large).value(), 1, Until()));
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().code(), Code::kUnsupported);
  EXPECT_THAT(put.error().message(), ::testing::HasSubstr("cluster_blobs_endpoint"));
}

INSTANTIATE_TEST_SUITE_P(Local, BlobContract,
                         ::testing::Values(BlobKind{"memory", MakeMemory}, BlobKind{"disk", MakeDisk},
                                           BlobKind{"indexed", MakeIndexed, kRecordBytesMax}),
                         KindName);

}  // namespace
}  // namespace ingot::cache
