// SPDX-License-Identifier: Apache-2.0
#include "compiler/fusion/group.h"

#include <algorithm>
#include <functional>

#include "compiler/fusion/alias.h"
#include "compiler/fusion/reach.h"
#include "compiler/fusion/rounding.h"
#include "compiler/fusion/visited.h"
#include "compiler/loop/ops.h"
#include "compiler/ops/ops.h"

namespace ingot::compiler::fusion {
namespace {

constexpr size_t kMembersMax = 48;
constexpr size_t kParamsMax = 28;
constexpr size_t kCoordsMax = 4;      // Places at which one value is computed in a group.
constexpr size_t kDuplicatesMax = 4;  // Groups that compute a cheap value each for themselves.
constexpr size_t kNotOwnMax = 12;     // Members computed elsewhere than at the group's own index.
constexpr size_t kLeavesMax = 16;     // Elements that a cheap value is made of: windows of more are walked once.
constexpr size_t kOutside = ~size_t{0};

/// What computing a node costs.
struct Weight {
  size_t ops = 0;
  size_t leaves = 0;
  bool is_expensive = false;  ///< has a transcendental function
  bool has_reduce = false;
  bool has_root = false;
};

bool IsExpensive(ScalarOp op) {
  return (op >= ScalarOp::kExp && op <= ScalarOp::kSigmoid) || op == ScalarOp::kPow || op == ScalarOp::kAtan2;
}

void Weigh(const ExprPool& pool, ExprId id, Weight& weight) {
  const Expr& e = pool[id];
  if (e.kind == ExprKind::kValue) ++weight.leaves;
  if (e.kind == ExprKind::kReduce || e.kind == ExprKind::kScan || e.kind == ExprKind::kContract) {
    weight.has_reduce = true;
  }
  weight.is_expensive = weight.is_expensive || e.kind == ExprKind::kContract;
  if (e.kind == ExprKind::kMap) {
    ++weight.ops;
    weight.is_expensive = weight.is_expensive || IsExpensive(e.op);
    weight.has_root = weight.has_root || e.op == ScalarOp::kRsqrt;
  }
  for (ExprId arg : e.args) Weigh(pool, arg, weight);
}

/// For comparison only: symbols count as a typical size.
int64_t BytesOf(const Graph& graph, ValueId v) {
  static const std::vector<int64_t> typical(256, 97);
  const Type& type = graph.type(v);
  return type.Elements().Eval(typical) * static_cast<int64_t>(guards::SizeOf(type.dtype));
}

/// Only arithmetic between values, positions and constants.
bool IsArithmetic(const ExprPool& pool, ExprId id) {
  const Expr& e = pool[id];
  if (e.kind == ExprKind::kValue || e.kind == ExprKind::kConst) return true;
  const bool is_taken = e.kind == ExprKind::kRound || e.kind == ExprKind::kView || e.kind == ExprKind::kReshape ||
                        e.kind == ExprKind::kIota || e.kind == ExprKind::kSize ||
                        (e.kind == ExprKind::kRegion && pool[e.args[0]].sizes[e.axis].is_one()) ||
                        (e.kind == ExprKind::kMap && loop::TraitsOf(e.op).cls != loop::OpClass::kCompare &&
                         loop::TraitsOf(e.op).cls != loop::OpClass::kSelect);
  return is_taken && std::ranges::all_of(e.args, [&](ExprId arg) { return IsArithmetic(pool, arg); });
}

/// Finds the nodes that decode: chains of them count from where they begin.
class Decoders {
 public:
  explicit Decoders(const Lowered& lowered)
      : lowered_(lowered), decodes_(lowered.graph.node_capacity()), chains_(lowered.graph.node_capacity()) {
    for (const NodeId id : lowered.graph.order()) decodes_[id] = Decodes(id);
  }
  std::vector<bool> Take() { return std::move(decodes_); }

 private:
  struct Chain {
    int64_t bytes = 0;  ///< read by its first nodes
    size_t ops = 0;
  };

