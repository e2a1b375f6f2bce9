// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "daemon/state/config.h"

namespace ingot::daemon {

/// Raises the process's limit of open files as far as it may; the limit then.
uint64_t RaiseDescriptorLimit();

/// Lets the kernel make its table large enough for all that this configuration may open. Each time that it grows while
/// the process has several threads, whoever opens something waits for 10 ms and longer, and all others with him.
void MakeRoomForDescriptors(const Config& config);

/// Lowers what is kept open where `limit` open files do not hold it: artifacts as memory files to half of them, the
/// database's files to a quarter.
void KeepWithin(Config& config, uint64_t limit);

/// How many sessions find a descriptor beside the store's files, the workers' sockets, the web page's connections and
/// the artifacts kept as memory files: `sessions_max`, or less where `limit` open files do not hold as many, at least
/// one.
uint64_t SessionsWithin(const Config& config, uint64_t limit);

}  // namespace ingot::daemon
