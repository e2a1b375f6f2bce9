// SPDX-License-Identifier: Apache-2.0
// What every index and every store of blobs must do, of one that another daemon serves over TLS.
#include "tests/support/cache/blob_contract.h"
#include "tests/support/cache/index_contract.h"
#include "tests/support/daemon/test_serve.h"

namespace ingot::cache {
namespace {

using daemon::ServedClient;
using daemon::ServeWorld;

class RemoteWorld final : public IndexWorld {
 public:
  RemoteWorld() {
    world_.Start();
    for (auto& client : clients_) client = std::make_unique<ServedClient>(world_.Options());
  }
  Index& client(size_t which) override { return clients_[which % 3]->index; }

 private:
  ServeWorld world_;
  std::unique_ptr<ServedClient> clients_[3];
};

std::unique_ptr<IndexWorld> MakeRemote() { return std::make_unique<RemoteWorld>(); }
INSTANTIATE_TEST_SUITE_P(Served, IndexContract, ::testing::Values(IndexKind{"remote", MakeRemote}), NameOfKind);

struct Around {
  ServeWorld world;
  std::unique_ptr<ServedClient> client;
};

/// A port that its maker keeps.
class Borrowed final : public BlobStore {
 public:
  explicit Borrowed(BlobStore& behind) : behind_(behind) {}
  Task<SealedRef> Get(Digest digest, Until until) override { return behind_.Get(digest, until); }
  Task<bool> Put(Digest digest, SealedRef blob, double cost_s, Until until) override {
    return behind_.Put(digest, std::move(blob), cost_s, until);
  }
  Task<std::vector<bool>> Has(std::vector<Digest> digests, Until until) override {
    return behind_.Has(std::move(digests), until);
  }
  Task<bool> Delete(Digest digest, Until until) override { return behind_.Delete(digest, until); }
  std::string Describe() const override { return behind_.Describe(); }

 private:
  BlobStore& behind_;
};

BlobWorld MakeBlobs() {
  const auto around = std::make_shared<Around>();
  around->world.Start();
  around->client = std::make_unique<ServedClient>(around->world.Options());
  BlobWorld world;
  world.store = std::make_unique<Borrowed>(around->client->blobs);
  world.around = around;
  return world;
}
INSTANTIATE_TEST_SUITE_P(Served, BlobContract, ::testing::Values(BlobKind{"remote", MakeBlobs}), KindName);

}  // namespace
}  // namespace ingot::cache
