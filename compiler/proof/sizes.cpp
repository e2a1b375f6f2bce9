// SPDX-License-Identifier: Apache-2.0
#include "compiler/proof/sizes.h"

#include <algorithm>
#include <array>
#include <set>

#include "compiler/import/import.h"
#include "compiler/ir/text.h"

namespace ingot::compiler {
namespace {

// Sizes that are asked for may not exist: so many larger ones are looked at for each.
constexpr int64_t kFurther = 32;
constexpr std::array<int64_t, 3> kSmall = {1, 2, 3};
constexpr std::array<int64_t, 5> kLarger = {5, 16, 17, 32, 33};

class Finder {
 public:
  Finder(const Graph& graph, const guards::GuardSet& conditions) : graph_(graph), conditions_(conditions) {}

  /// The first combination that exists from this one on, all symbols growing alike; false: there is none near.
  bool Take(std::vector<int64_t> symbols, std::vector<std::vector<int64_t>>& into) {
    for (int64_t step = 0; step <= kFurther; ++step) {
      if (seen_.contains(symbols)) return false;
      if (Exists(symbols)) {
        seen_.insert(symbols);
        into.push_back(std::move(symbols));
        return true;
      }
      for (int64_t& symbol : symbols) ++symbol;
    }
    return false;
  }

 private:
  bool Exists(const std::vector<int64_t>& symbols) const {
    if (!conditions_.Holds(symbols)) return false;
    for (ValueId id = 0; id < graph_.value_count(); ++id) {
      for (const Dim& size : graph_.type(id).sizes) {
        if (!size.is_const() && size.Eval(symbols) < 0) return false;
      }
    }
    return bool(Verify(Instantiate(graph_, symbols)));
  }

  const Graph& graph_;
  const guards::GuardSet& conditions_;
  std::set<std::vector<int64_t>> seen_;
};

}  // namespace

std::vector<std::vector<int64_t>> TriedSizes::All() const {
  std::vector<std::vector<int64_t>> all = small;
  all.insert(all.end(), larger.begin(), larger.end());
  return all;
}

TriedSizes SizesToTry(const Graph& graph, const guards::GuardSet& conditions) {
  TriedSizes tried;
  const size_t count = graph.symbols.size();
  if (count == 0) {
    tried.small.emplace_back();
    tried.apart = tried.small;
    return tried;
  }
  Finder finder(graph, conditions);
  for (const int64_t size : kSmall) finder.Take(std::vector<int64_t>(count, size), tried.small);
  const auto mixed = [&](size_t shift) {
    std::vector<int64_t> symbols;
    for (size_t i = 0; i < count; ++i) symbols.push_back(kSmall[(i + shift) % kSmall.size()]);
    return symbols;
  };
  for (size_t shift = 0; count > 1 && shift < kSmall.size(); ++shift) {
    if (finder.Take(mixed(shift), tried.small)) tried.apart.push_back(tried.small.back());
  }
  if (tried.apart.size() < kSmall.size()) tried.apart = tried.small;
  for (const int64_t size : kLarger) finder.Take(std::vector<int64_t>(count, size), tried.larger);
  return tried;
}

}  // namespace ingot::compiler