  bool Decodes(NodeId id) {
    constexpr size_t kOpsMax = 12;
    const Node& node = lowered_.graph.node(id);
    if (lowered_.results[id].size() != 1 || lowered_.IsView(id)) return false;
    const ExprId root = lowered_.results[id][0];
    if (!IsArithmetic(lowered_.pool, root) || IsConvolved(node.results[0])) return false;
    Weight weight;
    Weigh(lowered_.pool, root, weight);
    if (weight.is_expensive) return false;
    Chain& chain = chains_[id];
    chain.ops = weight.ops;
    ForEachOperand(node, [&](ValueId v) {
      const NodeId def = lowered_.graph.value(lowered_.aliases[v].root).def;
      const bool goes_on = def != kNoNode && decodes_[def];
      chain.bytes += goes_on ? chains_[def].bytes : BytesOf(lowered_.graph, v);
      chain.ops += goes_on ? chains_[def].ops : 0;
    });
    if (chain.ops > kOpsMax) return false;
    // Integers are on the way: what is packed comes apart, or stays as it is.
    const int64_t bytes = BytesOf(lowered_.graph, node.results[0]);
    return guards::IsFloat(lowered_.pool[root].dtype) ? 3 * chain.bytes <= 2 * bytes : chain.bytes <= bytes;
  }

  /// Convolutions read memory: what lies outside an image is in no formula.
  bool IsConvolved(ValueId value) const {
    return std::ranges::any_of(lowered_.graph.uses(value), [&](const Use& use) {
      if (!use.IsNode()) return false;
      const Node& user = lowered_.graph.node(use.user);
      if (ConvRules().contains(user.op)) return true;
      return ViewRules().contains(user.op) &&
             std::ranges::any_of(user.results, [&](ValueId v) { return IsConvolved(v); });
    });
  }

  const Lowered& lowered_;
  std::vector<bool> decodes_;
  std::vector<Chain> chains_;
};

/// Gives contractions as many variables to sum over as it takes to follow their operands to where those are decoded:
/// weights in groups are reshaped behind their scales, and what lies in one byte behind its shifts.
class DepthCutter {
 public:
  explicit DepthCutter(Lowered& lowered) : lowered_(lowered) {}

  void Run() {
    for (const NodeId id : lowered_.graph.order()) {
      for (const ExprId root : lowered_.results[id]) Visit(root);
    }
  }

 private:
  void Visit(ExprId id) {
    if (lowered_.pool[id].kind == ExprKind::kContract) return Cut(id);
    for (size_t k = 0; k < lowered_.pool[id].args.size(); ++k) Visit(lowered_.pool[id].args[k]);
  }

  void Cut(ExprId id) {
    constexpr int kCutsMax = 4;
    for (int cuts = 0; cuts < kCutsMax; ++cuts) {
      Domain domain(lowered_.pool[id].sizes);
      Domain::DepthCut wanted;
      if (Follow(domain, id, domain.identity(), wanted) || wanted.var == kNoVar) return;
      lowered_.pool.CutDepth(id, wanted.var, wanted.inner);
    }
  }

  /// False: what `id` reads at `at` cannot be said, though it may be with another variable.
  bool Follow(Domain& domain, ExprId id, CoordsId at, Domain::DepthCut& wanted) const {
    const Expr& e = lowered_.pool[id];
    if (e.kind == ExprKind::kValue) {
      if (!domain.UsesDepth(at) || !lowered_.IsDecoded(e.value)) return true;
      return Follow(domain, lowered_.ExprOf(e.value), at, wanted);
    }
    for (size_t k = 0; k < e.args.size(); ++k) {
      const auto place = domain.ArgCoords(lowered_.pool, e, k, at, &wanted);
      if (!place || !Follow(domain, e.args[k], *place, wanted)) return false;
    }
    return true;
  }

  Lowered& lowered_;
};

class Grouper {
 public:
  explicit Grouper(const Lowered& lowered)
      : lowered_(lowered),
        graph_(lowered.graph),
        reach_(graph_.order().size() + 1),
        requests_(graph_.value_count()),
        external_(graph_.value_count()),
        mutators_(graph_.value_count()),
        storage_(lowered.storage) {}

