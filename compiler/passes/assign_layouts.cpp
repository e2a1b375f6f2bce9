// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "compiler/ir/graph_builder.h"
#include "compiler/ops/call.h"
#include "compiler/ops/convolution.h"
#include "compiler/ops/few_channels.h"
#include "compiler/ops/infer.h"
#include "compiler/ops/ops.h"
#include "compiler/passes/passes.h"

namespace ingot::compiler {
namespace {

/// Channels, dim 1, innermost; the others in their order.
Dims ChannelsLast(const Dims& sizes) {
  Dims strides(sizes.size());
  strides[1] = Dim(1);
  Dim step = sizes[1];
  for (size_t k = sizes.size(); k-- > 0;) {
    if (k == 1) continue;
    strides[k] = step;
    step = step * sizes[k];
  }
  return strides;
}

bool HasChannelsLast(const Type& type) { return type.sizes[1].is_one() || type.strides[1].is_one(); }

/// Gives images between convolutions a layout with channels innermost.
class Layouts {
 public:
  Layouts(Graph& graph, const std::unordered_set<NodeId>& by_library) : graph_(graph), by_library_(by_library) {}

  bool Run() {
    const std::vector<NodeId> order = graph_.order();
    for (const NodeId id : order) {
      if (by_library_.contains(id) && IsConvolution(graph_.node(id))) {
        // The library gives what it is given.
        const ValueId x = Call(graph_, graph_.node(id)).ValueAt(0);
        if (laid_set_.contains(x) && !IsTransposed(id)) Lay(graph_.node(id).results[0]);
      } else if (IsTaken(id)) {
        Convolve(id);
      } else if (Follows(id)) {
        for (const ValueId result : graph_.node(id).results) Lay(result);
        if (graph_.node(id).op == "aten.batch_norm") Split(id);
      }
    }
    for (const ValueId value : laid_) Restore(value);
    return changed_;
  }

 private:
  bool IsTransposed(NodeId id) const { return graph_.node(id).op.starts_with("aten.conv_transpose"); }

  /// A convolution that is faster with channels innermost, be it ours or PyTorch's.
  bool IsTaken(NodeId id) const {
    const Node& node = graph_.node(id);
    if (!IsPure(node) || !IsConvolution(node)) return false;
    const Call call(graph_, node);
    std::string_view why;
    if (ConvolutionOf(call, why)) return true;
    const Type *x = call.TypeAt(0), *weight = call.TypeAt(1);
    const auto groups = call.IsNone(6) ? std::optional<int64_t>(1) : call.IntAt(6);
    if (IsTransposed(id)) return false;
    if (!x || !weight || !groups || x->rank() < 3 || x->rank() != weight->rank()) return false;
    if (x->dtype != DType::kF32) {
      // PyTorch has no such layout of sequences, and reads beyond the channels of a pixel where they fill no vector:
      // what is not finite there would spread.
      constexpr int64_t kVector = 32;
      const Dim& channels = x->sizes[1];
      if (x->rank() == 3 || !channels.is_const() || channels.const_value() % kVector != 0) return false;
    }
    const bool is_depthwise = x->sizes[1] == Dim(*groups) && weight->sizes[0] == Dim(*groups);
    return guards::IsFloat(x->dtype) && (*groups == 1 || is_depthwise) && !weight->sizes[0].is_one();
  }

  /// Whether a convolution that is ours takes images of few channels in any layout.
  bool IsReadAsItLies(NodeId id) const {
    const Call call(graph_, graph_.node(id));
    std::string_view why;
    const auto convolution = ConvolutionOf(call, why);
    if (!convolution || convolution->groups != 1 || convolution->is_transposed) return false;
    const Type &x = *call.TypeAt(0), &weight = *call.TypeAt(1);
    return HasFewChannels(x) && x.dtype == DType::kF32 && weight.IsContiguous();
  }

  void Convolve(NodeId id) {
    const ValueId x = Call(graph_, graph_.node(id)).ValueAt(0);
    if (!HasChannelsLast(graph_.type(x)) && !IsReadAsItLies(id) && !(CanLay(x) && Lay(x))) {
      graph_.SetArg(id, 0, Copy(id, x, ChannelsLast(graph_.type(x).sizes), /*is_last=*/true));
      changed_ = true;
    }
    LayWeight(id);
    Lay(graph_.node(id).results[0]);
  }

