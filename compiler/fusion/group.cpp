// SPDX-License-Identifier: Apache-2.0
#include "compiler/fusion/group.h"

#include <algorithm>
#include <functional>

#include "compiler/fusion/inlining.h"
#include "compiler/fusion/reachability.h"
#include "compiler/fusion/use_info.h"
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
      : lowered_(lowered), graph_(lowered.graph), reachability_(graph_.order().size() + 1), use_info_(lowered) {}

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
  using Users = UseInfo::Users;
  using Request = UseInfo::Request;

  size_t NewUnit(const std::vector<size_t>& before) {
    const size_t unit = reachability_.Add();
    groups_.emplace_back();
    for (size_t other : before) reachability_.Connect(unit, other);
    return unit;
  }

  void Place(NodeId id) {
    const Node& node = graph_.node(id);
    const Users users = use_info_.UsersOf(node);
    const bool is_pure = node.effects == kPure && node.inplace < 0;
    if (!users.any && is_pure) return;
    if (lowered_.results[id].empty()) return PlaceAten(node, users);
    if (lowered_.IsWrite(id)) return PlaceWrite(id, node, users);
    if (lowered_.IsView(id)) return PlaceView(id, node);
    PlaceKernel(id, node, users);
  }

  void PlaceAten(const Node& node, const Users& users) {
    std::vector<size_t> after = users.units;
    after.insert(after.end(), users.groups.begin(), users.groups.end());
    const size_t unit = NewUnit(after);
    ForEachOperand(node, [&](ValueId v) { use_info_.NeedInMemory(v, unit); });
    if (node.effects != kPure) use_info_.SetLastEffect(unit);
    if (node.inplace >= 0) {
      const ValueId target = std::get<Ref>(node.args[static_cast<size_t>(node.inplace)]).id;
      use_info_.AddMutator(target, unit);
    }
  }

  /// Over what is stored. Whoever reads the result reads it in memory; what is stored may be computed here, but not
  /// from what the memory held before at other places: whoever reads that runs before.
  void PlaceWrite(NodeId id, const Node& node, const Users& users) {
    std::vector<size_t> after = users.units;
    after.insert(after.end(), users.groups.begin(), users.groups.end());
    const size_t unit = NewUnit(after);
    const ValueId target = OverwrittenBy(graph_, node.results[0]);
    auto group = std::make_unique<Group>(Group{IterationSpace(lowered_.StoredSizes(node.results[0])), {}, {}, {}});
    const CoordsId at = group->space.identity();
    std::vector<Leaf> leaves;
    if (Inline(lowered_, *group, lowered_.results[id][0], at, kWhole, leaves)) {
      group->stores.push_back({node.results[0], at});
      groups_[unit] = std::move(group);
      Commit(unit, id, leaves);
      const auto within = WritesWithin(graph_, id, lowered_.results[id][0], lowered_.pool);
      std::vector<NodeId>& members = groups_[unit]->members;
      members.insert(members.end(), within.begin(), within.end());
      use_info_.NeedInMemory(target, unit);
    } else {
      ForEachOperand(node, [&](ValueId v) { use_info_.NeedInMemory(v, unit); });
    }
    use_info_.AddMutator(target, unit);
  }

  /// A view vanishes in groups that can follow its index map to the operand; the others load
  /// through the view's own layout from memory.
  void PlaceView(NodeId id, const Node& node) {
    for (size_t i = 0; i < node.results.size(); ++i) {
      const ValueId r = node.results[i];
      for (size_t unit : use_info_.InMemory(r)) {
        ForEachOperand(node, [&](ValueId v) { use_info_.NeedInMemory(v, unit); });
      }
      const std::vector<Request> requests = use_info_.Of(r);
      for (const Request& request : requests) {
        Group& group = *groups_[request.unit];
        std::vector<Leaf> leaves;
        if (Inline(lowered_, group, lowered_.results[id][i], request.at, request.visited, leaves)) {
          Commit(request.unit, id, leaves);
        } else {
          use_info_.NeedInMemory(lowered_.aliases[r].root, request.unit);
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
      const bool is_decoded = !group.space.HasGathered(leaf.at) && lowered_.IsDecoded(leaf.value);
      if (group.space.NeedsMemory(leaf.at) && !is_decoded) {
        use_info_.NeedInMemory(lowered_.aliases[leaf.value].root, unit);
        continue;
      }
      use_info_.Ask(leaf.value, {unit, leaf.at, leaf.visited});
    }
  }

  /// The node may be computed in the group at every place where the group asks for it.
  bool TryInline(NodeId id, const Node& node, const OpCost& cost, size_t unit, std::vector<Leaf>& leaves) {
    Group& group = *groups_[unit];
    if (group.members.size() >= kMembersMax) return false;
    const IterationSpace::Shape before = group.space.shape();
    for (size_t i = 0; i < node.results.size(); ++i) {
      const std::vector<CoordsId> places = use_info_.PlacesIn(node.results[i], unit);
      if (places.empty()) continue;
      if (!IsWorthwhile(lowered_, group, node.results[i], cost, places)) return false;
      for (CoordsId at : places) {
        const Visited visited = use_info_.VisitedAt(node.results[i], unit, at);
        if (Inline(lowered_, group, lowered_.results[id][i], at, visited, leaves)) continue;
        group.space.Restore(before);
        return false;
      }
    }
    // Stored values that other members read must still be whole: a reduction may have made some
    // variables folded ones.
    const bool stores_hold = !group.space.has_reduced() || HoldsStores(lowered_, group);
    if (stores_hold && ParamsOf(lowered_, group, leaves) <= kGroupParamsMax) return true;
    group.space.Restore(before);
    return false;
  }

  bool IsLegal(size_t unit, const Users& users) const {
    const auto comes_back = [&](size_t other) { return other == unit ? false : reachability_.Reaches(other, unit); };
    return std::none_of(users.units.begin(), users.units.end(), comes_back) &&
           std::none_of(users.groups.begin(), users.groups.end(), comes_back) &&
           std::find(users.units.begin(), users.units.end(), unit) == users.units.end();
  }

  void Connect(size_t unit, const Users& users, bool with_groups) {
    for (size_t other : users.units) {
      if (other != unit) reachability_.Connect(unit, other);
    }
    if (!with_groups) return;
    for (size_t other : users.groups) {
      if (other != unit) reachability_.Connect(unit, other);
    }
  }

  void PlaceKernel(NodeId id, const Node& node, const Users& users) {
    OpCost cost;
    for (ExprId e : lowered_.results[id]) AddCost(lowered_.pool, e, cost);
    cost.is_expensive |= cost.leaves > kLeavesMax;
    const bool is_constant = cost.leaves == 0 && !cost.has_reduce;
    const bool is_cheap = !cost.is_expensive && !cost.has_reduce && cost.ops <= 2 && cost.leaves <= 1 &&
                          BytesRead(node) <= BytesWritten(node);
    // What products decode as they read never gets memory of its own.
    const bool is_for_products = lowered_.decodes[id] && !users.in_memory && IsReadAlongDepth(node);
    const bool duplicate =
        is_constant || is_for_products || (is_cheap && !users.in_memory && users.groups.size() <= kDuplicatesMax);
    if (duplicate && !users.groups.empty() && JoinAll(id, node, cost, users)) {
      if (!users.in_memory) return;
      Users rest = users;
      rest.groups.clear();
      return Start(id, node, rest);
    }
    // Consumers that may run as one read the value from a register instead of from memory.
    bool merged = false;
    for (size_t k = 1; k < std::min(users.groups.size(), kDuplicatesMax); ++k) {
      merged = MergePair(users.groups[0], users.groups[k]) || merged;
    }
    const Users rest = merged ? use_info_.UsersOf(node) : users;
    for (size_t unit : rest.groups) {
      if (JoinOne(id, node, cost, rest, unit)) return;
    }
    Start(id, node, rest);
  }

  bool IsReadAlongDepth(const Node& node) const {
    return std::ranges::any_of(use_info_.Of(node.results[0]),
                               [&](const Request& r) { return groups_[r.unit]->space.UsesDepth(r.at); });
  }

  int64_t BytesWritten(const Node& node) const { return BytesOf(graph_, node.results[0]); }
  int64_t BytesRead(const Node& node) const {
    int64_t bytes = 0;
    ForEachOperand(node, [&](ValueId v) { bytes += BytesOf(graph_, v); });
    return bytes;
  }

  bool JoinAll(NodeId id, const Node& node, const OpCost& cost, const Users& users) {
    std::vector<std::vector<Leaf>> leaves(users.groups.size());
    Users alone = users;
    alone.groups.clear();
    for (size_t k = 0; k < users.groups.size(); ++k) {
      if (!IsLegal(users.groups[k], alone)) return false;
      if (!TryInline(id, node, cost, users.groups[k], leaves[k])) return false;
    }
    for (size_t k = 0; k < users.groups.size(); ++k) {
      Connect(users.groups[k], alone, false);
      Commit(users.groups[k], id, leaves[k]);
    }
    return true;
  }

  bool JoinOne(NodeId id, const Node& node, const OpCost& cost, const Users& users, size_t unit) {
    Group& group = *groups_[unit];
    if (!IsLegal(unit, users) || (HasPhases(node) && StoresChannelsApart(group))) return false;
    const IterationSpace::Shape before = group.space.shape();
    std::vector<Leaf> leaves;
    if (!TryInline(id, node, cost, unit, leaves)) return false;
    std::vector<Group::Store> stores;
    for (size_t i = 0; i < node.results.size(); ++i) {
      const ValueId r = node.results[i];
      const bool others = std::ranges::any_of(use_info_.Of(r), [&](const Request& q) { return q.unit != unit; });
      if (use_info_.InMemory(r).empty() && !others) continue;
      const std::vector<CoordsId> places = use_info_.PlacesIn(node.results[i], unit);
      const auto is_own = [&](CoordsId at) { return group.space.IsOwn(at, graph_.type(r).sizes); };
      auto own = std::ranges::find_if(places, is_own);
      // A value of each row, such as a scale, is met before the reduction that it is made from.
      if (own == places.end() && places.size() == 1 && IsMadeOfRows(lowered_, r) &&
          group.space.ReduceOthers(places[0], graph_.type(r).sizes)) {
        if (HoldsStores(lowered_, group)) own = places.begin();
      }
      if (own == places.end()) {
        group.space.Restore(before);
        return false;
      }
      stores.push_back({r, *own});
    }
    group.stores.insert(group.stores.end(), stores.begin(), stores.end());
    Connect(unit, users, true);
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
  void Start(NodeId id, const Node& node, const Users& users) {
    std::vector<size_t> after = users.units;
    after.insert(after.end(), users.groups.begin(), users.groups.end());
    const size_t unit = NewUnit(after);
    groups_[unit] = std::make_unique<Group>(Group{IterationSpace(graph_.type(node.results[0]).sizes), {}, {}, {}});
    std::vector<Leaf> leaves;
    if (InlineResults(*groups_[unit], id, node, leaves) || StartFromOperand(*groups_[unit], id, node, leaves)) {
      Commit(unit, id, leaves);
      return;
    }
    groups_[unit] = nullptr;
    ForEachOperand(node, [&](ValueId v) { use_info_.NeedInMemory(v, unit); });
  }

  bool InlineResults(Group& group, NodeId id, const Node& node, std::vector<Leaf>& leaves) {
    for (size_t i = 0; i < node.results.size(); ++i) {
      if (!use_info_.IsUsed(node.results[i])) continue;
      if (graph_.type(node.results[i]).sizes != graph_.type(node.results[0]).sizes) return false;
      const CoordsId at = group.space.identity();
      if (!Inline(lowered_, group, lowered_.results[id][i], at, kWhole, leaves)) return false;
      group.stores.push_back({node.results[i], at});
    }
    return true;
  }

  /// A reshape that must copy runs over the operand's dims, which are the finer ones.
  bool StartFromOperand(Group& group, NodeId id, const Node& node, std::vector<Leaf>& leaves) {
    const Expr& root = lowered_.pool[lowered_.results[id][0]];
    if (root.kind != ExprKind::kReshape || node.results.size() != 1) return false;
    const Dims& from = lowered_.pool[root.args[0]].sizes;
    group = Group{IterationSpace(from), {}, {}, {}};
    leaves.clear();
    auto at = group.space.Reshaped(lowered_.pool, from, root.sizes, group.space.at(group.space.identity()));
    if (!at) return false;
    const CoordsId coords = group.space.Intern(std::move(*at));
    if (!Inline(lowered_, group, lowered_.results[id][0], coords, kWhole, leaves)) return false;
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
    if (!(into.space.shape() == from.space.shape())) return false;
    if (into.members.size() + from.members.size() > kMembersMax) return false;
    if (ParamsOf(lowered_, into, {}) + ParamsOf(lowered_, from, {}) > kGroupParamsMax) return false;
    if (reachability_.Reaches(a, b) || reachability_.Reaches(b, a)) return false;
    for (const Group::Store& store : from.stores) {
      into.stores.push_back({store.value, into.space.Intern(from.space.at(store.at))});
    }
    for (NodeId id : from.members) {
      if (std::find(into.members.begin(), into.members.end(), id) == into.members.end()) {
        into.members.push_back(id);
      }
    }
    for (ValueId v : from.loads) AddLoad(into, v);
    // Members run in consumer-first order; two such lists are merged by the nodes' order.
    std::sort(into.members.begin(), into.members.end(), std::greater<>());
    use_info_.Redirect(b, a, from.loads, [&](CoordsId at) { return into.space.Intern(from.space.at(at)); });
    reachability_.Unite(a, b);
    groups_[b] = nullptr;
    return true;
  }

  const Lowered& lowered_;
  const Graph& graph_;
  Reachability reachability_;
  std::vector<std::unique_ptr<Group>> groups_;  // By unit; null for ATen nodes.
  UseInfo use_info_;
};

}  // namespace

std::vector<std::unique_ptr<Group>> FormGroups(const Lowered& lowered) { return Grouper(lowered).Run(); }

}  // namespace ingot::compiler::fusion
