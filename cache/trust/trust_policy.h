// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cache/trust/provenance.h"
#include "cache/trust/revocation.h"
#include "cache/trust/rotation.h"

namespace ingot::cache {

/// What is said of something that came from elsewhere. Only kTrusted may be served.
enum class Verdict : uint8_t {
  kTrusted,
  kAwaitsArtifact,  ///< All holds so far; the artifact has not been seen.
  kNoTrustFile,     ///< No list of keys, or one that cannot be used.
  kUnsigned,
  kMalformed,
  kOtherVersion,
  kUnknownKey,
  kBadSignature,
  kRevoked,
  kFromTheFuture,
  kNotYetValid,
  kExpired,
  kOtherEntry,
  kOtherGraph,
  kOtherVariant,
  kOtherArtifact,
  kNotInDomain,
  kTooOld,
  kReplayed,
};
/// "trusted", "bad_signature", ...; stable.
std::string_view NameOf(Verdict verdict);

/// A verdict and one sentence for people.
struct Judgement {
  Verdict verdict = Verdict::kNoTrustFile;
  std::string text;
  /// What was signed; set once the signature was found good.
  std::optional<Provenance> provenance;

  bool trusted() const { return verdict == Verdict::kTrusted; }
};

/// The call that asks. Who may answer it is decided by this alone: nothing that a signer says of himself widens it.
struct Asked {
  std::string function;
  std::string group;   ///< Team or project.
  std::string
      target;  ///< Of this machine's compiler, "x86-64-v4"; empty: not known, and then no limit by target holds.
};

/// What somebody is about to serve, as he has it in his hands: the signature must be over just this.
struct Received {
  Asked asked;
  Digest entry_key;      ///< That was asked for.
  std::string function;  ///< Of the received record: of an entry the one that asks, of a graph the first that had it.
  Digest graph_key;  ///< As the received record says.
  Digest artifact;  ///< As the received record says.
  Sha256 variant;  ///< Of the canonical bytes of the received variant.
  /// Build time below which a builder's word is an older one that somebody put back; none: nothing of it has been seen.
  std::function<std::optional<int64_t>(const Provenance&)> newest = {};
};

/// A public key with what it may do.
struct TrustedKey {
  PublicKey key;
  TimeRange built;  ///< What it signs counts when it was built then.
  std::vector<std::string> domains;  ///< Names.
  std::optional<KeyId> follows;  ///< The key whose rotation brought it.
};

/// Who may write what. A call is in the first domain that fits it, and in no other.
struct Domain {
  std::string name;
  // Patterns: * is any text, ? one character. One of each must fit; empty: all do.
  std::vector<std::string> functions, groups, targets;
  /// Only what this machine has signed itself.
  bool this_host_only = false;
  /// Seconds; what was built longer ago is not served.
  std::optional<int64_t> age_max_s;
};

/// True when `pattern` (* any text, ? one character) is all of `text`. Takes at most the product of their sizes.
bool FitsPattern(std::string_view pattern, std::string_view text);

/// The trust file as data (docs/trust.md): keys, domains, revocations. Nothing that it does not know is left unheard:
/// a word spelled wrong would widen what is trusted. Immutable; thread-safe.
class TrustPolicy {
 public:
  /// Trusts nobody.
  TrustPolicy() = default;
  /// `quarantine`: text of a file that may only revoke. `own`: this machine's key, which needs no entry where only
  /// this machine may write. kInvalid, with the line: what cannot be understood.
  static Result<TrustPolicy> Parse(std::string_view text, std::string_view quarantine = {},
                                   std::optional<PublicKey> own = {});

  /// Everything that can be said before the artifact is there: kAwaitsArtifact, or why not. `now_s`: Unix seconds.
  Judgement JudgeRecord(const Received& received, Bytes envelope, int64_t now_s) const;
  /// The signature, and what the file says of its key and what was signed, with nothing to compare it to: for
  /// looking at an envelope. kAwaitsArtifact, or why not. `kind`: what it must have been signed as.
  Judgement JudgeEnvelope(Bytes envelope, int64_t now_s, Statement kind = Statement::kProvenance) const;
  /// Whether what was let in for one call may answer another. kAwaitsArtifact, or why not.
  Judgement JudgeFor(const Asked& asked, Bytes envelope, int64_t now_s) const;
  /// Whether any domain is limited by target: then it must be known which one asks.
  bool has_targets() const;

  /// Of all that it was made of: two of one digest say the same.
  const Digest& digest() const { return digest_; }
  const std::vector<TrustedKey>& keys() const { return keys_; }
  const std::vector<Domain>& domains() const { return domains_; }
  const std::vector<Revocation>& revocations() const { return revocations_; }
  const std::vector<Rotation>& rotations() const { return rotations_; }
  /// Of rotations that do not count: signed by a key that is revoked, or not listed.
  const std::vector<std::string>& warnings() const { return warnings_; }
  const TrustedKey* Find(const KeyId& id) const;
  /// A key by its name, or the start of its id, of 8 digits at least. kNotFound; kInvalid: several.
  Result<const TrustedKey*> Find(std::string_view name) const;
  const Domain* DomainOf(const Asked& asked) const;

 private:
  friend class PolicyReader;
  /// The first half of JudgeRecord.
  Judgement JudgeSignature(Bytes envelope, int64_t now_s, Statement kind = Statement::kProvenance) const;
  Judgement JudgeDomain(const Asked& asked, Judgement judgement, int64_t now_s) const;
  /// Why a key may not write a domain; empty: it may.
  std::string WhyNotIn(const Domain& domain, const KeyId& id) const;
  void FollowRotations();

  std::vector<TrustedKey> keys_;
  std::vector<Domain> domains_;
  std::vector<Rotation> rotations_;
  std::vector<Revocation> revocations_;
  std::vector<std::string> warnings_;
  std::optional<PublicKey> own_;
  Digest digest_;
};

/// Holds the artifact that has come against what was signed: kTrusted, or kOtherArtifact. A judgement that does not
/// await an artifact stays as it is.
Judgement JudgeArtifact(Judgement record, Bytes artifact);

}  // namespace ingot::cache
