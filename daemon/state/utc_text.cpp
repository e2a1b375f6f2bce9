// SPDX-License-Identifier: Apache-2.0
#include "daemon/state/utc_text.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>

namespace ingot::daemon {

std::string UtcText(int64_t unix_s) {
  const std::time_t time = unix_s;
  std::tm utc{};
  if (gmtime_r(&time, &utc) == nullptr) return "at an unknown time";
  return fmt::format("{:%Y-%m-%d %H:%M} UTC", utc);
}

}  // namespace ingot::daemon
