// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/tile_permission.h"

namespace ingot::client {

using FeatureSet = std::set<std::string, std::less<>>;

/// What this machine's first processor can do and its kernel lets processes use, by the names of /proc/cpuinfo, which
/// is read once.
const FeatureSet& CpuFeatures();

/// Whether code that needs these features may run in this process: kIncompatible names those that `available` lacks,
/// or, "amx-refused", says why the process gets no tile registers, for which the first such code asks.
Status AdmitCpuFeatures(const std::vector<std::string_view>& needed, const FeatureSet& available = CpuFeatures(),
                        TilePermission& tiles = TilePermission::OfThisProcess());

}  // namespace ingot::client
