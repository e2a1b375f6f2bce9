// SPDX-License-Identifier: Apache-2.0
// What only moves elements, and what fills up around them.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "client/onnx/operators/operators.h"

namespace ingot::onnx {
namespace {
namespace moving_part {

std::vector<int64_t> Fixed(const Ints& ints) {
  std::vector<int64_t> values;
  for (const Int& value : ints) values.push_back(value.Fix());
  return values;
}

/// Axes as an attribute, or from `since` on as input `i`; nullopt: not given.
std::optional<std::vector<int64_t>> AxesOf(NodeCall& n, int since, size_t i) {
  if (n.opset() < since) return n.IntsOf("axes");
  return n.Has(i) ? std::optional(Fixed(n.IntsAt(i))) : std::nullopt;
}

Results Reshape(NodeCall& n) {
  const bool zero_is_zero = n.FlagOf("allowzero", 0);
  const at::Tensor x = n.In(0);
  Ints sizes = n.IntsAt(1);
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i].is_number()) {
      if (sizes[i].seen() == 0 && !zero_is_zero) sizes[i] = n.SizeOf(x, static_cast<int64_t>(i));
    } else if (sizes[i] <= Int(0)) {
      // What it stands for is another rule than a size.
      sizes[i] = sizes[i].Fix();
      if (sizes[i].seen() == 0 && !zero_is_zero) sizes[i] = n.SizeOf(x, static_cast<int64_t>(i));
    }
  }
  return {n.Reshape(x, std::move(sizes))};
}

Results Flatten(NodeCall& n) {
  const at::Tensor x = n.In(0);
  const int64_t given = n.IntOf("axis", 1);
  const int64_t axis = given == x.dim() ? given : NodeCall::Axis(given, x.dim());
  Int before = 1, after = 1;
  const Ints sizes = n.SizesOf(x);
  for (int64_t d = 0; d < x.dim(); ++d) {
    Int& part = d < axis ? before : after;
    part = part * sizes[static_cast<size_t>(d)];
  }
  return {n.Reshape(x, {before, after})};
}

Results Transpose(NodeCall& n) {
  const at::Tensor x = n.In(0);
  std::vector<int64_t> order(static_cast<size_t>(x.dim()));
  std::iota(order.rbegin(), order.rend(), 0);
  if (const auto given = n.IntsOf("perm")) order = *given;
  return {n.Call("aten::permute", {x, order})};
}

Results Squeeze(NodeCall& n) {
  at::Tensor x = n.In(0);
  const auto given = AxesOf(n, 13, 1);
  std::vector<int64_t> axes = NodeCall::Axes(given.value_or(std::vector<int64_t>{}), x.dim());
  if (!given) {
    for (int64_t d = 0; d < x.dim(); ++d) {
      if (n.SizeOf(x, d) == Int(1)) axes.push_back(d);
    }
  }
  std::ranges::sort(axes, std::greater<>());
  for (const int64_t axis : axes) {
    if (!(n.SizeOf(x, axis) == Int(1))) Reject(fmt::format("squeezes dim {} of size {}", axis, x.size(axis)));
    x = n.Call("aten::squeeze.dim", {x, axis});
  }
  return {x};
}

Results Unsqueeze(NodeCall& n) {
  at::Tensor x = n.In(0);
  const auto given = AxesOf(n, 13, 1);
  if (!given) Reject("lacks axes");
  std::vector<int64_t> axes = NodeCall::Axes(*given, x.dim() + static_cast<int64_t>(given->size()));
  std::ranges::sort(axes);
  for (const int64_t axis : axes) x = n.Call("aten::unsqueeze", {x, axis});
  return {x};
}

Results Concat(NodeCall& n) {
  const std::vector<at::Tensor> all = n.AllIn();
  return {n.Call("aten::cat", {all, NodeCall::Axis(n.IntOf("axis"), all.at(0).dim())})};
}

