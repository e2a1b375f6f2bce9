// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <set>
#include <utility>
#include <vector>

namespace ingot::support {

/// One call of a history: what was asked and answered, and when.
template <typename Op>
struct Observed {
  Op op;
  std::chrono::steady_clock::time_point called;
  std::chrono::steady_clock::time_point returned;
  /// Nobody knows whether it was done: it may have been at any time after the call, or never.
  bool is_unknown = false;
};

/// Whether there is an order of the calls, each at one moment between its call and its return, in which every answer
/// is the one that a single object would give (Wing and Gong, with the memory of Lowe). `apply` gives the states that
/// `op` may lead to from a state, none where its answer is not possible there. At most 64 calls.
template <typename State, typename Op>
bool IsLinearizable(const std::vector<Observed<Op>>& history, const State& initial,
                    const std::function<std::vector<State>(const State&, const Op&)>& apply) {
  uint64_t wanted = 0;
  for (size_t i = 0; i < history.size(); ++i) {
    if (!history[i].is_unknown) wanted |= uint64_t{1} << i;
  }
  std::set<std::pair<uint64_t, State>> seen;
  std::vector<std::pair<uint64_t, State>> open = {{0, initial}};
  while (!open.empty()) {
    const auto [done, state] = open.back();
    open.pop_back();
    if ((done & wanted) == wanted) return true;
    if (!seen.insert({done, state}).second) continue;
    // Whatever comes next was called before any call that is not in order yet had returned.
    auto first_return = std::chrono::steady_clock::time_point::max();
    for (size_t i = 0; i < history.size(); ++i) {
      if (!(done >> i & 1) && !history[i].is_unknown) first_return = std::min(first_return, history[i].returned);
    }
    for (size_t i = 0; i < history.size(); ++i) {
      if ((done >> i & 1) || history[i].called > first_return) continue;
      for (State& next : apply(state, history[i].op)) open.emplace_back(done | uint64_t{1} << i, std::move(next));
    }
  }
  return false;
}

}  // namespace ingot::support
