// SPDX-License-Identifier: Apache-2.0
// The contract and the capability check on the S3 server that the environment names: tests/support/swift_server.py
// starts one, and so can be any other (INGOT_S3_ENDPOINT, INGOT_S3_BUCKET, INGOT_S3_REGION and credentials).
#include <cstdio>
#include <random>

#include "cache/s3/s3_blobs.h"
#include "tests/support/cache/blob_contract.h"

namespace ingot::cache {
namespace {

S3Options ServerOptions() {
  S3Options options;
  options.endpoint = ProcessEnvironment("INGOT_S3_ENDPOINT").value_or("");
  options.bucket = ProcessEnvironment("INGOT_S3_BUCKET").value_or("");
  options.region = ProcessEnvironment("INGOT_S3_REGION").value_or("");
  // Each store begins empty.
  options.prefix = "test-" + std::to_string(std::random_device()());
  return options;
}

BlobWorld MakeServer() {
  BlobWorld world;
  auto store = S3Blobs::Open(ServerOptions());
  if (!store) {
    ADD_FAILURE() << store.error().ToText();
    std::abort();
  }
  world.store = std::move(store).value();
  return world;
}

BlobWorld MakeCheckedServer() {
  BlobWorld world = MakeServer();
  auto& store = static_cast<S3Blobs&>(*world.store);
  EXPECT_TRUE(Await(store.Check(Until::In(std::chrono::seconds(60)))));
  return world;
}

INSTANTIATE_TEST_SUITE_P(S3, BlobContract,
                         ::testing::Values(BlobKind{"server", MakeServer}, BlobKind{"checked", MakeCheckedServer}),
                         KindName);

TEST(S3Cluster, TheServerDoesWhatIngotNeeds) {
  const auto store = S3Blobs::Open(ServerOptions());
  ASSERT_TRUE(store) << store.error().ToText();
  const Result<S3Abilities> able = Await((*store)->Check(Until::In(std::chrono::seconds(60))));
  ASSERT_TRUE(able) << able.error().ToText();
  for (const std::string& line : able->lines) std::printf("  %s\n", line.c_str());
  EXPECT_TRUE(able->is_enough());
  EXPECT_TRUE(able->has_ranges);
  EXPECT_TRUE(able->has_multipart);
  EXPECT_TRUE(Await((*store)->SweepUploads(Until::In(std::chrono::seconds(60)))));
}

}  // namespace
}  // namespace ingot::cache
