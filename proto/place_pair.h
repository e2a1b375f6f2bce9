// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace ingot::proto {

/// The kind of a dependency row that says of two places that they lead to one object.
inline constexpr std::string_view kSameObject = "same";
/// And of one that says that they lead to two.
inline constexpr std::string_view kApartObjects = "apart";

/// How such rows name their places.
inline std::string PlacePairText(std::string_view one, std::string_view other) {
  return std::string(one) + " is " + std::string(other);
}

/// The two places, or nullopt for any other text.
inline std::optional<std::pair<std::string_view, std::string_view>> ParsePlacePair(std::string_view text) {
  constexpr std::string_view kIs = " is ";
  const size_t middle = text.find(kIs);
  if (middle == text.npos) return std::nullopt;
  return std::pair(text.substr(0, middle), text.substr(middle + kIs.size()));
}

}  // namespace ingot::proto
