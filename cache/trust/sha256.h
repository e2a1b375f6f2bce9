// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/bytes.h"
#include "cache/trust/fixed_bytes.h"

namespace ingot::cache {

/// SHA-256 of a byte string: names content where somebody could gain by making another content of that name.
struct Sha256 : FixedBytes<Sha256, 32> {};
Sha256 Sha256Of(Bytes bytes);

}  // namespace ingot::cache
