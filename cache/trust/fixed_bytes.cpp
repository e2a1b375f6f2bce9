// SPDX-License-Identifier: Apache-2.0
#include "cache/trust/fixed_bytes.h"

#include <fmt/format.h>
#include <sodium.h>

namespace ingot::cache {

std::string HexOf(Bytes bytes) {
  std::string out(2 * bytes.size() + 1, '\0');
  sodium_bin2hex(out.data(), out.size(), bytes.data(), bytes.size());
  out.pop_back();
  return out;
}

Status ReadHex(std::string_view text, std::span<uint8_t> out) {
  size_t size = 0;
  const bool read = !out.empty() && text.size() == 2 * out.size() &&
                    sodium_hex2bin(out.data(), out.size(), text.data(), text.size(), nullptr, &size, nullptr) == 0 &&
                    size == out.size() && HexOf(out) == text;
  if (!read) return Error(Code::kInvalid, fmt::format("'{}' is not {} lower-case hex digits", text, 2 * out.size()));
  return {};
}

std::string Base64Of(Bytes bytes) {
  std::string out(sodium_base64_encoded_len(bytes.size(), sodium_base64_VARIANT_ORIGINAL), '\0');
  sodium_bin2base64(out.data(), out.size(), bytes.data(), bytes.size(), sodium_base64_VARIANT_ORIGINAL);
  out.pop_back();
  return out;
}

Status ReadBase64(std::string_view text, std::span<uint8_t> out) {
  // An empty span may be no memory at all, which libsodium does not take.
  if (out.empty() && text.empty()) return {};
  size_t size = 0;
  const bool read = !out.empty() &&
                    sodium_base642bin(out.data(), out.size(), text.data(), text.size(), nullptr, &size, nullptr,
                                      sodium_base64_VARIANT_ORIGINAL) == 0 &&
                    size == out.size() && Base64Of(out) == text;
  if (!read) return Error(Code::kInvalid, fmt::format("'{}' is not {} bytes of base64", text, out.size()));
  return {};
}

Result<Buffer> BytesOfBase64(std::string_view text, size_t bytes_max) {
  const size_t padding = text.ends_with("==") ? 2 : text.ends_with("=") ? 1 : 0;
  if (text.size() % 4 != 0 || text.size() / 4 * 3 > bytes_max + 2) {
    return Error(Code::kInvalid,
                 fmt::format("{} characters are not base64 of at most {} bytes", text.size(), bytes_max));
  }
  Buffer out(text.size() / 4 * 3 - (text.empty() ? 0 : padding));
  TRY(ReadBase64(text, out));
  return out;
}

}  // namespace ingot::cache
