// SPDX-License-Identifier: Apache-2.0
//
// Convolutions: sums of products over the channels and taps of windows. Channels lie side by side, in what is read and
// in what is written, so that vectors run along them; AssignLayouts sees to that.
#include <algorithm>

#include "compiler/fusion/lower/windows.h"
#include "compiler/ops/convolution.h"
#include "compiler/ops/few_channels.h"

namespace ingot::compiler::fusion {
namespace {

using Op = ScalarOp;

bool HasChannelsLast(const Type& type) { return type.sizes[1].is_one() || type.strides[1].is_one(); }

/// What of it lies in the image: as pooling walks.
Walk ConvolutionWalk(const Convolution& conv) {
  Walk walk;
  for (const ConvolvedDim& dim : conv.dims) {
    walk.window.push_back(dim.taps);
    walk.stride.push_back(dim.stride);
    walk.padding.push_back(dim.padding);
    walk.dilation.push_back(dim.dilation);
  }
  return walk;
}

/// The images with zeros around them, as far as all windows of a result of `sizes` reach.
ExprId PaddedFor(const Rule& r, const Convolution& conv) {
  Walk walk = ConvolutionWalk(conv);
  Dims sizes = r.result().sizes;
  for (size_t i = 0; i < conv.dims.size(); ++i) {
    walk.window[i] += conv.dims[i].Shift();  // Of phases, which have neither steps nor distances.
    sizes[2 + i] = *sizes[2 + i].DivideExactly(Dim(conv.dims[i].PhaseCount()));
  }
  const DType t = ComputeType(r.call.TypeAt(0)->dtype);
  return Padded(r.pool, r.Tensor(0), r.pool.Float(0, t), walk, sizes);
}

/// Of all channels of its group, each result: one contraction over channels and taps.
class Dense {
 public:
  Dense(const Rule& r, const Convolution& conv)
      : r_(r), conv_(conv), weight_(*r.call.TypeAt(1)), left_(weight_.rank()), right_(weight_.rank()) {}

  ExprId Make(ExprId padded) {
    const Dims& result = r_.result().sizes;
    const size_t in = conv_.WeightIn(), out = conv_.WeightOut();
    const Dim groups(conv_.groups);
    const Dim channels = *weight_.sizes[in].DivideExactly(conv_.is_transposed ? groups : Dim(1));
    const Dim columns = *result[1].DivideExactly(groups);
    left_[0] = Add(result[0]);
    fine_.push_back(result[0]);
    if (conv_.groups != 1) {
      const Affine group = Add(groups);
      fine_.push_back(groups);
      left_[1].AddScaled(group, channels);
      right_[0].AddScaled(group, conv_.is_transposed ? channels : columns);
    }
    const size_t column_at = fine_.size();
    fine_.push_back(columns);
    for (size_t i = 0; i < conv_.dims.size(); ++i) Walk(i);
    const Affine channel = depths_.empty() || !channels.is_one() ? Depth(channels) : Affine();
    left_[1].AddScaled(channel, Dim(1));
    right_[in].AddScaled(channel, Dim(1));
    // Columns come last among the dims of the product.
    const Affine column = Along(sizes_.size());
    sizes_.push_back(columns);
    back_.push_back(Along(column_at));
    right_[out].AddScaled(column, Dim(1));
    // Vectors of columns are turned over from what lies side by side along a depth.
    bool is_dense = false;
    for (size_t k = 0; k < weight_.rank(); ++k) {
      is_dense |= weight_.strides[k].is_one() &&
                  std::ranges::any_of(right_[k].vars, [](const auto& term) { return IsDepth(term.first); });
    }
    if (!is_dense) return kNoExpr;
    const ExprId product = r_.pool.Contract(DType::kF32, padded, r_.Tensor(1), std::move(sizes_), std::move(depths_),
                                            std::move(left_), std::move(right_));
    return r_.pool.Reshape(r_.pool.View(product, fine_, std::move(back_)), result);
  }

