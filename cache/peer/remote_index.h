// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cache/index/index.h"
#include "cache/peer/remote_client.h"

namespace ingot::cache {

/// The index of a daemon that serves others (docs/format/remote.md). Never blocks: waits are for the client's
/// connection. A write or a lease that ended in kTimeout, kCancelled or kUnavailable may have been done, or be done
/// later. Beside the errors of Index: kUnsupported: our token does not allow it; kIncompatible: another version.
class RemoteIndex final : public Index {
 public:
  explicit RemoteIndex(std::shared_ptr<RemoteClient> client) : client_(std::move(client)) {}

  Task<std::vector<Record>> Get(std::vector<RecordKey> keys, Until until) override;
  Task<uint64_t> CompareAndSet(RecordKey key, uint64_t expected, Buffer value, RecordFacts facts, Until until) override;
  Task<bool> CompareAndDelete(RecordKey key, uint64_t expected, Until until) override;
  Task<RecordPage> List(Table table, std::optional<std::string> group, std::string after, size_t limit,
                        Until until) override;
  Task<GroupPage> Groups(Table table, std::string after, size_t limit, Until until) override;
  Task<Record> Changed(RecordKey key, uint64_t seen, Until until) override;
  Task<Lease> Acquire(Digest key, std::string holder, std::chrono::milliseconds ttl, Until until) override;
  Task<bool> Renew(Digest key, uint64_t fence, std::string progress, std::chrono::milliseconds ttl,
                   Until until) override;
  Task<void> Release(Digest key, uint64_t fence, Until until) override;
  Task<Lease> Watch(Digest key, uint64_t fence, std::string progress, Until until) override;
  std::string Describe() const override { return client_->Describe(); }

 private:
  /// Asks again where the server waits for less time than the caller does.
  Task<proto::RemoteReplyT> Wait(proto::RemoteRequestT request, Until until);

  const std::shared_ptr<RemoteClient> client_;
};

}  // namespace ingot::cache