  std::vector<std::unique_ptr<Group>> Run() {
    for (ValueId id : graph_.outputs) NeedOutside(id);
    for (const Write& write : graph_.writes) {
      NeedOutside(write.value);
      NeedOutside(write.target);
    }
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
  struct Request {
    size_t unit;
    CoordsId at;
    Visited visited;
  };
  struct Leaf {
    ValueId value;
    CoordsId at;
    Visited visited;
  };
  /// Who wants a node: groups that could compute it, and units that need it in memory.
  struct Wanted {
    std::vector<size_t> groups;
    std::vector<size_t> units;   ///< outside the groups, order of execution included
    bool in_memory = false;
    bool any = false;
  };

  void NeedOutside(ValueId id) { external_[id].push_back(kOutside); }
  static void AddUnique(std::vector<size_t>& list, size_t unit) {
    if (std::find(list.begin(), list.end(), unit) == list.end()) list.push_back(unit);
  }

  size_t NewUnit(const std::vector<size_t>& before) {
    const size_t unit = reach_.Add();
    groups_.emplace_back();
    for (size_t other : before) reach_.Connect(unit, other);
    return unit;
  }

  Wanted WhoWants(const Node& node) {
    Wanted w;
    for (ValueId r : node.results) {
      for (const Request& request : requests_[r]) AddUnique(w.groups, request.unit);
      for (size_t unit : external_[r]) {
        w.in_memory = true;
        if (unit != kOutside) AddUnique(w.units, unit);
      }
    }
    w.any = w.in_memory || !w.groups.empty();
    ForEachOperand(node, [&](ValueId v) {
      for (size_t unit : mutators_[storage_[v]]) AddUnique(w.units, unit);
    });
    if (node.effects != kPure && last_effect_ != kOutside) AddUnique(w.units, last_effect_);
    return w;
  }

  void Place(NodeId id) {
    const Node& node = graph_.node(id);
    const Wanted wanted = WhoWants(node);
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
    ForEachOperand(node, [&](ValueId v) { AddUnique(external_[v], unit); });
    if (node.effects != kPure) last_effect_ = unit;
    if (node.inplace >= 0) {
      const ValueId target = std::get<Ref>(node.args[static_cast<size_t>(node.inplace)]).id;
      mutators_[storage_[target]].push_back(unit);
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
    if (Trace(*group, lowered_.results[id][0], at, kWhole, leaves)) {
      group->stores.push_back({node.results[0], at});
      groups_[unit] = std::move(group);
      Commit(unit, id, leaves);
      const auto within = WritesWithin(graph_, id, lowered_.results[id][0], lowered_.pool);
      std::vector<NodeId>& members = groups_[unit]->members;
      members.insert(members.end(), within.begin(), within.end());
      AddUnique(external_[target], unit);
    } else {
      ForEachOperand(node, [&](ValueId v) { AddUnique(external_[v], unit); });
    }
    mutators_[storage_[target]].push_back(unit);
  }

  /// A view vanishes in groups that can follow its index map to the operand; the others load
  /// through the view's own layout from memory.
  void PlaceView(NodeId id, const Node& node) {
    for (size_t i = 0; i < node.results.size(); ++i) {
      const ValueId r = node.results[i];
      for (size_t unit : external_[r]) {
        ForEachOperand(node, [&](ValueId v) { AddUnique(external_[v], unit); });
      }
      const std::vector<Request> requests = requests_[r];
      for (const Request& request : requests) {
        Group& group = *groups_[request.unit];
        std::vector<Leaf> leaves;
        if (Trace(group, lowered_.results[id][i], request.at, request.visited, leaves)) {
          Commit(request.unit, id, leaves);
        } else {
          AddUnique(external_[lowered_.aliases[r].root], request.unit);
          AddLoad(group, r);
        }
      }
    }
  }

  /// Collects what `root` reads at `at`, coordinates of the group. False: not expressible, or a
  /// gather would not see all of its indices.
  bool Trace(Group& group, ExprId root, CoordsId at, Visited visited, std::vector<Leaf>& leaves) {
    std::vector<std::pair<ExprId, CoordsId>> seen;
    return TraceInto(group, root, at, visited, leaves, seen);
  }
  bool TraceInto(Group& group, ExprId id, CoordsId at, Visited visited, std::vector<Leaf>& leaves,
                 std::vector<std::pair<ExprId, CoordsId>>& seen) {
    const Expr& e = lowered_.pool[id];
    if (e.kind == ExprKind::kConst || e.kind == ExprKind::kSize) return true;
    const std::pair key(id, at);
    if (std::find(seen.begin(), seen.end(), key) != seen.end()) return true;
    seen.push_back(key);
    if (e.kind == ExprKind::kValue) {
      leaves.push_back({e.value, at, visited});
      return true;
    }
    if (!ReadsAllIndices(lowered_.pool, e, visited)) return false;
    for (size_t k = 0; k < e.args.size(); ++k) {
      const auto arg = group.domain.ArgCoords(lowered_.pool, e, k, at);
      if (!arg) return false;
      const Visited of_arg = VisitedOfArg(lowered_.pool, e, k, visited);
      if (!TraceInto(group, e.args[k], *arg, of_arg, leaves, seen)) return false;
    }
    return true;
  }

  static void AddLoad(Group& group, ValueId value) {
    if (std::find(group.loads.begin(), group.loads.end(), value) == group.loads.end()) {
      group.loads.push_back(value);
    }
  }

  /// Memory that the group reads or writes: one parameter for each view's root.
  size_t ParamsOf(const Group& group, const std::vector<Leaf>& more) const {
    std::vector<ValueId> roots;
    const auto add = [&](ValueId v) {
      const ValueId root = lowered_.aliases[v].root;
      const NodeId def = graph_.value(root).def;
      const auto& in = group.members;
      if (def != kNoNode && std::find(in.begin(), in.end(), def) != in.end()) return;
      if (std::find(roots.begin(), roots.end(), root) == roots.end()) roots.push_back(root);
    };
    for (ValueId v : group.loads) add(v);
    for (const Leaf& leaf : more) add(leaf.value);
    return roots.size() + group.stores.size();
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
        AddUnique(external_[lowered_.aliases[leaf.value].root], unit);
        continue;
      }
      AddRequest(requests_[leaf.value], {unit, leaf.at, leaf.visited});
    }
  }

