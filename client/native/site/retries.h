// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace ingot::client {

/// Of a signature that is recorded no more: its variants are tried at every call until they have served none for long,
/// and rarely from then on, since each may have much to look at.
struct Retries {
  static constexpr uint32_t kEvery = 64;
  uint32_t unserved = 0;  ///< calls in a row
  bool IsTurn() const { return unserved < kEvery || unserved % kEvery == 0; }
  void Note(bool is_served) { unserved = is_served ? 0 : unserved + 1; }
};

}  // namespace ingot::client
