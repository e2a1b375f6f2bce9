// SPDX-License-Identifier: Apache-2.0
#include "base/digest.h"

#include <xxhash.h>

#include <charconv>
#include <random>

namespace ingot {

std::string Digest::ToHex() const {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex(32, '0');
  for (int i = 0; i < 16; ++i) {
    hex[15 - i] = kDigits[(high >> (4 * i)) & 15];
    hex[31 - i] = kDigits[(low >> (4 * i)) & 15];
  }
  return hex;
}

Result<Digest> Digest::FromHex(std::string_view hex) {
  const auto invalid = [&] {
    return Error(Code::kInvalid, "a digest is 32 hex digits, found '" + std::string(hex) + "'");
  };
  if (hex.size() != 32) return invalid();
  Digest digest;
  for (auto [half, at] : {std::pair{&digest.high, 0}, std::pair{&digest.low, 16}}) {
    const char* begin = hex.data() + at;
    const auto [end, code] = std::from_chars(begin, begin + 16, *half, 16);
    if (code != std::errc() || end != begin + 16) return invalid();
  }
  return digest;
}

Digest RandomDigest() {
  std::random_device random;
  const auto half = [&random] { return uint64_t{random()} << 32 | random(); };
  return {half(), half()};
}

Digest DigestOf(Bytes bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.low64, hash.high64};
}

struct Hasher::State {
  XXH3_state_t* xxh = XXH3_createState();
  ~State() { XXH3_freeState(xxh); }
};

Hasher::Hasher() : state_(std::make_unique<State>()) { XXH3_128bits_reset(state_->xxh); }
Hasher::~Hasher() = default;

void Hasher::Add(Bytes bytes) { XXH3_128bits_update(state_->xxh, bytes.data(), bytes.size()); }
void Hasher::Add(uint64_t value) { XXH3_128bits_update(state_->xxh, &value, sizeof value); }
void Hasher::AddField(Bytes bytes) {
  Add(bytes.size());
  Add(bytes);
}
Digest Hasher::Finish() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(state_->xxh);
  return {hash.low64, hash.high64};
}

}  // namespace ingot
