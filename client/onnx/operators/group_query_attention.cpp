// SPDX-License-Identifier: Apache-2.0
// com.microsoft.GroupQueryAttention: attention with a cache whose length in tokens is data, one for each row of the
// batch. What it is as a tensor follows from sizes, so that one recording serves every step.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "client/onnx/operators/attention.h"

namespace ingot::onnx {
namespace {
namespace group_query_part {

// In the order of the operator.
enum Input : uint8_t {
  kQuery,
  kKey,
  kValue,
  kPastKey,
  kPastValue,
  kLast,  // the position of each row's last token
  kTotal,
  kCos,
  kSin,
  kPositions,
  kBias,
  kSink,
  kKeyScale,
  kValueScale,
  kQueryNorm,
  kKeyNorm,
  kQueryLengths
};

constexpr double kHidden = -std::numeric_limits<double>::infinity();

/// Numbers from `first` on.
at::Tensor Counted(NodeCall& n, const Int& first, const Int& count) {
  return n.Call("aten::arange.start_step", {first, first + count, 1, at::kLong});
}
at::Tensor OfSize(NodeCall& n, const Int& value) { return Counted(n, value, 1); }
at::Tensor Unsqueezed(NodeCall& n, const at::Tensor& x, int64_t dim) { return n.Call("aten::unsqueeze", {x, dim}); }

void CheckForm(NodeCall& n) {
  if (n.Has(kKeyScale) || n.Has(kValueScale) || n.TextOf("k_quant_type", "NONE") != "NONE" ||
      n.TextOf("v_quant_type", "NONE") != "NONE") {
    Refuse("caches of few bits");
  }
  n.Ignore("kv_cache_bit_width");
  if (n.Has(kQueryNorm) || n.Has(kKeyNorm)) Refuse("norms of queries and keys within attention");
  for (const char* name : {"qk_norm_epsilon", "q_norm_epsilon", "k_norm_epsilon"}) n.Ignore(name);
  if (n.Has(kQueryLengths)) Refuse("chunks of several lengths (query_seqlens)");
  if (n.FlagOf("sliding_window_cache", 0)) Refuse("caches that drop what their window has passed");
  if (n.FlagOf("qk_output", 0) || n.Wants(3)) Refuse("scores as a result");
}

/// Where tokens of this call stand, and what is there before them.
struct Places {
  Int tokens, keys;
  std::optional<at::Tensor> first;   ///< of the new tokens, [batch, 1]; nullopt: 0
  at::Tensor queries;                ///< [batch or 1, tokens]
};

Places PlacesOf(NodeCall& n, const Int& tokens) {
  Places places{tokens, tokens, std::nullopt, Unsqueezed(n, Counted(n, 0, tokens), 0)};
  if (!n.Has(kPastKey)) return places;
  // A cache grows with each call, or has room for what comes.
  places.keys = Maximum(n.IntAt(kTotal), n.SizeOf(n.In(kPastKey), 2));
  const at::Tensor last = n.Reshape(n.Within(n.In(kLast), places.keys), {n.SizeOf(n.In(kQuery), 0), 1});
  // Of prompts that differ in length, the shorter ones are followed by tokens that count for nothing.
  places.first = n.Call("aten::clamp_min", {n.Add(last, OfSize(n, Int(1) - tokens)), 0});
  places.queries = n.Add(*places.first, places.queries);
  return places;
}

/// What is cached, with the new keys or values at their places.
at::Tensor Extended(NodeCall& n, size_t past, const at::Tensor& fresh, const Places& places) {
  if (!places.first) return fresh;
  const Int room = n.SizeOf(n.In(past), 2);
  const at::Tensor cached = n.Call("aten::constant_pad_nd", {n.In(past), Ints{0, 0, 0, places.keys - room}, 0.0});
  const at::Tensor offsets = n.Sub(Unsqueezed(n, Counted(n, 0, places.keys), 0), *places.first);
  const at::Tensor is_fresh =
      n.Call("aten::logical_and",
             {n.Call("aten::ge.Scalar", {offsets, 0}), n.Call("aten::lt.Tensor", {offsets, OfSize(n, places.tokens)})});
  const auto wide = [&](const at::Tensor& x) { return Unsqueezed(n, Unsqueezed(n, x, 1), 3); };
  // Of one token there is nothing to pick from: no index keeps the copy from running at the speed of memory.
  if (places.tokens == Int(1)) return n.Where(wide(is_fresh), fresh, cached);
  const at::Tensor within =
      n.Call("aten::minimum", {n.Call("aten::clamp_min", {offsets, 0}), OfSize(n, places.tokens - Int(1))});
  const at::Tensor picked =
      n.Call("aten::gather", {fresh, 2, n.Call("aten::expand", {wide(within), n.SizesOf(cached)})});
  return n.Where(wide(is_fresh), picked, cached);
}

/// Which keys each query sees: [batch or 1, 1, tokens, keys].
void AddOrder(NodeCall& n, Heads& h, const Places& places) {
  const int64_t window = n.IntOf("local_window_size", -1);
  const bool is_ordered = n.FlagOf("causal", 1);
  const at::Tensor keys = Counted(n, 0, places.keys), queries = Unsqueezed(n, places.queries, 2);
  at::Tensor sees;
  if (is_ordered) {
    sees = n.Call("aten::le.Tensor", {keys, queries});
    if (window > 0) {
      const at::Tensor near = n.Call("aten::gt.Tensor", {keys, n.Call("aten::sub.Scalar", {queries, window})});
      sees = n.Call("aten::logical_and", {sees, near});
    }
  } else {
    if (window > 0) Reject("a window of tokens that have no order");
    const at::Tensor last = n.Reshape(n.Within(n.In(kLast), places.keys), {n.SizeOf(h.q, 0), 1, 1});
    sees = n.Call("aten::le.Tensor", {keys, last});
  }
  h.AddMask(n, Unsqueezed(n, Added(n, sees, kHidden, h.q.scalar_type()), 1));
}

/// With a bound of the scores, or something beside the keys that takes a part of the weights.
at::Tensor AttendedInSteps(NodeCall& n, const Heads& h, const std::optional<at::Tensor>& sink) {
  const double scale = h.scale.value_or(1 / std::sqrt(static_cast<double>(n.SizeOf(h.q, 3).Fix())));
  at::Tensor scores = n.Times(n.Call("aten::matmul", {h.q, n.Call("aten::transpose.int", {h.k, -2, -1})}), scale);
  if (h.cap != 0) {
    scores = n.Times(n.Call("aten::tanh", {n.Call("aten::div.Scalar", {scores, h.cap})}), h.cap);
  }
  scores = n.Add(scores, *h.mask);
  if (!sink) return n.Call("aten::matmul", {n.Call("aten::softmax.int", {scores, -1}), h.v});
  const Ints sizes = n.SizesOf(scores);
  const at::Tensor beside =
      n.Call("aten::expand", {n.Reshape(*sink, {1, -1, 1, 1}), Ints{sizes[0], sizes[1], sizes[2], 1}});
  const at::Tensor weights =
      n.Call("aten::softmax.int", {n.Call("aten::cat", {std::vector<at::Tensor>{scores, beside}, -1}), -1});
  return n.Call("aten::matmul", {n.Call("aten::slice.Tensor", {weights, -1, 0, sizes[3]}), h.v});
}

}  // namespace group_query_part
}  // namespace

Results GroupQueryAttention(NodeCall& n) {
  using namespace group_query_part;  // NOLINT
  CheckForm(n);
  const int64_t heads = n.IntOf("num_heads"), of_keys = n.IntOf("kv_num_heads");
  const bool interleaved = n.FlagOf("rotary_interleaved", 0), rotates = n.FlagOf("do_rotary", 0),
             is_smooth = n.FlagOf("smooth_softmax", 0);
  if (heads < 1 || of_keys < 1 || heads % of_keys != 0) Reject(fmt::format("{} heads for {}", of_keys, heads));
  Heads h;
  h.cap = n.FloatOf("softcap", 0.0);
  if (const double scale = n.FloatOf("scale", 0.0); scale != 0) h.scale = scale;
  if (n.Has(kKey) != n.Has(kValue)) Reject("keys without values, or values without keys");
  if (n.Has(kPastKey) != n.Has(kPastValue)) Reject("one half of a cache");
  at::Tensor q, fresh_keys, fresh_values;
  if (n.Has(kKey)) {
    q = ByHead(n, n.In(kQuery), heads);
    fresh_keys = ByHead(n, n.In(kKey), of_keys);
    fresh_values = ByHead(n, n.In(kValue), of_keys);
  } else {
    const at::Tensor all = ByHead(n, n.In(kQuery), heads + 2 * of_keys);
    const auto parts = n.CallAll("aten::split_with_sizes", {all, std::vector<int64_t>{heads, of_keys, of_keys}, 1});
    q = parts.at(0);
    fresh_keys = parts.at(1);
    fresh_values = parts.at(2);
  }
  const Places places = PlacesOf(n, n.SizeOf(q, 2));
  if (rotates) {
    if (!n.Has(kCos) || !n.Has(kSin)) Reject("rotations without their tables");
    const at::Tensor positions = n.Has(kPositions) ? n.To(n.In(kPositions), at::kLong) : places.queries;
    const auto rows = [&](size_t table) { return n.Call("aten::embedding", {n.In(table), positions}); };
    const at::Tensor cos = rows(kCos), sin = rows(kSin);
    const int64_t width = 2 * n.SizeOf(n.In(kCos), 1).Fix();
    q = Rotated(n, q, cos, sin, width, interleaved);
    fresh_keys = Rotated(n, fresh_keys, cos, sin, width, interleaved);
  }
  const at::Tensor keys = Extended(n, kPastKey, fresh_keys, places),
                   values = Extended(n, kPastValue, fresh_values, places);
  h.q = q;
  h.k = keys;
  h.v = values;
  AddOrder(n, h, places);
  if (n.Has(kBias)) {
    at::Tensor bias = n.In(kBias);
    if (places.first) bias = n.Call("aten::constant_pad_nd", {bias, Ints{0, places.keys - n.SizeOf(bias, 3)}, 0.0});
    h.AddMask(n, bias);
  }
  std::optional<at::Tensor> sink = n.MaybeIn(kSink);
  if (!sink && is_smooth) sink = n.Call("aten::zeros", {std::vector<int64_t>{heads}, h.q.scalar_type()});
  const bool in_steps = h.cap != 0 || sink;
  if (in_steps) {
    h.k = Repeated(n, keys, heads / of_keys);
    h.v = Repeated(n, values, heads / of_keys);
  }
  const at::Tensor y = in_steps ? AttendedInSteps(n, h, sink) : Attended(n, h);
  return {SideBySide(n, y), keys, values};
}

}  // namespace ingot::onnx
