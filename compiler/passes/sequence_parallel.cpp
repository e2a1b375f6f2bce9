// SPDX-License-Identifier: Apache-2.0
// Behind a sum over the ranks of a tensor-parallel group, each rank adds and normalises all rows, the same on every
// rank. Where that is asked for (Graph::sequence_parallel), each rank is sent what the others have for a block of the
// rows alone, adds that up, computes its block up to where somebody needs all rows, and those are gathered there: of
// normalised rows, in front of the next product. What is carried from layer to layer beside them stays in blocks.
//
// The blocks are sent by all_to_all_single and added by the rank itself, in the order of the ranks, within the kernel
// that goes on with them: as many bytes as reduce_scatter_tensor moves, which gloo makes of a whole all_reduce.
#include <algorithm>
#include <map>
#include <set>
#include <unordered_set>

#include <fmt/format.h>

#include "compiler/ir/graph_builder.h"
#include "compiler/ops/collectives.h"
#include "compiler/ops/ops.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/rewrite.h"
#include "compiler/passes/rewrites.h"
#include "compiler/passes/row_rules.h"
#include "proto/group_slot.h"

namespace ingot::compiler {
namespace {

/// Of less, two collectives cost more than one, however little they move.
constexpr int64_t kBytesMin = 64 << 10;

/// Collectives that leave the same on every rank.
constexpr std::string_view kSameEverywhere[] = {
    "_c10d_functional.all_reduce", "_c10d_functional.all_gather_into_tensor", "_c10d_functional.broadcast"};

/// A sum over the group that may come in blocks, from where it starts to the value that its wait gives.
struct RankSum {
  NodeId start = kNoNode;
  NodeId wait = kNoNode;
  size_t dim = 0;  ///< of the rows: the dims before have one place
};

/// Why a sum stays whole; empty: it need not.
struct Whole {
  std::string_view reason;
  std::string why;
};

/// The first dim that has more than one place, where that is a number.
std::optional<size_t> RowsOf(const Type& type) {
  for (size_t i = 0; i < type.rank(); ++i) {
    if (!type.sizes[i].is_const()) return std::nullopt;
    if (!type.sizes[i].is_one()) return i;
  }
  return std::nullopt;
}

Type Contiguous(const Type& type) { return Type::Contiguous(type.dtype, type.sizes); }

int64_t BytesOf(const Type& type) {
  const Dim elements = type.Elements();
  return elements.is_const() ? elements.const_value() * static_cast<int64_t>(guards::SizeOf(type.dtype)) : 0;
}

/// Finds what is computed in blocks of rows, and computes it so.
class RowSharing {
 public:
  explicit RowSharing(const Graph& graph)
      : graph_(graph), parallel_(graph.sequence_parallel), escaping_(EscapingValues(graph)) {}

  /// The graph in blocks; nullopt where all sums stay whole.
  Result<std::optional<Graph>> Run(std::vector<MissedRewrite>* missed_rewrites) {
    std::optional<Graph> made;
    if (parallel_.ranks != 0) {
      FindSums();
      // Each round takes back what stands in the way, so there are no more of them than values.
      for (bool settled = false; !settled && !sums_.empty();) {
        Spread();
        settled = TakeBack();
        if (!settled) continue;
        made = graph_;
        TRY_ASSIGN(settled, Compute(*made));
      }
    }
    if (sums_.empty()) made.reset();
    for (const auto& [node, whole] : whole_) {
      if (missed_rewrites) missed_rewrites->push_back({node, "all_reduce by rows", whole.why, true, whole.reason});
    }
    return made;
  }

 private:
  void FindSums() {
    const std::string group = proto::GroupSlotText(parallel_.group);
    bool checks = false;
    for (const NodeId id : graph_.order()) checks |= (graph_.node(id).effects & kGuard) != 0;
    for (const NodeId id : graph_.order()) {
      const Node& node = graph_.node(id);
      if (node.op != "_c10d_functional.all_reduce") continue;
      RankSum sum{id};
      Whole whole = Look(node, sum);
      if (whole.reason.empty() && checks)
        whole = {"guards", "a value that is checked may turn this rank alone to eager"};
      if (whole.reason.empty()) {
        sums_.push_back(sum);
      } else {
        whole_.emplace(id, std::move(whole));
      }
    }
  }

