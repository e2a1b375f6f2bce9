// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>

namespace ingot::client {

/// What an operator that writes its arguments has thrown, where this thread's last run ended with kTraps because of it:
/// such a run is not done again, and whoever called gets this. All is as eager would have left it.
inline std::exception_ptr& Raised() {
  static thread_local std::exception_ptr raised;
  return raised;
}

}  // namespace ingot::client
