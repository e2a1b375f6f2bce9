// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace ingot::client {

/// What this machine's first processor can do, by the names of /proc/cpuinfo, which is read once.
const std::set<std::string, std::less<>>& CpuFeatures();

/// The features of `needed` (names as in /proc/cpuinfo) that this machine lacks.
std::vector<std::string> MissingCpuFeatures(const std::vector<std::string_view>& needed);

}  // namespace ingot::client
