// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <linux/filter.h>

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "proto/worker_generated.h"

namespace ingot::daemon {

/// What config field `worker_sandbox` and option `--sandbox` of `ingot compile` say.
enum class SandboxMode {
  kAuto,      ///< every layer that the kernel gives
  kOff,       ///< none, for debuggers and profilers
  kRequired,  ///< nothing is done by a process that has network, files or all system calls
};
/// kInvalid unless it is "auto", "off" or "required".
Result<SandboxMode> ParseSandboxMode(std::string_view text);

/// For each SandboxLayer "" when it holds, else why not.
using SandboxTroubles = std::array<std::string, 3>;

/// What a process is to reach in its sandbox, besides what compiling a graph takes.
struct SandboxNeeds {
  /// May be opened to be read: files, and folders with all that is below them. What is not there is left out.
  std::vector<std::string> readable;
  /// PyTorch asks what processors there are.
  bool computes_tensors = false;
  /// Becomes a program among `readable`, which loads its libraries from there.
  bool starts_program = false;
};

/// Shuts a process off from what it does not need, for good: network (a namespace without interfaces), every file that
/// it has not open but those in its own memory, those that it needs and a few facts of the machine (Landlock),
/// capabilities, and every system call but a list (seccomp): what is not on it fails with EPERM. Each layer stands
/// alone, since kernels and containers refuse some. The process dies with the thread that started it.
class Sandbox {
 public:
  explicit Sandbox(const SandboxNeeds& needs);

  /// For each layer the system call that the kernel refused, and its errno; a null name: it holds.
  struct Refusal {
    const char* call = nullptr;
    int number = 0;
  };
  using Refusals = std::array<Refusal, 3>;
  /// Shuts off the calling process, before its first thread is started: threads that exist keep their files. Makes
  /// nothing but system calls, so that a child of a process with threads may call it.
  Refusals Enter();

 private:
  UniqueFd ruleset_;
  Refusal no_ruleset_;
  std::vector<sock_filter> code_;
  size_t own_process_ = 0;  ///< Where the code has the number of the process that it is for.
};

/// As Sandbox::Enter, at once.
SandboxTroubles EnterSandbox(const SandboxNeeds& needs = {});
SandboxTroubles TroublesOf(const Sandbox::Refusals& refusals);
/// Whether neither files nor other system calls are open. As Enter, nothing but what a child may do.
bool IsClosed(const Sandbox::Refusals& refusals);

/// "no network (namespace, seccomp), files closed (landlock), system calls by a list (seccomp)", and what the kernel
/// refused.
std::string SandboxText(const SandboxTroubles& troubles);
/// kUnavailable names the first of network, files and system calls that is open.
Status CheckClosed(const SandboxTroubles& troubles);

}  // namespace ingot::daemon
