// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/until.h"
#include "cache/async/task.h"
#include "daemon/state/ports.h"

namespace ingot::daemon {

/// Runs a job and waits for it without taking a thread. As Compilers::Start, and kUnavailable when its queue is full;
/// kTimeout and kCancelled by `until`, while the job goes on unheard.
cache::Task<CompiledArtifact> CompileOn(Compilers& compilers, CompileJob job, Until until);

}  // namespace ingot::daemon