  /// Fills in where the rows are, and what waits.
  Whole Look(const Node& node, RankSum& sum) const {
    const auto* operation = std::get_if<Name>(&node.args[1]);
    if (!operation || *operation != "sum") return {"operation", "it does not add, or not plainly"};
    if (GroupSlotOf(node) != parallel_.group) return {"group", "it is of another group"};
    const Type& type = graph_.type(node.results[0]);
    const auto* operand = std::get_if<Ref>(&node.args[0]);
    if (!operand || !graph_.type(operand->id).IsContiguous() || type != Contiguous(type)) {
      return {"layout", "its rows do not lie one after the other"};
    }
    const std::optional<size_t> dim = RowsOf(type);
    if (!dim) return {"rows", "how many rows it has is no number: dynamic=False makes it one"};
    const int64_t rows = type.sizes[*dim].const_value();
    if (rows % parallel_.ranks != 0) {
      return {"rows", fmt::format("{} rows are not {} blocks of one size", rows, parallel_.ranks)};
    }
    if (BytesOf(type) < kBytesMin) {
      return {"small", fmt::format("{} bytes, from {} on two collectives pay", BytesOf(type), kBytesMin)};
    }
    if (graph_.use_count(node.results[0]) != 1) return {"waits", "it is waited for more than once"};
    sum.dim = *dim;
    sum.wait = graph_.uses(node.results[0]).begin()->user;
    return {};
  }

  ValueId ResultOf(const RankSum& sum) const { return graph_.node(sum.wait).results[0]; }

  /// What can be computed in blocks from the sums, minus what was taken back.
  void Spread() {
    rows_.clear();
    rules_.clear();
    for (const RankSum& sum : sums_) rows_[ResultOf(sum)] = sum.dim;
    for (const NodeId id : graph_.order()) {
      const Node& node = graph_.node(id);
      bool any = false;
      ForEachOperand(node, [&](ValueId value) { any |= rows_.contains(value); });
      if (!any || taken_back_.contains(id)) continue;
      std::optional<RowRule> rule = RowRuleOf(graph_, node, rows_);
      if (!rule || !AreSame(node)) continue;
      // A caller may see that two results share memory: then they are made of one.
      const bool is_seen = MayAlias(node) && std::ranges::any_of(node.results, [&](ValueId v) { return escaping_[v]; });
      if (is_seen) continue;
      for (const ValueId result : node.results) rows_[result] = rule->dim;
      rules_.emplace(id, *std::move(rule));
    }
  }

  /// What a node takes besides blocks is the same on every rank.
  bool AreSame(const Node& node) {
    bool same = true;
    ForEachOperand(node, [&](ValueId id) { same = same && (rows_.contains(id) || IsSame(id)); });
    return same;
  }

  /// Inputs and weights that meet a sum are, as who asks for this declares; what a product of this rank's weights made
  /// is not, nor what nobody knows.
  bool IsSame(ValueId id) {
    const auto [known, is_new] = same_.try_emplace(id, true);
    if (!is_new) return known->second;
    const Node* def = Definition(graph_, id);
    const bool same = def == nullptr || IsMadeAlike(*def);
    same_[id] = same;
    return same;
  }

  bool IsMadeAlike(const Node& node) {
    if (WaitsForCollective(node.op)) {
      const Node* collective = WaitedFor(graph_, node);
      return collective && GroupSlotOf(*collective) == parallel_.group &&
             std::ranges::find(kSameEverywhere, collective->op) != std::end(kSameEverywhere);
    }
    const OpClass kind = ClassOf(node);
    const bool is_own = kind == OpClass::kContraction || kind == OpClass::kAttention || kind == OpClass::kOpaque;
    if (is_own || kind == OpClass::kRandom || !IsPure(node)) return false;
    bool same = true;
    ForEachOperand(node, [&](ValueId id) { same = same && IsSame(id); });
    return same;
  }

