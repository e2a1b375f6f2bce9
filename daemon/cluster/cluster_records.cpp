// SPDX-License-Identifier: Apache-2.0
#include "daemon/cluster/cluster_records.h"

#include <algorithm>
#include <string>
#include <utility>

#include "daemon/state/convert.h"
#include "proto/cluster_generated.h"
#include "proto/message.h"

namespace ingot::daemon {
namespace {

Error Unreadable() { return Error(Code::kCorrupt, "a shared record does not verify"); }
Buffer CopyOf(const flatbuffers::Vector<uint8_t>& field) { return Buffer(field.begin(), field.end()); }

/// Seconds that making a signed variant again would take.
double CostOf(const proto::SignedVariantT& variant) {
  const Buffer aligned(variant.variant.begin(), variant.variant.end());
  const auto* stored = proto::ReadMessage<proto::StoredVariant>(aligned);
  return stored == nullptr ? 0 : std::max(0.0f, stored->compile_s());
}

}  // namespace

Result<std::vector<Buffer>> ClusterRecords::EnvelopesOf(const cache::RecordKey& key, Bytes value) const {
  std::vector<Buffer> out;
  if (key.table == cache::Table::kGraphs) {
    const auto* graph = proto::ReadMessage<proto::ClusterGraph>(value);
    if (graph == nullptr) return Unreadable();
    out.push_back(CopyOf(*graph->envelope()));
    return out;
  }
  const auto* entry = proto::ReadMessage<proto::ClusterEntry>(value);
  if (entry == nullptr) return Unreadable();
  if (entry->variants() == nullptr) return out;
  for (const proto::SignedVariant* variant : *entry->variants()) out.push_back(CopyOf(*variant->envelope()));
  return out;
}

Result<cache::SignedRecords::Rest> ClusterRecords::Without(const cache::RecordKey& key, Bytes value,
                                                           const std::vector<size_t>& envelopes) const {
  Rest rest;
  if (key.table == cache::Table::kGraphs) return rest;
  const auto* entry = proto::ReadMessage<proto::ClusterEntry>(value);
  if (entry == nullptr) return Unreadable();
  proto::ClusterEntryT left;
  entry->UnPackTo(&left);
  for (size_t i = envelopes.size(); i-- > 0;) {
    const size_t at = envelopes[i];
    if (at < left.variants.size()) left.variants.erase(left.variants.begin() + static_cast<long>(at));
  }
  if (left.variants.empty()) return rest;
  for (const auto& variant : left.variants) rest.facts.cost_s += CostOf(*variant);
  rest.facts.group = FunctionOf(ToKey(*entry->key())).substr(0, cache::kGroupBytesMax);
  rest.value = proto::PackMessage<proto::ClusterEntry>(left);
  return rest;
}

}  // namespace ingot::daemon
