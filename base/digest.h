// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"

namespace ingot {

/// The XXH3-128 name of a byte string. Detects damage and tells content apart; it does not
/// resist malice (signatures do that).
struct Digest {
  uint64_t low = 0;
  uint64_t high = 0;

  auto operator<=>(const Digest&) const = default;
  bool IsZero() const { return low == 0 && high == 0; }
  /// 32 lower-case hex digits, high half first.
  std::string ToHex() const;
  /// The first 12 hex digits, for tables.
  std::string ToShort() const { return ToHex().substr(0, 12); }
  /// kInvalid unless `hex` is exactly 32 hex digits.
  static Result<Digest> FromHex(std::string_view hex);
};

Digest DigestOf(Bytes bytes);
inline Digest DigestOf(std::string_view text) { return DigestOf(AsBytes(text)); }
/// A name that nobody else has: 128 bits of the system's chance.
Digest RandomDigest();

/// Digests a stream; Add(a), Add(b) equals one Add of the concatenation, so callers that digest
/// several fields add each field's size first (AddField does).
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;

  void Add(Bytes bytes);
  void Add(uint64_t value);
  /// Size, then bytes: two fields never run together.
  void AddField(Bytes bytes);
  void AddField(std::string_view text) { AddField(AsBytes(text)); }
  Digest Finish() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ingot

template <>
struct std::hash<ingot::Digest> {
  size_t operator()(const ingot::Digest& d) const noexcept { return d.low ^ d.high; }
};
