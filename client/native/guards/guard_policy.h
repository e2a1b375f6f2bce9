// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"

namespace ingot::client {

/// On which calls a bound variant's *other* guards are asked: what is watched in this process
/// (state_guards.h), plain state of object arguments, and value guards of the plan. What keeps memory safe
/// (rank, sizes, strides, type, device, shared memory, sizes that depend on data) is asked on every
/// call, whatever the policy, and so is what selects the variant (structure, Python scalars, objects,
/// proven sizes). Needs the GIL.
class GuardPolicy {
 public:
  /// "always", "first" (until one call has passed), "sample:N" (the first call and every N-th
  /// after), "skip". kInvalid names what is allowed.
  static Result<GuardPolicy> Parse(std::string_view text);

  /// Whether this call asks; counts it.
  bool Asks() { return period_ == 1 || (period_ != 0 && calls_++ % period_ == 0); }
  /// A call that asked has been served.
  void Passed() {
    if (is_first_) period_ = 0;
  }

 private:
  uint64_t period_ = 1;  ///< ask every so many calls; 0: never
  uint64_t calls_ = 0;
  bool is_first_ = false;
};

}  // namespace ingot::client
