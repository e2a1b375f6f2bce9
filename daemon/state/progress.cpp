// SPDX-License-Identifier: Apache-2.0
#include "daemon/state/progress.h"

#include <map>

#include "base/mutex.h"

namespace ingot::daemon {
namespace {

/// A longer name is none: others choose it.
constexpr size_t kNameBytesMax = 64;

struct Works {
  Mutex mutex;
  std::map<std::string, Progress::State> by_name GUARDED_BY(mutex);
};

// Never destroyed: work may end while the process exits.
Works& All() {
  static Works* works = new Works;
  return *works;
}

}  // namespace

Progress::Progress(std::string name) : name_(name.size() <= kNameBytesMax ? std::move(name) : std::string()) {
  if (name_.empty()) return;
  MutexLock lock(All().mutex);
  All().by_name[name_] = {};
}

Progress::~Progress() {
  if (name_.empty()) return;
  MutexLock lock(All().mutex);
  All().by_name.erase(name_);
}

void Progress::Say(const char* what, uint64_t done, uint64_t all) const {
  if (name_.empty()) return;
  MutexLock lock(All().mutex);
  All().by_name[name_] = {what, done, all};
}

void Progress::Follow(const Digest& flight) const {
  if (name_.empty()) return;
  MutexLock lock(All().mutex);
  All().by_name[name_] = {"waits for a compile", 0, 0, flight};
}

std::optional<Progress::State> Progress::Of(const std::string& name) {
  MutexLock lock(All().mutex);
  const auto at = All().by_name.find(name);
  if (at == All().by_name.end()) return std::nullopt;
  return at->second;
}

}  // namespace ingot::daemon
