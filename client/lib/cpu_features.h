// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ingot::client {

/// The features of `needed` (names as in /proc/cpuinfo) that this machine lacks.
std::vector<std::string> MissingCpuFeatures(const std::vector<std::string_view>& needed);

}  // namespace ingot::client
