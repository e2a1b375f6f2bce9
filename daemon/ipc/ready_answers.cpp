// SPDX-License-Identifier: Apache-2.0
#include "daemon/ipc/ready_answers.h"

#include <utility>

namespace ingot::daemon {

std::optional<ReadyAnswers::Answer> ReadyAnswers::Find(const Digest& request, const std::string& tenant) {
  const Slot* const slot = slots_.Find(request);
  if (slot == nullptr || slot->tenant != tenant) return std::nullopt;
  Answer answer;
  if (const KeptEntry entry = slot->entry.lock(); entry != nullptr && entry->is_kept) answer.entry = entry->value;
  answer.files.reserve(slot->files.size());
  for (const auto& watched : slot->files) {
    const KeptFile file = watched.lock();
    if (file == nullptr || !file->is_kept) break;
    answer.files.push_back(file->value);
  }
  if (answer.entry != nullptr && answer.files.size() == slot->files.size()) return answer;
  slots_.Erase(request);
  return std::nullopt;
}

void ReadyAnswers::Put(const Digest& request, const std::string& tenant, const KeptEntry& entry,
                       const std::vector<KeptFile>& files) {
  slots_.Put(request, {tenant, entry, {files.begin(), files.end()}}, 1);
}

}  // namespace ingot::daemon
