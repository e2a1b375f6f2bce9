// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ingot::daemon {

/// The first thing in which two graphs differ, by their texts (docs/format/ir.md).
struct GraphDifference {
  std::string place;   ///< "node %41", "input %x", "inputs", "return", or else "line 3".
  std::string stored;  ///< The whole line there, without its indent; empty when absent.
  std::string asked;
  /// `graph node %41: %41 = mul(...) -> %41 = add(...)`
  std::string ToText() const;
};

/// Compares line by line. What values and the graph are called does not count, so nullopt means
/// that the texts say the same; any two texts can be compared.
std::optional<GraphDifference> FirstGraphDifference(std::string_view stored, std::string_view asked);

}  // namespace ingot::daemon
