// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "cache/s3/s3_client.h"
#include "daemon/cluster/cluster.h"

namespace ingot::daemon {

/// How the configuration reaches one S3-compatible store.
cache::S3Options S3OptionsOf(const Config& config, const std::string& endpoint);
/// Where the index and the blobs are. Without cluster_index the store of blobs holds the records as well; without
/// cluster_blobs_endpoint a serving daemon holds both. Both empty: nothing is shared.
struct TierPlaces {
  std::string index;
  std::string blobs;  ///< Empty: small ones stand in the index.
};
TierPlaces PlacesOf(const Config& config);

/// The tiers that the configuration names, and the thread that talks to the index. Outlives whoever uses `parts`.
class Tiers {
 public:
  /// Empty parts where none is configured. kInvalid names the field: addresses, keys and files that cannot be used.
  /// Connects to nobody: a tier that is away is found out by who asks it. `identity`: RemoteClientOptions.
  static Result<std::unique_ptr<Tiers>> Open(const Config& config, const Digest& identity = {});
  ~Tiers();

  const ClusterParts& parts() const { return parts_; }

 private:
  struct Thread;
  Tiers();
  std::unique_ptr<Thread> thread_;
  ClusterParts parts_;
};

}  // namespace ingot::daemon
