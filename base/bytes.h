// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace ingot {

/// A view of bytes somebody else owns.
using Bytes = std::span<const uint8_t>;
/// Owned bytes.
using Buffer = std::vector<uint8_t>;

inline Bytes AsBytes(std::string_view text) { return {reinterpret_cast<const uint8_t*>(text.data()), text.size()}; }
inline std::string_view AsText(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

/// Reads a little-endian integer; the caller has checked that `bytes` holds it.
template <typename T>
T LoadLittle(Bytes bytes, size_t at = 0) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

/// Appends a little-endian integer.
template <typename T>
void AppendLittle(Buffer& out, T value) {
  const auto* p = reinterpret_cast<const uint8_t*>(&value);
  out.insert(out.end(), p, p + sizeof value);
}

}  // namespace ingot
