// SPDX-License-Identifier: Apache-2.0
// Recurrent layers, as PyTorch's own of one layer. Gates lie in another order there.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "client/onnx/operators/operators.h"

namespace ingot::onnx {
namespace {
namespace recurrent_part {

/// A kind of cell: its gates in PyTorch's order, by their places in ONNX's.
struct Cell {
  std::string_view aten;
  std::vector<int64_t> gates;
  std::vector<std::string> activations;  ///< of one direction
};

struct Layer {
  int64_t directions = 1;
  bool is_reverse = false, is_batch_first = false;
  at::Tensor x;                 ///< [steps, batch, inputs]
  Ints state_sizes;             ///< [directions, batch, hidden]
  std::vector<at::Tensor> weights;  ///< for each direction of inputs and of states, and their two biases
  bool has_biases = false;
};

/// Gates along dim 0 in PyTorch's order.
at::Tensor Turned(const at::Tensor& weight, const Cell& cell) {
  const std::vector<at::Tensor> parts = weight.chunk(static_cast<int64_t>(cell.gates.size()), 0);
  std::vector<at::Tensor> turned;
  for (const int64_t gate : cell.gates) turned.push_back(parts.at(static_cast<size_t>(gate)));
  return at::cat(turned, 0);
}

void CheckOrdinary(NodeCall& n, const Cell& cell, int64_t directions) {
  std::vector<std::string> expected;
  for (int64_t d = 0; d < directions; ++d) {
    expected.insert(expected.end(), cell.activations.begin(), cell.activations.end());
  }
  if (const auto given = n.TextsOf("activations"); given && *given != expected) {
    Refuse(fmt::format("activations {}; PyTorch has {}", fmt::join(*given, ", "), fmt::join(expected, ", ")));
  }
  for (const char* name : {"activation_alpha", "activation_beta"}) n.Ignore(name);  // Of activations that have none.
  if (n.HasAttribute("clip")) Refuse("values between gates that are clipped");
}

Layer LayerOf(NodeCall& n, const Cell& cell) {
  Layer layer;
  const std::string direction = n.TextOf("direction", "forward");
  layer.directions = direction == "bidirectional" ? 2 : 1;
  layer.is_reverse = direction == "reverse";
  if (layer.directions == 1 && !layer.is_reverse && direction != "forward") {
    Reject(fmt::format("direction '{}'", direction));
  }
  layer.is_batch_first = n.FlagOf("layout", 0);
  CheckOrdinary(n, cell, layer.directions);
  const int64_t hidden = n.IntOf("hidden_size");
  for (size_t i = 1; i <= 3; ++i) {
    if (n.Has(i) && !n.IsConstant(i)) Refuse("weights that are no constants of the model");
  }
  const auto gates = static_cast<int64_t>(cell.gates.size());
  const at::Tensor x = n.In(0), w = n.In(1), r = n.In(2);
  if (x.dim() != 3 || w.dim() != 3 || r.dim() != 3 || w.size(0) != layer.directions || r.size(0) != layer.directions ||
      hidden < 1 || hidden > 1 << 20 || w.size(1) != gates * hidden || r.size(1) != gates * hidden ||
      r.size(2) != hidden || !(n.SizeOf(x, 2) == Int(w.size(2)))) {
    Reject("weights that do not fit each other, or the input");
  }
  layer.has_biases = n.Has(3);
  if (layer.has_biases &&
      (n.In(3).dim() != 2 || n.In(3).size(0) != layer.directions || n.In(3).size(1) != 2 * gates * hidden)) {
    Reject("biases that do not fit the weights");
  }
  for (int64_t d = 0; d < layer.directions; ++d) {
    const Unnoted unnoted;
    layer.weights.push_back(n.Constant(Turned(w[d], cell)));
    layer.weights.push_back(n.Constant(Turned(r[d], cell)));
    if (!layer.has_biases) continue;
    const at::Tensor both = n.In(3)[d];
    layer.weights.push_back(n.Constant(Turned(both.slice(0, 0, gates * hidden), cell)));
    layer.weights.push_back(n.Constant(Turned(both.slice(0, gates * hidden), cell)));
  }
  layer.x = layer.is_batch_first ? n.Call("aten::transpose.int", {x, 0, 1}) : x;
  if (n.Has(4)) {
    for (const Int& length : n.IntsAt(4)) {
      if (!(length == n.SizeOf(layer.x, 0))) Refuse("sequences of different lengths");
    }
  }
  if (layer.is_reverse) layer.x = n.Call("aten::flip", {layer.x, std::vector<int64_t>{0}});
  layer.state_sizes = {Int(layer.directions), n.SizeOf(layer.x, 1), Int(hidden)};
  return layer;
}

at::Tensor StateOf(NodeCall& n, const Layer& layer, size_t i) {
  if (!n.Has(i)) return n.Call("aten::full", {layer.state_sizes, 0.0, layer.x.scalar_type()});
  at::Tensor state = n.In(i);
  if (state.dim() != 3) Reject(fmt::format("a state of {} dims instead of 3", state.dim()));
  if (layer.is_batch_first) state = n.Call("aten::transpose.int", {state, 0, 1});
  // PyTorch's layers read beyond a state that is smaller, and leave a part of one that is larger.
  for (int64_t d = 0; d < 3; ++d) {
    if (!(n.SizeOf(state, d) == layer.state_sizes[static_cast<size_t>(d)])) {
      Reject("a state of other sizes than directions, batch and hidden_size");
    }
  }
  return state;
}

/// The outputs as ONNX has them: directions are a dim of their own.
Results Given(NodeCall& n, const Layer& layer, const std::vector<at::Tensor>& made) {
  at::Tensor y =
      n.Reshape(made[0], {n.SizeOf(layer.x, 0), layer.state_sizes[1], layer.state_sizes[0], layer.state_sizes[2]});
  if (layer.is_reverse) y = n.Call("aten::flip", {y, std::vector<int64_t>{0}});
  y = n.Call("aten::permute",
             {y, layer.is_batch_first ? std::vector<int64_t>{1, 0, 2, 3} : std::vector<int64_t>{0, 2, 1, 3}});
  Results results{y};
  for (size_t i = 1; i < made.size(); ++i) {
    const at::Tensor state = layer.is_batch_first ? n.Call("aten::transpose.int", {made[i], 0, 1}) : made[i];
    results.push_back({state, nullptr, false, nullptr});
  }
  return results;
}

Args ArgsOf(const Layer& layer, Arg state) {
  return {layer.x, std::move(state), layer.weights, layer.has_biases, 1, 0.0, false, layer.directions == 2, false};
}

Results Lstm(NodeCall& n) {
  static const Cell cell{"aten::lstm.input", {0, 2, 3, 1}, {"Sigmoid", "Tanh", "Tanh"}};
  if (n.FlagOf("input_forget", 0)) Refuse("input gates that are what is left of forget gates");
  if (n.Has(7)) Refuse("gates that see the state of the cell");
  const Layer layer = LayerOf(n, cell);
  const std::vector<at::Tensor> state = {StateOf(n, layer, 5), StateOf(n, layer, 6)};
  return Given(n, layer, n.CallAll(cell.aten, ArgsOf(layer, state)));
}

Results Gru(NodeCall& n) {
  static const Cell cell{"aten::gru.input", {1, 0, 2}, {"Sigmoid", "Tanh"}};
  if (!n.FlagOf("linear_before_reset", 0)) Refuse("states that are reset before they are multiplied");
  const Layer layer = LayerOf(n, cell);
  return Given(n, layer, n.CallAll(cell.aten, ArgsOf(layer, StateOf(n, layer, 5))));
}

Results Rnn(NodeCall& n) {
  static const Cell tanh{"aten::rnn_tanh.input", {0}, {"Tanh"}}, relu{"aten::rnn_relu.input", {0}, {"Relu"}};
  const auto activations = n.TextsOf("activations");
  const bool is_relu = activations && !activations->empty() && activations->front() == "Relu";
  const Layer layer = LayerOf(n, is_relu ? relu : tanh);
  return Given(n, layer, n.CallAll((is_relu ? relu : tanh).aten, ArgsOf(layer, StateOf(n, layer, 5))));
}

constexpr Operator kTable[] = {
    {"GRU", 7, Gru},
    {"LSTM", 7, Lstm},
    {"RNN", 7, Rnn},
};

}  // namespace recurrent_part
}  // namespace

std::span<const Operator> RecurrentOperators() { return recurrent_part::kTable; }

}  // namespace ingot::onnx
