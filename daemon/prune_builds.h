// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/clock.h"
#include "proto/endpoint.h"

namespace ingot::daemon {

struct BuildLimits {
  uint64_t age_s_max = 0;  ///< Seconds since a daemon of that build last started or ended; 0 = no limit.
  uint64_t bytes_max = 0;  ///< What all other builds may hold together; 0 = no limit.
};

/// Removes from a store what daemons of other builds have left there and nobody uses: what is too old, then the
/// oldest until the rest is small enough. A build whose daemon lives is left alone. Returns how many were removed.
int PruneBuilds(const proto::Endpoint& endpoint, const BuildLimits& limits, const Clock& clock);

}  // namespace ingot::daemon