  /// Of two requests for one place, either says what is visited there.
  static void AddRequest(std::vector<Request>& requests, const Request& request) {
    const bool known = std::any_of(requests.begin(), requests.end(),
                                   [&](const Request& r) { return r.unit == request.unit && r.at == request.at; });
    if (!known) requests.push_back(request);
  }

  Visited VisitedAt(ValueId value, size_t unit, CoordsId at) const {
    for (const Request& r : requests_[value]) {
      if (r.unit == unit && r.at == at) return r.visited;
    }
    return 0;
  }
  std::vector<CoordsId> PlacesIn(const Node& node, size_t result, size_t unit) const {
    std::vector<CoordsId> places;
    for (const Request& request : requests_[node.results[result]]) {
      if (request.unit == unit) places.push_back(request.at);
    }
    return places;
  }

  /// The node may be computed in the group at every place where the group asks for it.
  bool TryTrace(NodeId id, const Node& node, const Weight& weight, size_t unit, std::vector<Leaf>& leaves) {
    Group& group = *groups_[unit];
    if (group.members.size() >= kMembersMax) return false;
    const Domain::Shape before = group.domain.shape();
    for (size_t i = 0; i < node.results.size(); ++i) {
      const std::vector<CoordsId> places = PlacesIn(node, i, unit);
      if (places.empty()) continue;
      if (!IsWorthwhile(group, node.results[i], weight, places)) return false;
      for (CoordsId at : places) {
        const Visited visited = VisitedAt(node.results[i], unit, at);
        if (Trace(group, lowered_.results[id][i], at, visited, leaves)) continue;
        group.domain.Restore(before);
        return false;
      }
    }
    // Stored values that other members read must still be whole: a reduction may have made some
    // variables folded ones.
    const bool stores_hold = !group.domain.has_reduced() ||
                             std::all_of(group.stores.begin(), group.stores.end(), [&](const Group::Store& s) {
                               return group.domain.IsOwn(s.at, lowered_.StoredSizes(s.value));
                             });
    if (stores_hold && ParamsOf(group, leaves) <= kParamsMax) return true;
    group.domain.Restore(before);
    return false;
  }

