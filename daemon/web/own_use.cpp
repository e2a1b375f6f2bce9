// SPDX-License-Identifier: Apache-2.0
#include "daemon/web/own_use.h"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace ingot::daemon::web {

ProcessUse OwnUse() {
  ProcessUse use;
  uint64_t pages = 0, resident = 0;
  if (std::ifstream("/proc/self/statm") >> pages >> resident) {
    use.resident_bytes = resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  }
  std::error_code failed;
  std::filesystem::directory_iterator at("/proc/self/fd", failed);
  for (; !failed && at != std::filesystem::directory_iterator(); at.increment(failed)) ++use.open_files;
  // The one that was open to count them.
  if (use.open_files != 0) --use.open_files;
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) use.open_files_max = files.rlim_cur;
  rusage times{};
  if (getrusage(RUSAGE_SELF, &times) == 0) {
    const auto seconds = [](const timeval& time) {
      return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
    };
    use.cpu_s = seconds(times.ru_utime) + seconds(times.ru_stime);
  }
  return use;
}

}  // namespace ingot::daemon::web
