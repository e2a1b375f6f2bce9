// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "base/result.h"
#include "daemon/compile/sandbox.h"

namespace ingot::daemon::web {

/// What drawing one graph may take.
struct PictureLimits {
  std::chrono::seconds time{5};
  uint64_t bytes_max = 8u << 20;
  uint64_t memory_bytes_max = 1u << 30;
  SandboxMode sandbox = SandboxMode::kAuto;
};

/// The picture, in a format that it knows ("svg", "png"), that graphviz's `program` makes of a text in its language, in
/// a process of its own that has nothing of this one's but the text. It is shut off as a worker is, but for what
/// programs of the system, their libraries and fonts are read from: a worker may have made the text. Blocks. kNotFound:
/// no such program; kTimeout, kExhausted: a limit; kInvalid: it drew nothing; kUnavailable: it cannot be shut off as
/// the limits require.
Result<std::string> Draw(const std::string& program, const std::string& dot, const PictureLimits& limits,
                         const std::string& format = "svg");

}  // namespace ingot::daemon::web
