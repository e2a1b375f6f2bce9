// SPDX-License-Identifier: Apache-2.0
#include "cache/trust/field_reader.h"

namespace ingot::cache {

bool IsPlainText(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
    const uint8_t lead = byte(at);
    const size_t size = lead < 0x80 ? 1 : lead >> 5 == 6 ? 2 : lead >> 4 == 14 ? 3 : lead >> 3 == 30 ? 4 : 0;
    if (size == 0 || at + size > text.size()) return false;
    uint32_t point = size == 1 ? lead : lead & (0xFFu >> (size + 1));
    for (size_t i = 1; i < size; ++i) {
      if (byte(at + i) >> 6 != 2) return false;
      point = point << 6 | (byte(at + i) & 63u);
    }
    constexpr uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
    const bool is_control = point < 0x20 || (point >= 0x7F && point < 0xA0) || point == 0x2028 || point == 0x2029 ||
                            (point >= 0x202A && point <= 0x202E) || (point >= 0x2066 && point <= 0x2069);
    if (point < kSmallest[size] || point > 0x10FFFF || (point >= 0xD800 && point < 0xE000) || is_control) return false;
    at += size;
  }
  return true;
}

}  // namespace ingot::cache