  /// Somebody needs all rows.
  bool IsGathered(ValueId id) const {
    return std::ranges::any_of(graph_.uses(id),
                               [&](const Use& use) { return !use.IsNode() || !rules_.contains(use.user); });
  }

  /// Blocks that lie one after the other make the whole.
  bool MayGather(ValueId id) const {
    const Type& type = graph_.type(id);
    return type == Contiguous(type) && RowsOf(type) == rows_.at(id);
  }

  /// True where nothing had to be taken back.
  bool TakeBack() {
    bool settled = true;
    for (const auto& [id, rule] : rules_) {
      const auto& results = graph_.node(id).results;
      const bool fits = std::ranges::all_of(results, [&](ValueId v) { return !IsGathered(v) || MayGather(v); });
      if (!fits) settled = !taken_back_.insert(id).second && settled;
    }
    return settled ? Weigh() : false;
  }

  /// Sums that hang together are given up where more would be gathered than they have, or nothing computed in blocks.
  bool Weigh() {
    std::unordered_map<ValueId, ValueId> parents;
    const auto root = [&](ValueId id) {
      while (parents.contains(id) && parents[id] != id) id = parents[id];
      return id;
    };
    for (const auto& [id, rule] : rules_) {
      const ValueId result = graph_.node(id).results[0];
      const auto join = [&](ValueId v) {
        if (rows_.contains(v)) parents[root(v)] = root(result);
      };
      ForEachOperand(graph_.node(id), join);
      std::ranges::for_each(graph_.node(id).results, join);
    }
    std::unordered_map<ValueId, int64_t> gathered;
    for (const auto& [value, dim] : rows_) {
      if (IsGathered(value)) gathered[root(value)] += BytesOf(graph_.type(value));
    }
    std::unordered_map<ValueId, int64_t> summed;
    for (const RankSum& sum : sums_) summed[root(ResultOf(sum))] += BytesOf(graph_.type(ResultOf(sum)));
    const auto is_given_up = [&](const RankSum& sum) {
      const ValueId at = root(ResultOf(sum));
      const bool computes = std::ranges::any_of(
          graph_.uses(ResultOf(sum)), [&](const Use& use) { return use.IsNode() && rules_.contains(use.user); });
      if (computes && gathered[at] <= summed[at]) return false;
      whole_.emplace(sum.start, computes
                                    ? Whole{"gathers", fmt::format("{} bytes would be gathered of {} that are summed",
                                                                   gathered[at], summed[at])}
                                    : Whole{"whole", "what uses it needs all rows"});
      return true;
    };
    return std::erase_if(sums_, is_given_up) == 0;
  }

  // -- the graph in blocks ---------------------------------------------------------------------------

  struct Blocks {
    Graph& graph;
    std::unordered_map<ValueId, ValueId> of;  ///< the block of a value
    std::unordered_map<ValueId, ValueId> cut;  ///< of one that is whole
  };

  Dim BlockRows(const Type& type, size_t dim) const { return *type.sizes[dim].DivideExactly(Dim(parallel_.ranks)); }

  Type BlockOf(const Type& type, size_t dim) const {
    Dims sizes = type.sizes;
    sizes[dim] = BlockRows(type, dim);
    return Type::Contiguous(type.dtype, std::move(sizes));
  }

  Arg Group() const { return proto::GroupSlotText(parallel_.group); }

  /// False where a node did not come out as its block: it is taken back.
  Result<bool> Compute(Graph& graph) {
    Blocks blocks{graph, {}, {}};
    std::unordered_map<NodeId, const RankSum*> starts, waits;
    for (const RankSum& sum : sums_) {
      starts[sum.start] = &sum;
      waits[sum.wait] = &sum;
    }
    std::vector<NodeId> gone;
    const std::vector<NodeId> order = graph_.order();
    std::unordered_map<NodeId, ValueId> sent;
    for (const NodeId id : order) {
      if (starts.contains(id)) {
        TRY(GatherFor(blocks, id));
        TRY_ASSIGN(sent[id], Send(graph, id, *starts[id]));
      } else if (waits.contains(id)) {
        TRY_ASSIGN(blocks.of[ResultOf(*waits[id])], Add(graph, id, *waits[id], sent[waits[id]->start]));
      } else if (const auto rule = rules_.find(id); rule != rules_.end()) {
        TRY_ASSIGN(const bool is_block, ComputeBlock(blocks, id, rule->second));
        if (!is_block) return !taken_back_.insert(id).second;
      } else {
        TRY(GatherFor(blocks, id));
        continue;
      }
      gone.push_back(id);
    }
    TRY(GatherAtEnd(blocks));
    for (auto id = gone.rbegin(); id != gone.rend(); ++id) graph.RemoveNode(*id);
    return true;
  }