  /// Weights whose innermost dim is not what vectors run along. Each channel by itself has its own taps: they are read
  /// as its image is, channel by channel. Transposed, channels that are summed over come first, and lie furthest apart.
  void LayWeight(NodeId id) {
    const Call call(graph_, graph_.node(id));
    const ValueId w = call.ValueAt(1);
    const Type& weight = graph_.type(w);
    const bool is_depthwise = weight.sizes[1].is_one() && !call.TypeAt(0)->sizes[1].is_one();
    if (weight.dtype != DType::kF32 || weight.strides[0].is_one() || !(is_depthwise || IsTransposed(id))) return;
    Dims strides(weight.rank());
    strides[0] = Dim(1);
    Dim step = weight.sizes[0];
    for (size_t k = weight.rank(); k-- > 2;) {
      strides[k] = step;
      step = step * weight.sizes[k];
    }
    strides[1] = is_depthwise ? Dim(1) : step;
    graph_.SetArg(id, 1, Copy(id, w, std::move(strides), /*is_last=*/false));
    changed_ = true;
  }

  /// A batch norm's root of the variances is taken once for each channel rather than for each element: with channels
  /// innermost no loop over elements would keep it.
  void Split(NodeId id) {
    const Node& node = graph_.node(id);
    const Call call(graph_, node);
    const ValueId x = call.ValueAt(0), variance = call.ValueAt(4), mean = call.ValueAt(3);
    const auto epsilon = call.FloatAt(7);
    if (mean == kNoValue || variance == kNoValue || !epsilon || call.BoolAt(5).value_or(true)) return;
    for (const size_t argument : {0U, 1U, 2U, 3U, 4U}) {
      const Type* type = call.TypeAt(argument);
      if (type != nullptr && type->dtype != DType::kF32) return;
    }
    GraphBuilder builder(graph_, id);
    const auto type_of = [&](size_t rank) {
      Dims sizes(rank, Dim(1));
      sizes[0] = graph_.type(x).sizes[1];
      return Type::Contiguous(DType::kF32, std::move(sizes));
    };
    const auto make = [&](std::string op, std::vector<Arg> args, Type type) {
      return builder.Typed(std::move(op), std::move(args), std::move(type));
    };
    const Type per_channel = type_of(1), spread = type_of(graph_.type(x).rank() - 1);
    const std::vector<Arg> args = node.args;
    Ref factor = make("aten.add.Tensor", {Ref{variance}, Number{*epsilon}, Dim(1)}, per_channel);
    factor = make("aten.rsqrt", {factor}, per_channel);
    if (std::holds_alternative<Ref>(args[1])) factor = make("aten.mul.Tensor", {factor, args[1]}, per_channel);
    Ref shift = make("aten.neg", {make("aten.mul.Tensor", {Ref{mean}, factor}, per_channel)}, per_channel);
    if (std::holds_alternative<Ref>(args[2])) {
      shift = make("aten.add.Tensor", {args[2], shift, Dim(1)}, per_channel);
    }
    factor = make("aten.view", {factor, spread.sizes}, spread);
    shift = make("aten.view", {shift, spread.sizes}, spread);
    const Ref scaled = make("aten.mul.Tensor", {Ref{x}, factor}, graph_.type(graph_.node(id).results[0]));
    graph_.Redefine(id, "aten.add.Tensor", {scaled, shift, Dim(1)});
    changed_ = true;
  }

  Ref Copy(NodeId before, ValueId value, Dims strides, bool is_last) {
    Type type = graph_.type(value);
    type.strides = std::move(strides);
    Arg format = None{};
    if (is_last && type.rank() > 3) format = Name(type.rank() == 4 ? "channels_last" : "channels_last_3d");
    return GraphBuilder(graph_, before).Typed("aten.clone", {Ref{value}, format}, std::move(type));
  }

  /// Whether a node makes images of an image, place by place or by windows, and one of those has the layout already.
  bool Follows(NodeId id) const {
    const Node& node = graph_.node(id);
    if (!MakesImages(node)) return false;
    bool follows = false;
    ForEachOperand(node, [&](ValueId v) { follows |= laid_set_.contains(v) && IsLike(node, v); });
    return follows;
  }
  bool IsLike(const Node& node, ValueId operand) const {
    return graph_.type(operand).rank() == graph_.type(node.results[0]).rank();
  }
  static bool MakesImages(const Node& node) {
    if (!IsPure(node) || node.results.empty() || MayAlias(node)) return false;
    // Copies are there for their layout.
    if (node.op == "aten.clone") return false;
    constexpr std::string_view kByWindows[] = {"aten.max_pool", "aten.avg_pool", "aten.upsample_", "aten.batch_norm",
                                               "aten.group_norm"};
    const OpClass op_class = ClassOf(node);
    return op_class == OpClass::kPointwise || op_class == OpClass::kShape ||
           std::ranges::any_of(kByWindows, [&](std::string_view prefix) { return node.op.starts_with(prefix); });
  }

