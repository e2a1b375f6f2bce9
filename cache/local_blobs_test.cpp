// SPDX-License-Identifier: Apache-2.0
#include "cache/local_blobs.h"

#include "base/temp_dir.h"
#include "cache/blob_contract.h"
#include "cache/memory_store.h"
#include "cache/open_store.h"

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

INSTANTIATE_TEST_SUITE_P(Local, BlobContract,
                         ::testing::Values(BlobKind{"memory", MakeMemory}, BlobKind{"disk", MakeDisk}), KindName);

}  // namespace
}  // namespace ingot::cache
