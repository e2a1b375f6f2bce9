// SPDX-License-Identifier: Apache-2.0
// Attention and rotations, ONNX's own and those of com.microsoft.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "client/onnx/operators/attention.h"
#include "client/onnx/operators/quantization.h"

namespace ingot::onnx {

at::Tensor ByHead(NodeCall& n, const at::Tensor& x, int64_t heads) {
  if (x.dim() != 3 || heads < 1) Reject(fmt::format("{} dims and {} heads", x.dim(), heads));
  const Ints sizes = n.SizesOf(x);
  return n.Call("aten::transpose.int",
                {n.Reshape(x, {sizes[0], sizes[1], Int(heads), FloorDiv(sizes[2], heads)}), 1, 2});
}
at::Tensor SideBySide(NodeCall& n, const at::Tensor& x) {
  const Ints sizes = n.SizesOf(x);
  return n.Reshape(n.Call("aten::transpose.int", {x, 1, 2}), {sizes[0], sizes[2], sizes[1] * sizes[3]});
}

at::Tensor Repeated(NodeCall& n, const at::Tensor& x, int64_t times) {
  if (times == 1) return x;
  const Ints s = n.SizesOf(x);
  const at::Tensor spread =
      n.Call("aten::expand", {n.Call("aten::unsqueeze", {x, 2}), Ints{s[0], s[1], times, s[2], s[3]}});
  return n.Reshape(spread, {s[0], s[1] * Int(times), s[2], s[3]});
}

at::Tensor Added(NodeCall& n, const at::Tensor& lets_through, double otherwise, at::ScalarType dtype) {
  return n.Where(lets_through, n.Number(0, dtype), n.Number(otherwise, dtype));
}

at::Tensor Attended(NodeCall& n, const Heads& h) {
  const bool shares = h.q.size(1) != h.k.size(1);
  return n.Call("aten::scaled_dot_product_attention",
                {h.q, h.k, h.v, h.mask, 0.0, false, h.scale ? Arg(*h.scale) : Arg(std::nullopt), shares});
}

at::Tensor Rotated(NodeCall& n, const at::Tensor& x, at::Tensor cos, at::Tensor sin, int64_t width, bool interleaved) {
  const auto part = [&](const at::Tensor& all, int64_t from, const Arg& to, int64_t step = 1) {
    return n.Call("aten::slice.Tensor", {all, -1, from, to, step});
  };
  const int64_t whole = n.SizeOf(x, 3).Fix();
  if (width == 0) width = whole;
  if (width < 2 || width % 2 != 0 || width > whole) Reject(fmt::format("{} of {} elements turned", width, whole));
  const at::Tensor turned = width == whole ? x : part(x, 0, width);
  cos = n.Call("aten::unsqueeze", {part(cos, 0, width / 2), 1});
  sin = n.Call("aten::unsqueeze", {part(sin, 0, width / 2), 1});
  const at::Tensor a = interleaved ? part(turned, 0, width, 2) : part(turned, 0, width / 2),
                   b = interleaved ? part(turned, 1, width, 2) : part(turned, width / 2, width);
  const std::vector<at::Tensor> both = {n.Sub(n.Mul(cos, a), n.Mul(sin, b)), n.Add(n.Mul(sin, a), n.Mul(cos, b))};
  at::Tensor y = interleaved ? n.Call("aten::flatten.using_ints", {n.Call("aten::stack", {both, -1}), -2, -1})
                             : n.Call("aten::cat", {both, -1});
  if (width != whole) y = n.Call("aten::cat", {std::vector<at::Tensor>{y, part(x, width, whole)}, -1});
  return y;
}

namespace {
namespace attention_part {

/// Each query sees the keys up to its own, `first` of which lie before the first query.
at::Tensor Causal(NodeCall& n, const Int& queries, const Int& keys, const Int& first, at::ScalarType dtype) {
  const at::Tensor rows = n.Call("aten::arange.start_step", {first, first + queries, 1, at::kLong});
  const at::Tensor columns = n.Call("aten::arange.start_step", {0, keys, 1, at::kLong});
  const at::Tensor sees = n.Call("aten::le.Tensor", {columns, n.Call("aten::unsqueeze", {rows, 1})});
  return Added(n, sees, -std::numeric_limits<double>::infinity(), dtype);
}

/// A softmax whose rows are zeros where the mask leaves nothing.
at::Tensor WeightsOf(NodeCall& n, const at::Tensor& scores, bool is_masked) {
  const at::Tensor weights = n.Call("aten::softmax.int", {scores, -1});
  if (!is_masked) return weights;
  const at::Tensor most = n.Call("aten::amax", {scores, std::vector<int64_t>{-1}, true});
  const at::Tensor is_empty = n.Call("aten::eq.Scalar", {most, -std::numeric_limits<double>::infinity()});
  return n.Where(is_empty, n.Number(0, weights), weights);
}

/// Step by step; `wanted`: which of the steps is given as well: scores, held within the bound, with the mask, weights.
/// A mask comes after the bound, which would make a finite score of what nobody may see.
std::pair<at::Tensor, at::Tensor> AttendedInSteps(NodeCall& n, const Heads& h, int64_t wanted) {
  const double scale = h.scale.value_or(1 / std::sqrt(static_cast<double>(n.SizeOf(h.q, 3).Fix())));
  std::vector<at::Tensor> steps = {
      n.Times(n.Call("aten::matmul", {h.q, n.Call("aten::transpose.int", {h.k, -2, -1})}), scale)};
  if (h.cap != 0) {
    steps.push_back(n.Times(n.Call("aten::tanh", {n.Call("aten::div.Scalar", {steps.back(), h.cap})}), h.cap));
  } else {
    steps.push_back(steps.back());
  }
  steps.push_back(h.mask ? n.Add(steps.back(), *h.mask) : steps.back());
  steps.push_back(WeightsOf(n, steps.back(), h.mask.has_value()));
  if (wanted < 0 || wanted > 3) Reject(fmt::format("step {} of attention", wanted));
  return {n.Call("aten::matmul", {steps.back(), h.v}), steps[static_cast<size_t>(wanted)]};
}

at::Tensor Extended(NodeCall& n, size_t past, const at::Tensor& x) {
  if (!n.Has(past)) return x;
  return n.Call("aten::cat", {std::vector<at::Tensor>{n.In(past), x}, 2});
}

Results Attention(NodeCall& n) {
  const bool is_causal = n.FlagOf("is_causal", 0);
  const int64_t wanted = n.IntOf("qk_matmul_output_mode", 0);
  n.Ignore("softmax_precision");  // PyTorch's is float at least.
  Heads h;
  h.cap = n.FloatOf("softcap", 0.0);
  if (n.HasAttribute("scale")) h.scale = n.FloatOf("scale");
  const bool is_flat = n.In(0).dim() == 3;
  const int64_t of_queries = n.IntOf("q_num_heads", 0), of_keys = n.IntOf("kv_num_heads", 0);
  const auto by_head = [&](size_t i, int64_t heads) { return is_flat ? ByHead(n, n.In(i), heads) : n.In(i); };
  h.q = by_head(0, of_queries);
  const at::Tensor keys = Extended(n, 4, by_head(1, of_keys)), values = Extended(n, 5, by_head(2, of_keys));
  if (h.q.dim() != 4 || keys.dim() != 4 || values.dim() != 4) Reject("operands of other than 3 or 4 dims");
  const Int all = n.SizeOf(h.q, 1), own = n.SizeOf(keys, 1);
  const int64_t times = FloorDiv(all, own).Fix();
  const bool in_steps = n.Wants(3) || h.cap != 0;
  h.k = in_steps ? Repeated(n, keys, times) : keys;
  h.v = in_steps ? Repeated(n, values, times) : values;
  if (n.Has(3)) {
    const at::Tensor mask = n.In(3);
    const bool is_truth = mask.scalar_type() == at::kBool;
    h.AddMask(n, is_truth ? Added(n, mask, -std::numeric_limits<double>::infinity(), h.q.scalar_type()) : mask);
  }
  if (is_causal) {
    const Int queries = n.SizeOf(h.q, 2), seen = n.SizeOf(h.k, 2);
    const Int first = n.Has(4) ? n.SizeOf(n.In(4), 2) : Int(0);
    h.AddMask(n, Causal(n, queries, seen, first, h.q.scalar_type()));
  }
  at::Tensor y, step;
  if (in_steps) {
    std::tie(y, step) = AttendedInSteps(n, h, wanted);
  } else {
    y = Attended(n, h);
  }
  Results results{is_flat ? SideBySide(n, y) : y, keys, values};
  results.push_back({step, nullptr, false, nullptr});
  return results;
}

// -- rotations ----------------------------------------------------------------------------------------

/// `positions`: which rows of the tables, [batch, tokens], or nullopt where tables have a row for each token.
at::Tensor RotatedBy(NodeCall& n, const at::Tensor& cos, const at::Tensor& sin,
                     const std::optional<at::Tensor>& positions) {
  const bool interleaved = n.FlagOf("interleaved", 0);
  const int64_t heads = n.IntOf("num_heads", 0), width = n.IntOf("rotary_embedding_dim", 0);
  const at::Tensor x = n.In(0);
  const bool is_flat = x.dim() == 3;
  int64_t count = heads;
  if (is_flat && heads == 0) {
    // Then a head is as wide as a row of the tables, twice.
    count = FloorDiv(n.SizeOf(x, 2), n.SizeOf(cos, -1) * Int(2)).Fix();
  }
  const at::Tensor by_head = is_flat ? ByHead(n, x, count) : x;
  if (by_head.dim() != 4) Reject(fmt::format("{} dims instead of 3 or 4", x.dim()));
  const auto rows = [&](const at::Tensor& table) {
    if (!positions) return table;
    return n.Call("aten::embedding", {table, n.To(*positions, at::kLong)});
  };
  const at::Tensor y = Rotated(n, by_head, rows(cos), rows(sin), width, interleaved);
  return is_flat ? SideBySide(n, y) : y;
}

Results RotaryEmbedding(NodeCall& n) { return {RotatedBy(n, n.In(1), n.In(2), n.MaybeIn(3))}; }

Results MicrosoftRotaryEmbedding(NodeCall& n) {
  if (n.FloatOf("scale", 1.0) != 1.0) Refuse("scaled rotations");
  if (n.FlagOf("is_packed_batching", 0)) Refuse("sequences that lie side by side");
  at::Tensor positions = n.In(1);
  if (positions.dim() == 1) {
    // The first of positions that follow each other.
    const at::Tensor steps = n.Call("aten::arange.start_step", {0, n.SizeOf(n.In(0), -2), 1, at::kLong});
    positions = n.Call("aten::unsqueeze", {n.Add(n.To(positions, at::kLong), steps), 0});
  }
  return {RotatedBy(n, n.In(2), n.In(3), positions)};
}

// -- com.microsoft ------------------------------------------------------------------------------------

/// Which keys count: a number for each, [batch, keys] or [batch, queries, keys], or how many of each row.
void AddKeyMask(NodeCall& n, Heads& h, const at::Tensor& given, double otherwise) {
  const at::ScalarType dtype = h.q.scalar_type();
  if (given.dim() == 1) {
    if (!(n.SizeOf(given, 0) == n.SizeOf(h.q, 0))) Refuse("masks of first and last positions");
    const Int keys = n.SizeOf(h.k, 2);
    const at::Tensor columns = n.Call("aten::arange.start_step", {0, keys, 1, at::kLong});
    // More than there are is all of them.
    const at::Tensor all = n.Call("aten::full", {Ints{}, keys, at::kLong});
    const at::Tensor counts = n.Within(n.Call("aten::minimum", {n.To(given, at::kLong), all}), keys + Int(1));
    const at::Tensor lengths = n.Reshape(counts, {n.SizeOf(given, 0), 1, 1, 1});
    return h.AddMask(n, Added(n, n.Call("aten::lt.Tensor", {columns, lengths}), otherwise, dtype));
  }
  if (given.dim() != 2 && given.dim() != 3) Refuse(fmt::format("masks of {} dims", given.dim()));
  Ints wanted = {n.SizeOf(h.q, 0), n.SizeOf(h.k, 2)};
  if (given.dim() == 3) wanted.insert(wanted.begin() + 1, n.SizeOf(h.q, 2));
  if (n.SizesOf(given) != wanted) {
    Reject(fmt::format("a mask of sizes [{}] for [{}]", fmt::join(given.sizes(), ", "), fmt::join(Seen(wanted), ", ")));
  }
  const at::Tensor counts = n.Call("aten::ne.Scalar", {given, 0});
  at::Tensor mask = n.Call("aten::unsqueeze", {Added(n, counts, otherwise, dtype), 1});
  if (given.dim() == 2) mask = n.Call("aten::unsqueeze", {mask, 1});
  h.AddMask(n, mask);
}

void AddOrder(NodeCall& n, Heads& h) {
  const Int queries = n.SizeOf(h.q, 2), keys = n.SizeOf(h.k, 2);
  h.AddMask(n, Causal(n, queries, keys, keys - queries, h.q.scalar_type()));
}

/// The scale, and what else these operators have in common; 0 stands for no scale.
double MaskedBy(NodeCall& n, Heads& h) {
  if (const double scale = n.FloatOf("scale", 0.0); scale != 0) h.scale = scale;
  return n.FloatOf("mask_filter_value", -10000.0);
}

Results MultiHeadAttention(NodeCall& n) {
  const int64_t heads = n.IntOf("num_heads");
  const bool is_ordered = n.FlagOf("unidirectional", 0);
  if (!n.Has(1) || !n.Has(2)) Refuse("queries, keys and values in one tensor");
  if (n.Has(8) || n.Has(9)) Refuse("caches of a fixed size");
  Heads h;
  const double otherwise = MaskedBy(n, h);
  at::Tensor bias[3];
  if (n.Has(3)) {
    const Int width = n.SizeOf(n.In(0), 2), of_values = n.SizeOf(n.In(3), 0) - width * Int(2);
    const auto parts = n.CallAll("aten::split_with_sizes", {n.In(3), Ints{width, width, of_values}, 0});
    std::copy(parts.begin(), parts.end(), bias);
  }
  const auto by_head = [&](size_t i) {
    if (n.In(i).dim() == 4) return n.In(i);
    return ByHead(n, bias[i].defined() ? n.Add(n.In(i), bias[i]) : n.In(i), heads);
  };
  h.q = by_head(0);
  h.k = Extended(n, 6, by_head(1));
  h.v = Extended(n, 7, by_head(2));
  if (n.Has(4)) AddKeyMask(n, h, n.In(4), otherwise);
  if (n.Has(5)) h.AddMask(n, n.In(5));
  if (is_ordered) AddOrder(n, h);
  const at::Tensor y = SideBySide(n, Attended(n, h));
  return {y, h.k, h.v};
}

/// Attention over rows that hold queries, keys and values side by side.
Results OfRows(NodeCall& n, const at::Tensor& rows, size_t mask, size_t past, std::optional<size_t> added) {
  const int64_t heads = n.IntOf("num_heads");
  const bool is_ordered = n.FlagOf("unidirectional", 0);
  Heads h;
  const double otherwise = MaskedBy(n, h);
  n.Ignore("past_present_share_buffer");
  if (n.FlagOf("do_rotary", 0)) Refuse("rotations within attention");
  Ints sizes;
  if (const auto given = n.IntsOf("qkv_hidden_sizes"); given && !given->empty()) {
    sizes.assign(given->begin(), given->end());
  } else {
    sizes.assign(3, FloorDiv(n.SizeOf(rows, -1), 3));
  }
  const auto parts = n.CallAll("aten::split_with_sizes", {rows, sizes, -1});
  if (parts.size() != 3) Reject(fmt::format("{} parts instead of 3", parts.size()));
  h.q = ByHead(n, parts[0], heads);
  h.k = ByHead(n, parts[1], heads);
  h.v = ByHead(n, parts[2], heads);
  if (n.Has(past)) {
    const auto before = [&](int64_t i, const at::Tensor& x) {
      return n.Call("aten::cat", {std::vector<at::Tensor>{n.Call("aten::select.int", {n.In(past), 0, i}), x}, 2});
    };
    h.k = before(0, h.k);
    h.v = before(1, h.v);
  }
  if (n.Has(mask)) AddKeyMask(n, h, n.In(mask), otherwise);
  if (added && n.Has(*added)) h.AddMask(n, n.In(*added));
  if (is_ordered) AddOrder(n, h);
  const at::Tensor y = SideBySide(n, Attended(n, h));
  if (!n.Wants(1)) return {y};
  return {y, n.Call("aten::stack", {std::vector<at::Tensor>{h.k, h.v}, 0})};
}

Results MicrosoftAttention(NodeCall& n) {
  if (n.Has(6)) Refuse("caches of a fixed size");
  at::Tensor rows = n.Call("aten::matmul", {n.In(0), n.In(1)});
  if (n.Has(2)) rows = n.Add(rows, n.In(2));
  return OfRows(n, rows, 3, 4, 5);
}

Results QAttention(NodeCall& n) {
  const at::Tensor sums = n.Call("aten::matmul", {Widened(n, 0, 6, true), Widened(n, 1, 7, false)});
  const auto one = [&](size_t i) { return n.In(i).numel() == 1 ? n.Reshape(n.In(i), {}) : n.In(i); };
  const at::Tensor rows = n.Add(n.Mul(n.To(sums, at::kFloat), n.Mul(one(3), one(4))), n.In(2));
  return OfRows(n, rows, 5, 8, std::nullopt);
}

constexpr Operator kTable[] = {
    {"Attention", 23, Attention},
    {"RotaryEmbedding", 23, RotaryEmbedding},
};
constexpr Operator kMicrosoft[] = {
    {"Attention", 1, MicrosoftAttention},
    {"GroupQueryAttention", 1, GroupQueryAttention},
    {"MultiHeadAttention", 1, MultiHeadAttention},
    {"QAttention", 1, QAttention},
    {"RotaryEmbedding", 1, MicrosoftRotaryEmbedding},
};

}  // namespace attention_part
}  // namespace

std::span<const Operator> AttentionOperators() { return attention_part::kTable; }
std::span<const Operator> MicrosoftAttentionOperators() { return attention_part::kMicrosoft; }

}  // namespace ingot::onnx
