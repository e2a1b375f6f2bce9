// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace ingot::daemon {

/// `2026-11-21 09:30 UTC`, or "at an unknown time" for seconds that no calendar has: they may come
/// from a damaged record.
std::string UtcText(int64_t unix_s);

}  // namespace ingot::daemon
