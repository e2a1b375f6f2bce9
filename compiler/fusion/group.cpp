// SPDX-License-Identifier: Apache-2.0
#include "compiler/fusion/group.h"

#include <algorithm>
#include <functional>

#include "compiler/fusion/demand.h"
#include "compiler/fusion/reach.h"
#include "compiler/fusion/trace.h"
#include "compiler/ops/convolution.h"

namespace ingot::compiler::fusion {
namespace {

constexpr size_t kMembersMax = 48;
constexpr size_t kGroupParamsMax = 28;
constexpr size_t kDuplicatesMax = 4;  // Groups that compute a cheap value each for themselves.
constexpr size_t kLeavesMax = 16;     // Elements that a cheap value is made of: windows of more are walked once.

class Grouper {
 public:
  explicit Grouper(const Lowered& lowered)
      : lowered_(lowered), graph_(lowered.graph), reach_(graph_.order().size() + 1), demand_(lowered) {}

  std::vector<std::unique_ptr<Group>> Run() {
    const std::vector<NodeId>& order = graph_.order();
    for (size_t i = order.size(); i-- > 0;) Place(order[i]);
    MergeSiblings();
    std::vector<std::unique_ptr<Group>> groups;
    for (auto& group : groups_) {
      if (!group) continue;
      std::reverse(group->members.begin(), group->members.end());
      groups.push_back(std::move(group));
    }
    return groups;
  }

 private:
  using Wanted = Demand::Wanted;
  using Request = Demand::Request;

  size_t NewUnit(const std::vector<size_t>& before) {
    const size_t unit = reach_.Add();
    groups_.emplace_back();
    for (size_t other : before) reach_.Connect(unit, other);
    return unit;
  }

  void Place(NodeId id) {
    const Node& node = graph_.node(id);
    const Wanted wanted = demand_.WhoWants(node);
    const bool is_pure = node.effects == kPure && node.inplace < 0;
    if (!wanted.any && is_pure) return;
    if (lowered_.results[id].empty()) return PlaceAten(node, wanted);
    if (lowered_.IsWrite(id)) return PlaceWrite(id, node, wanted);
    if (lowered_.IsView(id)) return PlaceView(id, node);
    PlaceKernel(id, node, wanted);
  }

  void PlaceAten(const Node& node, const Wanted& wanted) {
    std::vector<size_t> after = wanted.units;
    after.insert(after.end(), wanted.groups.begin(), wanted.groups.end());
    const size_t unit = NewUnit(after);
    ForEachOperand(node, [&](ValueId v) { demand_.NeedInMemory(v, unit); });
    if (node.effects != kPure) demand_.SetLastEffect(unit);
    if (node.inplace >= 0) {
      const ValueId target = std::get<Ref>(node.args[static_cast<size_t>(node.inplace)]).id;
      demand_.AddMutator(target, unit);
    }
  }

  /// Over what is stored. Whoever reads the result reads it in memory; what is stored may be computed here, but not
  /// from what the memory held before at other places: whoever reads that runs before.
  void PlaceWrite(NodeId id, const Node& node, const Wanted& wanted) {
    std::vector<size_t> after = wanted.units;
    after.insert(after.end(), wanted.groups.begin(), wanted.groups.end());
    const size_t unit = NewUnit(after);
    const ValueId target = OverwrittenBy(graph_, node.results[0]);
    auto group = std::make_unique<Group>(Group{Domain(lowered_.StoredSizes(node.results[0])), {}, {}, {}});
    const CoordsId at = group->domain.identity();
    std::vector<Leaf> leaves;
    if (Trace(lowered_, *group, lowered_.results[id][0], at, kWhole, leaves)) {
      group->stores.push_back({node.results[0], at});
      groups_[unit] = std::move(group);
      Commit(unit, id, leaves);
      const auto within = WritesWithin(graph_, id, lowered_.results[id][0], lowered_.pool);
      std::vector<NodeId>& members = groups_[unit]->members;
      members.insert(members.end(), within.begin(), within.end());
      demand_.NeedInMemory(target, unit);
    } else {
      ForEachOperand(node, [&](ValueId v) { demand_.NeedInMemory(v, unit); });
    }
    demand_.AddMutator(target, unit);
  }

