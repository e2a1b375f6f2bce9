// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/decompose/decompose_rules.h"

namespace ingot::compiler {
namespace {

/// Scales and shifts each group of [N, groups, channels of a group, elements of a channel] so that it has mean 0 and
/// variance 1, then each channel; back in `sizes` and the result's type.
Parts NormOfGroups(Composite& c, const Dim& groups, size_t weight_at, size_t bias_at, size_t eps_at) {
  const Type to = c.result();
  if (to.rank() < 2 || !guards::IsFloat(to.dtype)) return Whole("not of floats with channels");
  const auto eps = c.call().FloatAt(eps_at);
  const auto channels = to.sizes[1].DivideExactly(groups);
  if (!eps || !channels) return Whole("channels do not go into groups");
  Dim elements = 1;
  for (size_t i = 2; i < to.rank(); ++i) elements = elements * to.sizes[i];
  const auto per_channel = [&](size_t at) -> Result<Ref> {
    TRY_ASSIGN(const Ref given, c.Tensor(at));
    return c.Reshape(given, {Dim(1), groups, *channels, Dim(1)});
  };

  // Statistics of rows, so that they are a kernel of their own; then each channel's elements are a row. With a mean of
  // f32 all that follows is f32.
  const bool is_narrow = to.dtype == DType::kF16 || to.dtype == DType::kBF16;
  const Arg wide = DTypeArg{is_narrow ? DType::kF32 : to.dtype};
  const Dims along = {Dim(2)};
  TRY_ASSIGN(const Ref given, c.Tensor(0));
  TRY_ASSIGN(const Ref rows, c.Reshape(given, {to.sizes[0], groups, *channels * elements}));
  TRY_ASSIGN(const Ref mean, c.Op("aten.mean.dim", {rows, along, true, wide}));
  TRY_ASSIGN(const Ref centred, c.Sub(rows, mean));
  TRY_ASSIGN(const Ref squares, c.Mul(centred, centred));
  TRY_ASSIGN(const Ref variance, c.Op("aten.mean.dim", {squares, along, true, wide}));
  TRY_ASSIGN(const Ref shifted, c.Add(variance, Number{*eps}));
  TRY_ASSIGN(Ref scale, c.Op("aten.rsqrt", {shifted}));
  const Dims per_group = {to.sizes[0], groups, Dim(1), Dim(1)};
  TRY_ASSIGN(scale, c.Reshape(scale, per_group));
  TRY_ASSIGN(const Ref middle, c.Reshape(mean, per_group));
  TRY_ASSIGN(const Ref x, c.Reshape(given, {to.sizes[0], groups, *channels, elements}));
  TRY_ASSIGN(Ref y, c.Sub(x, middle));
  TRY_ASSIGN(y, c.Mul(y, scale));
  if (c.Has(weight_at)) {
    TRY_ASSIGN(const Ref weight, per_channel(weight_at));
    TRY_ASSIGN(y, c.Mul(y, weight));
  }
  if (c.Has(bias_at)) {
    TRY_ASSIGN(const Ref bias, per_channel(bias_at));
    TRY_ASSIGN(y, c.Add(y, bias));
  }
  TRY_ASSIGN(y, c.Reshape(y, to.sizes));
  TRY_ASSIGN(y, c.Cast(y, to.dtype));
  return std::vector<Ref>{y};
}

}  // namespace

/// var_mean and std_mean: (x, dim, unbiased or correction, keepdim).
Parts VarianceAndMean(Composite& c) {
  const bool is_root = c.op().starts_with("aten.std_mean");
  const std::string form = c.op().ends_with(".dim") ? ".dim" : ".correction";
  TRY_ASSIGN(const Ref x, c.Tensor(0));
  TRY_ASSIGN(const Ref spread, c.Op((is_root ? "aten.std" : "aten.var") + form, {x, c.At(1), c.At(2), c.At(3)}));
  TRY_ASSIGN(const Ref mean, c.Op("aten.mean.dim", {x, c.At(1), c.At(3)}));
  return std::vector<Ref>{spread, mean};
}

/// group_norm(x, groups, weight, bias, eps, cudnn_enabled) over [N, C, ...].
Parts GroupNormInParts(Composite& c) {
  const auto groups = c.call().IntAt(1);
  if (!groups || *groups < 1) return Whole("no number of groups");
  return NormOfGroups(c, Dim(*groups), 2, 3, 4);
}

/// instance_norm(x, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, cudnn_enabled): each
/// channel is a group.
Parts InstanceNormInParts(Composite& c) {
  if (c.Has(3) || c.Has(4) || c.call().BoolAt(5) != true) return Whole("statistics are kept");
  if (c.result().rank() < 2) return Whole("no channels");
  return NormOfGroups(c, c.result().sizes[1], 1, 2, 7);
}

}  // namespace ingot::compiler
