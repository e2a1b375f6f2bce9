// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "client/lib/run/rank_consensus.h"

namespace ingot::client {

/// What this rank says in one call of a site whose ranks agree.
struct RankVote {
  const RankConsensus& consensus;
  bool is_cast = false;

  bool Cast(int64_t number) {
    is_cast = true;
    return consensus.Reached(number);
  }
};

/// While a call of this thread runs eagerly, or is looked up and recorded: the outermost call has spoken for the rank.
class EagerCall {
 public:
  EagerCall() { ++depth_; }
  ~EagerCall() { --depth_; }
  EagerCall(const EagerCall&) = delete;
  EagerCall& operator=(const EagerCall&) = delete;
  static bool IsUnderWay() { return depth_ > 0; }

 private:
  static inline thread_local int depth_ = 0;
};

}  // namespace ingot::client
