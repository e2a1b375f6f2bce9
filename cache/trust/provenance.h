// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/digest.h"
#include "base/result.h"
#include "cache/trust/signing_key.h"

namespace ingot::cache {

/// What a builder vouches for: that compiling the graph of `graph_key` gave the artifact, and that `variant` says for
/// which calls of `entry_key` it holds. One value has one byte string (docs/format/provenance.md). A value.
struct Provenance {
  Digest entry_key;
  Digest graph_key;
  /// Of the canonical bytes of the variant: guards, dependency record, proven sizes. Without it a good artifact could
  /// be served where another one belongs.
  Sha256 variant;
  Digest artifact;
  Sha256 artifact_sha256;
  uint64_t artifact_bytes = 0;
  KeyId builder;
  std::string host;  ///< What the builder calls its machine; a claim.
  std::string function;  ///< Qualified name, as the entry has it.
  std::string group;  ///< Team or project, as the builder was told; may be empty.
  std::string compiler;  ///< Identity of the compiler.
  std::string target;  ///< "x86-64-v4"
  std::vector<std::string> features;  ///< CPU features the code needs, ascending.
  uint64_t cost_us = 0;  ///< Microseconds that making it took.
  int64_t built_s = 0;  ///< Unix seconds; the builder's clock.
  /// Anything else that is known: versions of tools, checks that were made. By name.
  std::map<std::string, std::string> facts;

  /// Fields of a later minor version, kept as they came.
  struct Later {
    uint16_t tag = 0;
    Buffer bytes;
    bool operator==(const Later&) const = default;
  };
  uint16_t minor = kMinor;
  std::vector<Later> later;

  static constexpr uint16_t kMajor = 1;
  static constexpr uint16_t kMinor = 0;
  bool operator==(const Provenance&) const = default;
};

/// A fact: ids of keys, with spaces between, by whose word parts of the variant came to the builder.
inline constexpr char kVouchedFact[] = "vouched";
inline constexpr size_t kProvenanceBytesMax = 64u << 10;

/// kInvalid: a text or a count over its limit, control characters, features that do not ascend.
Result<Buffer> EncodeProvenance(const Provenance& provenance);
/// kIncompatible: another major version; kCorrupt: anything that EncodeProvenance would not have written.
Result<Provenance> DecodeProvenance(Bytes bytes);

/// Provenance with the signature of its builder, as it is stored and sent. A value.
struct Envelope {
  Buffer provenance;
  KeyId key;
  Signature signature;
};
Buffer EncodeEnvelope(const Envelope& envelope);
/// As DecodeProvenance, of the envelope alone: what is inside is not looked at before the signature has been.
Result<Envelope> DecodeEnvelope(Bytes bytes);

/// The ids of the key that an envelope names and of those by whose word its builder had parts of it; empty: it is none.
std::set<std::string> VoucherKeysOf(Bytes envelope);

/// Signs as `provenance.builder`, which is set to the key's.
Result<Buffer> SignProvenance(const SigningKey& key, Provenance provenance, Statement kind = Statement::kProvenance);

}  // namespace ingot::cache
