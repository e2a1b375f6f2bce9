// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "base/digest.h"
#include "cache/trust/provenance.h"

namespace ingot::cache {

/// Part of time: from the first second on, before the second.
struct TimeRange {
  int64_t from_s = std::numeric_limits<int64_t>::min();
  int64_t until_s = std::numeric_limits<int64_t>::max();

  bool Holds(int64_t time_s) const { return from_s <= time_s && time_s < until_s; }
  bool IsAll() const { return *this == TimeRange(); }
  bool operator==(const TimeRange&) const = default;
};

/// What is not served any more, whoever signed it: all that fits everything said here. At least one thing is said.
/// Host and time are the builder's claims: where the builder itself is not to be trusted, the key is revoked whole.
struct Revocation {
  std::optional<KeyId> key;
  std::string host;  ///< Empty: any.
  std::optional<Digest> artifact;
  std::optional<Sha256> artifact_sha256;
  std::optional<Digest> graph;
  TimeRange built;
  std::string reason;
  int64_t when_s = 0;  ///< When it was revoked; Unix seconds.

  bool SaysSomething() const;
  bool Hits(const Provenance& provenance) const;
  /// Whether everything of this key is revoked that says it was made at this time.
  bool HitsKeyAt(const KeyId& id, int64_t time_s) const;
  /// "key 3f2a..., built from 2026-01-01 on: stolen laptop".
  std::string ToText() const;
  bool operator==(const Revocation&) const = default;
};

/// "2026-01-01T00:00:00Z"
std::string TimeText(int64_t time_s);

}  // namespace ingot::cache