  /// The shape with the rows first.
  Result<Ref> RowsFirst(GraphBuilder& builder, const Graph& graph, ValueId id, size_t dim) const {
    const Dims& sizes = graph.type(id).sizes;
    if (dim == 0) return Ref{id};
    return builder.Op("aten.view", {Ref{id}, Dims(sizes.begin() + static_cast<ptrdiff_t>(dim), sizes.end())});
  }

  static ValueId Start(Graph& graph, NodeId before, std::string op, std::vector<Arg> args, Type type) {
    Node node{std::move(op), std::move(args)};
    node.effects = kOpaque;
    const NodeId id = before == kNoNode ? graph.AddNode(std::move(node), {std::move(type)})
                                        : graph.InsertBefore(before, std::move(node), {std::move(type)});
    return graph.node(id).results[0];
  }

  static ValueId Wait(Graph& graph, NodeId before, ValueId started) {
    Type type = graph.type(started);
    const RefList held = OperandsInFlight(graph.node(graph.value(started).def));
    return Start(graph, before, "_c10d_functional.wait_tensor", {Ref{started}, held}, std::move(type));
  }

  Result<ValueId> Send(Graph& graph, NodeId before, const RankSum& sum) const {
    GraphBuilder builder(graph, before);
    const ValueId operand = std::get<Ref>(graph.node(sum.start).args[0]).id;
    TRY_ASSIGN(const Ref rows, RowsFirst(builder, graph, operand, sum.dim));
    Type type = graph.type(rows.id);
    const Dims blocks(static_cast<size_t>(parallel_.ranks), BlockRows(type, 0));
    return Start(graph, before, "_c10d_functional.all_to_all_single", {rows, blocks, blocks, Group()}, std::move(type));
  }

  /// What the ranks have of this one's block, added in their order.
  Result<ValueId> Add(Graph& graph, NodeId before, const RankSum& sum, ValueId sent) const {
    const ValueId received = Wait(graph, before, sent);
    GraphBuilder builder(graph, before);
    const Dim rows = BlockRows(graph.type(received), 0);
    std::optional<Ref> total;
    for (int64_t rank = 0; rank < parallel_.ranks; ++rank) {
      TRY_ASSIGN(Ref block, builder.Op("aten.slice.Tensor",
                                       {Ref{received}, Dim(0), rows * Dim(rank), rows * Dim(rank + 1), Dim(1)}));
      if (total) {
        TRY_ASSIGN(block, builder.Op("aten.add.Tensor", {*total, block}));
      }
      total = block;
    }
    const Type& whole = graph.type(ResultOf(sum));
    if (sum.dim == 0) return total->id;
    TRY_ASSIGN(const Ref shaped, builder.Op("aten.view", {*total, BlockOf(whole, sum.dim).sizes}));
    return shaped.id;
  }

  Result<bool> ComputeBlock(Blocks& blocks, NodeId id, const RowRule& rule) const {
    Graph& graph = blocks.graph;
    const Node node = graph_.node(id);
    const Dim rows = BlockRows(graph_.type(node.results[0]), rule.dim);
    for (std::vector<Arg> args : {node.args, ArgsForRows(graph_, node, rule.dim, rows)}) {
      for (size_t i = 0; i < rule.parts.size(); ++i) {
        Ref& operand = std::get<Ref>(args[rule.parts[i]]);
        operand.id = BlockOperand(blocks, id, operand.id, rule.dims[i]);
      }
      const auto made = GraphBuilder(graph, id, GraphBuilder::Layout::kContiguous).Ops(node.op, std::move(args));
      if (!made) continue;
      bool fits = made->size() == node.results.size();
      for (size_t i = 0; fits && i < made->size(); ++i) {
        const Type &block = graph.type((*made)[i].id), &whole = graph_.type(node.results[i]);
        fits = block.dtype == whole.dtype && block.sizes == BlockOf(whole, rule.dim).sizes;
        blocks.of[node.results[i]] = (*made)[i].id;
      }
      if (fits) return true;
    }
    return false;
  }

