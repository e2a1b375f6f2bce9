// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/bytes.h"

namespace ingot::cache {

/// What an S3 server without SHA-256 is told of a body. No name of ours.
std::string Md5Base64(Bytes bytes);

}  // namespace ingot::cache
