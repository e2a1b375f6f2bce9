// SPDX-License-Identifier: Apache-2.0
#include "compiler/ops/convolution.h"

#include <algorithm>

namespace ingot::compiler {
namespace {

constexpr int64_t kTapsMax = 1024, kDepthwiseTapsMax = 49;

using Ints = std::vector<int64_t>;

/// One number for each of `count` dims; one stands for all, none for `otherwise`.
std::optional<Ints> OfDims(const Call& call, size_t at, size_t count, int64_t otherwise) {
  if (call.IsNone(at)) return Ints(count, otherwise);
  const auto ints = call.IntsAt(at);
  if (!ints) return std::nullopt;
  if (ints->empty()) return Ints(count, otherwise);
  if (ints->size() == 1) return Ints(count, ints->front());
  return ints->size() == count ? ints : std::nullopt;
}

/// Windows of a result stand on the image.
std::optional<std::vector<ConvolvedDim>> Walked(const Call& call, const Ints& window) {
  const size_t count = window.size();
  const auto stride = OfDims(call, 3, count, 1), dilation = OfDims(call, 5, count, 1);
  const auto named = call.NameAt(4);
  const auto padding = named ? Ints(count, 0) : OfDims(call, 4, count, 0);
  if (!stride || !dilation || !padding) return std::nullopt;
  std::vector<ConvolvedDim> dims(count);
  for (size_t i = 0; i < count; ++i) {
    dims[i] = {.taps = window[i], .stride = (*stride)[i], .dilation = (*dilation)[i], .padding = (*padding)[i]};
    // What is odd is behind.
    if (named == "same") dims[i].padding = dims[i].dilation * (window[i] - 1) / 2;
  }
  return dims;
}

/// Transposed, a tap t of an image's place i goes to y = stride * i + dilation * t - padding: backwards, places of one
/// phase of the stride are what some of the taps reach, the same ones for each.
std::optional<ConvolvedDim> Phased(int64_t window, int64_t stride, int64_t padding, int64_t dilation) {
  if (stride == 1) {
    return ConvolvedDim{.taps = window,
                        .dilation = dilation,
                        .padding = dilation * (window - 1) - padding,
                        .first = window - 1,
                        .step = -1};
  }
  // Other windows have more taps in one phase than in another.
  if (dilation != 1 || window % stride != 0) return std::nullopt;
  ConvolvedDim dim{.taps = window / stride, .first = window - stride, .step = -stride};
  dim.padding = dim.taps - 1 - padding / stride;
  const int64_t rest = padding % stride;
  if (rest == 0) {
    dim.phases = {{stride, 0, 1}};
  } else if (2 * rest == stride) {
    // The first half is that of the taps' second one.
    dim.first += rest;
    dim.phases = {{2, 1, -rest}};
    if (rest > 1) dim.phases.push_back({rest, 0, 1});
  } else {
    return std::nullopt;
  }
  return dim;
}

std::optional<std::vector<ConvolvedDim>> WalkedBack(const Call& call, const Ints& window) {
  const size_t count = window.size();
  const auto stride = OfDims(call, 3, count, 1), padding = OfDims(call, 4, count, 0),
             dilation = OfDims(call, 7, count, 1);
  if (!stride || !padding || !dilation) return std::nullopt;
  std::vector<ConvolvedDim> dims;
  for (size_t i = 0; i < count; ++i) {
    const auto dim = Phased(window[i], (*stride)[i], (*padding)[i], (*dilation)[i]);
    const Dim& size = call.graph().type(call.node().results[0]).sizes[2 + i];
    // Places that are cut off before an image, or a last one of fewer phases.
    if (!dim || dim->padding < 0 || !size.DivideExactly(Dim(dim->PhaseCount()))) return std::nullopt;
    dims.push_back(*dim);
  }
  return dims;
}

}  // namespace

int64_t ConvolvedDim::PhaseCount() const {
  int64_t count = 1;
  for (const Phase& phase : phases) count *= phase.extent;
  return count;
}

int64_t ConvolvedDim::Shift() const {
  int64_t shift = 0;
  for (const Phase& phase : phases) shift += (phase.extent - 1) * phase.image;
  return shift;
}

int64_t Convolution::Taps() const {
  int64_t taps = 1;
  for (const ConvolvedDim& dim : dims) taps *= dim.taps;
  return taps;
}

bool Convolution::IsDepthwise(const Type& weight) const {
  return groups != 1 && weight.sizes[0] == Dim(groups) && weight.sizes[1].is_one();
}

bool IsConvolution(const Node& node) {
  return node.op.starts_with("aten.conv1d") || node.op.starts_with("aten.conv2d") ||
         node.op.starts_with("aten.conv3d") || node.op.starts_with("aten.conv_transpose");
}

std::optional<Convolution> ConvolutionOf(const Call& call, std::string_view& why, DType dtype) {
  const auto no = [&](std::string_view reason) {
    why = reason;
    return std::nullopt;
  };
  const Type *x = call.TypeAt(0), *weight = call.TypeAt(1);
  const Type& result = call.graph().type(call.node().results[0]);
  if (!x || !weight || x->rank() < 3 || x->rank() != weight->rank()) return no("no batch of images");
  for (const Type* type : {x, weight, &result}) {
    if (type->dtype != dtype) return no("PyTorch's library convolves other types than f32 faster");
  }
  Convolution made;
  made.is_transposed = call.node().op.starts_with("aten.conv_transpose");
  Ints window;
  for (size_t k = 2; k < weight->rank(); ++k) {
    const Dim& size = weight->sizes[k];
    if (!size.is_const() || size.const_value() < 1) return no("windows too wide, or that differ with the sizes");
    window.push_back(size.const_value());
  }
  const auto groups = call.IsNone(6) ? std::optional<int64_t>(1) : call.IntAt(6);
  const auto dims = made.is_transposed ? WalkedBack(call, window) : Walked(call, window);
  if (!dims && made.is_transposed) return no("phases of the stride that differ in their taps");
  if (!dims || !groups || *groups < 1) return no("windows too wide, or that differ with the sizes");
  made.groups = *groups;
  made.dims = *dims;
  if (made.Taps() > kTapsMax) return no("windows too wide, or that differ with the sizes");
  // With one channel there are no columns.
  if (result.sizes[1].is_one()) return no("one channel");
  if (made.groups == 1) return made;
  if (made.IsDepthwise(*weight) && !made.is_transposed) {
    if (made.Taps() > kDepthwiseTapsMax) return no("wide windows of single channels");
    return made;
  }
  const auto out = weight->sizes[made.WeightOut()].DivideExactly(Dim(made.is_transposed ? 1 : made.groups));
  const auto in = weight->sizes[made.WeightIn()].DivideExactly(Dim(made.is_transposed ? made.groups : 1));
  constexpr int64_t kChannelsMin = 8;
  const auto is_few = [&](const auto& channels) {
    return !channels || !channels->is_const() || channels->const_value() < kChannelsMin;
  };
  if (is_few(out) || is_few(in)) return no("few channels in a group");
  return made;
}

}  // namespace ingot::compiler