  bool IsWorthwhile(const Group& group, ValueId value, const Weight& weight, const std::vector<CoordsId>& places) {
    if (places.size() > kCoordsMax) return false;
    if (places.size() > 1 && weight.is_expensive) return false;
    const Dims& sizes = graph_.type(value).sizes;
    const bool own =
        std::any_of(places.begin(), places.end(), [&](CoordsId at) { return group.domain.IsOwn(at, sizes); });
    if (own) return true;
    // Not depending on the innermost variable, it is computed once for each row.
    const size_t vars = group.domain.shape().extents.size();
    const bool is_hoisted = places.size() == 1 && vars > 0 && !group.domain.Uses(places[0], InnermostVar(group));
    if (is_hoisted) return true;
    // One for each channel, say: not one for each element that is made with it.
    if (weight.is_expensive || weight.has_reduce || weight.has_root) return false;
    return lowered_.decodes[graph_.value(value).def] || group.members.size() < kNotOwnMax * 2;
  }

  /// The variable that loops will run along: that of columns, or of what lies side by side in a result.
  uint16_t InnermostVar(const Group& group) const {
    const Domain::Shape& shape = group.domain.shape();
    if (shape.column != kNoVar) return shape.column;
    for (const Group::Store& store : group.stores) {
      const Coords& at = group.domain.at(store.at);
      const Dims& strides = graph_.type(store.value).strides;
      for (size_t k = 0; k < at.size(); ++k) {
        if (at[k].vars.size() == 1 && strides[k].is_one()) return at[k].vars[0].first;
      }
    }
    return static_cast<uint16_t>(shape.extents.size() - 1);
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
    const Wanted rest = merged ? WhoWants(node) : wanted;
    for (size_t unit : rest.groups) {
      if (JoinOne(id, node, weight, rest, unit)) return;
    }
    Start(id, node, rest);
  }

