// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "tools/ingot/verb.h"

namespace ingot::tools {

/// One frame of `ingot top`, from the daemon's answer to `overview`; fields that an answer does not have are left out.
/// `before`, `passed_s`: the answer before it and the seconds between them, for rates. At most `lines` lines, 0: all.
std::string TopFrame(const Json& now, const std::optional<Json>& before, double passed_s, size_t lines);

/// Of a daemon that knows no `overview`: the same from what it does know.
Result<Json> OverviewOf(Session& session);

}  // namespace ingot::tools
