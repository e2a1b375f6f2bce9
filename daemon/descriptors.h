// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "daemon/config.h"

namespace ingot::daemon {

/// Raises the process's limit of open files as far as it may; the limit then.
uint64_t RaiseDescriptorLimit();

/// How many sessions find a descriptor beside the store's files, the workers' sockets, the web page's connections and
/// the artifacts kept as memory files: `sessions_max`, or less where `limit` open files do not hold as many, at least
/// one.
uint64_t SessionsWithin(const Config& config, uint64_t limit);

}  // namespace ingot::daemon
