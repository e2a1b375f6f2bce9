// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cache/index/blob_store.h"
#include "cache/index/shards.h"

namespace ingot::cache {

using BlobShard = Shards<BlobStore>::Shard;

/// Several stores of blobs as one. A blob lives in the first of its rendezvous order that answers: where that one is
/// away, the next takes what is written, and what was in it is a miss. What the first does not have is looked for in
/// the next two, so that what was written while one was away is found when it is back: no more than three are asked.
/// A blob may so be in several; Delete removes it from all three, or says that one is away.
class ShardedBlobs final : public BlobStore {
 public:
  /// Two at least. A call is tried once in each: they repeat by themselves what may pass.
  ShardedBlobs(std::vector<BlobShard> shards, const Clock& clock, const ShardLimits& limits = LimitsOf());

  Task<SealedRef> Get(Digest digest, Until until) override;
  Task<bool> Put(Digest digest, SealedRef blob, double cost_s, Until until) override;
  Task<std::vector<bool>> Has(std::vector<Digest> digests, Until until) override;
  Task<bool> Delete(Digest digest, Until until) override;
  std::optional<CircuitBreaker::Facts> breaker() const override { return shards_.breakers(); }
  std::string Describe() const override { return shards_.Describe(); }

  /// A blob may take as long as its caller has time for.
  static ShardLimits LimitsOf();

 private:
  Shards<BlobStore> shards_;
};

}  // namespace ingot::cache
