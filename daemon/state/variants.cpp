// SPDX-License-Identifier: Apache-2.0
#include "daemon/state/variants.h"

#include <algorithm>
#include <memory>

#include "cache/trust/provenance.h"
#include "daemon/state/convert.h"
#include "guards/ranges.h"

namespace ingot::daemon {
namespace {

/// Artifacts of a variant that clients may still have, the newest: each is better than the one before, and few can be.
constexpr size_t kReplacedMax = 8;

bool Holds(const proto::VariantT& variant, const std::vector<int64_t>& sizes, size_t from) {
  const size_t count = variant.symbol_count;
  for (size_t at = 0; at + count <= variant.proven.size(); at += count) {
    if (std::equal(variant.proven.begin() + static_cast<long>(at),
                   variant.proven.begin() + static_cast<long>(at + count), sizes.begin() + static_cast<long>(from))) {
      return true;
    }
  }
  return false;
}

void AddProven(proto::VariantT& variant, const std::vector<int64_t>& proven, const Config& config) {
  const size_t count = variant.symbol_count;
  if (count == 0) return;
  for (size_t from = 0; from + count <= proven.size(); from += count) {
    if (variant.proven.size() / count >= config.proven_max) return;
    if (Holds(variant, proven, from)) continue;
    variant.proven.insert(variant.proven.end(), proven.begin() + static_cast<long>(from),
                          proven.begin() + static_cast<long>(from + count));
  }
}

/// A size is proved in the state in which it was recorded: what the other recording saw must hold as well from now on.
void AddOther(proto::VariantT& variant, const NewVariant& added, const Config& config) {
  if (added.other != nullptr) {
    if (Contradict(variant.dependencies, added.other->dependencies)) return;
    MergeDependencies(variant, added.other->dependencies);
  }
  AddProven(variant, added.other_proven, config);
}

/// Each recording proves sizes of its own: with another remainder, or of a dim that is 1.
void AddRange(proto::VariantT& variant, const std::string& range) {
  if (range.empty() || range == variant.range) return;
  auto known = guards::Ranges::Parse(variant.range);
  const auto added = guards::Ranges::Parse(range);
  if (!known || !added) return;
  for (const guards::GuardSet& set : added->sets()) known->Add(set);
  variant.range = known->ToText();
}

/// Comparisons that a variant keeps, the newest: one for each kind of size of each symbol, and reasons of a few.
constexpr size_t kComparisonsMax = 64;

/// What this machine has found of the artifact by comparing it.
void ForgetNotes(proto::StoredVariantT& stored) {
  stored.variant->agreed.clear();
  stored.proof.reset();
}

/// Takes the place of the variant that is missed least.
void MakeRoom(proto::EntryRecordT& record, const Config& config) {
  const size_t limit = std::max<size_t>(1, config.variants_max);
  while (record.variants.size() >= limit) {
    const auto worse = [](const auto& a, const auto& b) {
      const bool a_exact = a->variant->kind == proto::VariantKind::Exact;
      const bool b_exact = b->variant->kind == proto::VariantKind::Exact;
      return a_exact != b_exact ? a_exact : a->created < b->created;
    };
    record.variants.erase(std::ranges::min_element(record.variants, worse));
  }
}

}  // namespace

std::vector<int64_t> UsedSizes(const proto::StoredVariantT& stored, uint64_t sizes_max) {
  const size_t count = stored.variant->symbol_count;
  std::vector<int64_t> sizes;
  if (count == 0) return sizes;
  const auto add = [&](const std::vector<int64_t>& from, size_t at) {
    const auto begin = from.begin() + static_cast<long>(at), end = begin + static_cast<long>(count);
    for (size_t known = 0; known < sizes.size(); known += count) {
      if (std::equal(begin, end, sizes.begin() + static_cast<long>(known))) return;
    }
    if (sizes.size() / count < sizes_max) sizes.insert(sizes.end(), begin, end);
  };
  for (size_t at = 0; at + count <= stored.gears.size(); at += count) add(stored.gears, at);
  const std::vector<int64_t>& proven = stored.variant->proven;
  for (size_t left = proven.size() / count; left-- > 0;) add(proven, left * count);
  return sizes;
}

bool Agrees(const proto::VariantT& variant, const proto::CompileT& request) {
  if (variant.signature != request.signature || Contradict(variant.dependencies, request.dependencies)) return false;
  // What did not hold for the client may be among what it has not seen now.
  return request.rejected.empty() || SawAll(variant, request);
}

void AddVariant(proto::EntryRecordT& record, const proto::CompileT& request, const NewVariant& added,
                const Config& config, int64_t now_s) {
  // Another graph that serves does not lift the quarantine of one that did not.
  const bool lasts = record.failure && record.failure->quarantined &&
                     Digest{record.failure->graph_key_low, record.failure->graph_key_high} != added.graph_key;
  if (!lasts) record.failure.reset();
  proto::StoredVariantT* target = nullptr;
  for (const auto& stored : record.variants) {
    const proto::VariantT& variant = *stored->variant;
    const bool same = variant.kind == added.kind && GraphOf(variant) == added.graph;
    if (same && Agrees(variant, request)) target = stored.get();
  }
  // Somebody removed what was to be added to.
  if (target == nullptr && added.artifact.IsZero()) return;
  if (target == nullptr) {
    MakeRoom(record, config);
    record.variants.push_back(std::make_unique<proto::StoredVariantT>());
    target = record.variants.back().get();
    target->created = now_s;
    target->variant = std::make_unique<proto::VariantT>();
    target->variant->kind = added.kind;
    target->variant->graph_low = added.graph.low;
    target->variant->graph_high = added.graph.high;
    target->variant->symbol_count = static_cast<uint32_t>(added.symbol_count);
    target->variant->signature = request.signature;
  }
  if (!added.artifact.IsZero()) {
    if (ArtifactOf(*target->variant) != added.artifact) ForgetNotes(*target);
    target->variant->artifact_low = added.artifact.low;
    target->variant->artifact_high = added.artifact.high;
    target->variant->artifact_bytes = added.artifact_bytes;
    target->text_low = added.text.low;
    target->text_high = added.text.high;
    target->graph_key_low = added.graph_key.low;
    target->graph_key_high = added.graph_key.high;
    target->gears = added.gears;
    target->compile_s = added.compile_s;
    target->stages = std::make_unique<proto::StageSeconds>(added.stages);
    if (added.origin) AddOrigin(*target, *added.origin);
    for (const Buffer& envelope : added.inherited) AddOrigin(*target, envelope);
  }
  MergeDependencies(*target->variant, request.dependencies);
  AddOther(*target->variant, added, config);
  AddProven(*target->variant, added.proven, config);
  AddRange(*target->variant, added.range);
  if (!added.fixed.empty()) target->variant->fixed = added.fixed;
}

bool MergeVariant(proto::EntryRecordT& record, const proto::StoredVariantT& added, const Config& config) {
  const proto::VariantT& from = *added.variant;
  for (const auto& stored : record.variants) {
    proto::VariantT& variant = *stored->variant;
    const bool same = variant.kind == from.kind && GraphOf(variant) == GraphOf(from) &&
                      variant.symbol_count == from.symbol_count && variant.signature == from.signature;
    if (!same || Contradict(variant.dependencies, from.dependencies)) continue;
    const size_t before = variant.dependencies.size() + variant.proven.size() + variant.range.size();
    MergeDependencies(variant, from.dependencies);
    AddProven(variant, from.proven, config);
    AddRange(variant, from.range);
    if (variant.dependencies.size() + variant.proven.size() + variant.range.size() == before) return false;
    for (const auto& origin : added.origins) AddOrigin(*stored, origin->envelope);
    return true;
  }
  MakeRoom(record, config);
  record.variants.push_back(std::make_unique<proto::StoredVariantT>(added));
  // What another machine has compared is no word of this one's.
  ForgetNotes(*record.variants.back());
  return true;
}

std::vector<Buffer> OriginsOf(const proto::StoredVariantT& stored) {
  std::vector<Buffer> out;
  for (const auto& origin : stored.origins) out.emplace_back(origin->envelope.begin(), origin->envelope.end());
  return out;
}

bool IsUnsigned(const proto::StoredVariantT& stored) {
  return std::ranges::any_of(stored.origins, [](const auto& origin) { return origin->envelope.empty(); });
}

bool IsUnsigned(const proto::GraphRecordT& record) { return record.origin && record.origin->envelope.empty(); }

void AddOrigin(proto::StoredVariantT& stored, Bytes envelope) {
  // What is said anew by a builder takes the place of what he said before, where it falls with all that that falls
  // with.
  const auto built_s = [](Bytes bytes) {
    const auto decoded = cache::DecodeEnvelope(bytes);
    const auto provenance = decoded ? cache::DecodeProvenance(decoded->provenance) : decoded.error();
    return provenance ? provenance->built_s : int64_t{0};
  };
  const auto builder = [](Bytes bytes) {
    const auto decoded = cache::DecodeEnvelope(bytes);
    return decoded ? decoded->key : cache::KeyId();
  };
  const auto covers = [&](Bytes newer, Bytes older) {
    return builder(newer) == builder(older) && built_s(newer) >= built_s(older) &&
           std::ranges::includes(cache::VoucherKeysOf(newer), cache::VoucherKeysOf(older));
  };
  if (std::ranges::any_of(stored.origins, [&](const auto& one) { return covers(one->envelope, envelope); })) return;
  std::erase_if(stored.origins, [&](const auto& one) { return covers(envelope, one->envelope); });
  auto origin = std::make_unique<proto::OriginT>();
  origin->envelope.assign(envelope.begin(), envelope.end());
  stored.origins.push_back(std::move(origin));
}

proto::StoredVariantT WithoutOrigins(const proto::StoredVariantT& stored) {
  proto::StoredVariantT out = stored;
  out.origins.clear();
  out.replaced.clear();
  ForgetNotes(out);
  return out;
}

std::unique_ptr<proto::VariantT> WithoutDependencies(const proto::VariantT& variant) {
  auto out = std::make_unique<proto::VariantT>();
  out->kind = variant.kind;
  out->graph_low = variant.graph_low;
  out->graph_high = variant.graph_high;
  out->artifact_low = variant.artifact_low;
  out->artifact_high = variant.artifact_high;
  out->artifact_bytes = variant.artifact_bytes;
  out->descriptor = variant.descriptor;
  out->symbol_count = variant.symbol_count;
  out->proven = variant.proven;
  out->signature = variant.signature;
  out->range = variant.range;
  out->fixed = variant.fixed;
  for (const auto& one : variant.agreed) out->agreed.push_back(std::make_unique<proto::ComparisonT>(*one));
  return out;
}

void ReplaceArtifact(proto::StoredVariantT& stored, const Digest& better, uint64_t bytes) {
  proto::VariantT& variant = *stored.variant;
  stored.replaced.insert(stored.replaced.end(), {variant.artifact_low, variant.artifact_high});
  const size_t kept = std::min(stored.replaced.size(), 2 * kReplacedMax);
  stored.replaced.erase(stored.replaced.begin(), stored.replaced.end() - static_cast<long>(kept));
  variant.artifact_low = better.low;
  variant.artifact_high = better.high;
  variant.artifact_bytes = bytes;
  ForgetNotes(stored);
}

bool NoteComparison(proto::EntryRecordT& record, const Digest& artifact, const proto::ComparisonT& comparison) {
  bool is_noted = false;
  for (const auto& stored : record.variants) {
    proto::VariantT& variant = *stored->variant;
    const bool is_whole = !comparison.why_not.empty() || comparison.sizes.size() == variant.symbol_count;
    if (ArtifactOf(variant) != artifact || !is_whole) continue;
    std::erase_if(variant.agreed, [&](const auto& one) {
      return !one->why_not.empty() || (comparison.why_not.empty() && one->sizes == comparison.sizes);
    });
    variant.agreed.push_back(std::make_unique<proto::ComparisonT>(comparison));
    if (variant.agreed.size() > kComparisonsMax) variant.agreed.erase(variant.agreed.begin());
    is_noted = true;
  }
  return is_noted;
}

bool IsOrWas(const proto::StoredVariantT& stored, const Digest& artifact) {
  if (ArtifactOf(*stored.variant) == artifact) return true;
  for (size_t at = 0; at + 2 <= stored.replaced.size(); at += 2) {
    if (Digest{stored.replaced[at], stored.replaced[at + 1]} == artifact) return true;
  }
  return false;
}

void DropQuarantined(proto::EntryRecordT& record, const Digest& artifact, const proto::FailureT& failure) {
  const size_t dropped = std::erase_if(record.variants, [&](const auto& stored) { return IsOrWas(*stored, artifact); });
  if (dropped != 0) record.failure = std::make_unique<proto::FailureT>(failure);
}

}  // namespace ingot::daemon
