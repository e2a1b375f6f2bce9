// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "base/result.h"
#include "proto/worker_generated.h"

namespace ingot::daemon {

/// What config field `worker_sandbox` says.
enum class SandboxMode {
  kAuto,      ///< every layer that the kernel gives
  kOff,       ///< none, for debuggers and profilers
  kRequired,  ///< a worker without network, files and a list of system calls is not used
};
/// kInvalid unless it is "auto", "off" or "required".
Result<SandboxMode> ParseSandboxMode(std::string_view text);

/// For each SandboxLayer "" when it holds, else why not.
using SandboxTroubles = std::array<std::string, 3>;

/// Shuts the calling process off from what compiling does not need, for good: network (a namespace without
/// interfaces), every file that it has not open but those in its own memory and a few facts of the machine (Landlock),
/// capabilities, and every system call but a list (seccomp): what is not on it fails with EPERM. Each layer stands
/// alone, since kernels and containers refuse some. The process dies with the thread that started it, as before.
/// Before the first thread is started: threads that exist keep their files.
SandboxTroubles EnterSandbox();

/// "no network (namespace, seccomp), files closed (landlock), system calls by a list (seccomp)", and what the kernel
/// refused.
std::string SandboxText(const SandboxTroubles& troubles);
/// kUnavailable names the first of network, files and system calls that is open.
Status CheckClosed(const SandboxTroubles& troubles);

}  // namespace ingot::daemon
