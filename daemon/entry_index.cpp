// SPDX-License-Identifier: Apache-2.0
#include "daemon/entry_index.h"

#include <algorithm>

namespace ingot::daemon {

void EntryIndex::Add(const Digest& entry, const std::string& function, const cache::Key& key) {
  const auto [at, added] = members_.try_emplace(entry);
  if (!added) return;
  Member& member = at->second;
  member.function = function;
  Family& family = families_[function];
  family.entries.insert(entry);
  for (const cache::Component& component : key.components) {
    member.parts.emplace_back(component.name, component.DigestOfItems());
    family.sharing[member.parts.back()].insert(entry);
  }
}

void EntryIndex::Remove(const Digest& entry) {
  const auto at = members_.find(entry);
  if (at == members_.end()) return;
  const auto family = families_.find(at->second.function);
  family->second.entries.erase(entry);
  for (const Part& part : at->second.parts) {
    const auto sharing = family->second.sharing.find(part);
    if (sharing == family->second.sharing.end()) continue;
    sharing->second.erase(entry);
    if (sharing->second.empty()) family->second.sharing.erase(sharing);
  }
  if (family->second.entries.empty()) families_.erase(family);
  members_.erase(at);
}

std::string EntryIndex::FunctionOf(const Digest& entry) const {
  const auto at = members_.find(entry);
  return at == members_.end() ? std::string() : at->second.function;
}

std::vector<Digest> EntryIndex::All() const { return NamedLike({}); }

std::vector<Digest> EntryIndex::OfFunction(const std::string& function) const {
  const auto at = families_.find(function);
  if (at == families_.end()) return {};
  return {at->second.entries.begin(), at->second.entries.end()};
}

std::vector<Digest> EntryIndex::NamedLike(const std::string& part) const {
  std::vector<Digest> out;
  for (const auto& [name, family] : families_) {
    if (name.find(part) == std::string::npos) continue;
    out.insert(out.end(), family.entries.begin(), family.entries.end());
  }
  return out;
}

std::vector<Digest> EntryIndex::StartingWith(const std::string& prefix) const {
  std::vector<Digest> out;
  for (const auto& [entry, member] : members_) {
    if (entry.ToHex().starts_with(prefix)) out.push_back(entry);
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<Digest> EntryIndex::Closest(const std::string& function, const cache::Key& key,
                                        size_t count) const {
  const auto at = families_.find(function);
  if (at == families_.end()) return {};
  const Family& family = at->second;
  std::unordered_map<Digest, size_t> shared;
  for (const cache::Component& component : key.components) {
    const auto sharing = family.sharing.find({component.name, component.DigestOfItems()});
    if (sharing == family.sharing.end()) continue;
    for (const Digest& entry : sharing->second) ++shared[entry];
  }
  std::vector<std::pair<size_t, Digest>> order;  // (components that differ, entry)
  const Digest self = key.ToDigest();
  for (const Digest& entry : family.entries) {
    if (entry == self) continue;
    const auto found = shared.find(entry);
    order.emplace_back(key.components.size() - (found == shared.end() ? 0 : found->second), entry);
  }
  const size_t kept = std::min(count, order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<long>(kept), order.end());
  std::vector<Digest> out;
  for (size_t i = 0; i < kept; ++i) out.push_back(order[i].second);
  return out;
}

}  // namespace ingot::daemon