  /// This rank's rows of an operand.
  ValueId BlockOperand(Blocks& blocks, NodeId before, ValueId id, size_t dim) const {
    if (const auto block = blocks.of.find(id); rows_.contains(id) && block != blocks.of.end()) return block->second;
    const auto [cut, is_new] = blocks.cut.try_emplace(id, kNoValue);
    if (is_new) {
      std::vector<Arg> args = {Ref{id}, Dim(static_cast<int64_t>(dim)), Dim(parallel_.ranks), Group()};
      cut->second =
          GraphBuilder(blocks.graph, before).Typed("ingot.own_rows", std::move(args), BlockOf(graph_.type(id), dim)).id;
    }
    return cut->second;
  }

  Status GatherFor(Blocks& blocks, NodeId id) const {
    std::set<ValueId> needed;
    ForEachOperand(graph_.node(id), [&](ValueId value) {
      if (rows_.contains(value) && blocks.of.contains(value)) needed.insert(value);
    });
    for (const ValueId value : needed) TRY(Gather(blocks, id, value));
    return {};
  }

  Status GatherAtEnd(Blocks& blocks) const {
    for (const ValueId value : graph_.outputs) {
      if (blocks.of.contains(value)) TRY(Gather(blocks, kNoNode, value));
    }
    for (const Write& write : graph_.writes) {
      if (blocks.of.contains(write.value)) TRY(Gather(blocks, kNoNode, write.value));
    }
    return {};
  }

  /// All that use the value use what is gathered of its blocks: those that took blocks go.
  Status Gather(Blocks& blocks, NodeId before, ValueId value) const {
    Graph& graph = blocks.graph;
    if (graph.use_count(value) == 0) return {};  // It is gathered already.
    GraphBuilder builder(graph, before);
    const size_t dim = rows_.at(value);
    Ref block{blocks.of.at(value)};
    if (!graph.type(block.id).IsContiguous()) {
      TRY_ASSIGN(block, builder.Op("aten.clone", {block, Name("contiguous_format")}));
    }
    TRY_ASSIGN(block, RowsFirst(builder, graph, block.id, dim));
    Type type = graph.type(block.id);
    type.sizes[0] = type.sizes[0] * Dim(parallel_.ranks);
    const ValueId started = Start(graph, before, "_c10d_functional.all_gather_into_tensor",
                                  {block, Dim(parallel_.ranks), Group()}, std::move(type));
    Ref whole{Wait(graph, before, started)};
    if (dim != 0) {
      TRY_ASSIGN(whole, builder.Op("aten.view", {whole, graph.type(value).sizes}));
    }
    graph.ReplaceUses(value, whole.id);
    return {};
  }

  const Graph& graph_;
  const SequenceParallel parallel_;
  const std::vector<bool> escaping_;
  std::vector<RankSum> sums_;
  std::map<NodeId, Whole> whole_;
  RowDims rows_;
  std::map<NodeId, RowRule> rules_;  ///< of nodes that compute blocks
  std::unordered_set<NodeId> taken_back_;
  std::unordered_map<ValueId, bool> same_;  ///< on every rank
};

}  // namespace

Result<bool> ParallelizeSequence(Graph& graph) {
  TRY_ASSIGN(std::optional<Graph> made, RowSharing(graph).Run(nullptr));
  if (!made) return false;
  graph = *std::move(made);
  return true;
}

Status FindWholeSums(const Graph& graph, std::vector<MissedRewrite>& missed_rewrites) {
  TRY(RowSharing(graph).Run(&missed_rewrites));
  return {};
}

}  // namespace ingot::compiler