  /// A view vanishes in groups that can follow its index map to the operand; the others load
  /// through the view's own layout from memory.
  void PlaceView(NodeId id, const Node& node) {
    for (size_t i = 0; i < node.results.size(); ++i) {
      const ValueId r = node.results[i];
      for (size_t unit : demand_.InMemory(r)) {
        ForEachOperand(node, [&](ValueId v) { demand_.NeedInMemory(v, unit); });
      }
      const std::vector<Request> requests = demand_.Of(r);
      for (const Request& request : requests) {
        Group& group = *groups_[request.unit];
        std::vector<Leaf> leaves;
        if (Trace(lowered_, group, lowered_.results[id][i], request.at, request.visited, leaves)) {
          Commit(request.unit, id, leaves);
        } else {
          demand_.NeedInMemory(lowered_.aliases[r].root, request.unit);
          AddLoad(group, r);
        }
      }
    }
  }

  static void AddLoad(Group& group, ValueId value) {
    if (std::find(group.loads.begin(), group.loads.end(), value) == group.loads.end()) {
      group.loads.push_back(value);
    }
  }

  void Commit(size_t unit, NodeId id, const std::vector<Leaf>& leaves) {
    Group& group = *groups_[unit];
    if (std::find(group.members.begin(), group.members.end(), id) == group.members.end()) {
      group.members.push_back(id);
    }
    for (const Leaf& leaf : leaves) {
      AddLoad(group, leaf.value);
      if (graph_.value(leaf.value).def == kNoNode) continue;
      const bool is_decoded = !group.domain.HasGathered(leaf.at) && lowered_.IsDecoded(leaf.value);
      if (group.domain.NeedsMemory(leaf.at) && !is_decoded) {
        demand_.NeedInMemory(lowered_.aliases[leaf.value].root, unit);
        continue;
      }
      demand_.Ask(leaf.value, {unit, leaf.at, leaf.visited});
    }
  }

  /// The node may be computed in the group at every place where the group asks for it.
  bool TryTrace(NodeId id, const Node& node, const Weight& weight, size_t unit, std::vector<Leaf>& leaves) {
    Group& group = *groups_[unit];
    if (group.members.size() >= kMembersMax) return false;
    const Domain::Shape before = group.domain.shape();
    for (size_t i = 0; i < node.results.size(); ++i) {
      const std::vector<CoordsId> places = demand_.PlacesIn(node.results[i], unit);
      if (places.empty()) continue;
      if (!IsWorthwhile(lowered_, group, node.results[i], weight, places)) return false;
      for (CoordsId at : places) {
        const Visited visited = demand_.VisitedAt(node.results[i], unit, at);
        if (Trace(lowered_, group, lowered_.results[id][i], at, visited, leaves)) continue;
        group.domain.Restore(before);
        return false;
      }
    }
    // Stored values that other members read must still be whole: a reduction may have made some
    // variables folded ones.
    const bool stores_hold = !group.domain.has_reduced() || HoldsStores(lowered_, group);
    if (stores_hold && ParamsOf(lowered_, group, leaves) <= kGroupParamsMax) return true;
    group.domain.Restore(before);
    return false;
  }

  bool IsLegal(size_t unit, const Wanted& wanted) const {
    const auto comes_back = [&](size_t other) { return other == unit ? false : reach_.Reaches(other, unit); };
    return std::none_of(wanted.units.begin(), wanted.units.end(), comes_back) &&
           std::none_of(wanted.groups.begin(), wanted.groups.end(), comes_back) &&
           std::find(wanted.units.begin(), wanted.units.end(), unit) == wanted.units.end();
  }

  void Connect(size_t unit, const Wanted& wanted, bool with_groups) {
    for (size_t other : wanted.units) {
      if (other != unit) reach_.Connect(unit, other);
    }
    if (!with_groups) return;
    for (size_t other : wanted.groups) {
      if (other != unit) reach_.Connect(unit, other);
    }
  }

  void PlaceKernel(NodeId id, const Node& node, const Wanted& wanted) {
    Weight weight;
    for (ExprId e : lowered_.results[id]) Weigh(lowered_.pool, e, weight);
    weight.is_expensive |= weight.leaves > kLeavesMax;
    const bool is_constant = weight.leaves == 0 && !weight.has_reduce;
    const bool is_cheap = !weight.is_expensive && !weight.has_reduce && weight.ops <= 2 && weight.leaves <= 1 &&
                          BytesRead(node) <= BytesWritten(node);
    // What products decode as they read never gets memory of its own.
    const bool is_for_products = lowered_.decodes[id] && !wanted.in_memory && IsReadAlongDepth(node);
    const bool duplicate =
        is_constant || is_for_products || (is_cheap && !wanted.in_memory && wanted.groups.size() <= kDuplicatesMax);
    if (duplicate && !wanted.groups.empty() && JoinAll(id, node, weight, wanted)) {
      if (!wanted.in_memory) return;
      Wanted rest = wanted;
      rest.groups.clear();
      return Start(id, node, rest);
    }
    // Consumers that may run as one read the value from a register instead of from memory.
    bool merged = false;
    for (size_t k = 1; k < std::min(wanted.groups.size(), kDuplicatesMax); ++k) {
      merged = MergePair(wanted.groups[0], wanted.groups[k]) || merged;
    }
    const Wanted rest = merged ? demand_.WhoWants(node) : wanted;
    for (size_t unit : rest.groups) {
      if (JoinOne(id, node, weight, rest, unit)) return;
    }
    Start(id, node, rest);
  }

