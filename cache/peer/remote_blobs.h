// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cache/index/blob_store.h"
#include "cache/peer/remote_client.h"

namespace ingot::cache {

/// The blobs of a daemon that serves others (docs/format/remote.md): in pieces from and into sealed memory. Best on
/// connections of its own, so that no index call waits behind one. Errors as RemoteIndex.
class RemoteBlobs final : public BlobStore {
 public:
  explicit RemoteBlobs(std::shared_ptr<RemoteClient> client) : client_(std::move(client)) {}

  Task<SealedRef> Get(Digest digest, Until until) override;
  Task<bool> Put(Digest digest, SealedRef blob, double cost_s, Until until) override;
  Task<std::vector<bool>> Has(std::vector<Digest> digests, Until until) override;
  Task<bool> Delete(Digest digest, Until until) override;
  std::string Describe() const override { return client_->Describe(); }

 private:
  const std::shared_ptr<RemoteClient> client_;
};

}  // namespace ingot::cache
