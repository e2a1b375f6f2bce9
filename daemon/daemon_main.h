// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "daemon/state/ports.h"
#include "proto/endpoint.h"

namespace ingot::daemon {

/// The daemon as a program: arguments, lock, store, workers, server. Returns the exit status. `build` is what it
/// tells clients to be.
int DaemonMain(int count, char** values, const Graphs& graphs,
               const std::string& build = std::string(proto::BuildId()));

}  // namespace ingot::daemon
