// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"

namespace ingot::cache {

/// Lower-case hex of bytes, and back: kInvalid unless `text` is lower-case hex of exactly `out.size()` bytes.
std::string HexOf(Bytes bytes);
Status ReadHex(std::string_view text, std::span<uint8_t> out);
/// RFC 4648 with padding, and back: kInvalid unless `text` is the one way to write exactly `out.size()` bytes.
std::string Base64Of(Bytes bytes);
Status ReadBase64(std::string_view text, std::span<uint8_t> out);
/// As ReadBase64 for a text of any size up to `bytes_max`.
Result<Buffer> BytesOfBase64(std::string_view text, size_t bytes_max);

/// A byte string of a size that its kind gives it: hashes, names of keys, signatures. A value.
template <typename Kind, size_t kSize>
struct FixedBytes {
  std::array<uint8_t, kSize> bytes{};

  auto operator<=>(const FixedBytes&) const = default;
  Bytes view() const { return bytes; }
  std::string ToHex() const { return HexOf(bytes); }
  /// kInvalid unless `hex` is exactly 2 * kSize lower-case hex digits.
  static Result<Kind> FromHex(std::string_view hex) {
    Kind out;
    TRY(ReadHex(hex, out.bytes));
    return out;
  }
};

}  // namespace ingot::cache
