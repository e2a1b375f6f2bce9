// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "cache/trust/removal.h"

namespace ingot::daemon {

/// What is signed in the records that machines share (docs/format/cluster.md).
class ClusterRecords final : public cache::SignedRecords {
 public:
  Result<std::vector<Buffer>> EnvelopesOf(const cache::RecordKey& key, Bytes value) const override;
  Result<Rest> Without(const cache::RecordKey& key, Bytes value, const std::vector<size_t>& envelopes) const override;
};

}  // namespace ingot::daemon
