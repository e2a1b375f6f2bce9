// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/bytes.h"

namespace ingot::cache {

/// What an S3 request says of its body. Not names of ours: those are Digests.
std::string Sha256Hex(Bytes bytes);
std::string Sha256Base64(Bytes bytes);
std::string Md5Base64(Bytes bytes);

}  // namespace ingot::cache
