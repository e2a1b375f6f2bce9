// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/result.h"
#include "proto/artifact_generated.h"

namespace ingot::client {

/// Checks what the FlatBuffers verifier cannot: every position in the manifest names something
/// that exists, so that readers index without checks. kCorrupt names the field.
/// Sizes and offsets depend on the call and are checked when they are known (Instance).
Status CheckManifest(const proto::Manifest& manifest, uint64_t constants_bytes);

}  // namespace ingot::client
