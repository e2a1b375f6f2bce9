// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/digest.h"
#include "daemon/state/config.h"
#include "proto/record_generated.h"

namespace ingot::daemon {

/// What a request adds to an entry. A zero `artifact` leaves what an equal variant has.
struct NewVariant {
  proto::VariantKind kind = proto::VariantKind::Exact;
  Digest graph;
  Digest artifact;
  uint64_t artifact_bytes = 0;
  Digest text;
  Digest graph_key;
  /// What `artifact` may hold code of its own for.
  std::vector<int64_t> gears;
  float compile_s = 0;
  proto::StageSeconds stages;
  /// The envelope by which `artifact` came from another machine, empty where nobody had signed it; null: it was made
  /// here.
  std::shared_ptr<const Buffer> origin;
  /// Those of the stored variant whose graph this was made of: code that is compiled here of what somebody else said is
  /// by his word too.
  std::vector<Buffer> inherited;
  /// Template: symbol values that are proved, symbol_count each.
  std::vector<int64_t> proven;
  size_t symbol_count = 0;
  /// Template: sizes that are proved besides (guards/ranges.h), over its symbols.
  std::string range;
  /// Why sizes are numbers; empty leaves what is stored.
  std::vector<std::string> fixed;
  /// Template made of the request and another recording: symbol values that the other one proves, and the variant that
  /// says what that saw. Null where it saw what the request did.
  std::vector<int64_t> other_proven;
  std::shared_ptr<const proto::VariantT> other;
};

/// Whether variant and request can be one: equal signatures, and no dependency that both saw
/// with different values; none that the request has not seen, where its client had to reject what is
/// stored.
bool Agrees(const proto::VariantT& variant, const proto::CompileT& request);

/// Adds a variant, or its proven sizes and dependencies to an equal one that agrees. Clears a
/// recorded failure, but not the quarantine of another graph. Over the limit the oldest exact
/// variant goes, else the oldest.
void AddVariant(proto::EntryRecordT& record, const proto::CompileT& request, const NewVariant& added,
                const Config& config, int64_t now_s);

/// Sizes of a variant that are used, symbol_count each: those of gears first, then those proved last; without
/// repetition.
std::vector<int64_t> UsedSizes(const proto::StoredVariantT& stored, uint64_t sizes_max);

/// Adds a variant that another machine made to those that hold the same, or as one more. True when the record says
/// something that it did not.
bool MergeVariant(proto::EntryRecordT& record, const proto::StoredVariantT& added, const Config& config);

/// The envelopes of a variant's origins.
std::vector<Buffer> OriginsOf(const proto::StoredVariantT& stored);
/// Whether any part is here by nobody's word: it is never signed, shared, or exported as signed.
bool IsUnsigned(const proto::StoredVariantT& stored);
bool IsUnsigned(const proto::GraphRecordT& record);
/// Notes by whose word a part of a variant is here; of one builder the newest stays.
void AddOrigin(proto::StoredVariantT& stored, Bytes envelope);
/// The variant as it is shared: without what this machine alone knows of it.
proto::StoredVariantT WithoutOrigins(const proto::StoredVariantT& stored);

/// The variant but for what it depends on, which may be thousands of rows.
std::unique_ptr<proto::VariantT> WithoutDependencies(const proto::VariantT& variant);

/// A better artifact of the same graph takes the place of a variant's.
void ReplaceArtifact(proto::StoredVariantT& stored, const Digest& better, uint64_t bytes);
/// Notes beside each variant that an artifact serves what came of holding it against eager. False where it serves none,
/// or has other symbols.
bool NoteComparison(proto::EntryRecordT& record, const Digest& artifact, const proto::ComparisonT& comparison);
/// Whether the artifact serves the variant, or one in whose place its own has come.
bool IsOrWas(const proto::StoredVariantT& stored, const Digest& artifact);

/// Removes the variants that an artifact serves, or served, and keeps the failure where there were any.
void DropQuarantined(proto::EntryRecordT& record, const Digest& artifact, const proto::FailureT& failure);

}  // namespace ingot::daemon
