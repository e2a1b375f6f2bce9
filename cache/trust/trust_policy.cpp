// SPDX-License-Identifier: Apache-2.0
#include "cache/trust/trust_policy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

namespace ingot::cache {
namespace {

/// Seconds by which clocks of two machines may differ.
constexpr int64_t kSkewMax_s = 300;
constexpr size_t kIdDigitsMin = 8;

bool FitsOne(const std::vector<std::string>& patterns, std::string_view text) {
  return patterns.empty() || std::any_of(patterns.begin(), patterns.end(),
                                         [&](const std::string& pattern) { return FitsPattern(pattern, text); });
}

/// Whether `later` is more than `seconds` after `earlier`, whatever somebody's clock says.
bool IsAfter(int64_t later, int64_t earlier, int64_t seconds) {
  return later > earlier &&
         static_cast<uint64_t>(later) - static_cast<uint64_t>(earlier) > static_cast<uint64_t>(seconds);
}

/// Ids of the keys by whose word parts came to the builder, as he says.
std::vector<std::string> VouchedOf(const Provenance& provenance) {
  std::vector<std::string> out;
  const auto vouched = provenance.facts.find(kVouchedFact);
  if (vouched == provenance.facts.end()) return out;
  std::istringstream words(vouched->second);
  for (std::string word; words >> word;) out.push_back(word);
  // What says that there are some and names none is not what a builder writes.
  if (out.empty()) out.emplace_back();
  return out;
}

Judgement Say(Verdict verdict, std::string text, std::optional<Provenance> provenance = {}) {
  return {verdict, std::move(text), std::move(provenance)};
}

}  // namespace

std::string_view NameOf(Verdict verdict) {
  switch (verdict) {
    case Verdict::kTrusted: return "trusted";
    case Verdict::kAwaitsArtifact: return "awaits_artifact";
    case Verdict::kNoTrustFile: return "no_trust_file";
    case Verdict::kUnsigned: return "unsigned";
    case Verdict::kMalformed: return "malformed";
    case Verdict::kOtherVersion: return "other_version";
    case Verdict::kUnknownKey: return "unknown_key";
    case Verdict::kBadSignature: return "bad_signature";
    case Verdict::kRevoked: return "revoked";
    case Verdict::kFromTheFuture: return "from_the_future";
    case Verdict::kNotYetValid: return "not_yet_valid";
    case Verdict::kExpired: return "expired";
    case Verdict::kOtherEntry: return "other_entry";
    case Verdict::kOtherGraph: return "other_graph";
    case Verdict::kOtherVariant: return "other_variant";
    case Verdict::kOtherArtifact: return "other_artifact";
    case Verdict::kNotInDomain: return "not_in_domain";
    case Verdict::kTooOld: return "too_old";
    case Verdict::kReplayed: return "replayed";
  }
  return "no_trust_file";
}

bool FitsPattern(std::string_view pattern, std::string_view text) {
  size_t at = 0, in_text = 0;
  // Where the last star was, and what it takes so far: only that one ever needs to take more.
  size_t star = pattern.npos, taken = 0;
  while (in_text < text.size()) {
    if (at < pattern.size() && pattern[at] == '*') {
      star = at++;
      taken = in_text;
    } else if (at < pattern.size() && (pattern[at] == '?' || pattern[at] == text[in_text])) {
      ++at;
      ++in_text;
    } else if (star != pattern.npos) {
      at = star + 1;
      in_text = ++taken;
    } else {
      return false;
    }
  }
  return std::all_of(pattern.begin() + static_cast<ptrdiff_t>(at), pattern.end(), [](char c) { return c == '*'; });
}

const TrustedKey* TrustPolicy::Find(const KeyId& id) const {
  const auto at = std::find_if(keys_.begin(), keys_.end(), [&](const TrustedKey& key) { return key.key.id() == id; });
  return at == keys_.end() ? nullptr : &*at;
}

Result<const TrustedKey*> TrustPolicy::Find(std::string_view name) const {
  const TrustedKey* found = nullptr;
  for (const TrustedKey& key : keys_) {
    if (key.key.name != name && (name.size() < kIdDigitsMin || !key.key.id().ToHex().starts_with(name))) continue;
    if (found != nullptr) {
      return Error(Code::kInvalid, fmt::format("several keys are '{}' ({} and {}): give the id", name,
                                               found->key.id().ToHex(), key.key.id().ToHex()));
    }
    found = &key;
  }
  if (found != nullptr) return found;
  return Error(Code::kNotFound, fmt::format("no key is called '{}' or has an id that begins so; `ingot trust list` "
                                            "shows them",
                                            name));
}

bool TrustPolicy::has_targets() const {
  return std::ranges::any_of(domains_, [](const Domain& domain) { return !domain.targets.empty(); });
}

const Domain* TrustPolicy::DomainOf(const Asked& asked) const {
  const auto at = std::find_if(domains_.begin(), domains_.end(), [&](const Domain& domain) {
    return FitsOne(domain.functions, asked.function) && FitsOne(domain.groups, asked.group) &&
           FitsOne(domain.targets, asked.target);
  });
  return at == domains_.end() ? nullptr : &*at;
}

void TrustPolicy::FollowRotations() {
  std::vector<bool> done(rotations_.size(), false);
  // A rotation may be listed before the one that brings its old key.
  for (bool more = true; more;) {
    more = false;
    for (size_t i = 0; i < rotations_.size(); ++i) {
      const Rotation& rotation = rotations_[i];
      const TrustedKey* const old = Find(rotation.old_key);
      if (done[i] || old == nullptr) continue;
      done[i] = more = true;
      const std::string what =
          fmt::format("the rotation from key {} to {} does not count", old->key.name, rotation.new_key.name);
      if (!rotation.SignedBy(old->key)) {
        warnings_.push_back(what + ": the old key has not signed it");
        continue;
      }
      const auto revoked = std::find_if(revocations_.begin(), revocations_.end(), [&](const Revocation& revocation) {
        return revocation.HitsKeyAt(rotation.old_key, rotation.from_s);
      });
      if (revoked != revocations_.end()) {
        warnings_.push_back(what + ": revoked, " + revoked->ToText());
        continue;
      }
      if (!old->built.Holds(rotation.from_s)) {
        warnings_.push_back(what + ": the old key was not valid when the new one was to begin");
        continue;
      }
      TrustedKey next{rotation.new_key, {rotation.from_s, TimeRange().until_s}, old->domains, rotation.old_key};
      for (TrustedKey& key : keys_) {
        if (key.key.id() == rotation.old_key) key.built.until_s = std::min(key.built.until_s, rotation.old_until_s);
      }
      // One that is listed has what it is listed with.
      if (Find(rotation.new_key.id()) == nullptr) keys_.push_back(std::move(next));
    }
  }
  for (size_t i = 0; i < rotations_.size(); ++i) {
    if (done[i]) continue;
    warnings_.push_back(fmt::format("the rotation from key {} to {} does not count: the old key is not listed",
                                    rotations_[i].old_key.ToShort(), rotations_[i].new_key.name));
  }
}

Judgement TrustPolicy::JudgeSignature(Bytes envelope, int64_t now_s, Statement kind) const {
  if (envelope.empty()) return Say(Verdict::kUnsigned, "nobody has signed it");
  const auto unreadable = [](const Error& error) {
    const bool is_other = error.code() == Code::kIncompatible;
    return Say(is_other ? Verdict::kOtherVersion : Verdict::kMalformed, error.message());
  };
  Result<Envelope> read = DecodeEnvelope(envelope);
  if (!read) return unreadable(read.error());
  const TrustedKey* trusted = Find(read->key);
  TrustedKey own;
  if (trusted == nullptr && own_ && own_->id() == read->key) {
    own.key = *own_;
    trusted = &own;
  }
  if (trusted == nullptr) {
    return Say(Verdict::kUnknownKey, fmt::format("signed by key {}, which is not in the trust file; `ingot trust add` "
                                                 "adds it",
                                                 read->key.ToHex()));
  }
  const std::string signer = fmt::format("key {} ({})", trusted->key.name, read->key.ToShort());
  if (!trusted->key.Verifies(kind, read->provenance, read->signature)) {
    return Say(Verdict::kBadSignature, fmt::format("the signature is not of {} over these bytes: they were changed, "
                                                   "or somebody else signed them",
                                                   signer));
  }
  Result<Provenance> decoded = DecodeProvenance(read->provenance);
  if (!decoded) return unreadable(decoded.error());
  if (decoded->builder != read->key) {
    return Say(Verdict::kMalformed,
               fmt::format("signed by {}, and names key {} as the builder", signer, decoded->builder.ToShort()));
  }
  const Provenance& provenance = *decoded;
  const auto say = [&](Verdict verdict, std::string text) { return Say(verdict, std::move(text), provenance); };
  for (const Revocation& revocation : revocations_) {
    if (revocation.Hits(provenance)) return say(Verdict::kRevoked, "revoked: " + revocation.ToText());
  }
  if (IsAfter(provenance.built_s, now_s, kSkewMax_s)) {
    return say(Verdict::kFromTheFuture, fmt::format("{} says it was built at {}, which is to come: look at the clocks "
                                                    "of {} and of this machine",
                                                    signer, TimeText(provenance.built_s), provenance.host));
  }
  if (provenance.built_s < trusted->built.from_s) {
    return say(Verdict::kNotYetValid,
               fmt::format("built at {}, before {} became valid at {}", TimeText(provenance.built_s), signer,
                           TimeText(trusted->built.from_s)));
  }
  if (!trusted->built.Holds(provenance.built_s)) {
    return say(Verdict::kExpired, fmt::format("built at {}, and {} ended at {}", TimeText(provenance.built_s), signer,
                                              TimeText(trusted->built.until_s)));
  }
  return say(Verdict::kAwaitsArtifact, fmt::format("signed by {} on {}", signer, provenance.host));
}

std::string TrustPolicy::WhyNotIn(const Domain& domain, const KeyId& id) const {
  if (domain.this_host_only) {
    return own_ && own_->id() == id ? "" : "where only this machine's own key counts";
  }
  const TrustedKey* const key = Find(id);
  if (key == nullptr) return fmt::format("and key {} is not in the trust file", id.ToShort());
  if (std::find(key->domains.begin(), key->domains.end(), domain.name) != key->domains.end()) return "";
  return fmt::format("which key {} may not write", key->key.name);
}

Judgement TrustPolicy::JudgeDomain(const Asked& asked, Judgement judgement, int64_t now_s) const {
  const Provenance& provenance = *judgement.provenance;
  const auto refuse = [&](Verdict verdict, std::string text) {
    return Say(verdict, std::move(text), std::move(judgement.provenance));
  };
  const std::string what = fmt::format("{}{}{}", asked.function, asked.target.empty() ? "" : " for " + asked.target,
                                       asked.group.empty() ? "" : " of group " + asked.group);
  // Else it would be in the next domain that fits, which others may write.
  if (asked.target.empty() && has_targets()) {
    return refuse(
        Verdict::kNotInDomain,
        fmt::format("{}: domains of the trust file are limited by target, and it is not known which asks", what));
  }
  if (!asked.target.empty() && provenance.target != asked.target) {
    return refuse(Verdict::kOtherGraph, fmt::format("signed for target {}, asked for by {}", provenance.target, what));
  }
  const Domain* const domain = DomainOf(asked);
  if (domain == nullptr) {
    return refuse(Verdict::kNotInDomain, fmt::format("{} is in no domain of the trust file", what));
  }
  if (const std::string why = WhyNotIn(*domain, provenance.builder); !why.empty()) {
    return refuse(Verdict::kNotInDomain, fmt::format("{} is in domain {}, {}", what, domain->name, why));
  }
  // Who passes on what others made cannot let them in where they have no word.
  for (const std::string& id : VouchedOf(provenance)) {
    const Result<KeyId> key = KeyId::FromHex(id);
    const std::string why = key ? WhyNotIn(*domain, *key) : "and '" + id + "' is no key";
    if (why.empty()) continue;
    return refuse(
        Verdict::kNotInDomain,
        fmt::format("{} is in domain {}; a part of it is by the word of another key, {}", what, domain->name, why));
  }
  if (domain->age_max_s && IsAfter(now_s, provenance.built_s, *domain->age_max_s)) {
    return refuse(Verdict::kTooOld,
                  fmt::format("built at {}, and domain {} takes nothing older than {} days",
                              TimeText(provenance.built_s), domain->name, *domain->age_max_s / 86'400));
  }
  judgement.text += fmt::format(", in domain {}", domain->name);
  return judgement;
}

Judgement TrustPolicy::JudgeEnvelope(Bytes envelope, int64_t now_s, Statement kind) const {
  Judgement judgement = JudgeSignature(envelope, now_s, kind);
  if (judgement.verdict != Verdict::kAwaitsArtifact) return judgement;
  const Provenance& provenance = *judgement.provenance;
  const Asked asked{provenance.function, provenance.group, provenance.target};
  return JudgeDomain(asked, std::move(judgement), now_s);
}

Judgement TrustPolicy::JudgeFor(const Asked& asked, Bytes envelope, int64_t now_s) const {
  Judgement judgement = JudgeSignature(envelope, now_s);
  if (judgement.verdict != Verdict::kAwaitsArtifact) return judgement;
  return JudgeDomain(asked, std::move(judgement), now_s);
}

Judgement TrustPolicy::JudgeRecord(const Received& received, Bytes envelope, int64_t now_s) const {
  Judgement judgement = JudgeSignature(envelope, now_s, Statement::kProvenance);
  if (judgement.verdict != Verdict::kAwaitsArtifact) return judgement;
  const Provenance& provenance = *judgement.provenance;
  const auto refuse = [&](Verdict verdict, std::string_view part, const std::string& is, const std::string& asked) {
    return Say(
        verdict,
        fmt::format("signed for {} {}, found with {}: somebody put it where it does not belong", part, is, asked),
        std::move(judgement.provenance));
  };
  if (provenance.entry_key != received.entry_key) {
    return refuse(Verdict::kOtherEntry, "entry", provenance.entry_key.ToHex(), received.entry_key.ToHex());
  }
  if (provenance.function != received.function) {
    return refuse(Verdict::kOtherEntry, "function", provenance.function, received.function);
  }
  if (provenance.group != received.asked.group) {
    return refuse(Verdict::kOtherEntry, "group", provenance.group, received.asked.group);
  }
  if (provenance.graph_key != received.graph_key) {
    return refuse(Verdict::kOtherGraph, "graph", provenance.graph_key.ToHex(), received.graph_key.ToHex());
  }
  if (provenance.variant != received.variant) {
    return refuse(Verdict::kOtherVariant, "a variant of SHA-256", provenance.variant.ToHex(), received.variant.ToHex());
  }
  if (provenance.artifact != received.artifact) {
    return refuse(Verdict::kOtherArtifact, "artifact", provenance.artifact.ToHex(), received.artifact.ToHex());
  }
  judgement = JudgeDomain(received.asked, std::move(judgement), now_s);
  if (judgement.verdict != Verdict::kAwaitsArtifact) return judgement;
  const std::optional<int64_t> seen = received.newest ? received.newest(*judgement.provenance) : std::nullopt;
  if (seen && judgement.provenance->built_s < *seen) {
    return Say(Verdict::kReplayed,
               fmt::format("built at {}, and what its builder said at {} has been taken: an older word was put in its "
                           "place",
                           TimeText(judgement.provenance->built_s), TimeText(*seen)),
               std::move(judgement.provenance));
  }
  return judgement;
}

Judgement JudgeArtifact(Judgement record, Bytes artifact) {
  if (record.verdict != Verdict::kAwaitsArtifact) return record;
  const Provenance& signed_for = *record.provenance;
  const bool same = artifact.size() == signed_for.artifact_bytes && DigestOf(artifact) == signed_for.artifact &&
                    Sha256Of(artifact) == signed_for.artifact_sha256;
  if (same) {
    record.verdict = Verdict::kTrusted;
    return record;
  }
  record.verdict = Verdict::kOtherArtifact;
  record.text =
      fmt::format("{} bytes of digest {} are not the artifact {} of {} bytes that was signed", artifact.size(),
                  DigestOf(artifact).ToHex(), signed_for.artifact.ToHex(), signed_for.artifact_bytes);
  return record;
}

}  // namespace ingot::cache
