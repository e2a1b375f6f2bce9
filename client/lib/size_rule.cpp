// SPDX-License-Identifier: Apache-2.0
#include "client/lib/size_rule.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

namespace ingot::client {
namespace {

/// Sizes named in a message at most.
constexpr size_t kProvenShownMax = 16;

/// Takes `word` off the front of `text`.
bool Take(std::string_view& text, std::string_view word) {
  if (!text.starts_with(word)) return false;
  text.remove_prefix(word.size());
  return true;
}

template <typename T>
bool TakeNumber(std::string_view& text, T& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return true;
}

}  // namespace

Result<SizeRule> SizeRule::Make(const std::vector<std::vector<int64_t>>& proven, const std::string& condition) {
  SizeRule rule;
  rule.proven_.insert(proven.begin(), proven.end());
  rule.condition_ = condition;
  std::string_view rest = condition;
  while (!rest.empty()) {
    Bound bound;
    uint16_t symbol = 0;
    bool good = (rule.bounds_.empty() || Take(rest, " and ")) && Take(rest, "s") && TakeNumber(rest, symbol);
    bound.symbol = symbol;
    bound.is_upper = rest.starts_with(" <= ");
    good = good && (Take(rest, " <= ") || Take(rest, " >= ")) && TakeNumber(rest, bound.limit);
    if (!good) return Error(Code::kInvalid, fmt::format("condition '{}' at '{}'", condition, rest));
    rule.bounds_.push_back(bound);
  }
  return rule;
}

bool SizeRule::Allows(std::span<const int64_t> symbols) const {
  if (symbols.empty()) return true;
  const auto holds = [symbols](const Bound& bound) {
    if (bound.symbol >= symbols.size()) return false;
    const int64_t value = symbols[bound.symbol];
    return bound.is_upper ? value <= bound.limit : value >= bound.limit;
  };
  if (!bounds_.empty() && std::all_of(bounds_.begin(), bounds_.end(), holds)) return true;
  return !proven_.empty() && proven_.contains(std::vector<int64_t>(symbols.begin(), symbols.end()));
}

std::string SizeRule::ToText() const {
  std::vector<std::string> shown;
  for (const std::vector<int64_t>& symbols : proven_) {
    if (shown.size() == kProvenShownMax) break;
    shown.push_back(fmt::format("{}", symbols));
  }
  std::string text = shown.empty() ? "" : fmt::format("proved: {}", fmt::join(shown, ", "));
  if (proven_.size() > shown.size()) text += ", ...";
  if (!condition_.empty()) text += (text.empty() ? "" : "; or ") + condition_;
  return text.empty() ? "none" : text;
}

}  // namespace ingot::client
