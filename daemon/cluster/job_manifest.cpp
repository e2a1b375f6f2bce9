// SPDX-License-Identifier: Apache-2.0
#include "daemon/cluster/job_manifest.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "daemon/state/convert.h"
#include "proto/message.h"

namespace ingot::daemon {
namespace {

/// The group of manifests in the stats table.
constexpr const char* kJobs = "jobs";
/// Seconds after which what a job has not used is not its any more, and after which what it uses is written again.
constexpr int64_t kForgetS = 7 * 86'400;
constexpr int64_t kWriteAgainS = 86'400;
/// Worth about a compile: losing it costs the next run a few.
constexpr double kManifestCost = 1;

Digest EntryOf(const proto::JobEntry& entry) { return {entry.low(), entry.high()}; }

proto::JobManifestT ManifestIn(const cache::Record& record) {
  proto::JobManifestT out;
  const auto* known = record.exists() ? proto::ReadMessage<proto::JobManifest>(record.value) : nullptr;
  if (known != nullptr) known->UnPackTo(&out);
  return out;
}

}  // namespace

Digest JobNameOf(const cache::Key& first) {
  Hasher hasher;
  hasher.AddField("job");
  hasher.AddField(FunctionOf(first));
  for (const char* name : {"module_state", "ranks", "environment", "target"}) {
    const cache::Component* component = first.Find(name);
    const Digest digest = component == nullptr ? Digest() : component->DigestOfItems();
    hasher.Add(digest.low);
    hasher.Add(digest.high);
  }
  return hasher.Finish();
}

bool MergeJob(proto::JobManifestT& into, const proto::JobManifestT& now, size_t entries_max, int64_t now_s) {
  std::unordered_map<Digest, size_t> known;
  for (size_t i = 0; i < into.entries.size(); ++i) known[EntryOf(into.entries[i])] = i;
  bool is_new = false;
  for (const proto::JobEntry& entry : now.entries) {
    const auto at = known.find(EntryOf(entry));
    if (at == known.end()) {
      into.entries.push_back(entry);
      is_new = true;
      continue;
    }
    proto::JobEntry& there = into.entries[at->second];
    is_new = is_new || there.used() < entry.used() - kWriteAgainS || there.bytes() != entry.bytes();
    there = proto::JobEntry(there.low(), there.high(), entry.bytes(), std::max(there.used(), entry.used()));
  }
  std::erase_if(into.entries, [&](const proto::JobEntry& entry) { return entry.used() < now_s - kForgetS; });
  if (into.entries.size() > entries_max) {
    std::vector<int64_t> times;
    for (const proto::JobEntry& entry : into.entries) times.push_back(entry.used());
    std::ranges::nth_element(times, times.end() - static_cast<long>(entries_max));
    const int64_t oldest = times[times.size() - entries_max];
    std::erase_if(into.entries, [&](const proto::JobEntry& entry) { return entry.used() < oldest; });
    into.entries.resize(std::min(into.entries.size(), entries_max));
  }
  if (!now.function.empty()) into.function = now.function;
  if (!now.ranks.empty()) into.ranks = now.ranks;
  return is_new;
}

cache::Task<proto::JobManifestT> ReadJobManifest(cache::Index& index, Digest name, Until until) {
  std::vector<cache::RecordKey> keys = {{cache::Table::kStats, name}};
  CO_TRY_ASSIGN(const std::vector<cache::Record> records, co_await index.Get(std::move(keys), until));
  co_return ManifestIn(records.front());
}

cache::Task<bool> PutJobManifest(cache::Index& index, Digest name, proto::JobManifestT used, size_t entries_max,
                                 int64_t now_s, Until until) {
  while (true) {
    CO_TRY(until.Check());
    std::vector<cache::RecordKey> keys = {{cache::Table::kStats, name}};
    const cache::RecordKey key = keys.front();
    CO_TRY_ASSIGN(const std::vector<cache::Record> records, co_await index.Get(std::move(keys), until));
    proto::JobManifestT merged = ManifestIn(records.front());
    if (!MergeJob(merged, used, entries_max, now_s)) co_return false;
    cache::RecordFacts facts;
    facts.cost_s = kManifestCost;
    facts.group = kJobs;
    Buffer value = proto::PackMessage<proto::JobManifest>(merged);
    CO_TRY_ASSIGN(const uint64_t version, co_await index.CompareAndSet(key, records.front().version, std::move(value),
                                                                       std::move(facts), until));
    if (version != 0) co_return true;
  }
}

}  // namespace ingot::daemon
