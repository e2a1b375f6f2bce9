// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace ingot {

/// A program to be started.
struct Program {
  std::string path;                    ///< Without a slash it is looked up in PATH.
  std::vector<std::string> arguments;  ///< Without its name.
  /// "NAME=value"; none: this process's.
  std::optional<std::vector<std::string>> environment;
  /// What its descriptors 0, 1, ... are: descriptors of this process, or -1: /dev/null. It has no others.
  std::vector<int> descriptors;
  /// In a session of its own no signal of a terminal reaches it.
  bool has_own_session = true;
  /// Called in the new process before it becomes the program, which then is a `path` with a slash. This process may
  /// have threads, so it makes system calls and nothing else. False: the program is not started.
  std::function<bool()> before;
};

/// Starts it with no signal blocked or ignored, whatever this process does. Its process; somebody must wait for it.
/// kNotFound: there is no such program; kUnavailable: it cannot be started, or `before` has said no.
Result<pid_t> StartProgram(const Program& program);

}  // namespace ingot
