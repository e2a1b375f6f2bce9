// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "client/onnx/element_types.h"
#include "client/onnx/operators/operators.h"

namespace ingot::onnx {
namespace {
namespace reductions_part {

using Reduce = at::Tensor (*)(NodeCall& n, const at::Tensor& x, const std::vector<int64_t>& axes, bool keep);

/// The dims that are reduced. None: each element is reduced by itself, as a sum of one.
std::vector<int64_t> AxesOf(NodeCall& n, int since, int64_t rank) {
  const bool none_is_nothing = n.FlagOf("noop_with_empty_axes", 0);
  std::vector<int64_t> axes;
  if (n.opset() < since) {
    axes = n.IntsOf("axes").value_or(axes);
  } else if (n.Has(1)) {
    for (const Int& axis : n.IntsAt(1)) axes.push_back(axis.Fix());
  }
  if (axes.empty() && !none_is_nothing) {
    axes.resize(static_cast<size_t>(rank));
    std::iota(axes.begin(), axes.end(), 0);
  }
  return NodeCall::Axes(axes, rank);
}

at::Tensor Sum(NodeCall& n, const at::Tensor& x, const std::vector<int64_t>& axes, bool keep) {
  if (axes.empty()) return x;
  return n.Call("aten::sum.dim_IntList", {x, axes, keep, x.scalar_type()});
}
at::Tensor Mean(NodeCall& n, const at::Tensor& x, const std::vector<int64_t>& axes, bool keep) {
  if (axes.empty()) return x;
  if (at::isFloatingType(x.scalar_type())) return n.Call("aten::mean.dim", {x, axes, keep});
  Int count = 1;
  for (const int64_t axis : axes) count = count * n.SizeOf(x, axis);
  return n.Call("aten::div.Scalar_mode", {Sum(n, x, axes, keep), count, "trunc"});
}
/// The largest or smallest. Of nothing it is what every number takes the place of, which PyTorch refuses to say.
at::Tensor Extreme(NodeCall& n, const at::Tensor& x, const std::vector<int64_t>& axes, bool keep, bool is_largest) {
  if (axes.empty()) return x;
  const Ints sizes = n.SizesOf(x);
  const auto is_empty = [&](int64_t axis) { return sizes[static_cast<size_t>(axis)] == Int(0); };
  if (std::ranges::none_of(axes, is_empty)) return n.Call(is_largest ? "aten::amax" : "aten::amin", {x, axes, keep});
  Ints left;
  for (int64_t d = 0; d < x.dim(); ++d) {
    const bool is_reduced = std::ranges::find(axes, d) != axes.end();
    if (!is_reduced || keep) left.push_back(is_reduced ? Int(1) : sizes[static_cast<size_t>(d)]);
  }
  if (at::isFloatingType(x.scalar_type())) {
    const double infinity = std::numeric_limits<double>::infinity();
    return n.Call("aten::full", {left, is_largest ? -infinity : infinity, x.scalar_type()});
  }
  const auto [low, high] = ExtremesOf(x.scalar_type());
  return n.Call("aten::full", {left, is_largest ? low : high, x.scalar_type()});
}
at::Tensor Max(NodeCall& n, const at::Tensor& x, const std::vector<int64_t>& axes, bool keep) {
  return Extreme(n, x, axes, keep, true);
}
at::Tensor Min(NodeCall& n, const at::Tensor& x, const std::vector<int64_t>& axes, bool keep) {
  return Extreme(n, x, axes, keep, false);
}
at::Tensor Prod(NodeCall& n, const at::Tensor& x, const std::vector<int64_t>& axes, bool keep) {
  at::Tensor product = x;
  std::vector<int64_t> order = axes;
  std::ranges::sort(order, std::greater<>());
  for (const int64_t axis : order) product = n.Call("aten::prod.dim_int", {product, axis, keep, x.scalar_type()});
  return product;
}
/// Roots and logarithms of integers are computed as f64: f32 does not hold them, and the result is an integer again.
at::Tensor Wide(NodeCall& n, const at::Tensor& x) {
  return at::isFloatingType(x.scalar_type()) ? x : n.To(x, at::kDouble);
}
at::Tensor L1(NodeCall& n, const at::Tensor& x, const std::vector<int64_t>& axes, bool keep) {
  return Sum(n, n.Call("aten::abs", {x}), axes, keep);
}
at::Tensor SumSquare(NodeCall& n, const at::Tensor& x, const std::vector<int64_t>& axes, bool keep) {
  return Sum(n, n.Mul(x, x), axes, keep);
}
at::Tensor L2(NodeCall& n, const at::Tensor& x, const std::vector<int64_t>& axes, bool keep) {
  return n.To(n.Call("aten::sqrt", {SumSquare(n, Wide(n, x), axes, keep)}), x.scalar_type());
}
at::Tensor LogSum(NodeCall& n, const at::Tensor& x, const std::vector<int64_t>& axes, bool keep) {
  return n.To(n.Call("aten::log", {Sum(n, Wide(n, x), axes, keep)}), x.scalar_type());
}
at::Tensor LogSumExp(NodeCall& n, const at::Tensor& x, const std::vector<int64_t>& axes, bool keep) {
  // Of nothing it is itself: the logarithm of its exponential.
  return axes.empty() ? x : n.To(n.Call("aten::logsumexp", {Wide(n, x), axes, keep}), x.scalar_type());
}

/// `axes` is an input from this version on.
template <Reduce reduce, int since>
Results Reduced(NodeCall& n) {
  const bool keep = n.FlagOf("keepdims", 1);
  const at::Tensor x = n.In(0);
  const auto axes = AxesOf(n, since, x.dim());
  // PyTorch has no extremes of bools over several dims.
  if (x.scalar_type() == at::kBool) return {n.To(reduce(n, n.To(x, at::kByte), axes, keep), at::kBool)};
  return {reduce(n, x, axes, keep)};
}

enum class Whole { kSum, kProd, kMax, kMin };

/// Of a list of known integers, all of it.
template <Whole whole>
Results ReducedKnown(NodeCall& n) {
  const KnownInts& known = *n.ValueAt(0).known;
  if (known.ints.empty() || known.sizes.size() != 1) return Results{};
  const bool keep = n.FlagOf("keepdims", 1);
  if (AxesOf(n, whole == Whole::kSum ? 13 : 18, 1).empty()) return Results{};
  Int value = known.ints.front();
  for (size_t i = 1; i < known.ints.size(); ++i) {
    const Int& next = known.ints[i];
    switch (whole) {
      case Whole::kSum: value = value + next; break;
      case Whole::kProd: value = value * next; break;
      case Whole::kMax: value = Largest(value, next); break;
      case Whole::kMin: value = Least(value, next); break;
    }
  }
  return KnownInts{{value}, keep ? std::vector<int64_t>{1} : std::vector<int64_t>{}, known.dtype};
}

Results ArgOf(NodeCall& n) {
  at::Tensor x = n.In(0);
  const int64_t axis = NodeCall::Axis(n.IntOf("axis", 0), x.dim());
  const bool keep = n.FlagOf("keepdims", 1), last = n.FlagOf("select_last_index", 0);
  const char* const op = n.op().name == "ArgMax" ? "aten::argmax" : "aten::argmin";
  if (!last) return {n.Call(op, {x, axis, keep})};
  const at::Tensor from_end = n.Call(op, {n.Call("aten::flip", {x, std::vector<int64_t>{axis}}), axis, keep});
  const at::Tensor end = n.Call("aten::full", {Ints{}, n.SizeOf(x, axis) - Int(1), at::kLong});
  return {n.Sub(end, from_end)};
}

Results CumSum(NodeCall& n) {
  at::Tensor x = n.In(0);
  const int64_t axis = NodeCall::Axis(n.IntAt(1).Fix(), x.dim());
  const bool exclusive = n.FlagOf("exclusive", 0), reverse = n.FlagOf("reverse", 0);
  const auto turned = [&](const at::Tensor& y) {
    return reverse ? n.Call("aten::flip", {y, std::vector<int64_t>{axis}}) : y;
  };
  x = turned(x);
  if (exclusive && n.SizeOf(x, axis) != Int(0)) {
    // Each takes its neighbour's place: what is subtracted from a sum again is not as if it had never been in it.
    Ints pads(static_cast<size_t>(2 * (x.dim() - 1 - axis)), Int(0));
    pads.insert(pads.end(), {Int(1), Int(-1)});
    const bool is_float = at::isFloatingType(x.scalar_type());
    x = n.Call("aten::constant_pad_nd", {x, std::move(pads), is_float ? Arg(0.0) : Arg(0)});
  }
  return {turned(n.Call("aten::cumsum", {x, axis, x.scalar_type()}))};
}

/// Of equal elements the first counts, in which only a stable sort is certain.
Results TopK(NodeCall& n) {
  const at::Tensor x = n.In(0);
  const int64_t axis = NodeCall::Axis(n.IntOf("axis", -1), x.dim());
  const bool largest = n.FlagOf("largest", 1);
  n.Ignore("sorted");  // Sorted is one of the orders that an unsorted result may have.
  const auto sorted = n.CallAll("aten::sort.stable", {x, true, axis, largest});
  const Int count = n.IntAt(1);
  if (count < Int(0) || count > n.SizeOf(x, axis))
    Reject(fmt::format("the {} largest of {}", count.seen(), x.size(axis)));
  const auto first = [&](const at::Tensor& y) { return n.Call("aten::slice.Tensor", {y, axis, 0, count}); };
  return {first(sorted.at(0)), first(sorted.at(1))};
}

Results Softmax(NodeCall& n) {
  const int64_t axis = n.IntOf("axis", -1);
  const at::Tensor x = n.In(0);
  return {n.Call(n.op().name == "Softmax" ? "aten::softmax.int" : "aten::log_softmax.int",
                 {x, NodeCall::Axis(axis, x.dim())})};
}

Results Hardmax(NodeCall& n) {
  const at::Tensor x = n.In(0);
  const int64_t axis = NodeCall::Axis(n.IntOf("axis", -1), x.dim());
  const at::Tensor best = n.Call("aten::argmax", {x, axis, true});
  const at::Tensor none = n.Call("aten::full", {n.SizesOf(x), 0.0, x.scalar_type()});
  return {n.Call("aten::scatter.value", {none, axis, best, 1.0})};
}

/// "none", "mean" or "sum" as PyTorch numbers them.
int64_t HowToReduce(NodeCall& n) {
  const std::string how = n.TextOf("reduction", "mean");
  if (how != "none" && how != "mean" && how != "sum") Reject(fmt::format("reduction '{}'", how));
  return how == "none" ? 0 : how == "mean" ? 1 : 2;
}

at::Tensor LossOf(NodeCall& n, const at::Tensor& logs) {
  const int64_t how = HowToReduce(n), ignored = n.IntOf("ignore_index", -100);
  // PyTorch always ignores one; no label is it where a model names none.
  const at::Tensor labels =
      n.HasAttribute("ignore_index") ? n.To(n.In(1), at::kLong) : n.Within(n.In(1), n.SizeOf(logs, 1));
  return n.Call("aten::nll_loss_nd", {logs, labels, n.MaybeIn(2), how, ignored});
}

Results LogLikelihoodLoss(NodeCall& n) { return {LossOf(n, n.In(0))}; }

Results CrossEntropyLoss(NodeCall& n) {
  const at::Tensor logs = n.Call("aten::log_softmax.int", {n.In(0), 1});
  return {LossOf(n, logs), logs};
}

constexpr Operator kTable[] = {
    {"ArgMax", 1, ArgOf},
    {"ArgMin", 1, ArgOf},
    {"CumSum", 11, CumSum},
    {"Hardmax", 13, Hardmax},
    {"LogSoftmax", 13, Softmax},
    {"NegativeLogLikelihoodLoss", 12, LogLikelihoodLoss},
    {"ReduceL1", 1, Reduced<L1, 18>},
    {"ReduceL2", 1, Reduced<L2, 18>},
    {"ReduceLogSum", 1, Reduced<LogSum, 18>},
    {"ReduceLogSumExp", 1, Reduced<LogSumExp, 18>},
    {"ReduceMax", 1, Reduced<Max, 18>, ReducedKnown<Whole::kMax>},
    {"ReduceMean", 1, Reduced<Mean, 18>},
    {"ReduceMin", 1, Reduced<Min, 18>, ReducedKnown<Whole::kMin>},
    {"ReduceProd", 1, Reduced<Prod, 18>, ReducedKnown<Whole::kProd>},
    {"ReduceSum", 1, Reduced<Sum, 13>, ReducedKnown<Whole::kSum>},
    {"ReduceSumSquare", 1, Reduced<SumSquare, 18>},
    {"Softmax", 13, Softmax},
    {"SoftmaxCrossEntropyLoss", 12, CrossEntropyLoss},
    {"TopK", 10, TopK},
};

}  // namespace reductions_part
}  // namespace

std::span<const Operator> ReductionOperators() { return reductions_part::kTable; }

}  // namespace ingot::onnx
