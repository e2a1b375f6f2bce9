// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <string>

#include "base/tile_permission.h"

namespace ingot {

/// What this machine's first processor can do, by the names of /proc/cpuinfo, without what no process gets from this
/// kernel: tile registers, where it has none to give. Empty where nothing can be read. `root` stands before the path,
/// for tests.
std::set<std::string, std::less<>> ProcessorFlags(const TilePermission& tiles = TilePermission::OfThisProcess(),
                                                  const std::string& root = "");

}  // namespace ingot
