// SPDX-License-Identifier: Apache-2.0
#include "daemon/cluster/signed_graph.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>
#include <utility>

#include "proto/message.h"

namespace ingot::daemon {

Result<ClaimedGraph> JudgeGraph(const VariantDoor& door, const std::optional<std::string>& asker,
                                const Digest& graph_key, Bytes record, Bytes envelope) {
  // A copy that begins where tables may begin.
  const Buffer aligned(record.begin(), record.end());
  const auto* table = proto::ReadMessage<proto::GraphRecord>(aligned);
  if (table == nullptr) return Error(Code::kCorrupt, "a graph record from elsewhere does not verify");
  ClaimedGraph claimed;
  table->UnPackTo(&claimed.record);
  cache::Received received;
  received.function = claimed.record.function;
  received.asked = AskedBy(door, asker.value_or(received.function));
  received.graph_key = graph_key;
  received.artifact = {claimed.record.artifact_low, claimed.record.artifact_high};
  received.variant = cache::Sha256Of(record);
  // Whoever wrote it may not say by whose word it is here.
  claimed.record.origin = std::make_unique<proto::OriginT>();
  claimed.record.origin->envelope.assign(envelope.begin(), envelope.end());
  static_cast<Claim&>(claimed) = JudgeClaim(door, std::move(received), envelope);
  return claimed;
}

Buffer SharedBytesOf(const proto::GraphRecordT& record) {
  proto::GraphRecordT shared = record;
  shared.origin.reset();
  return proto::PackMessage<proto::GraphRecord>(shared);
}

std::optional<Buffer> EnvelopeOf(const proto::GraphRecordT& record, Bytes shared) {
  if (!record.origin) return std::nullopt;
  const auto envelope = cache::DecodeEnvelope(record.origin->envelope);
  const auto said = envelope ? cache::DecodeProvenance(envelope->provenance) : envelope.error();
  if (!said || said->variant != cache::Sha256Of(shared)) return std::nullopt;
  return Buffer(record.origin->envelope.begin(), record.origin->envelope.end());
}

Result<Buffer> SignGraph(const Voucher& voucher, const Digest& graph_key, const proto::GraphRecordT& record,
                         Bytes shared, Bytes artifact) {
  cache::Provenance provenance = ProvenanceBy(voucher, record.function, shared, record.compile_s);
  provenance.graph_key = graph_key;
  provenance.artifact = {record.artifact_low, record.artifact_high};
  if (!record.failure) {
    provenance.artifact_bytes = artifact.size();
    provenance.artifact_sha256 = cache::Sha256Of(artifact);
  }
  // What another key has made falls with that key.
  if (record.origin) {
    const std::set<std::string> keys = cache::VoucherKeysOf(record.origin->envelope);
    if (!keys.empty()) provenance.facts[cache::kVouchedFact] = fmt::format("{}", fmt::join(keys, " "));
  }
  return cache::SignProvenance(voucher.key, std::move(provenance));
}

}  // namespace ingot::daemon
