// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/steady_time.h"

namespace ingot::daemon {

/// How far a compile is and until when it is expected to be done, as whoever makes it says. What nobody knows is not
/// said. A value.
struct CompileEta {
  enum class State : uint8_t { kUnknown, kQueued, kCompiles };
  State state = State::kUnknown;
  std::string holder;               ///< The machine that compiles; empty: this one.
  std::optional<SteadyTime> since;  ///< Since when a worker has it.
  std::optional<SteadyTime> due;    ///< When it is expected to be done.

  /// Time until it is due; none: unknown, or it takes longer than expected.
  std::optional<std::chrono::nanoseconds> Left(SteadyTime now) const;
  /// Whether an answer by `time` is not to be expected. Estimates are what they are: it must be far too late.
  bool IsTooLateFor(SteadyTime time, SteadyTime now) const;
  bool operator==(const CompileEta&) const = default;
};

/// "queued", "compiles"; empty: unknown.
const char* NameOf(CompileEta::State state);
/// As the holder of a lease tells it to other machines (docs/format/cluster.md), whose clocks are others: in times from
/// `now` on, not points in time. Without the holder, whom the lease names.
std::string ProgressOf(const CompileEta& eta, SteadyTime now);
/// What is said so; what cannot be read is unknown.
CompileEta CompileEtaOf(std::string_view progress, std::string holder, SteadyTime now);

}  // namespace ingot::daemon
