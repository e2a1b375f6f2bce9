// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace ingot::daemon::web {

/// What this process takes of the machine. Zero: the kernel does not say.
struct ProcessUse {
  uint64_t resident_bytes = 0;
  uint64_t open_files = 0;
  uint64_t open_files_max = 0;
  double cpu_s = 0;
};
ProcessUse OwnUse();

}  // namespace ingot::daemon::web