  bool IsReadAlongDepth(const Node& node) const {
    return std::ranges::any_of(demand_.Of(node.results[0]),
                               [&](const Request& r) { return groups_[r.unit]->domain.UsesDepth(r.at); });
  }

  int64_t BytesWritten(const Node& node) const { return BytesOf(graph_, node.results[0]); }
  int64_t BytesRead(const Node& node) const {
    int64_t bytes = 0;
    ForEachOperand(node, [&](ValueId v) { bytes += BytesOf(graph_, v); });
    return bytes;
  }

  bool JoinAll(NodeId id, const Node& node, const Weight& weight, const Wanted& wanted) {
    std::vector<std::vector<Leaf>> leaves(wanted.groups.size());
    Wanted alone = wanted;
    alone.groups.clear();
    for (size_t k = 0; k < wanted.groups.size(); ++k) {
      if (!IsLegal(wanted.groups[k], alone)) return false;
      if (!TryTrace(id, node, weight, wanted.groups[k], leaves[k])) return false;
    }
    for (size_t k = 0; k < wanted.groups.size(); ++k) {
      Connect(wanted.groups[k], alone, false);
      Commit(wanted.groups[k], id, leaves[k]);
    }
    return true;
  }

  bool JoinOne(NodeId id, const Node& node, const Weight& weight, const Wanted& wanted, size_t unit) {
    Group& group = *groups_[unit];
    if (!IsLegal(unit, wanted) || (HasPhases(node) && StoresChannelsApart(group))) return false;
    const Domain::Shape before = group.domain.shape();
    std::vector<Leaf> leaves;
    if (!TryTrace(id, node, weight, unit, leaves)) return false;
    std::vector<Group::Store> stores;
    for (size_t i = 0; i < node.results.size(); ++i) {
      const ValueId r = node.results[i];
      const bool others = std::ranges::any_of(demand_.Of(r), [&](const Request& q) { return q.unit != unit; });
      if (demand_.InMemory(r).empty() && !others) continue;
      const std::vector<CoordsId> places = demand_.PlacesIn(node.results[i], unit);
      const auto is_own = [&](CoordsId at) { return group.domain.IsOwn(at, graph_.type(r).sizes); };
      auto own = std::ranges::find_if(places, is_own);
      // A value of each row, such as a scale, is met before the reduction that it is made from.
      if (own == places.end() && places.size() == 1 && IsMadeOfRows(lowered_, r) &&
          group.domain.FoldOthers(places[0], graph_.type(r).sizes)) {
        if (HoldsStores(lowered_, group)) own = places.begin();
      }
      if (own == places.end()) {
        group.domain.Restore(before);
        return false;
      }
      stores.push_back({r, *own});
    }
    group.stores.insert(group.stores.end(), stores.begin(), stores.end());
    Connect(unit, wanted, true);
    Commit(unit, id, leaves);
    return true;
  }

  /// Whether neighbours in a result come of other taps of the weight, as a transposed convolution with steps has it.
  bool HasPhases(const Node& node) const {
    if (!IsConvolution(node)) return false;
    std::string_view why;
    const auto convolution = ConvolutionOf(Call(graph_, node), why);
    return convolution && std::ranges::any_of(convolution->dims, [](const auto& dim) { return dim.PhaseCount() > 1; });
  }

  /// Phases that a product writes lie between each other, so that where channels are not innermost each element would
  /// be written by itself: three times the time of the product and a copy of its result.
  bool StoresChannelsApart(const Group& group) const {
    return std::ranges::any_of(group.stores, [&](const Group::Store& store) {
      const Type& type = graph_.type(store.value);
      return type.rank() > 2 && !type.sizes[1].is_one() && !type.strides[1].is_one();
    });
  }

