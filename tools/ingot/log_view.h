// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace ingot::tools {

/// How a log is shown.
struct LogView {
  static constexpr uint64_t kAll = UINT64_MAX;
  uint64_t last = kAll;  ///< Lines of those that are there, the newest.
  std::string level;     ///< The least that matters: "debug", "info", "warn", "error"; empty: all.
  bool follow = false;   ///< Until the process is ended.
};

/// 0 debug, 1 info, 2 warn, 3 error, of a line as base/log.h writes it; -1: it is no such line, and goes with the one
/// before it.
int LevelOfLine(std::string_view line);

/// Prints a log to stdout. A file that another has taken the place of (rotation, a new daemon) is read to its end, and
/// then that one from its beginning: no line is lost or seen twice. kNotFound: there is no such file.
Status ShowLogFile(const std::string& path, const LogView& view);

}  // namespace ingot::tools
