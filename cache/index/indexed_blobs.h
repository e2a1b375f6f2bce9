// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cache/index/blob_store.h"
#include "cache/index/index.h"

namespace ingot::cache {

/// Small blobs as records of an index, for those who have no store of blobs: a server that holds everybody's records
/// must not be held up by large values (docs/format/redis.md). Never takes a blob of more than `bytes_max`.
/// Thread-safe.
class IndexedBlobs final : public BlobStore {
 public:
  IndexedBlobs(std::shared_ptr<Index> index, uint64_t bytes_max) : index_(std::move(index)), bytes_max_(bytes_max) {}

  Task<SealedRef> Get(Digest digest, Until until) override;
  Task<bool> Put(Digest digest, SealedRef blob, double cost_s, Until until) override;
  Task<std::vector<bool>> Has(std::vector<Digest> digests, Until until) override;
  Task<bool> Delete(Digest digest, Until until) override;
  std::string Describe() const override;

 private:
  const std::shared_ptr<Index> index_;
  const uint64_t bytes_max_;
};

}  // namespace ingot::cache
