// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "client/onnx/operators/operators.h"

namespace ingot::onnx {
namespace {
namespace resize_part {

constexpr int64_t kSizeMax = 1 << 24;
constexpr double kScaleMax = 1 << 16;

/// What a node says of how positions of the result are found in the input.
struct Rule {
  std::string mode, coordinates, nearest;
  double cubic = -0.75, outside_value = 0;
  bool antialias = false, excludes_outside = false;
};

/// One dim that is resized.
struct Line {
  int64_t axis = 0, from = 0, to = 0;
  double scale = 1;
  double start = 0, end = 1;  ///< of the region of interest, for tf_crop_and_resize
};

/// The factor that somebody wrote, of which a model holds the nearest f32: PyTorch multiplies sizes by the f64 that it
/// was, and 0.7 of 10 is 7 where the f32 gives 6.9999998. It is taken to be the first fraction, by continued fractions,
/// that rounds to that f32: 0.7 is 7/10, a third is 1/3.
double AsWritten(double held) {
  const auto nearest = static_cast<float>(held);
  double rest = held;
  int64_t above = 1, above_before = 0, below = 0, below_before = 1;
  constexpr int64_t kBelowMax = 1 << 20;
  while (std::abs(rest) < kScaleMax) {
    const auto whole = static_cast<int64_t>(std::floor(rest));
    above_before = std::exchange(above, whole * above + above_before);
    below_before = std::exchange(below, whole * below + below_before);
    if (below > kBelowMax) return held;
    const double fraction = static_cast<double>(above) / static_cast<double>(below);
    if (static_cast<float>(fraction) == nearest) return fraction;
    rest = 1 / (rest - static_cast<double>(whole));
  }
  return held;
}

double Source(const Rule& rule, const Line& line, int64_t at) {
  const double x = static_cast<double>(at), from = static_cast<double>(line.from), to = static_cast<double>(line.to);
  if (rule.coordinates == "half_pixel") return (x + 0.5) / line.scale - 0.5;
  if (rule.coordinates == "pytorch_half_pixel") return to > 1 ? (x + 0.5) / line.scale - 0.5 : 0;
  if (rule.coordinates == "asymmetric") return x / line.scale;
  if (rule.coordinates == "align_corners") return to > 1 ? x * (from - 1) / (to - 1) : 0;
  if (rule.coordinates == "half_pixel_symmetric") {
    const double adjustment = to / (line.scale * from), centre = from / 2;
    return centre * (1 - adjustment) + (x + 0.5) / line.scale - 0.5;
  }
  if (rule.coordinates == "tf_crop_and_resize") {
    if (to > 1) return line.start * (from - 1) + x * (line.end - line.start) * (from - 1) / (to - 1);
    return 0.5 * (line.start + line.end) * (from - 1);
  }
  Reject(fmt::format("coordinates '{}'", rule.coordinates));
}

int64_t Nearest(const Rule& rule, double x) {
  if (rule.nearest == "round_prefer_floor") return static_cast<int64_t>(std::ceil(x - 0.5));
  if (rule.nearest == "round_prefer_ceil") return static_cast<int64_t>(std::floor(x + 0.5));
  if (rule.nearest == "floor") return static_cast<int64_t>(std::floor(x));
  if (rule.nearest == "ceil") return static_cast<int64_t>(std::ceil(x));
  Reject(fmt::format("nearest_mode '{}'", rule.nearest));
}

/// How much an element that lies `x` away counts.
double Weight(const Rule& rule, double x) {
  x = std::abs(x);
  if (rule.mode == "linear") return std::max(0.0, 1 - x);
  const double a = rule.cubic;
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

/// Result positions as rows, input positions as columns: what of each goes into which.
at::Tensor WeightsOf(const Rule& rule, const Line& line, std::vector<bool>& outside) {
  const Unnoted unnoted;
  at::Tensor weights = at::zeros({line.to, line.from}, at::kDouble);
  auto all = weights.accessor<double, 2>();
  const auto clamped = [&](int64_t at) { return std::clamp<int64_t>(at, 0, line.from - 1); };
  for (int64_t i = 0; i < line.to; ++i) {
    const double x = Source(rule, line, i);
    outside.push_back(rule.coordinates == "tf_crop_and_resize" && (x < 0 || x > static_cast<double>(line.from - 1)));
    if (rule.mode == "nearest") {
      all[i][clamped(Nearest(rule, x))] = 1;
      continue;
    }
    // Where it becomes smaller, antialiasing takes in more.
    const double wide = rule.antialias ? std::max(1.0, 1 / line.scale) : 1.0;
    const double reach = (rule.mode == "linear" ? 1 : 2) * wide;
    double sum = 0;
    const auto first = static_cast<int64_t>(std::ceil(x - reach)), last = static_cast<int64_t>(std::floor(x + reach));
    std::vector<std::pair<int64_t, double>> parts;
    for (int64_t at = first; at <= last; ++at) {
      if (rule.excludes_outside && at != clamped(at)) continue;
      parts.emplace_back(clamped(at), Weight(rule, (static_cast<double>(at) - x) / wide));
      sum += parts.back().second;
    }
    const bool scales = rule.excludes_outside || rule.antialias;
    for (const auto& [at, weight] : parts) all[i][at] += scales && sum != 0 ? weight / sum : weight;
  }
  return weights;
}

/// A tensor that is made once, unnoted.
template <typename Fn>
at::Tensor Made(NodeCall& n, Fn make) {
  const Unnoted unnoted;
  return n.Constant(make());
}

/// By a row of weights for each position: right for all modes, at the sizes of the recording alone.
at::Tensor ByWeights(NodeCall& n, at::Tensor x, const Rule& rule, const std::vector<Line>& lines) {
  const at::ScalarType dtype = x.scalar_type();
  for (const Line& line : lines) {
    std::vector<bool> outside;
    const at::Tensor weights = WeightsOf(rule, line, outside);
    const bool is_wide = dtype == at::kDouble || dtype == at::kLong || dtype == at::kInt;
    const at::ScalarType wide = is_wide ? at::kDouble : at::kFloat;
    if (rule.mode == "nearest") {
      x = n.Call("aten::index_select", {x, line.axis, Made(n, [&] { return weights.argmax(1); })});
    } else {
      const at::Tensor last = n.Call("aten::movedim.int", {n.To(x, wide), line.axis, -1});
      const at::Tensor columns = Made(n, [&] { return weights.to(wide).t().contiguous(); });
      const at::Tensor product = n.Call("aten::matmul", {last, columns});
      x = n.Call("aten::movedim.int", {product, -1, line.axis});
    }
    if (std::ranges::find(outside, true) != outside.end()) {
      const at::Tensor mask = Made(n, [&] {
        at::Tensor made = at::zeros({line.to}, at::kBool);
        for (int64_t i = 0; i < line.to; ++i) made.data_ptr<bool>()[i] = outside[static_cast<size_t>(i)];
        std::vector<int64_t> sizes(static_cast<size_t>(x.dim()), 1);
        sizes[static_cast<size_t>(line.axis)] = line.to;
        return made.view(sizes);
      });
      x = n.Where(mask, n.Number(rule.outside_value, x), x);
    }
  }
  if (at::isIntegralType(dtype, false) && rule.mode != "nearest") x = n.Call("aten::round", {x});
  return n.To(x, dtype);
}

/// PyTorch's own operator of the same meaning, which follows sizes; nullptr: none.
const char* OwnOperator(const Rule& rule, const at::Tensor& x, bool& aligns) {
  if (rule.antialias || rule.excludes_outside || !at::isFloatingType(x.scalar_type())) return nullptr;
  const int64_t rank = x.dim() - 2;
  if (rank < 1 || rank > 3) return nullptr;
  const auto at = static_cast<size_t>(rank - 1);
  if (rule.mode == "nearest") {
    constexpr std::array kNames = {"aten::upsample_nearest1d.vec", "aten::upsample_nearest2d.vec",
                                   "aten::upsample_nearest3d.vec"};
    const bool is_same = rule.coordinates == "asymmetric" && rule.nearest == "floor";
    return is_same ? kNames.at(at) : nullptr;
  }
  aligns = rule.coordinates == "align_corners";
  if (!aligns && rule.coordinates != "pytorch_half_pixel" && rule.coordinates != "half_pixel") return nullptr;
  if (rule.mode == "linear") {
    constexpr std::array kNames = {"aten::upsample_linear1d.vec", "aten::upsample_bilinear2d.vec",
                                   "aten::upsample_trilinear3d.vec"};
    return kNames.at(at);
  }
  return rank == 2 && rule.cubic == -0.75 ? "aten::upsample_bicubic2d.vec" : nullptr;
}

Rule RuleOf(NodeCall& n) {
  Rule rule;
  rule.mode = n.TextOf("mode", "nearest");
  rule.coordinates = n.TextOf("coordinate_transformation_mode", "half_pixel");
  rule.nearest = n.TextOf("nearest_mode", "round_prefer_floor");
  rule.cubic = n.FloatOf("cubic_coeff_a", -0.75);
  rule.outside_value = n.FloatOf("extrapolation_value", 0.0);
  rule.antialias = n.FlagOf("antialias", 0);
  rule.excludes_outside = n.FlagOf("exclude_outside", 0);
  return rule;
}

/// Which dims a node resizes, by which factors or to which sizes.
struct Asked {
  std::vector<int64_t> axes;
  bool has_scales = false;
  std::vector<double> scales;
  Ints to;
};

Asked AskedOf(NodeCall& n, const at::Tensor& x) {
  Asked asked;
  asked.axes.resize(static_cast<size_t>(x.dim()));
  std::iota(asked.axes.begin(), asked.axes.end(), 0);
  if (const auto given = n.IntsOf("axes")) asked.axes = NodeCall::Axes(*given, x.dim());

  std::vector<double>& scales = asked.scales;
  scales = n.Has(2) ? n.NumbersAt(2) : std::vector<double>{};
  std::ranges::transform(scales, scales.begin(), AsWritten);
  asked.has_scales = !scales.empty();
  if (std::ranges::any_of(scales, [](double scale) { return !(scale > 0 && scale < kScaleMax); })) {
    Reject("impossible scales");
  }
  if (!asked.has_scales) {
    asked.to = n.IntsAt(3);
    if (asked.to.size() != asked.axes.size()) {
      Reject(fmt::format("{} sizes for {} axes", asked.to.size(), asked.axes.size()));
    }
  } else if (scales.size() != asked.axes.size()) {
    Reject(fmt::format("{} scales for {} axes", scales.size(), asked.axes.size()));
  }
  return asked;
}

/// By PyTorch's own operator, which takes the dims behind the first two; nullopt where none has the same meaning.
std::optional<at::Tensor> ByOwnOperator(NodeCall& n, const at::Tensor& x, const Ints& from, const Rule& rule,
                                        const Asked& asked) {
  bool aligns = false;
  const char* const own = OwnOperator(rule, x, aligns);
  if (own == nullptr) return std::nullopt;
  bool is_plain = true;
  std::vector<double> factors(static_cast<size_t>(std::max<int64_t>(x.dim() - 2, 0)), 1.0);
  Ints targets(from.begin() + std::min<int64_t>(2, x.dim()), from.end());
  for (size_t i = 0; i < asked.axes.size() && is_plain; ++i) {
    const auto axis = static_cast<size_t>(asked.axes[i]);
    // A single position is found in a way of its own.
    const bool is_pytorch = rule.coordinates == "pytorch_half_pixel";
    if (axis < 2) {
      is_plain = asked.has_scales ? asked.scales[i] == 1.0 : asked.to[i] == from[axis];
    } else if (asked.has_scales) {
      factors[axis - 2] = asked.scales[i];
      const double enough = std::ceil(2 / asked.scales[i]);
      if (is_pytorch) is_plain = is_plain && from[axis] >= Int(static_cast<int64_t>(enough));
    } else {
      targets[axis - 2] = asked.to[i];
      is_plain = is_plain && (!is_pytorch || asked.to[i] > Int(1));
    }
  }
  if (!is_plain) return std::nullopt;
  Ints made{from[0], from[1]};
  for (size_t i = 0; i < targets.size(); ++i) {
    made.emplace_back(static_cast<int64_t>(std::ceil(static_cast<double>(targets[i].seen()) * factors[i])));
  }
  NodeCall::CheckCount(made);
  Args args = {x, std::nullopt, std::nullopt};
  if (asked.has_scales) {
    c10::impl::GenericList list(c10::AnyType::get());
    for (const double factor : factors) list.push_back(factor);
    args[2].value = std::move(list);
  } else {
    args[1] = Arg(targets);
  }
  if (rule.mode != "nearest") args.insert(args.begin() + 2, Arg(aligns));
  return n.Call(own, std::move(args));
}

/// The factor of all dims that keeps their ratio, within the sizes that are asked for or around them.
double FactorOf(const std::string& policy, const Asked& asked, const Ints& from) {
  double factor = 0;
  for (size_t i = 0; i < asked.axes.size(); ++i) {
    const double own_factor =
        static_cast<double>(asked.to[i].Fix()) / static_cast<double>(from[static_cast<size_t>(asked.axes[i])].Fix());
    const bool takes = i == 0 || (policy == "not_larger" ? own_factor < factor : own_factor > factor);
    if (takes) factor = own_factor;
  }
  if (policy != "not_larger" && policy != "not_smaller") Reject(fmt::format("policy '{}'", policy));
  return factor;
}

/// The dims that are another after it. `region`: of interest, its starts and then its ends; empty: all.
std::vector<Line> LinesOf(const Asked& asked, const Ints& from, std::span<const double> region) {
  std::vector<Line> lines;
  for (size_t i = 0; i < asked.axes.size(); ++i) {
    Line line{asked.axes[i], from[static_cast<size_t>(asked.axes[i])].Fix()};
    if (line.from == 0) Reject("an empty dim");
    const double size = static_cast<double>(line.from);
    if (asked.has_scales) {
      line.scale = asked.scales[i];
      line.to = static_cast<int64_t>(std::floor(size * line.scale));
    } else if (!asked.scales.empty()) {
      line.scale = asked.scales[i];
      line.to = static_cast<int64_t>(std::floor(size * line.scale + 0.5));
    } else {
      line.to = asked.to[i].Fix();
      line.scale = static_cast<double>(line.to) / size;
    }
    if (line.to < 1 || line.to > kSizeMax || !(line.scale > 0)) Reject(fmt::format("a size of {}", line.to));
    if (!region.empty()) {
      line.start = region[i];
      line.end = region[asked.axes.size() + i];
    }
    NodeCall::CheckCount({Int(line.to), Int(line.from)});
    if (line.to != line.from || line.scale != 1 || !region.empty()) lines.push_back(line);
  }
  return lines;
}

Results Resize(NodeCall& n) {
  const Rule rule = RuleOf(n);
  const std::string policy = n.TextOf("keep_aspect_ratio_policy", "stretch");
  if (rule.mode != "nearest" && rule.mode != "linear" && rule.mode != "cubic")
    Reject(fmt::format("mode '{}'", rule.mode));
  const at::Tensor x = n.In(0);
  const Ints from = n.SizesOf(x);
  Asked asked = AskedOf(n, x);
  if (policy == "stretch") {
    if (const auto made = ByOwnOperator(n, x, from, rule, asked)) return {*made};
  }
  std::vector<double> region;
  if (rule.coordinates == "tf_crop_and_resize") region = n.NumbersAt(1);
  if (!region.empty() && region.size() != 2 * asked.axes.size()) Reject("a region of another number of axes");
  if (!asked.has_scales && policy != "stretch") {
    asked.scales.assign(asked.axes.size(), FactorOf(policy, asked, from));
  }
  return {ByWeights(n, x, rule, LinesOf(asked, from, region))};
}

constexpr Operator kTable[] = {{"Resize", 11, Resize}};

}  // namespace resize_part
}  // namespace

std::span<const Operator> ResizeOperators() { return resize_part::kTable; }

}  // namespace ingot::onnx
