// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <exception>
#include <string>

#include "base/error.h"

namespace ingot::client {

/// Why a call was not served; everything but kServed, kTraps, kRaised and kFailedAfterWrite leaves all visible
/// tensors and the default generator untouched and other ranks unaware, so that the caller may run eagerly instead.
enum class RunOutcome : uint8_t {
  kServed,
  kGuardFailed,       ///< an input is not what the variant accepts
  kValueGuardFailed,  ///< a value that steered Python differs from the recording
  kWeightChanged,     ///< a weight's metadata differs, or a process group is gone: bind again
  kDissent,           ///< other ranks of the group run something else: all of them run eagerly
  kFailed,            ///< an ATen operator threw, or a gather index was out of range
  kTraps,             ///< an operator would end the process, eagerly too (checked_division.h): nobody is to run it
  kRaised,            ///< an operator that writes its arguments threw, and all is as eager would have left it
  kFailedAfterWrite,  ///< as kFailed, but an input or weight has been written, or a collective begun: no second run
};

/// What a run that was not served has to say.
struct RunFailure {
  std::string why;
  std::exception_ptr raised;  ///< the call's exception, where the outcome is kRaised
};

/// What a caller is told of kFailedAfterWrite.
inline Error HalfDone(const std::string& why) {
  return Error(Code::kHalfDone, why + "; this call had written to its inputs or to the module before: make them anew");
}

}  // namespace ingot::client
