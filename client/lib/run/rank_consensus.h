// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace ingot::client {

/// How the ranks of a process group tell each other, before each call, what they are about to run: code whose
/// collectives are not those of the function may only meet its like.
class RankConsensus {
 public:
  /// `group`: the name that the group has in this process.
  explicit RankConsensus(std::string group) : group_(std::move(group)) {}

  /// Whether all ranks are here with the same number, and none with 0. Every rank asks once a call, whatever it runs:
  /// it waits for the others. Needs no GIL. Throws what torch.distributed throws.
  bool Reached(int64_t number) const;

 private:
  std::string group_;
};

}  // namespace ingot::client
