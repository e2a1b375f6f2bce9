// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ingot::proto {

/// Process groups one graph may name.
inline constexpr uint32_t kGroupsMax = 64;

/// How recordings, graphs and plans write a process group: "group 0", "group 1", ... in order of
/// first use. Which ranks a slot stands for is the client's own record (its signature), so that
/// ranks in different groups share one graph.
inline std::string GroupSlotText(uint32_t slot) { return "group " + std::to_string(slot); }

/// The slot, or nullopt for any other text.
inline std::optional<uint32_t> ParseGroupSlot(std::string_view text) {
  constexpr std::string_view kPrefix = "group ";
  if (!text.starts_with(kPrefix)) return std::nullopt;
  text.remove_prefix(kPrefix.size());
  uint32_t slot = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), slot);
  const bool is_plain =
      error == std::errc() && end == text.data() + text.size() && (text.size() == 1 || text[0] != '0');
  if (!is_plain || slot >= kGroupsMax) return std::nullopt;
  return slot;
}

}  // namespace ingot::proto
