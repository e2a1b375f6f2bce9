// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include "compiler/fusion/coords.h"
#include "compiler/fusion/lowered.h"
#include "compiler/fusion/visited.h"

namespace ingot::compiler::fusion {

/// Who wants which values, by unit: a group, or a step that is none. What is asked for in a group may be computed
/// there; what is needed in memory must lie there before the unit runs.
class UseInfo {
 public:
  /// Whoever comes after the graph.
  static constexpr size_t kOutside = ~size_t{0};

  /// A group asks for a value at some place of its own index.
  struct Request {
    size_t unit;
    CoordsId at;
    Visited visited;
  };
  /// Who wants a node: groups that could compute it, and units that need it in memory.
  struct Users {
    std::vector<size_t> groups;
    std::vector<size_t> units;   ///< outside the groups, order of execution included
    bool in_memory = false;
    bool any = false;
  };

  /// Begins with what the graph gives out.
  explicit UseInfo(const Lowered& lowered);

  Users UsersOf(const Node& node) const;
  /// Of two requests for one place, either says what is visited there.
  void Ask(ValueId value, const Request& request) { Add(requests_[value], request); }
  void NeedInMemory(ValueId value, size_t unit);
  /// The unit writes into the memory of `target`: who reads it from now on comes before.
  void AddMutator(ValueId target, size_t unit) { mutators_[lowered_.storage[target]].push_back(unit); }
  void SetLastEffect(size_t unit) { last_effect_ = unit; }

  const std::vector<Request>& Of(ValueId value) const { return requests_[value]; }
  const std::vector<size_t>& InMemory(ValueId value) const { return external_[value]; }
  bool IsUsed(ValueId value) const { return !requests_[value].empty() || !external_[value].empty(); }
  std::vector<CoordsId> PlacesIn(ValueId value, size_t unit) const;
  Visited VisitedAt(ValueId value, size_t unit, CoordsId at) const;

  /// What `from`, which reads `loads`, asked for is asked for by `to`, at `place` of where it was.
  void Redirect(size_t from, size_t to, const std::vector<ValueId>& loads,
                const std::function<CoordsId(CoordsId)>& place);

 private:
  static void Add(std::vector<Request>& requests, const Request& request);

  const Lowered& lowered_;
  std::vector<std::vector<Request>> requests_;  // By value, as `external_`.
  std::vector<std::vector<size_t>> external_;
  std::vector<std::vector<size_t>> mutators_;   // By storage.
  size_t last_effect_ = kOutside;
};

}  // namespace ingot::compiler::fusion