  bool IsReadAlongDepth(const Node& node) const {
    return std::ranges::any_of(requests_[node.results[0]],
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
    if (!IsLegal(unit, wanted)) return false;
    const Domain::Shape before = group.domain.shape();
    std::vector<Leaf> leaves;
    if (!TryTrace(id, node, weight, unit, leaves)) return false;
    std::vector<Group::Store> stores;
    for (size_t i = 0; i < node.results.size(); ++i) {
      const ValueId r = node.results[i];
      const bool others =
          std::any_of(requests_[r].begin(), requests_[r].end(), [&](const Request& q) { return q.unit != unit; });
      if (external_[r].empty() && !others) continue;
      const std::vector<CoordsId> places = PlacesIn(node, i, unit);
      const auto is_own = [&](CoordsId at) { return group.domain.IsOwn(at, graph_.type(r).sizes); };
      auto own = std::ranges::find_if(places, is_own);
      // A value of each row, such as a scale, is met before the reduction that it is made from.
      if (own == places.end() && places.size() == 1 && IsMadeOfRows(r) &&
          group.domain.FoldOthers(places[0], graph_.type(r).sizes)) {
        const auto holds = [&](const Group::Store& s) {
          return group.domain.IsOwn(s.at, lowered_.StoredSizes(s.value));
        };
        if (std::ranges::all_of(group.stores, holds)) own = places.begin();
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

  /// Whether a value comes, by a few steps, from a reduction with results of the same sizes.
  bool IsMadeOfRows(ValueId value, int steps = 4) const {
    const NodeId def = graph_.value(value).def;
    if (def == kNoNode || steps == 0 || lowered_.results[def].empty()) return false;
    const std::function<bool(ExprId)> folds = [&](ExprId id) {
      const Expr& e = lowered_.pool[id];
      return e.kind == ExprKind::kReduce || std::ranges::any_of(e.args, folds);
    };
    const Dims& sizes = graph_.type(value).sizes;
    if (std::ranges::any_of(lowered_.results[def], folds)) return true;
    bool found = false;
    ForEachOperand(graph_.node(def),
                   [&](ValueId v) { found |= graph_.type(v).sizes == sizes && IsMadeOfRows(v, steps - 1); });
    return found;
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
    ForEachOperand(node, [&](ValueId v) { AddUnique(external_[v], unit); });
  }

  bool IsWanted(ValueId r) const { return !requests_[r].empty() || !external_[r].empty(); }

  bool TraceResults(Group& group, NodeId id, const Node& node, std::vector<Leaf>& leaves) {
    for (size_t i = 0; i < node.results.size(); ++i) {
      if (!IsWanted(node.results[i])) continue;
      if (graph_.type(node.results[i]).sizes != graph_.type(node.results[0]).sizes) return false;
      const CoordsId at = group.domain.identity();
      if (!Trace(group, lowered_.results[id][i], at, kWhole, leaves)) return false;
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
    if (!Trace(group, lowered_.results[id][0], coords, kWhole, leaves)) return false;
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
    if (ParamsOf(into, {}) + ParamsOf(from, {}) > kParamsMax) return false;
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
    Redirect(b, a);
    reach_.Unite(a, b);
    groups_[b] = nullptr;
    return true;
  }

  void Redirect(size_t from, size_t to) {
    for (ValueId v : groups_[from]->loads) {
      std::vector<Request> requests;
      for (Request q : requests_[v]) {
        if (q.unit == from) {
          q = {to, groups_[to]->domain.Intern(groups_[from]->domain.at(q.at)), q.visited};
        }
        AddRequest(requests, q);
      }
      requests_[v] = std::move(requests);
      for (ValueId where : {v, lowered_.aliases[v].root}) {
        std::replace(external_[where].begin(), external_[where].end(), from, to);
      }
    }
  }

  const Lowered& lowered_;
  const Graph& graph_;
  Reach reach_;
  std::vector<std::unique_ptr<Group>> groups_;  // By unit; null for ATen nodes.
  std::vector<std::vector<Request>> requests_;
  std::vector<std::vector<size_t>> external_;
  std::vector<std::vector<size_t>> mutators_;
  const std::vector<ValueId>& storage_;
  size_t last_effect_ = kOutside;
};

}  // namespace

Lowered::Lowered(const Graph& g, const TakesProduct& takes_product)
    : graph(g), pool(g), results(g.node_capacity()), why(g.node_capacity()), storage(SharedStorage(g)) {
  for (NodeId id : g.order()) {
    results[id] = LowerNode(pool, g.node(id), why[id]);
    if (results[id].empty() || !takes_product || !ContractRules().contains(g.node(id).op)) continue;
    const Type& type = g.type(g.node(id).results[0]);
    const Dim rows = type.rank() < 2 ? Dim(1) : type.sizes[type.rank() - 2];
    if (takes_product(type.dtype, rows)) continue;
    results[id].clear();
    why[id] = "PyTorch's library multiplies these faster";
  }
  RoundAsEager(*this, g.eager_numerics);
  aliases = FindAliases(g, pool, results);
  decodes = Decoders(*this).Take();
  DepthCutter(*this).Run();
}

const Dims& Lowered::StoredSizes(ValueId value) const {
  const NodeId def = graph.value(value).def;
  return def != kNoNode && IsWrite(def) ? pool[results[def][0]].sizes : graph.type(value).sizes;
}

bool Lowered::IsView(NodeId node) const {
  const Node& n = graph.node(node);
  if (results[node].empty() || n.inplace >= 0 || !ViewRules().contains(n.op)) return false;
  return std::all_of(n.results.begin(), n.results.end(), [&](ValueId r) { return aliases[r].root != r; });
}

std::vector<std::unique_ptr<Group>> FormGroups(const Lowered& lowered) { return Grouper(lowered).Run(); }

}  // namespace ingot::compiler::fusion
