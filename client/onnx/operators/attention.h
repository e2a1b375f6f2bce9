// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "client/onnx/operators/operators.h"

namespace ingot::onnx {

/// Queries, keys and values by head: [batch, heads, tokens, width].
struct Heads {
  at::Tensor q, k, v;
  std::optional<at::Tensor> mask;  ///< added to scores
  std::optional<double> scale;     ///< of one over the root of the width where nothing is said
  double cap = 0;                  ///< 0: scores have no bound

  void AddMask(NodeCall& n, const at::Tensor& more) { mask = mask ? n.Add(*mask, more) : more; }
};

/// [batch, tokens, heads * width] by head.
at::Tensor ByHead(NodeCall& n, const at::Tensor& x, int64_t heads);
/// The way back.
at::Tensor SideBySide(NodeCall& n, const at::Tensor& x);
/// Each head of keys or values as often as queries have heads for it.
at::Tensor Repeated(NodeCall& n, const at::Tensor& x, int64_t times);
/// What is added to scores that a truth lets through, and to others.
at::Tensor Added(NodeCall& n, const at::Tensor& lets_through, double otherwise, at::ScalarType dtype);
/// Heads of queries that share keys and values may have them once.
at::Tensor Attended(NodeCall& n, const Heads& h);
/// x, [batch, heads, tokens, width], turned by the angles whose cosines and sines are [batch or 1, tokens, pairs], as
/// far as `width` goes (0: whole).
at::Tensor Rotated(NodeCall& n, const at::Tensor& x, at::Tensor cos, at::Tensor sin, int64_t width, bool interleaved);

Results GroupQueryAttention(NodeCall& n);

}  // namespace ingot::onnx
