// SPDX-License-Identifier: Apache-2.0
#include "cache/s3/payload_hash.h"

#include <openssl/evp.h>

#include <array>

#include "cache/trust/fixed_bytes.h"

namespace ingot::cache {

std::string Md5Base64(Bytes bytes) {
  std::array<uint8_t, EVP_MAX_MD_SIZE> out{};
  unsigned size = 0;
  if (EVP_Digest(bytes.data(), bytes.size(), out.data(), &size, EVP_md5(), nullptr) != 1) size = 0;
  return Base64Of(Bytes(out.data(), size));
}

}  // namespace ingot::cache
