// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "cache/async/waiter.h"
#include "cache/index/blob_store.h"

namespace ingot::daemon {

/// Blobs that are far away, with those used last nearby: what a rack asks for comes over the slow network once.
/// Writes go to both. A store nearby that fails costs its time alone. Thread-safe.
class RackBlobs final : public cache::BlobStore {
 public:
  RackBlobs(std::shared_ptr<cache::BlobStore> nearby, std::shared_ptr<cache::BlobStore> far)
      : nearby_(std::move(nearby)), far_(std::move(far)) {}

  cache::Task<cache::SealedRef> Get(Digest digest, Until until) override;
  cache::Task<bool> Put(Digest digest, cache::SealedRef blob, double cost_s, Until until) override;
  cache::Task<std::vector<bool>> Has(std::vector<Digest> digests, Until until) override;
  cache::Task<bool> Delete(Digest digest, Until until) override;
  std::string Describe() const override { return far_->Describe() + ", with a copy nearby"; }

 private:
  const std::shared_ptr<cache::BlobStore> nearby_;
  const std::shared_ptr<cache::BlobStore> far_;
  Mutex mutex_;
  /// What is being fetched, and who waits for it.
  std::unordered_map<Digest, std::vector<cache::WaiterRef>> fetched_ GUARDED_BY(mutex_);
};

}  // namespace ingot::daemon