  /// A group of its own, over the node's elements.
  void Start(NodeId id, const Node& node, const Wanted& wanted) {
    std::vector<size_t> after = wanted.units;
    after.insert(after.end(), wanted.groups.begin(), wanted.groups.end());
    const size_t unit = NewUnit(after);
    groups_[unit] = std::make_unique<Group>(Group{Domain(graph_.type(node.results[0]).sizes), {}, {}, {}});
    std::vector<Leaf> leaves;
    if (TraceResults(*groups_[unit], id, node, leaves) || StartFromOperand(*groups_[unit], id, node, leaves)) {
      Commit(unit, id, leaves);
      return;
    }
    groups_[unit] = nullptr;
    ForEachOperand(node, [&](ValueId v) { demand_.NeedInMemory(v, unit); });
  }

  bool TraceResults(Group& group, NodeId id, const Node& node, std::vector<Leaf>& leaves) {
    for (size_t i = 0; i < node.results.size(); ++i) {
      if (!demand_.IsWanted(node.results[i])) continue;
      if (graph_.type(node.results[i]).sizes != graph_.type(node.results[0]).sizes) return false;
      const CoordsId at = group.domain.identity();
      if (!Trace(lowered_, group, lowered_.results[id][i], at, kWhole, leaves)) return false;
      group.stores.push_back({node.results[i], at});
    }
    return true;
  }

  /// A reshape that must copy runs over the operand's dims, which are the finer ones.
  bool StartFromOperand(Group& group, NodeId id, const Node& node, std::vector<Leaf>& leaves) {
    const Expr& root = lowered_.pool[lowered_.results[id][0]];
    if (root.kind != ExprKind::kReshape || node.results.size() != 1) return false;
    const Dims& from = lowered_.pool[root.args[0]].sizes;
    group = Group{Domain(from), {}, {}, {}};
    leaves.clear();
    auto at = group.domain.Reshaped(lowered_.pool, from, root.sizes, group.domain.at(group.domain.identity()));
    if (!at) return false;
    const CoordsId coords = group.domain.Intern(std::move(*at));
    if (!Trace(lowered_, group, lowered_.results[id][0], coords, kWhole, leaves)) return false;
    group.stores.push_back({node.results[0], coords});
    return true;
  }

  /// Independent groups over the same space that read the same memory run as one.
  void MergeSiblings() {
    std::vector<std::vector<size_t>> readers(graph_.value_count());
    for (size_t unit = 0; unit < groups_.size(); ++unit) {
      if (!groups_[unit]) continue;
      for (ValueId v : groups_[unit]->loads) readers[lowered_.aliases[v].root].push_back(unit);
    }
    for (const std::vector<size_t>& units : readers) {
      // What everybody reads (a weight, the rotary tables) pairs neighbours only: all pairs would
      // cost more time than they bring.
      constexpr size_t kNeighbours = 4;
      for (size_t a = 0; a < units.size(); ++a) {
        const size_t end = std::min(units.size(), a + 1 + kNeighbours);
        for (size_t b = a + 1; b < end; ++b) MergePair(units[a], units[b]);
      }
    }
  }

  /// False where the two must stay apart. What `b` asked for is then asked for by `a`.
  bool MergePair(size_t a, size_t b) {
    if (a == b || !groups_[a] || !groups_[b]) return false;
    Group& into = *groups_[a];
    Group& from = *groups_[b];
    if (!(into.domain.shape() == from.domain.shape())) return false;
    if (into.members.size() + from.members.size() > kMembersMax) return false;
    if (ParamsOf(lowered_, into, {}) + ParamsOf(lowered_, from, {}) > kGroupParamsMax) return false;
    if (reach_.Reaches(a, b) || reach_.Reaches(b, a)) return false;
    for (const Group::Store& store : from.stores) {
      into.stores.push_back({store.value, into.domain.Intern(from.domain.at(store.at))});
    }
    for (NodeId id : from.members) {
      if (std::find(into.members.begin(), into.members.end(), id) == into.members.end()) {
        into.members.push_back(id);
      }
    }
    for (ValueId v : from.loads) AddLoad(into, v);
    // Members run in consumer-first order; two such lists are merged by the nodes' order.
    std::sort(into.members.begin(), into.members.end(), std::greater<>());
    demand_.Redirect(b, a, from.loads, [&](CoordsId at) { return into.domain.Intern(from.domain.at(at)); });
    reach_.Unite(a, b);
    groups_[b] = nullptr;
    return true;
  }

  const Lowered& lowered_;
  const Graph& graph_;
  Reach reach_;
  std::vector<std::unique_ptr<Group>> groups_;  // By unit; null for ATen nodes.
  Demand demand_;
};

}  // namespace

std::vector<std::unique_ptr<Group>> FormGroups(const Lowered& lowered) { return Grouper(lowered).Run(); }

}  // namespace ingot::compiler::fusion