Results Split(NodeCall& n) {
  const at::Tensor x = n.In(0);
  const int64_t axis = NodeCall::Axis(n.IntOf("axis", 0), x.dim());
  const auto count = static_cast<int64_t>(n.output_count());
  const Int size = n.SizeOf(x, axis);
  Ints sizes;
  if (n.Has(1)) {
    sizes = n.IntsAt(1);
  } else {
    const int64_t parts = n.IntOf("num_outputs", count);
    if (parts != count || parts < 1) Reject(fmt::format("{} outputs, 'num_outputs' is {}", count, parts));
    const Int part = FloorDiv(size + Int(parts - 1), parts);
    sizes.assign(static_cast<size_t>(parts - 1), part);
    sizes.push_back(size - part * Int(parts - 1));
  }
  if (static_cast<int64_t>(sizes.size()) != count) Reject(fmt::format("{} parts for {} outputs", sizes.size(), count));
  return Results(n.CallAll("aten::split_with_sizes", {x, std::move(sizes), axis}));
}

Results Expand(NodeCall& n) {
  const at::Tensor x = n.In(0);
  Ints sizes = n.IntsAt(1);
  const auto rank = static_cast<int64_t>(sizes.size());
  if (rank < x.dim()) sizes.insert(sizes.begin(), static_cast<size_t>(x.dim() - rank), Int(1));
  const auto lead = static_cast<int64_t>(sizes.size()) - x.dim();
  for (int64_t d = 0; d < x.dim(); ++d) {
    Int& size = sizes[static_cast<size_t>(lead + d)];
    // Both sides may be stretched.
    if (size == Int(1)) size = n.SizeOf(x, d);
  }
  NodeCall::CheckCount(sizes);
  return {n.Call("aten::expand", {x, std::move(sizes)})};
}

Results Tile(NodeCall& n) {
  const at::Tensor x = n.In(0);
  const Ints times = n.IntsAt(1);
  Ints sizes = times;
  for (const Int& size : n.SizesOf(x)) sizes.emplace_back(size.seen());
  NodeCall::CheckCount(sizes);
  return {n.Call("aten::repeat", {x, times})};
}

/// Positions from..to along a dim, turned around where the step is negative.
at::Tensor Sliced(NodeCall& n, const at::Tensor& x, int64_t axis, const Int& start, const Int& end, int64_t step) {
  if (step > 0) return n.Call("aten::slice.Tensor", {x, axis, start, end, step});
  const Int size = n.SizeOf(x, axis);
  const auto front = [&size](const Int& at) { return at < Int(0) ? at + size : at; };
  // Counted from the end: position p of the dim is size - 1 - p of the flipped one.
  const auto low = std::numeric_limits<int32_t>::min();
  const Int first = Largest(Least(front(start), size - Int(1)), Int(0));
  const Int last = end.is_number() && end.seen() <= low ? Int(-1) : Largest(front(end), Int(-1));
  const at::Tensor flipped = n.Call("aten::flip", {x, std::vector<int64_t>{axis}});
  const Int from = Largest(size - Int(1) - first, Int(0)), to = Largest(size - Int(1) - last, Int(0));
  return n.Call("aten::slice.Tensor", {flipped, axis, from, to, -step});
}

Results Slice(NodeCall& n) {
  at::Tensor x = n.In(0);
  const Ints starts = n.IntsAt(1), ends = n.IntsAt(2);
  std::vector<int64_t> axes(starts.size());
  std::iota(axes.begin(), axes.end(), 0);
  if (n.Has(3)) axes = Fixed(n.IntsAt(3));
  std::vector<int64_t> steps(starts.size(), 1);
  if (n.Has(4)) steps = Fixed(n.IntsAt(4));
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size()) {
    Reject("as many starts as ends, axes and steps are needed");
  }
  axes = NodeCall::Axes(axes, x.dim());
  for (size_t i = 0; i < axes.size(); ++i) {
    if (steps[i] == 0 || steps[i] == std::numeric_limits<int64_t>::min()) Reject("an impossible step");
    x = Sliced(n, x, axes[i], starts[i], ends[i], steps[i]);
  }
  return {x};
}

