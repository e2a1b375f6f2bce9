// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "cache/trust/signing_key.h"

namespace ingot::cache {

/// An old key's word that a new one follows it: who trusts the old key trusts the new one for the same things, for
/// what is built from `from_s` on, and the old one for what is built before `old_until_s`. The new key has signed it
/// as well: nobody can have another's key follow his own. A value; the bytes are in docs/format/provenance.md.
struct Rotation {
  KeyId old_key;
  PublicKey new_key;
  int64_t from_s = 0;       ///< Unix seconds
  int64_t old_until_s = 0;  ///< Unix seconds
  Signature by_old;
  Signature by_new;

  /// `ingot-rotation BASE64`, without a line feed.
  std::string ToLine() const;
  /// kInvalid: not such a line; kIncompatible: another version; kCorrupt: the new key has not signed it. Whether the
  /// old one has can only be said with its public key (SignedBy).
  static Result<Rotation> FromLine(std::string_view line);
  /// kInvalid: the keys are one, or the times leave a gap.
  static Result<Rotation> Make(const SigningKey& old_key, const SigningKey& new_key, int64_t from_s,
                               int64_t old_until_s);
  bool SignedBy(const PublicKey& old) const;
};

}  // namespace ingot::cache
