// SPDX-License-Identifier: Apache-2.0
#include "daemon/web/target.h"

#include <algorithm>
#include <utility>

namespace ingot::daemon::web {
namespace {

constexpr size_t kFieldsMax = 16;

int HexOf(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::optional<std::string> PercentDecoded(std::string_view text, bool plus_is_blank) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      if (i + 2 >= text.size()) return std::nullopt;
      const int high = HexOf(text[i + 1]), low = HexOf(text[i + 2]);
      if (high < 0 || low < 0) return std::nullopt;
      c = static_cast<char>(high * 16 + low);
      i += 2;
    } else if (c == '+' && plus_is_blank) {
      c = ' ';
    }
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return std::nullopt;
    out += c;
  }
  return out;
}

}  // namespace

std::optional<Fields> ParseFields(std::string_view text) {
  Fields fields;
  while (!text.empty()) {
    const size_t end = std::min(text.find('&'), text.size());
    const std::string_view field = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (field.empty()) continue;
    const size_t equals = std::min(field.find('='), field.size());
    auto name = PercentDecoded(field.substr(0, equals), true);
    auto value = PercentDecoded(field.substr(std::min(equals + 1, field.size())), true);
    if (!name || !value || fields.size() == kFieldsMax) return std::nullopt;
    if (!fields.emplace(std::move(*name), std::move(*value)).second) return std::nullopt;
  }
  return fields;
}

std::optional<Target> ParseTarget(std::string_view text) {
  if (!text.starts_with('/')) return std::nullopt;
  const size_t question = std::min(text.find('?'), text.size());
  auto path = PercentDecoded(text.substr(0, question), false);
  auto query = ParseFields(text.substr(std::min(question + 1, text.size())));
  if (!path || !query) return std::nullopt;
  return Target{std::move(*path), std::move(*query)};
}

}  // namespace ingot::daemon::web
