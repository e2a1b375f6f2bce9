// SPDX-License-Identifier: Apache-2.0
#include "daemon/ipc/running.h"

#include <fmt/format.h>

#include <chrono>

#include "base/mutex.h"

namespace ingot::daemon {

using SteadyClock = std::chrono::steady_clock;

struct Running::Entry {
  std::string what;
  SteadyClock::time_point since;
};

struct Running::All {
  Mutex mutex;
  std::list<Entry> entries GUARDED_BY(mutex);

  /// Never destroyed: threads may outlive what main() has left.
  static All& Get() {
    static auto* const all = new All;
    return *all;
  }
};

Running::Running(std::string what) {
  All& all = All::Get();
  MutexLock lock(all.mutex);
  entry_ = all.entries.insert(all.entries.end(), Entry{std::move(what), SteadyClock::now()});
}

Running::~Running() {
  All& all = All::Get();
  MutexLock lock(all.mutex);
  all.entries.erase(entry_);
}

std::string Running::ToText() {
  All& all = All::Get();
  const auto now = SteadyClock::now();
  MutexLock lock(all.mutex);
  std::string text;
  for (const Entry& entry : all.entries) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now - entry.since).count();
    text += fmt::format("{}{} ({} s)", text.empty() ? "" : ", ", entry.what, seconds);
  }
  return text;
}

}  // namespace ingot::daemon
