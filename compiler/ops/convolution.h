// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "compiler/ops/call.h"

namespace ingot::compiler {

/// One dim that a convolution walks. A place y of the result is y = phases * h + (its phase), the phase a number whose
/// digits are `phases`, outermost first. There it sums over the taps u in [0, taps) of what the padded image has at
/// stride * h + dilation * u + sum(phase * image), times the weight at first + step * u + sum(phase * weight).
struct ConvolvedDim {
  struct Phase {
    int64_t extent = 1;
    int64_t image = 0, weight = 0;   ///< steps from one to the next
  };
  int64_t taps = 1, stride = 1, dilation = 1;
  int64_t padding = 0;   ///< before the image
  int64_t first = 0, step = 1;
  std::vector<Phase> phases;

  int64_t PhaseCount() const;
  /// How far the last phase is beyond the first one in the image.
  int64_t Shift() const;
};

/// A convolution, transposed or not, of a batch of images whose windows are constants.
struct Convolution {
  std::vector<ConvolvedDim> dims;
  int64_t groups = 1;
  bool is_transposed = false;   ///< weights are [in, out of a group, ...] rather than [out, in of a group, ...]

  int64_t Taps() const;
  /// Dims of the weight: channels that are summed over, and those of results. One of them has the channels of all
  /// groups.
  size_t WeightIn() const { return is_transposed ? 0 : 1; }
  size_t WeightOut() const { return is_transposed ? 1 : 0; }
  /// Each channel by itself makes one.
  bool IsDepthwise(const Type& weight) const;
};

bool IsConvolution(const Node& node);

/// Of images of `dtype`. nullopt: not of this form, or one that PyTorch computes faster; `why` says so, in words that
/// live as long as the program.
std::optional<Convolution> ConvolutionOf(const Call& call, std::string_view& why, DType dtype = DType::kF32);

}  // namespace ingot::compiler