// -- filling up ---------------------------------------------------------------------------------------

/// The element that lies at `at`, which may be outside of 0..size, in a dim that goes on beyond its ends.
int64_t Continued(int64_t at, int64_t size, const std::string& mode) {
  if (mode == "edge") return std::clamp<int64_t>(at, 0, size - 1);
  if (mode == "wrap") return ((at % size) + size) % size;
  if (size == 1) return 0;
  const int64_t period = 2 * (size - 1), place = ((at % period) + period) % period;
  return place < size ? place : period - place;
}

at::Tensor PadBy(NodeCall& n, at::Tensor x, const std::string& mode, int64_t axis, int64_t before, int64_t after) {
  if (before == 0 && after == 0) return x;
  const int64_t size = n.SizeOf(x, axis).Fix();
  if (size == 0) Reject("nothing to fill up an empty dim with");
  constexpr int64_t kPadMax = 1 << 24;
  if (before < -kPadMax || before > kPadMax || after < -kPadMax || after > kPadMax) Reject("impossible pads");
  std::vector<int64_t> from;
  for (int64_t at = -before; at < size + after; ++at) from.push_back(Continued(at, size, mode));
  return n.Call("aten::index_select", {x, axis, n.IndexTensor(from)});
}

/// The operator of PyTorch for the last dims of tensors of these ranks follows sizes.
bool IsWindowPad(const at::Tensor& x, const std::vector<int64_t>& pads, const std::string& mode) {
  const int64_t rank = x.dim();
  if (mode != "reflect" && mode != "edge") return false;
  if (rank < 3 || rank > 5 || !at::isFloatingType(x.scalar_type())) return false;
  for (int64_t d = 0; d < 2; ++d) {
    if (pads[static_cast<size_t>(d)] != 0 || pads[static_cast<size_t>(rank + d)] != 0) return false;
  }
  return std::ranges::all_of(pads, [](int64_t pad) { return pad >= 0; });
}

Results Pad(NodeCall& n) {
  const std::string mode = n.TextOf("mode", "constant");
  if (mode != "constant" && mode != "reflect" && mode != "edge" && mode != "wrap") {
    Reject(fmt::format("mode '{}'", mode));
  }
  at::Tensor x = n.In(0);
  const auto rank = static_cast<size_t>(x.dim());
  const Ints given = n.IntsAt(1);
  std::vector<int64_t> axes(rank);
  std::iota(axes.begin(), axes.end(), 0);
  if (n.Has(3)) axes = NodeCall::Axes(Fixed(n.IntsAt(3)), x.dim());
  if (given.size() != 2 * axes.size()) Reject(fmt::format("{} pads for {} axes", given.size(), axes.size()));
  Ints pads(2 * rank, Int(0));
  for (size_t i = 0; i < axes.size(); ++i) {
    pads[static_cast<size_t>(axes[i])] = given[i];
    pads[rank + static_cast<size_t>(axes[i])] = given[axes.size() + i];
  }
  // PyTorch begins with the last dim.
  Ints reversed, sizes;
  for (size_t d = rank; d-- > 0;) {
    const Int& before = pads[d];
    const Int& after = pads[rank + d];
    const Int size = n.SizeOf(x, static_cast<int64_t>(d));
    reversed.insert(reversed.end(), {before, after});
    sizes.push_back(size + before + after);
    if (!(before < Int(0)) && !(after < Int(0))) continue;
    const Int left = size + Least(before, Int(0)) + Least(after, Int(0));
    // What is cut is no more there to be repeated.
    if (left < Int(0) || (mode != "constant" && left == Int(0))) {
      Reject(
          fmt::format("pads of {} and {} cut more than the {} of dim {}", before.seen(), after.seen(), size.seen(), d));
    }
  }
  NodeCall::CheckCount(sizes);
  if (mode == "constant") {
    if (at::isIntegralType(x.scalar_type(), true)) {
      const int64_t value = n.Has(2) ? n.IntAt(2).Fix() : 0;
      return {n.Call("aten::constant_pad_nd", {x, std::move(reversed), value})};
    }
    return {n.Call("aten::constant_pad_nd", {x, std::move(reversed), n.Has(2) ? n.NumbersAt(2).at(0) : 0.0})};
  }
  const std::vector<int64_t> numbers = Fixed(pads);
  if (IsWindowPad(x, numbers, mode)) {
    Ints window(reversed.begin(), reversed.end() - 4);
    return {n.Call("aten::pad", {x, std::move(window), mode == "edge" ? "replicate" : "reflect"})};
  }
  for (size_t d = 0; d < rank; ++d) {
    x = PadBy(n, x, mode, static_cast<int64_t>(d), numbers[d], numbers[rank + d]);
  }
  return {x};
}

