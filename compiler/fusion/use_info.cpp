// SPDX-License-Identifier: Apache-2.0
#include "compiler/fusion/use_info.h"

#include <algorithm>

namespace ingot::compiler::fusion {

static void AddUnique(std::vector<size_t>& list, size_t unit) {
  if (std::find(list.begin(), list.end(), unit) == list.end()) list.push_back(unit);
}

UseInfo::UseInfo(const Lowered& lowered)
    : lowered_(lowered),
      requests_(lowered.graph.value_count()),
      external_(lowered.graph.value_count()),
      mutators_(lowered.graph.value_count()) {
  for (const ValueId id : lowered.graph.outputs) external_[id].push_back(kOutside);
  for (const Write& write : lowered.graph.writes) {
    external_[write.value].push_back(kOutside);
    external_[write.target].push_back(kOutside);
  }
}

UseInfo::Users UseInfo::UsersOf(const Node& node) const {
  Users w;
  for (ValueId r : node.results) {
    for (const Request& request : requests_[r]) AddUnique(w.groups, request.unit);
    for (size_t unit : external_[r]) {
      w.in_memory = true;
      if (unit != kOutside) AddUnique(w.units, unit);
    }
  }
  w.any = w.in_memory || !w.groups.empty();
  ForEachOperand(node, [&](ValueId v) {
    for (size_t unit : mutators_[lowered_.storage[v]]) AddUnique(w.units, unit);
  });
  if (node.effects != kPure && last_effect_ != kOutside) AddUnique(w.units, last_effect_);
  return w;
}

void UseInfo::Add(std::vector<Request>& requests, const Request& request) {
  const bool known = std::any_of(requests.begin(), requests.end(),
                                 [&](const Request& r) { return r.unit == request.unit && r.at == request.at; });
  if (!known) requests.push_back(request);
}

void UseInfo::NeedInMemory(ValueId value, size_t unit) { AddUnique(external_[value], unit); }

Visited UseInfo::VisitedAt(ValueId value, size_t unit, CoordsId at) const {
  for (const Request& r : requests_[value]) {
    if (r.unit == unit && r.at == at) return r.visited;
  }
  return 0;
}

std::vector<CoordsId> UseInfo::PlacesIn(ValueId value, size_t unit) const {
  std::vector<CoordsId> places;
  for (const Request& request : requests_[value]) {
    if (request.unit == unit) places.push_back(request.at);
  }
  return places;
}

void UseInfo::Redirect(size_t from, size_t to, const std::vector<ValueId>& loads,
                       const std::function<CoordsId(CoordsId)>& place) {
  for (ValueId v : loads) {
    std::vector<Request> requests;
    for (Request q : requests_[v]) {
      if (q.unit == from) q = {to, place(q.at), q.visited};
      Add(requests, q);
    }
    requests_[v] = std::move(requests);
    for (ValueId where : {v, lowered_.aliases[v].root}) {
      std::replace(external_[where].begin(), external_[where].end(), from, to);
    }
  }
}

}  // namespace ingot::compiler::fusion
