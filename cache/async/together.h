// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "base/until.h"
#include "cache/async/task.h"

namespace ingot::cache {

/// Runs job(0) to job(count - 1) on the caller's executor, `parallel` at a time, and comes back when all have ended:
/// with the first Error, upon which the others are stopped through their `until`.
Task<void> Together(size_t count, size_t parallel, std::function<Task<void>(size_t, Until)> job, Until until);

}  // namespace ingot::cache
