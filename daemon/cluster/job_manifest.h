// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/digest.h"
#include "base/until.h"
#include "cache/index/index.h"
#include "cache/store/key.h"
#include "proto/cluster_generated.h"

namespace ingot::daemon {

/// What names a job: the function and the model of its first look-up, its ranks, and what it runs on. Neither code nor
/// inputs: a program that was changed in one place finds the rest of what it used.
Digest JobNameOf(const cache::Key& first);

/// Unites what is known of a job with what it used now. What it has not used for a week is not its any more; over
/// `entries_max` what was used longest ago goes. False: `into` said it all, and of late.
bool MergeJob(proto::JobManifestT& into, const proto::JobManifestT& now, size_t entries_max, int64_t now_s);

/// What an index has of a job; without entries where that is nothing.
cache::Task<proto::JobManifestT> ReadJobManifest(cache::Index& index, Digest name, Until until);
/// Adds what a job used to what is there. False: it was there.
cache::Task<bool> PutJobManifest(cache::Index& index, Digest name, proto::JobManifestT used, size_t entries_max,
                                 int64_t now_s, Until until);

}  // namespace ingot::daemon