 private:
  /// A dim of the product, which is the next of the finer dims that those of the result are cut into.
  Affine Add(const Dim& size) {
    sizes_.push_back(size);
    back_.push_back(Along(fine_.size()));
    return Along(sizes_.size() - 1);
  }
  Affine Depth(const Dim& extent) {
    size_t nth = 0;
    for (const uint16_t depth : depths_) nth += r_.pool.DepthExtent(depth) == extent;
    depths_.push_back(r_.pool.DepthVar(extent, nth));
    return Affine::Var(depths_.back());
  }
  void Walk(size_t i) {
    const ConvolvedDim& dim = conv_.dims[i];
    Affine &image = left_[2 + i], &tap = right_[2 + i];
    const auto add = [&](const Dim& size) {
      const Affine var = Add(size);
      fine_.push_back(size);
      return var;
    };
    image.AddScaled(add(*r_.result().sizes[2 + i].DivideExactly(Dim(dim.PhaseCount()))), Dim(dim.stride));
    tap.offset = Dim(dim.first);
    for (const ConvolvedDim::Phase& phase : dim.phases) {
      const Affine var = add(Dim(phase.extent));
      image.AddScaled(var, Dim(phase.image));
      tap.AddScaled(var, Dim(phase.weight));
    }
    if (dim.taps == 1) return;
    const Affine depth = Depth(Dim(dim.taps));
    image.AddScaled(depth, Dim(dim.dilation));
    tap.AddScaled(depth, Dim(dim.step));
  }

  const Rule& r_;
  const Convolution& conv_;
  const Type& weight_;
  Coords left_, right_;   ///< of the padded images, of the weight, from dims of the product and depths
  Dims sizes_, fine_;     ///< of the product; of the result, where groups and phases are dims of their own
  Coords back_;           ///< dims of the product from those of `fine_`
  std::vector<uint16_t> depths_;
};

/// Of each channel, its own result: one product for each tap.
ExprId Depthwise(const Rule& r, const Walk& walk, ExprId padded) {
  ExprPool& p = r.pool;
  ExprId sum = kNoExpr;
  ForEachTap(p, padded, walk, r.result().sizes, [&](const std::vector<int64_t>& taps, ExprId value) {
    Coords map = {Along(0), Affine()};
    for (const int64_t tap : taps) map.push_back(Affine::Of(Dim(tap)));
    Dims per_channel(r.result().rank() - 1, Dim(1));
    per_channel[0] = r.result().sizes[1];
    const ExprId weight = p.View(r.Tensor(1), per_channel, std::move(map));
    sum = sum == kNoExpr ? p.Map(Op::kMul, {value, weight}) : p.Map(Op::kFma, {value, weight, sum});
  });
  return sum;
}

Results Conv(const Rule& r) {
  const auto conv = ConvolutionOf(r.call, r.why);
  if (!conv) return {};
  const Type& result = r.result();
  const Type& x = *r.call.TypeAt(0);
  const bool is_read_as_it_lies =
      HasChannelsLast(x) || (conv->groups == 1 && !conv->is_transposed && HasFewChannels(x));
  if (!HasChannelsLast(result) || !is_read_as_it_lies) return r.No("channels lie apart");
  const ExprId padded = PaddedFor(r, *conv);
  const ExprId sum = conv->IsDepthwise(*r.call.TypeAt(1)) ? Depthwise(r, ConvolutionWalk(*conv), padded)
                                                          : Dense(r, *conv).Make(padded);
  if (r.call.IsNone(2) || sum == kNoExpr) return {sum};
  Dims per_channel(result.rank() - 1, Dim(1));
  per_channel[0] = result.sizes[1];
  return {r.pool.Map(Op::kAdd, {sum, r.pool.Reshape(r.Operand(2, DType::kF32), per_channel)})};
}

}  // namespace

const RuleTable& ConvRules() {
  static const RuleTable rules = [] {
    RuleTable table;
#define CONV(...) , __VA_ARGS__
#include "compiler/ops/ops.def"
    return table;
  }();
  return rules;
}

}  // namespace ingot::compiler::fusion
