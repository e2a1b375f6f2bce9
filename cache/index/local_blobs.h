// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cache/index/blob_store.h"
#include "cache/store/store.h"

namespace ingot::cache {

/// The artifacts of this machine's store as blobs: read straight into the memory that is served. Thread-safe; works on
/// the thread of whoever awaits it.
class LocalBlobs final : public BlobStore {
 public:
  explicit LocalBlobs(Store& store) : store_(store) {}

  Task<SealedRef> Get(Digest digest, Until until) override;
  Task<bool> Put(Digest digest, SealedRef blob, double cost_s, Until until) override;
  Task<bool> PutFirst(Digest digest, SealedRef blob, double cost_s, Until until) override;
  Task<std::vector<bool>> Has(std::vector<Digest> digests, Until until) override;
  Task<bool> Delete(Digest digest, Until until) override;
  std::string Describe() const override { return store_.Describe(); }

 private:
  Task<bool> PutBlob(Digest digest, SealedRef blob, PutOptions options, Until until);

  Store& store_;
};

}  // namespace ingot::cache
