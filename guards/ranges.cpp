// SPDX-License-Identifier: Apache-2.0
#include "guards/ranges.h"

#include <algorithm>

namespace ingot::guards {
namespace {

/// Whether all sizes of one set are sizes of the other, as far as simplifying tells.
bool IsWithin(const GuardSet& inner, const GuardSet& outer) {
  GuardSet both = inner;
  for (const Guard& guard : outer.guards()) {
    if (!both.Add(guard)) return false;
  }
  const Result<GuardSet> less = inner.Simplify(), all = both.Simplify();
  return less && all && *less == *all;
}

}  // namespace

std::string Ranges::ToText() const {
  std::string text;
  for (const GuardSet& set : sets_) {
    if (!text.empty()) text += " or ";
    text += set.ToText();
  }
  return text;
}

bool Ranges::Holds(std::span<const int64_t> symbols) const {
  return std::ranges::any_of(sets_, [&](const GuardSet& set) { return set.Holds(symbols); });
}

std::string Ranges::Explain(std::span<const int64_t> symbols) const {
  if (sets_.empty() || Holds(symbols)) return {};
  const auto failing = [&](const GuardSet& set) {
    return std::ranges::count_if(set.guards(), [&](const Guard& one) { return !set.Holds(one, {symbols, {}, {}}); });
  };
  return std::ranges::min_element(sets_, {}, failing)->Explain(symbols);
}

bool Ranges::Add(const GuardSet& set) {
  // Most recordings prove what one before them did: the text says so without simplifying anything.
  if (std::ranges::find(sets_, set) != sets_.end()) return false;
  if (std::ranges::any_of(sets_, [&](const GuardSet& one) { return IsWithin(set, one); })) return false;
  std::erase_if(sets_, [&](const GuardSet& one) { return IsWithin(one, set); });
  if (sets_.size() >= kSetsMax) return false;
  sets_.push_back(set);
  return true;
}

}  // namespace ingot::guards
