// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daemon/ports.h"

namespace ingot::daemon {

/// The daemon as a program: arguments, lock, store, workers, server. Returns the exit status.
int DaemonMain(int count, char** values, const Graphs& graphs);

}  // namespace ingot::daemon
