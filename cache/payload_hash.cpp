// SPDX-License-Identifier: Apache-2.0
#include "cache/payload_hash.h"

#include <openssl/evp.h>

namespace ingot::cache {
namespace {

Buffer HashOf(const EVP_MD* kind, Bytes bytes) {
  Buffer out(EVP_MAX_MD_SIZE);
  unsigned size = 0;
  if (EVP_Digest(bytes.data(), bytes.size(), out.data(), &size, kind, nullptr) != 1) size = 0;
  out.resize(size);
  return out;
}

std::string Base64(Bytes bytes) {
  std::string out(4 * ((bytes.size() + 2) / 3) + 1, 0);
  out.resize(EVP_EncodeBlock(reinterpret_cast<uint8_t*>(out.data()), bytes.data(), static_cast<int>(bytes.size())));
  return out;
}

}  // namespace

std::string Sha256Hex(Bytes bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (const uint8_t byte : HashOf(EVP_sha256(), bytes)) {
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  return out;
}

std::string Sha256Base64(Bytes bytes) { return Base64(HashOf(EVP_sha256(), bytes)); }

std::string Md5Base64(Bytes bytes) { return Base64(HashOf(EVP_md5(), bytes)); }

}  // namespace ingot::cache
