// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace ingot::client {

/// Why a call was not served; everything but kServed and kFailedAfterWrite leaves all visible
/// tensors untouched and other ranks unaware, so that the caller may run eagerly instead.
enum class RunOutcome : uint8_t {
  kServed,
  kGuardFailed,       ///< an input is not what the variant accepts
  kValueGuardFailed,  ///< a value that steered Python differs from the recording
  kWeightChanged,     ///< a weight's metadata differs, or a process group is gone: bind again
  kFailed,            ///< an ATen operator threw, or a gather index was out of range
  kFailedAfterWrite,  ///< as kFailed, but an input or weight has been written, or a collective begun: no second run
};

}  // namespace ingot::client
