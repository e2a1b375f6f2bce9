// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "daemon/compile/sandbox.h"

namespace ingot::tools {

/// Work that a process of its own does, which is shut off (daemon/compile/sandbox.h) from all but what is named here.
struct Confined {
  daemon::SandboxMode mode = daemon::SandboxMode::kAuto;
  std::string what;                   ///< For messages: "model.pt2".
  std::vector<std::string> readable;  ///< Files, and folders with what is below them.
  std::vector<int> descriptors;       ///< That stay open, besides that of errors.
  std::function<Result<std::string>()> work;
};

/// What the work gives, or its error. Where the process cannot be shut off it says so on stderr and goes on, unless the
/// mode is "required" (kUnavailable). If a signal ends it, this process ends by the same, after `clean_up`. Before
/// another thread is started.
Result<std::string> RunConfined(const Confined& confined, const std::function<void()>& clean_up);

}  // namespace ingot::tools
