// SPDX-License-Identifier: Apache-2.0
#include "cache/trust/sha256.h"

#include <openssl/sha.h>

namespace ingot::cache {

// OpenSSL's uses what the processor has for it; libsodium's is plain C and takes several times as long.
Sha256 Sha256Of(Bytes bytes) {
  Sha256 out;
  SHA256(bytes.data(), bytes.size(), out.bytes.data());
  return out;
}

}  // namespace ingot::cache
