// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "cache/store/key.h"
#include "cache/trust/signing_key.h"
#include "cache/trust/trust.h"
#include "daemon/state/artifacts.h"
#include "daemon/state/config.h"
#include "daemon/state/entries.h"
#include "proto/record_generated.h"

namespace ingot::daemon {

/// The one door by which variants from elsewhere come in, whatever carried them: a cluster (daemon/cluster/cluster.h)
/// or a bundle (daemon/admin/bundle.h). Until its signature and its digests hold, what comes is data.
struct VariantDoor {
  const Config& config;
  Artifacts& artifacts;
  const cache::Trust& trust;
  /// Bytes by their digest, from where the variant is from; what is given has that digest.
  std::function<Task<cache::SealedRef>(Digest, Until)> blob;
  /// What this machine's compiler makes code for, "" where that is not known: asked where the trust file tells targets
  /// apart.
  std::function<std::string()> target = [] { return std::string(); };
  /// Build time below which a builder's word is an older one put back in the place of a newer; none: it has said
  /// nothing here.
  std::function<std::optional<int64_t>(const cache::Provenance&)> newest = {};
  /// Takes variants without any envelope: the user vouches for who made the bundle. One with an envelope is judged.
  bool allow_unsigned = false;
};

/// What somebody vouches for, as it is judged.
struct Claim {
  cache::Received received;
  cache::Judgement judgement;  ///< kAwaitsArtifact: good so far.
  /// Its artifact may be looked at: kAwaitsArtifact, or unsigned where that is allowed.
  bool is_welcome = false;
};
/// A call of a function of this machine.
cache::Asked AskedBy(const VariantDoor& door, const std::string& function);
/// Judges what `received` is said to be by an envelope, without the artifact.
Claim JudgeClaim(const VariantDoor& door, cache::Received received, Bytes envelope);
/// Holds the artifact of a welcome claim against what was signed and stores it. Where it was not the signed one, the
/// claim is not welcome any more. `cost_s`: seconds that making it again would take.
Task<void> BringArtifact(const VariantDoor& door, Claim& claim, double cost_s, Until until);

/// A variant as somebody vouches for it, told from what is said of it here.
struct ClaimedVariant : Claim {
  proto::StoredVariantT stored;
};
/// Judges without the artifact. kCorrupt: `variant` is none.
Result<ClaimedVariant> JudgeVariant(const VariantDoor& door, const cache::Key& key, Bytes variant, Bytes envelope);

/// As BringArtifact, with the text of its graph, and adds it to `into`. False: `into` says it already, or it is not
/// welcome.
Task<bool> TakeVariant(const VariantDoor& door, ClaimedVariant& claimed, proto::EntryRecordT& into, Until until);

/// Who vouches, and for what compiler.
struct Voucher {
  const cache::SigningKey& key;
  std::string host, group, compiler, target;
  int64_t now_s = 0;
};
/// What a voucher says of any record of these bytes: all but what the record names.
cache::Provenance ProvenanceBy(const Voucher& voucher, std::string function, Bytes record, float compile_s);
/// The envelope by which another machine has said exactly this of a variant: `variant` are its canonical bytes.
std::optional<Buffer> EnvelopeOf(const proto::StoredVariantT& stored, Bytes variant);
/// The envelope of a variant whose canonical bytes are `variant` and whose artifact is `artifact`.
Result<Buffer> SignVariant(const Voucher& voucher, const Entry& entry, const proto::StoredVariantT& stored,
                           Bytes variant, Bytes artifact);

}  // namespace ingot::daemon
