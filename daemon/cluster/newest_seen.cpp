// SPDX-License-Identifier: Apache-2.0
#include "daemon/cluster/newest_seen.h"

#include "base/log.h"

namespace ingot::daemon {
namespace {

using cache::Table;

/// More than that of any artifact.
constexpr double kCost_s = 1e6;

/// A row for each builder and machine of an entry, or of a graph that is no entry's.
Digest RowOf(const cache::Provenance& provenance) {
  Hasher hasher;
  hasher.AddField("newest seen");
  hasher.Add(provenance.entry_key.low);
  hasher.Add(provenance.entry_key.high);
  if (provenance.entry_key.IsZero()) {
    hasher.Add(provenance.graph_key.low);
    hasher.Add(provenance.graph_key.high);
  }
  hasher.AddField(provenance.builder.ToHex());
  hasher.AddField(provenance.host);
  return hasher.Finish();
}

}  // namespace

std::optional<int64_t> NewestSeen::Of(const cache::Provenance& provenance) const {
  const Result<cache::Value> stored = store_.Get(Table::kStats, RowOf(provenance));
  if (!stored || stored->bytes.size() != sizeof(int64_t)) return std::nullopt;
  return static_cast<int64_t>(LoadLittle<uint64_t>(stored->bytes, 0));
}

void NewestSeen::Took(const cache::Provenance& oldest) {
  const std::optional<int64_t> before = Of(oldest);
  if (before && *before >= oldest.built_s) return;
  Buffer value;
  AppendLittle(value, static_cast<uint64_t>(oldest.built_s));
  // It outlives what it was said of: without it an older word could come back.
  const cache::PutOptions options{.cost_s = kCost_s, .is_durable = false};
  const auto put = store_.Put(Table::kStats, RowOf(oldest), value, options);
  if (!put) LogDebug("did not note how new a word was", {{"function", oldest.function}, {"reason", put.error()}});
}

}  // namespace ingot::daemon