  /// What is made before anybody reads it may be made in another layout.
  bool CanLay(ValueId value) const {
    const NodeId def = graph_.value(value).def;
    return def != kNoNode && MakesImages(graph_.node(def));
  }

  bool Lay(ValueId value) {
    Type& type = graph_.value(value).type;
    if (type.rank() < 3 || laid_set_.contains(value)) return laid_set_.contains(value);
    if (!HasChannelsLast(type)) {
      if (!type.IsDense()) return false;
      before_[value] = type.strides;
      type.strides = ChannelsLast(type.sizes);
      laid_.push_back(value);
      changed_ = true;
    }
    laid_set_.insert(value);
    return true;
  }

  /// Those who count on the layout that there was get a copy that has it: callers, and who looks at memory.
  void Restore(ValueId value) {
    std::vector<Use> uses(graph_.uses(value).begin(), graph_.uses(value).end());
    std::erase_if(uses, [&](const Use& use) { return use.IsNode() && Holds(use.user); });
    if (uses.empty()) return;
    NodeId next = kNoNode;
    const std::vector<NodeId>& order = graph_.order();
    const auto at = std::ranges::find(order, graph_.value(value).def);
    if (at != order.end() && at + 1 != order.end()) next = *(at + 1);
    const Ref copy = Copy(next, value, before_.at(value), /*is_last=*/false);
    for (const Use& use : uses) {
      if (!use.IsNode()) continue;
      std::vector<Arg> args = graph_.node(use.user).args;
      for (Arg& arg : args) {
        if (auto* ref = std::get_if<Ref>(&arg); ref != nullptr && ref->id == value) ref->id = copy.id;
        if (auto* list = std::get_if<RefList>(&arg)) std::ranges::replace(list->ids, value, copy.id);
      }
      graph_.SetArgs(use.user, std::move(args));
    }
    std::vector<ValueId> outputs(graph_.outputs.begin(), graph_.outputs.end());
    std::ranges::replace(outputs, value, copy.id);
    graph_.SetOutputs(std::move(outputs));
    std::vector<Write> writes(graph_.writes.begin(), graph_.writes.end());
    for (Write& write : writes) {
      if (write.value == value) write.value = copy.id;
    }
    graph_.SetWrites(std::move(writes));
  }

  /// Whether a node does the same on an operand of another layout; views are brought to it with all that see them.
  bool Holds(NodeId id) {
    const Node& node = graph_.node(id);
    // The library's transposed convolutions have a fast way for one layout only.
    if (!IsPure(node) || (by_library_.contains(id) && IsTransposed(id))) return false;
    const OpInfo* op = FindOp(node.op);
    if (op == nullptr || op->op_class == OpClass::kOpaque || node.op.starts_with("aten.as_strided")) return false;
    if (!MayAlias(node)) return true;
    std::map<ValueId, Dims> changes;
    const bool holds = FollowView(node, changes);
    for (auto& [view, strides] : changes) {
      // All or nothing.
      if (!holds) graph_.value(view).type.strides = std::move(strides);
    }
    return holds;
  }
  bool FollowView(const Node& node, std::map<ValueId, Dims>& changes) {
    if (ClassOf(node) != OpClass::kView || node.op.starts_with("aten.as_strided")) return false;
    const auto inferred = Infer(graph_, node);
    if (!inferred || inferred->size() != node.results.size()) return false;
    for (size_t i = 0; i < node.results.size(); ++i) {
      const ValueId view = node.results[i];
      if (!(*inferred)[i].strides) return false;
      changes.emplace(view, graph_.type(view).strides);
      graph_.value(view).type.strides = *(*inferred)[i].strides;
      for (const Use& use : graph_.uses(view)) {
        if (!use.IsNode()) return false;
        const Node& user = graph_.node(use.user);
        if (!IsPure(user) || FindOp(user.op) == nullptr || ClassOf(user) == OpClass::kOpaque) return false;
        if (MayAlias(user) && !FollowView(user, changes)) return false;
      }
    }
    return true;
  }

  Graph& graph_;
  const std::unordered_set<NodeId>& by_library_;
  std::vector<ValueId> laid_;  ///< Values of another layout than they had, in order.
  std::set<ValueId> laid_set_;  ///< Those, and images that had it.
  std::map<ValueId, Dims> before_;
  bool changed_ = false;
};

}  // namespace

Result<bool> AssignLayouts(Graph& graph, const std::unordered_set<NodeId>& by_library) {
  // Eager's convolutions round in an order that depends on the layout.
  if (graph.eager_numerics) return false;
  return Layouts(graph, by_library).Run();
}

}  // namespace ingot::compiler
