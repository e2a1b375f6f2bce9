// SPDX-License-Identifier: Apache-2.0
#include "cache/index/listing_place.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>

namespace ingot::cache {
namespace {

constexpr size_t kTimeDigits = 20;
constexpr size_t kDigestDigits = 32;

Error NoPlace(std::string_view place) {
  return Error(Code::kInvalid, fmt::format("no listing of this sort gave the place '{}' to go on from", place));
}

}  // namespace

std::string TablePlace(const Digest& digest) { return digest.ToHex(); }

std::string GroupPlace(int64_t created, const Digest& digest) {
  return fmt::format("{:0{}}{}", std::numeric_limits<int64_t>::max() - std::max<int64_t>(created, 0), kTimeDigits,
                     digest.ToHex());
}

std::string GroupNamePlace(std::string_view group) { return DigestOf(group).ToHex(); }

Result<std::string> PlaceBefore(std::string_view hex) {
  std::string all(hex);
  if (all.size() > kDigestDigits) {
    return Error(Code::kInvalid, fmt::format("'{}' has more than the 32 hex digits of a key", hex));
  }
  all.resize(kDigestDigits, '0');
  TRY_ASSIGN(Digest digest, Digest::FromHex(all));
  if (digest.IsZero()) return std::string();
  if (digest.low-- == 0) --digest.high;
  return TablePlace(digest);
}

Result<Digest> DigestOfPlace(std::string_view place) {
  Result<Digest> digest = Digest::FromHex(place);
  if (!digest) return NoPlace(place);
  return digest;
}

Result<std::pair<int64_t, Digest>> PartsOfGroupPlace(std::string_view place) {
  if (place.size() != kTimeDigits + kDigestDigits) return NoPlace(place);
  int64_t left = 0;
  const char* const middle = place.data() + kTimeDigits;
  const auto [end, code] = std::from_chars(place.data(), middle, left);
  if (code != std::errc() || end != middle || left < 0) return NoPlace(place);
  TRY_ASSIGN(const Digest digest, DigestOfPlace(place.substr(kTimeDigits)));
  return std::pair(std::numeric_limits<int64_t>::max() - left, digest);
}

bool ToNextDigest(Digest& digest) { return ++digest.low != 0 || ++digest.high != 0; }

}  // namespace ingot::cache
