// SPDX-License-Identifier: Apache-2.0
#include "daemon/ipc/uses.h"

#include "daemon/core.h"

namespace ingot::daemon {

void Uses::Note(const EntryRef& entry, const JobRef& job) {
  // Where nobody has come for so many, this one does.
  while (!noted_.push({entry, job})) Apply();
  if (!is_waiting_.exchange(true)) on_first();
}

void Uses::Apply() {
  MutexLock lock(apply_mutex_);
  is_waiting_ = false;
  Noted noted;
  while (noted_.pop(noted)) {
    const EntryRef& entry = noted.entry;
    Write(*entry);
    core_.jobs.Used(noted.job, entry->digest, entry->key);
    // They are used last now.
    core_.entries.Peek(entry->digest);
    for (const Digest& artifact : entry->artifacts) core_.artifacts.Peek(artifact);
  }
}

void Uses::Write(const Entry& entry) {
  core_.workload.Hit(entry.digest, entry.function);
  core_.store.Touch(cache::Table::kEntries, entry.digest);
  for (const Digest& artifact : entry.artifacts) core_.store.Touch(cache::Table::kArtifacts, artifact);
  core_.improving.Served(entry);
}

}  // namespace ingot::daemon
