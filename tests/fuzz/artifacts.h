// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "base/bytes.h"

namespace ingot::fuzz {

/// Artifacts of small graphs, from the whole compiler: an exact one with a constant, and a
/// template with a guard and a write.
std::vector<Buffer> SmallArtifacts();

}  // namespace ingot::fuzz
