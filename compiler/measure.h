// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "compiler/targets/target.h"
#include "proto/artifact_generated.h"

namespace ingot::compiler {

struct MeasureOptions {
  uint64_t ms_max = 1000;   ///< for all of a kernel's schedules together; each is run a few times all the same
  unsigned processors = 1;  ///< that share the tasks of a launch
};

/// Holds the schedules that a target offers for a kernel against its first one: each is run in turn on operands that
/// are in no cache, on this thread, at these values of the kernel's symbols. Another one than the first is chosen where
/// it is faster by a clear margin, gives the same bits, and has tasks enough for all processors. nullopt: there is
/// nothing to choose from, or it cannot be run here or is too large.
std::optional<proto::MeasuredT> MeasureSchedules(const Target& target, const loop::Kernel& kernel,
                                                 std::span<const std::vector<int64_t>> sizes,
                                                 const MeasureOptions& options);

}  // namespace ingot::compiler
