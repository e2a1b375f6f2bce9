// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

namespace ingot::client {

/// What this process did, across all call sites; the counters of `ingot.stats()` that the hot path
/// keeps. Python adds those of the slow path.
struct CallCounters {
  std::atomic<uint64_t> native_calls{0};
  std::atomic<uint64_t> guard_failures{0};
  std::atomic<uint64_t> value_guard_failures{0};
  std::atomic<uint64_t> failures{0};
  std::atomic<uint64_t> refused_calls{0};    ///< calls of signatures that run eagerly for good
  std::atomic<uint64_t> plain_calls{0};  ///< calls by the plain function, to time it or since it is faster
  std::atomic<uint64_t> pending_calls{0};  ///< calls that ran eagerly while code for their signature was on its way
  std::atomic<uint64_t> dissenting_calls{0};  ///< calls that ran eagerly since other ranks ran something else
  std::atomic<uint64_t> skipped_watches{0};  ///< native calls on which the policy asked nothing
  /// Calls whose turn it was to be verified and that cannot be: they change Python objects.
  std::atomic<uint64_t> verify_skipped{0};
};
CallCounters& Counters();

}  // namespace ingot::client
