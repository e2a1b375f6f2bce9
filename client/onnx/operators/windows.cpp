// SPDX-License-Identifier: Apache-2.0
// Convolutions and poolings.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

#include "client/onnx/operators/operators.h"
#include "client/onnx/operators/windows.h"

namespace ingot::onnx {
namespace {
namespace windows_part {

/// How a window moves over the dims behind the first two.
struct Window {
  size_t rank = 0;
  std::vector<int64_t> kernel, strides, dilations;
  Ints before, after;  ///< padding
  bool is_even = true;  ///< as much before as after, in numbers that an operator may be given
};

/// Of kernels, strides and the like: beyond reason, and no product of two leaves 64 bits.
constexpr int64_t kStepMax = 1 << 24;

bool ArePositive(const std::vector<int64_t>& numbers) {
  return std::ranges::all_of(numbers, [](int64_t i) { return i >= 1 && i <= kStepMax; });
}

std::vector<int64_t> PositivesOf(NodeCall& n, std::string_view name, size_t rank, int64_t otherwise = 1) {
  const auto given = n.IntsOf(name);
  if (!given || given->empty()) return std::vector<int64_t>(rank, otherwise);
  if (given->size() != rank || !ArePositive(*given)) {
    Reject(fmt::format("'{}' has to be {} positive numbers", name, rank));
  }
  return *given;
}

Window WindowOf(NodeCall& n, const at::Tensor& x, std::vector<int64_t> kernel) {
  Window w;
  if (x.dim() < 3 || x.dim() > 5) Refuse(fmt::format("{} dims; 3 to 5 have a rule", x.dim()));
  w.rank = static_cast<size_t>(x.dim() - 2);
  if (kernel.size() != w.rank) Reject(fmt::format("a kernel of {} dims over {}", kernel.size(), w.rank));
  w.kernel = std::move(kernel);
  if (!ArePositive(w.kernel)) Reject("a kernel of impossible sizes");
  w.strides = PositivesOf(n, "strides", w.rank);
  w.dilations = PositivesOf(n, "dilations", w.rank);
  const std::string automatic = n.TextOf("auto_pad", "NOTSET");
  const auto pads = n.IntsOf("pads");
  w.before.assign(w.rank, 0);
  w.after.assign(w.rank, 0);
  if (automatic == "NOTSET") {
    if (!pads || pads->empty()) return w;
    if (pads->size() != 2 * w.rank) Reject(fmt::format("{} pads for {} dims", pads->size(), w.rank));
    for (size_t d = 0; d < w.rank; ++d) {
      w.before[d] = (*pads)[d];
      w.after[d] = (*pads)[w.rank + d];
      w.is_even = w.is_even && (*pads)[d] == (*pads)[w.rank + d] && (*pads)[d] >= 0;
    }
    return w;
  }
  if (automatic == "VALID") return w;
  if (automatic != "SAME_UPPER" && automatic != "SAME_LOWER") Reject(fmt::format("auto_pad '{}'", automatic));
  for (size_t d = 0; d < w.rank; ++d) {
    const Int size = n.SizeOf(x, static_cast<int64_t>(d) + 2);
    const Int count = FloorDiv(size + Int(w.strides[d] - 1), w.strides[d]);
    const Int reach = (count - Int(1)) * Int(w.strides[d]) + Int((w.kernel[d] - 1) * w.dilations[d] + 1);
    // A stride of one asks for the same at every size.
    const Int all = w.strides[d] == 1 ? Int((w.kernel[d] - 1) * w.dilations[d]) : Largest(reach - size, 0);
    const Int less = FloorDiv(all, 2), more = all - less;
    w.before[d] = automatic == "SAME_UPPER" ? less : more;
    w.after[d] = automatic == "SAME_UPPER" ? more : less;
    w.is_even = w.is_even && all.is_number() && all.seen() % 2 == 0;
  }
  return w;
}

std::vector<int64_t> EvenPads(const Window& w) {
  std::vector<int64_t> pads;
  for (const Int& pad : w.before) pads.push_back(pad.seen());
  return pads;
}

/// The tensor with its padding made, which the window then has no more.
at::Tensor Padded(NodeCall& n, const at::Tensor& x, Window& w, double value) {
  Ints pads;
  Ints sizes{n.SizeOf(x, 0), n.SizeOf(x, 1)};
  for (size_t d = w.rank; d-- > 0;) {
    pads.insert(pads.end(), {w.before[d], w.after[d]});
    sizes.push_back(n.SizeOf(x, static_cast<int64_t>(d) + 2) + w.before[d] + w.after[d]);
  }
  NodeCall::CheckCount(sizes);
  w.before.assign(w.rank, 0);
  w.after.assign(w.rank, 0);
  w.is_even = true;
  return n.Call("aten::constant_pad_nd", {x, std::move(pads), value});
}

constexpr std::array kConv = {"aten::conv1d", "aten::conv2d", "aten::conv3d"};
constexpr std::array kConvTranspose = {"aten::conv_transpose1d", "aten::conv_transpose2d.input",
                                       "aten::conv_transpose3d.input"};
constexpr std::array kMaxPool = {"aten::max_pool1d", "aten::max_pool2d", "aten::max_pool3d"};
constexpr std::array kMaxPoolIndices = {"aten::max_pool1d_with_indices", "aten::max_pool2d_with_indices",
                                        "aten::max_pool3d_with_indices"};
constexpr std::array kAveragePool = {"aten::avg_pool1d", "aten::avg_pool2d", "aten::avg_pool3d"};

/// The kernel is the weight's; the attribute only says so again.
std::vector<int64_t> KernelOf(NodeCall& n, const at::Tensor& weight) {
  std::vector<int64_t> kernel;
  for (int64_t d = 2; d < weight.dim(); ++d) kernel.push_back(n.SizeOf(weight, d).Fix());
  if (const auto given = n.IntsOf("kernel_shape"); given && *given != kernel) {
    Reject("'kernel_shape' is not that of the weight");
  }
  return kernel;
}

Results Conv(NodeCall& n) {
  const ConvCall call = ConvOf(n, n.In(0), n.In(1));
  return {call.Run(n, call.x, n.In(1), n.MaybeIn(2))};
}

Results ConvTranspose(NodeCall& n) {
  const at::Tensor x = n.In(0), weight = n.In(1);
  const std::string automatic = n.TextOf("auto_pad", "NOTSET");
  const int64_t group = n.IntOf("group", 1);
  const auto shape = n.IntsOf("output_shape");
  if (x.dim() < 3 || x.dim() > 5) Refuse(fmt::format("{} dims; 3 to 5 have a rule", x.dim()));
  const auto rank = static_cast<size_t>(x.dim() - 2);
  const std::vector<int64_t> kernel = KernelOf(n, weight);
  if (kernel.size() != rank) Reject("a kernel of another number of dims");
  const std::vector<int64_t> strides = PositivesOf(n, "strides", rank), dilations = PositivesOf(n, "dilations", rank);
  std::vector<int64_t> extra(rank, 0), pads(2 * rank, 0);
  if (const auto given = n.IntsOf("output_padding"); given && !given->empty()) extra = *given;
  if (const auto given = n.IntsOf("pads"); given && !given->empty()) pads = *given;
  if (extra.size() != rank || pads.size() != 2 * rank) Reject("paddings of another number of dims");
  if (std::ranges::any_of(extra, [](int64_t i) { return i < 0 || i > kStepMax; }))
    Reject("an impossible output_padding");
  Ints made{n.SizeOf(x, 0), n.SizeOf(weight, 1) * Int(group)};
  for (size_t d = 0; d < rank; ++d) {
    made.push_back(n.SizeOf(x, static_cast<int64_t>(d) + 2) * Int(strides[d]) + Int(kernel[d]) * Int(dilations[d]) +
                   Int(extra[d]));
  }
  NodeCall::CheckCount(made);
  Ints before(rank), after(rank);
  bool is_even = true;
  for (size_t d = 0; d < rank; ++d) {
    before[d] = pads[d];
    after[d] = pads[rank + d];
    const Int size = n.SizeOf(x, static_cast<int64_t>(d) + 2);
    const bool is_same = automatic == "SAME_UPPER" || automatic == "SAME_LOWER";
    if (shape || is_same) {
      // Before 11 the text gave the odd one to the other side, and SAME meant the size of the input.
      if (n.opset() < 11) Refuse("a padding that follows from the result's size, before opset 11");
      if (shape && shape->size() != rank) Reject("'output_shape' of another number of dims");
      const Int whole = (size - Int(1)) * Int(strides[d]) + Int(extra[d] + (kernel[d] - 1) * dilations[d] + 1);
      const Int all = whole - (shape ? Int((*shape)[d]) : size * Int(strides[d]));
      // Where it is negative, zeros come to both sides.
      const Int less = FloorDiv(all, 2), more = all - less;
      before[d] = automatic == "SAME_UPPER" ? less : more;
      after[d] = automatic == "SAME_UPPER" ? more : less;
    }
    is_even = is_even && before[d].is_number() && after[d].is_number() && before[d].seen() == after[d].seen() &&
              before[d].seen() >= 0 && extra[d] < std::max(strides[d], dilations[d]);
  }
  if (is_even) {
    return {n.Call(kConvTranspose.at(rank - 1), {x, weight, n.MaybeIn(2), strides, before, extra, group, dilations})};
  }
  // The whole result, with its padding cut off or filled up with what the bias alone gives.
  at::Tensor y = n.Call(kConvTranspose.at(rank - 1), {x, weight, std::nullopt, strides, std::vector<int64_t>(rank, 0),
                                                      std::vector<int64_t>(rank, 0), group, dilations});
  Ints cut;
  for (size_t d = rank; d-- > 0;) cut.insert(cut.end(), {Int(0) - before[d], Int(extra[d]) - after[d]});
  y = n.Call("aten::constant_pad_nd", {y, std::move(cut), 0.0});
  if (!n.Has(2)) return {y};
  Ints sizes(rank + 2, Int(1));
  sizes[1] = n.SizeOf(n.In(2), 0);
  return {n.Add(y, n.Reshape(n.In(2), std::move(sizes)))};
}

/// PyTorch pads by half a kernel at most.
bool IsNarrow(const Window& w) {
  for (size_t d = 0; d < w.rank; ++d) {
    if (w.before[d].seen() > w.kernel[d] / 2) return false;
  }
  return true;
}

/// Adds padding at the end where rounding up makes a window reach beyond it that begins within the input.
void RoundUp(NodeCall& n, const at::Tensor& x, Window& w) {
  for (size_t d = 0; d < w.rank; ++d) {
    const Int size = n.SizeOf(x, static_cast<int64_t>(d) + 2), reach = (w.kernel[d] - 1) * w.dilations[d] + 1;
    const Int space = size + w.before[d] + w.after[d] - reach;
    Int count = FloorDiv(space + Int(w.strides[d] - 1), w.strides[d]) + Int(1);
    if ((count - Int(1)) * Int(w.strides[d]) >= size + w.before[d]) count = count - Int(1);
    const Int needed = (count - Int(1)) * Int(w.strides[d]) + reach - size - w.before[d];
    w.after[d] = Largest(needed, w.after[d]);
  }
}

Results MaxPool(NodeCall& n) {
  at::Tensor x = n.In(0);
  if (n.FlagOf("storage_order", 0) && n.Wants(1)) Refuse("indices in the order of columns");
  Window w = WindowOf(n, x, n.IntsOf("kernel_shape").value_or(std::vector<int64_t>{}));
  bool rounds_up = n.FlagOf("ceil_mode", 0);
  const at::ScalarType dtype = x.scalar_type();
  const bool is_float = at::isFloatingType(dtype);
  if (!is_float) x = n.To(x, at::kFloat);
  const Ints sizes = n.SizesOf(x);
  if (!w.is_even || !IsNarrow(w)) {
    if (n.Wants(1)) Refuse("indices with such padding");
    if (rounds_up) RoundUp(n, x, w);
    rounds_up = false;
    x = Padded(n, x, w, -std::numeric_limits<double>::infinity());
  }
  const Args args = {x, w.kernel, w.strides, EvenPads(w), w.dilations, rounds_up};
  if (!n.Wants(1)) {
    const at::Tensor y = n.Call(kMaxPool.at(w.rank - 1), args);
    return {is_float ? y : n.To(y, dtype)};
  }
  if (w.rank == 1) Refuse("indices of one dim");
  const auto found = n.CallAll(kMaxPoolIndices.at(w.rank - 1), args);
  // PyTorch counts within a plane, ONNX within all planes.
  Int plane = 1;
  for (size_t d = 0; d < w.rank; ++d) plane = plane * sizes[d + 2];
  const at::Tensor planes = n.Call("aten::arange.start_step", {0, sizes[0] * sizes[1], 1, at::kLong});
  Ints spread{sizes[0], sizes[1]};
  spread.resize(w.rank + 2, Int(1));
  const at::Tensor first = n.Reshape(n.Call("aten::mul.Scalar", {planes, plane}), std::move(spread));
  return {is_float ? found.at(0) : n.To(found.at(0), dtype), n.Add(found.at(1), first)};
}

bool IsDilated(const Window& w) {
  return std::ranges::any_of(w.dilations, [](int64_t i) { return i != 1; });
}

int64_t CountOf(const Window& w) {
  NodeCall::CheckCount(Ints(w.kernel.begin(), w.kernel.end()));
  return std::accumulate(w.kernel.begin(), w.kernel.end(), int64_t{1}, std::multiplies<>());
}

at::Tensor Averages(NodeCall& n, const at::Tensor& x, const Window& w, bool rounds_up, bool counts_padding) {
  return n.Call(kAveragePool.at(w.rank - 1), {x, w.kernel, w.strides, EvenPads(w), rounds_up, counts_padding});
}

/// Of a tensor whose padding is made. PyTorch's pooling knows no dilations; a convolution of each plane does.
at::Tensor PaddedAverages(NodeCall& n, const at::Tensor& x, const Window& w) {
  if (!IsDilated(w)) return Averages(n, x, w, false, true);
  const Ints sizes = n.SizesOf(x);
  Ints planes{sizes[0] * sizes[1], Int(1)};
  planes.insert(planes.end(), sizes.begin() + 2, sizes.end());
  Ints kernel{Int(1), Int(1)};
  kernel.insert(kernel.end(), w.kernel.begin(), w.kernel.end());
  const at::Tensor even = n.Call("aten::full", {kernel, 1.0 / static_cast<double>(CountOf(w)), x.scalar_type()});
  const at::Tensor y = n.Call(kConv.at(w.rank - 1), {n.Reshape(x, std::move(planes)), even, std::nullopt, w.strides,
                                                     EvenPads(w), w.dilations, 1});
  Ints back{sizes[0], sizes[1]};
  for (int64_t d = 2; d < y.dim(); ++d) back.push_back(n.SizeOf(y, d));
  return n.Reshape(y, std::move(back));
}

Results AveragePool(NodeCall& n) {
  at::Tensor x = n.In(0);
  Window w = WindowOf(n, x, n.IntsOf("kernel_shape").value_or(std::vector<int64_t>{}));
  const bool counts_padding = n.FlagOf("count_include_pad", 0), rounds_up = n.FlagOf("ceil_mode", 0);
  if (w.is_even && IsNarrow(w) && !IsDilated(w)) return {Averages(n, x, w, rounds_up, counts_padding)};
  // What a window that reaches beyond the padding is divided by is told in two ways.
  if (IsDilated(w) && rounds_up && counts_padding) Refuse("dilations with ceil_mode and count_include_pad");
  // The mean of all, divided by the mean of what counts.
  const at::Tensor ones = n.Call("aten::ones_like", {x});
  const Window whole = w;
  at::Tensor counted = ones;
  if (counts_padding) {
    Window padding = whole;
    counted = Padded(n, ones, padding, 1.0);
  }
  if (rounds_up) RoundUp(n, x, w);
  Window rest = w;
  if (counts_padding) {
    for (size_t d = 0; d < w.rank; ++d) {
      rest.before[d] = 0;
      rest.after[d] = w.after[d] - whole.after[d];
    }
  }
  x = Padded(n, x, w, 0.0);
  counted = Padded(n, counted, rest, 0.0);
  return {n.Div(PaddedAverages(n, x, w), PaddedAverages(n, counted, w))};
}

Results LpPool(NodeCall& n) {
  at::Tensor x = n.In(0);
  Window w = WindowOf(n, x, n.IntsOf("kernel_shape").value_or(std::vector<int64_t>{}));
  const int64_t p = n.IntOf("p", 2);
  if (n.FlagOf("ceil_mode", 0)) RoundUp(n, x, w);
  const auto count = static_cast<double>(CountOf(w));
  x = n.Call("aten::pow.Tensor_Scalar", {n.Call("aten::abs", {x}), p});
  const at::Tensor sums = n.Times(PaddedAverages(n, Padded(n, x, w, 0.0), w), count);
  return {n.Call("aten::pow.Tensor_Scalar", {sums, 1.0 / static_cast<double>(p)})};
}

std::vector<int64_t> Planes(const at::Tensor& x) {
  if (x.dim() < 3) Reject(fmt::format("{} dims; at least 3 are needed", x.dim()));
  std::vector<int64_t> dims(static_cast<size_t>(x.dim() - 2));
  std::iota(dims.begin(), dims.end(), 2);
  return dims;
}

Results GlobalAveragePool(NodeCall& n) {
  const at::Tensor x = n.In(0);
  return {n.Call("aten::mean.dim", {x, Planes(x), true})};
}
Results GlobalMaxPool(NodeCall& n) {
  const at::Tensor x = n.In(0);
  return {n.Call("aten::amax", {x, Planes(x), true})};
}

constexpr Operator kTable[] = {
    {"AveragePool", 7, AveragePool},
    {"Conv", 1, Conv},
    {"ConvTranspose", 1, ConvTranspose},
    {"GlobalAveragePool", 1, GlobalAveragePool},
    {"GlobalMaxPool", 1, GlobalMaxPool},
    {"LpPool", 2, LpPool},
    {"MaxPool", 8, MaxPool},
};

}  // namespace windows_part
}  // namespace

at::Tensor ConvCall::Run(NodeCall& n, const at::Tensor& input, const at::Tensor& weight,
                         const std::optional<at::Tensor>& bias) const {
  return n.Call(windows_part::kConv.at(strides.size() - 1), {input, weight, bias, strides, pads, dilations, group});
}

ConvCall ConvOf(NodeCall& n, const at::Tensor& x, const at::Tensor& weight) {
  using namespace windows_part;  // NOLINT: what convolutions and poolings share
  Window w = WindowOf(n, x, KernelOf(n, weight));
  ConvCall call{w.is_even ? x : Padded(n, x, w, 0.0), w.strides, {}, w.dilations, n.IntOf("group", 1)};
  call.pads = EvenPads(w);
  return call;
}

std::span<const Operator> WindowOperators() { return windows_part::kTable; }

}  // namespace ingot::onnx
