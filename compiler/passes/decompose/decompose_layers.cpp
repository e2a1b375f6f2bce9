// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "compiler/passes/decompose/decompose_rules.h"

namespace ingot::compiler {
namespace {

/// Part `i` of the last dim cut into equal ones of `size`.
Result<Ref> PartOf(Composite& c, Ref x, int64_t i, const Dim& size) {
  return c.Slice(x, c.type(x).rank() - 1, Dim(i) * size, Dim(i + 1) * size);
}

/// linear(x, weight, bias), of which the bias may be absent.
Result<Ref> Linear(Composite& c, Ref x, size_t weight_at, size_t bias_at) {
  TRY_ASSIGN(const Ref weight, c.Tensor(weight_at));
  return c.Op("aten.linear", {x, weight, c.At(bias_at)});
}

/// What a cell (input, state, w_ih, w_hh, b_ih, b_hh) makes of its input and of its state.
struct Gates {
  Ref of_input, of_state;
};
Result<Gates> GatesOf(Composite& c, Ref state) {
  TRY_ASSIGN(const Ref x, c.Tensor(0));
  Gates gates;
  TRY_ASSIGN(gates.of_input, Linear(c, x, 2, 4));
  TRY_ASSIGN(gates.of_state, Linear(c, state, 3, 5));
  return gates;
}

}  // namespace

/// lstm_cell(input, [h, c], w_ih, w_hh, b_ih, b_hh)
Parts LstmCellInParts(Composite& c) {
  const auto* states = c.call().Get<RefList>(1);
  if (states == nullptr || states->ids.size() != 2) return Whole("not a cell with two states");
  const Ref h{states->ids[0]}, cell{states->ids[1]};
  TRY_ASSIGN(const Gates gates, GatesOf(c, h));
  TRY_ASSIGN(const Ref all, c.Add(gates.of_state, gates.of_input));
  std::array<Ref, 4> gate;
  for (size_t i = 0; i < gate.size(); ++i) {
    TRY_ASSIGN(const Ref part, PartOf(c, all, static_cast<int64_t>(i), c.type(h).sizes.back()));
    TRY_ASSIGN(gate[i], c.Op(i == 2 ? "aten.tanh" : "aten.sigmoid", {part}));
  }
  const auto& [in, forget, next, out] = gate;
  TRY_ASSIGN(const Ref kept, c.Mul(forget, cell));
  TRY_ASSIGN(const Ref taken, c.Mul(in, next));
  TRY_ASSIGN(const Ref new_cell, c.Add(kept, taken));
  TRY_ASSIGN(const Ref shown, c.Op("aten.tanh", {new_cell}));
  TRY_ASSIGN(const Ref new_h, c.Mul(out, shown));
  return std::vector<Ref>{new_h, new_cell};
}

/// gru_cell(input, h, w_ih, w_hh, b_ih, b_hh)
Parts GruCellInParts(Composite& c) {
  TRY_ASSIGN(const Ref h, c.Tensor(1));
  TRY_ASSIGN(const Gates gates, GatesOf(c, h));
  const Dim size = c.type(h).sizes.back();
  std::array<Ref, 2> gate;
  for (size_t i = 0; i < gate.size(); ++i) {
    TRY_ASSIGN(const Ref of_input, PartOf(c, gates.of_input, static_cast<int64_t>(i), size));
    TRY_ASSIGN(const Ref of_state, PartOf(c, gates.of_state, static_cast<int64_t>(i), size));
    TRY_ASSIGN(const Ref sum, c.Add(of_state, of_input));
    TRY_ASSIGN(gate[i], c.Op("aten.sigmoid", {sum}));
  }
  const auto& [reset, keep] = gate;
  TRY_ASSIGN(const Ref of_input, PartOf(c, gates.of_input, 2, size));
  TRY_ASSIGN(const Ref of_state, PartOf(c, gates.of_state, 2, size));
  TRY_ASSIGN(const Ref remembered, c.Mul(of_state, reset));
  TRY_ASSIGN(const Ref sum, c.Add(remembered, of_input));
  TRY_ASSIGN(const Ref next, c.Op("aten.tanh", {sum}));
  TRY_ASSIGN(const Ref away, c.Sub(h, next));
  TRY_ASSIGN(const Ref kept, c.Mul(away, keep));
  TRY_ASSIGN(const Ref y, c.Add(kept, next));
  return std::vector<Ref>{y};
}

/// rnn_tanh_cell and rnn_relu_cell (input, h, w_ih, w_hh, b_ih, b_hh)
Parts RecurrentCellInParts(Composite& c) {
  TRY_ASSIGN(const Ref h, c.Tensor(1));
  TRY_ASSIGN(const Gates gates, GatesOf(c, h));
  TRY_ASSIGN(const Ref sum, c.Add(gates.of_state, gates.of_input));
  TRY_ASSIGN(const Ref y, c.Op(c.op() == "aten.rnn_relu_cell" ? "aten.relu" : "aten.tanh", {sum}));
  return std::vector<Ref>{y};
}

/// _transformer_encoder_layer_fwd(src, embed_dim, num_heads, qkv weight and bias, projection weight and bias, use_gelu,
/// norm_first, eps, weight and bias of two norms, weight and bias of two linear layers, mask, mask_type)
Parts EncoderLayerInParts(Composite& c) {
  const auto heads = c.call().IntAt(2);
  const auto uses_gelu = c.call().BoolAt(7), norm_first = c.call().BoolAt(8);
  const auto eps = c.call().FloatAt(9);
  TRY_ASSIGN(const Ref src, c.Tensor(0));
  const Type type = c.type(src);
  if (c.Has(18)) return Whole("positions are masked");
  if (!heads || *heads < 1 || !uses_gelu || !norm_first || !eps || type.rank() != 3)
    return Whole("not as layers call it");
  const Dim width = type.sizes[2];
  const auto of_head = width.DivideExactly(Dim(*heads));
  if (!of_head) return Whole("heads do not share the width");
  const auto norm = [&](Ref x, size_t at) -> Result<Ref> {
    return c.Op("aten.layer_norm", {x, Dims{width}, c.At(at), c.At(at + 1), *eps, false});
  };
  const auto attend = [&](Ref x) -> Result<Ref> {
    TRY_ASSIGN(const Ref all, Linear(c, x, 3, 4));
    std::array<Ref, 3> part;
    for (size_t i = 0; i < part.size(); ++i) {
      TRY_ASSIGN(const Ref flat, PartOf(c, all, static_cast<int64_t>(i), width));
      TRY_ASSIGN(const Ref apart, c.Op("aten.view", {flat, Dims{type.sizes[0], type.sizes[1], Dim(*heads), *of_head}}));
      TRY_ASSIGN(part[i], c.Op("aten.transpose.int", {apart, Dim(1), Dim(2)}));
    }
    // Heads lie side by side, as in what they come from.
    const Type of_heads{type.dtype,
                        {type.sizes[0], Dim(*heads), type.sizes[1], *of_head},
                        {type.sizes[1] * width, *of_head, width, Dim(1)}};
    const Ref seen = c.Typed("aten.scaled_dot_product_attention",
                             {part[0], part[1], part[2], None{}, 0.0, false, None{}, false}, of_heads);
    TRY_ASSIGN(const Ref turned, c.Op("aten.transpose.int", {seen, Dim(1), Dim(2)}));
    TRY_ASSIGN(const Ref joined, c.Reshape(turned, type.sizes));
    return Linear(c, joined, 5, 6);
  };
  const auto feed = [&](Ref x) -> Result<Ref> {
    TRY_ASSIGN(const Ref wide, Linear(c, x, 14, 15));
    TRY_ASSIGN(const Ref bent, *uses_gelu ? c.Op("aten.gelu", {wide, Name("none")}) : c.Op("aten.relu", {wide}));
    return Linear(c, bent, 16, 17);
  };
  Ref x = src;
  for (const bool is_attention : {true, false}) {
    const size_t norm_at = is_attention ? 10 : 12;
    Ref inner = x;
    if (*norm_first) {
      TRY_ASSIGN(inner, norm(x, norm_at));
    }
    TRY_ASSIGN(const Ref y, is_attention ? attend(inner) : feed(inner));
    TRY_ASSIGN(x, c.Add(x, y));
    if (!*norm_first) {
      TRY_ASSIGN(x, norm(x, norm_at));
    }
  }
  return std::vector<Ref>{x};
}

}  // namespace ingot::compiler