Results Trilu(NodeCall& n) {
  const bool upper = n.FlagOf("upper", 1);
  const int64_t diagonal = n.Has(1) ? n.IntAt(1).Fix() : 0;
  return {n.Call(upper ? "aten::triu" : "aten::tril", {n.In(0), diagonal})};
}

int64_t BlockOf(NodeCall& n) {
  const int64_t block = n.IntOf("blocksize");
  if (block < 1 || block > 1 << 16) Reject(fmt::format("a block of {}", block));
  return block;
}

Results DepthToSpace(NodeCall& n) {
  const int64_t block = BlockOf(n);
  const std::string mode = n.TextOf("mode", "DCR");
  const at::Tensor x = n.In(0);
  if (mode == "CRD") return {n.Call("aten::pixel_shuffle", {x, block})};
  if (mode != "DCR") Reject(fmt::format("mode '{}'", mode));
  const Ints s = n.SizesOf(x);
  if (s.size() != 4) Reject(fmt::format("{} dims instead of 4", s.size()));
  const Int channels = FloorDiv(s[1], block * block);
  const at::Tensor parts = n.Reshape(x, {s[0], block, block, channels, s[2], s[3]});
  const at::Tensor turned = n.Call("aten::permute", {parts, std::vector<int64_t>{0, 3, 4, 1, 5, 2}});
  return {n.Reshape(turned, {s[0], channels, s[2] * Int(block), s[3] * Int(block)})};
}

Results SpaceToDepth(NodeCall& n) {
  const int64_t block = BlockOf(n);
  const at::Tensor x = n.In(0);
  const Ints s = n.SizesOf(x);
  if (s.size() != 4) Reject(fmt::format("{} dims instead of 4", s.size()));
  const Int height = FloorDiv(s[2], block), width = FloorDiv(s[3], block);
  const at::Tensor parts = n.Reshape(x, {s[0], s[1], height, block, width, block});
  const at::Tensor turned = n.Call("aten::permute", {parts, std::vector<int64_t>{0, 3, 5, 1, 2, 4}});
  return {n.Reshape(turned, {s[0], s[1] * Int(block * block), height, width})};
}

constexpr Operator kTable[] = {
    {"Concat", 4, Concat, Moves},
    {"DepthToSpace", 11, DepthToSpace},
    {"Expand", 8, Expand, Moves},
    {"Flatten", 1, Flatten, Moves},
    {"Pad", 11, Pad},
    {"Reshape", 5, Reshape, Moves},
    {"Slice", 10, Slice, Moves},
    {"SpaceToDepth", 1, SpaceToDepth},
    {"Split", 2, Split, Moves},
    {"Squeeze", 1, Squeeze, Moves},
    {"Tile", 6, Tile, Moves},
    {"Transpose", 1, Transpose, Moves},
    {"Trilu", 14, Trilu},
    {"Unsqueeze", 1, Unsqueeze, Moves},
};

}  // namespace moving_part
}  // namespace

std::span<const Operator> MovingOperators() { return moving_part::kTable; }

}  // namespace ingot::onnx
