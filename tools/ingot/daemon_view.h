// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "tools/ingot/verb.h"

namespace ingot::tools {

/// Fields of what the daemon says; 0 and "" where there is none. Text that may be shown on a terminal.
uint64_t NumberIn(const Json& object, const char* name);
std::string TextIn(const Json& object, const char* name);

/// Compiles under way, and until when each is expected, of `overview` or `status`. Whole lines.
std::string FlightsText(const Json& now);
/// The tiers of the cluster; "" of a daemon that says nothing of them.
std::string ClusterText(const Json& now);

}  // namespace ingot::tools
