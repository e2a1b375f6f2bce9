// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "cache/s3_blobs.h"
#include "daemon/cluster.h"

namespace ingot::daemon {

/// How the configuration reaches the shared blobs.
cache::S3Options BlobOptionsOf(const Config& config);

/// The tiers that the configuration names, and the thread that talks to the index. Outlives whoever uses `parts`.
class Tiers {
 public:
  /// Empty parts where no index is configured. kInvalid names the field: addresses, keys and files that cannot be
  /// used. Connects to nobody: a tier that is away is found out by who asks it.
  static Result<std::unique_ptr<Tiers>> Open(const Config& config);
  ~Tiers();

  const ClusterParts& parts() const { return parts_; }

 private:
  struct Thread;
  Tiers();
  std::unique_ptr<Thread> thread_;
  ClusterParts parts_;
};

}  // namespace ingot::daemon
