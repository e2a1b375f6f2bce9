// SPDX-License-Identifier: Apache-2.0
#include "client/lib/exported/size_rule.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace ingot::client {
namespace {

/// Sizes named in a message at most.
constexpr size_t kProvenShownMax = 16;

}  // namespace

Result<SizeRule> SizeRule::Make(const std::vector<std::vector<int64_t>>& proven, const std::string& condition) {
  SizeRule rule;
  rule.proven_.insert(proven.begin(), proven.end());
  Result<guards::Ranges> range = guards::Ranges::Parse(condition);
  if (!range) {
    return Error(Code::kInvalid, fmt::format("condition '{}': {}", condition, range.error().message()));
  }
  rule.range_ = std::move(range).value();
  return rule;
}

bool SizeRule::Allows(std::span<const int64_t> symbols) const {
  if (symbols.empty()) return true;
  if (range_.Holds(symbols)) return true;
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
  if (!range_.empty()) text += (text.empty() ? "" : "; or ") + range_.ToText();
  return text.empty() ? "none" : text;
}

}  // namespace ingot::client
