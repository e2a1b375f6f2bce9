// SPDX-License-Identifier: Apache-2.0
#include "daemon/cluster/signed_variant.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <utility>

#include "daemon/state/convert.h"
#include "daemon/state/variants.h"
#include "proto/message.h"

namespace ingot::daemon {
namespace {

/// The keys by whose word parts of a variant are here, and those by whose word they had them, as a fact of what is
/// signed: it falls with any of them.
std::string BuildersOf(const proto::StoredVariantT& stored) {
  std::set<std::string> keys;
  for (const auto& origin : stored.origins) keys.merge(cache::VoucherKeysOf(origin->envelope));
  return fmt::format("{}", fmt::join(keys, " "));
}

}  // namespace

std::optional<Buffer> EnvelopeOf(const proto::StoredVariantT& stored, Bytes variant) {
  const cache::Sha256 wanted = cache::Sha256Of(variant);
  for (const auto& origin : stored.origins) {
    const auto envelope = cache::DecodeEnvelope(origin->envelope);
    const auto said = envelope ? cache::DecodeProvenance(envelope->provenance) : envelope.error();
    if (said && said->variant == wanted) return Buffer(origin->envelope.begin(), origin->envelope.end());
  }
  return std::nullopt;
}

cache::Asked AskedBy(const VariantDoor& door, const std::string& function) {
  const auto policy = door.trust.policy();
  return {function, door.config.cluster_group, policy && policy->has_targets() ? door.target() : ""};
}

Claim JudgeClaim(const VariantDoor& door, cache::Received received, Bytes envelope) {
  Claim claim{std::move(received), {cache::Verdict::kUnsigned, "nobody vouches for it", {}}, door.allow_unsigned};
  if (envelope.empty()) return claim;
  claim.received.newest = door.newest;
  claim.judgement = door.trust.JudgeRecord(claim.received, envelope);
  claim.is_welcome = claim.judgement.verdict == cache::Verdict::kAwaitsArtifact;
  return claim;
}

Task<void> BringArtifact(const VariantDoor& door, Claim& claim, double cost_s, Until until) {
  if (!claim.is_welcome) co_return Status();
  const Digest artifact = claim.received.artifact;
  CO_TRY_ASSIGN(const cache::SealedRef file, co_await door.blob(artifact, until));
  if (claim.judgement.verdict == cache::Verdict::kAwaitsArtifact) {
    claim.judgement = cache::JudgeArtifact(std::move(claim.judgement), file->bytes());
    claim.is_welcome = claim.judgement.trusted();
    if (!claim.is_welcome) co_return Status();
  }
  CO_TRY(co_await door.artifacts.Take(artifact, file, cost_s, until));
  co_return Status();
}

Result<ClaimedVariant> JudgeVariant(const VariantDoor& door, const cache::Key& key, Bytes variant, Bytes envelope) {
  // A copy that begins where tables may begin.
  const Buffer aligned(variant.begin(), variant.end());
  const auto* table = proto::ReadMessage<proto::StoredVariant>(aligned);
  if (table == nullptr) return Error(Code::kCorrupt, "a variant from elsewhere does not verify");
  ClaimedVariant claimed;
  table->UnPackTo(&claimed.stored);
  cache::Received received;
  received.entry_key = key.ToDigest();
  received.function = FunctionOf(key);
  received.asked = AskedBy(door, received.function);
  received.graph_key = {claimed.stored.graph_key_low, claimed.stored.graph_key_high};
  received.artifact = ArtifactOf(*claimed.stored.variant);
  received.variant = cache::Sha256Of(variant);
  // Whoever wrote it may not say by whose word it is here.
  claimed.stored.origins.clear();
  AddOrigin(claimed.stored, envelope);
  static_cast<Claim&>(claimed) = JudgeClaim(door, std::move(received), envelope);
  return claimed;
}

Task<bool> TakeVariant(const VariantDoor& door, ClaimedVariant& claimed, proto::EntryRecordT& into, Until until) {
  CO_TRY(co_await BringArtifact(door, claimed, claimed.stored.compile_s, until));
  if (!claimed.is_welcome) co_return false;
  const proto::StoredVariantT& stored = claimed.stored;
  const Digest text{stored.text_low, stored.text_high};
  const Result<cache::SealedRef> graph = co_await door.blob(text, until);
  // Without its text a later size is compiled instead of proved.
  if (graph) Ignore(co_await door.artifacts.Take(text, *graph, stored.compile_s, until), "as if it were not there");
  co_return MergeVariant(into, stored, door.config);
}

cache::Provenance ProvenanceBy(const Voucher& voucher, std::string function, Bytes record, float compile_s) {
  cache::Provenance provenance;
  provenance.variant = cache::Sha256Of(record);
  provenance.function = std::move(function);
  provenance.host = voucher.host;
  provenance.group = voucher.group;
  provenance.compiler = voucher.compiler;
  provenance.target = voucher.target;
  provenance.cost_us = static_cast<uint64_t>(std::max(0.0f, compile_s) * 1e6);
  provenance.built_s = voucher.now_s;
  return provenance;
}

Result<Buffer> SignVariant(const Voucher& voucher, const Entry& entry, const proto::StoredVariantT& stored,
                           Bytes variant, Bytes artifact) {
  cache::Provenance provenance = ProvenanceBy(voucher, entry.function, variant, stored.compile_s);
  provenance.entry_key = entry.digest;
  provenance.graph_key = {stored.graph_key_low, stored.graph_key_high};
  provenance.artifact = ArtifactOf(*stored.variant);
  provenance.artifact_bytes = artifact.size();
  provenance.artifact_sha256 = cache::Sha256Of(artifact);
  if (!stored.origins.empty()) provenance.facts[cache::kVouchedFact] = BuildersOf(stored);
  return cache::SignProvenance(voucher.key, std::move(provenance));
}

}  // namespace ingot::daemon
