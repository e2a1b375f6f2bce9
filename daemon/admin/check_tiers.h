// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "daemon/state/config.h"

namespace ingot::daemon {

/// Tries what the configuration says of the cluster, each server for itself, and of serving others, and says in words
/// what is wrong and what to do. Writes and removes small things of its own under names of its own. Blocks, `timeout_s`
/// for each server at most. As `doctor`: `ok`, and `checks` of `check`, `ok` and `text`.
nlohmann::ordered_json CheckTiers(const Config& config, uint64_t timeout_s);

}  // namespace ingot::daemon
