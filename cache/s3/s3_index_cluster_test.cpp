// SPDX-License-Identifier: Apache-2.0
// The contract of an index on the S3 server that the environment names, as far as it holds there.
#include <cstdlib>
#include <random>

#include "cache/s3/s3_index.h"
#include "tests/support/cache/index_contract.h"

namespace ingot::cache {
namespace {

/// Clients of one machine, in a part of the bucket that is empty.
class ServerWorld final : public IndexWorld {
 public:
  ServerWorld() {
    S3IndexOptions options;
    options.store.endpoint = ProcessEnvironment("INGOT_S3_ENDPOINT").value_or("");
    options.store.bucket = ProcessEnvironment("INGOT_S3_BUCKET").value_or("");
    options.store.region = ProcessEnvironment("INGOT_S3_REGION").value_or("");
    options.store.prefix = "test-" + std::to_string(std::random_device()());
    options.poll_max = std::chrono::milliseconds(50);
    const auto leases = std::make_shared<LeaseTable>();
    for (auto& client : clients_) {
      auto index = S3Index::Open(options, leases);
      if (!index) {
        ADD_FAILURE() << index.error().ToText();
        std::abort();
      }
      client = std::move(index).value();
    }
  }
  Index& client(size_t which) override { return *clients_[which % 3]; }

 private:
  std::unique_ptr<S3Index> clients_[3];
};

/// Swift knows no conditions on writes.
INSTANTIATE_TEST_SUITE_P(S3, IndexContract,
                         ::testing::Values(IndexKind{"server", [] { return std::make_unique<ServerWorld>(); }, false}),
                         NameOfKind);

}  // namespace
}  // namespace ingot::cache
