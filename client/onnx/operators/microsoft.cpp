// SPDX-License-Identifier: Apache-2.0
// Operators of the domain com.microsoft, which onnxruntime writes into models of transformers that it has optimised.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "client/onnx/operators/norms.h"
#include "client/onnx/operators/windows.h"

namespace ingot::onnx {
namespace {
namespace microsoft_part {

// -- activations --------------------------------------------------------------------------------------

/// x with a number for each of its columns.
at::Tensor Biased(NodeCall& n, const at::Tensor& x, const at::Tensor& bias) {
  if (bias.dim() != 1 || n.SizeOf(bias, 0) != n.SizeOf(x, -1)) {
    Reject(fmt::format("a bias of sizes [{}] for [{}]", fmt::join(bias.sizes(), ", "), fmt::join(x.sizes(), ", ")));
  }
  return n.Add(x, bias);
}

template <bool is_tanh>
Results Gelu(NodeCall& n) {
  const at::Tensor x = n.Has(1) ? Biased(n, n.In(0), n.In(1)) : n.In(0);
  return {n.Call("aten::gelu", {x, is_tanh ? "tanh" : "none"})};
}

Results QuickGelu(NodeCall& n) {
  const double alpha = n.FloatOf("alpha", 1.702);
  const at::Tensor x = n.In(0);
  return {n.Mul(x, n.Call("aten::sigmoid", {n.Times(x, alpha)}))};
}

Results BiasSplitGelu(NodeCall& n) {
  const at::Tensor x = Biased(n, n.In(0), n.In(1));
  const auto halves = n.CallAll("aten::chunk", {x, 2, -1});
  return {n.Mul(halves.at(0), n.Call("aten::gelu", {halves.at(1)}))};
}

// -- norms of sums ------------------------------------------------------------------------------------

/// What is normalised, with what it was made of.
Results Normalised(NodeCall& n, const at::Tensor& sum, const at::Tensor& scale, const std::optional<at::Tensor>& bias,
                   bool is_rms, double epsilon) {
  if (n.Wants(1) || n.Wants(2)) Refuse("the statistics of a norm, which training alone needs");
  const at::Tensor y = is_rms ? RootMeanSquareNorm(n, sum, scale, -1, epsilon)
                              : n.Call("aten::layer_norm", {sum, Ints{n.SizeOf(sum, -1)}, scale, bias, epsilon});
  Results results{y};
  results.resize(3);
  results.push_back({sum, nullptr, false, nullptr});
  return results;
}

Results SkipLayerNorm(NodeCall& n) {
  const double epsilon = n.FloatOf("epsilon", 1e-12);
  const bool is_rms = n.op().name == "SkipSimplifiedLayerNormalization";
  const std::optional<at::Tensor> beta = is_rms ? std::nullopt : n.MaybeIn(3), bias = n.MaybeIn(is_rms ? 3 : 4);
  n.CheckSpreads("skip", n.In(1), n.In(0));
  at::Tensor sum = n.Add(n.In(0), n.In(1));
  if (bias) sum = Biased(n, sum, *bias);
  return Normalised(n, sum, n.In(2), beta, is_rms, epsilon);
}

Results EmbedLayerNorm(NodeCall& n) {
  const double epsilon = n.FloatOf("epsilon", 1e-12);
  n.Ignore("mask_index_type");
  if (n.Wants(1) && n.Has(7)) Refuse("lengths of a mask");
  const at::Tensor ids = n.In(0);
  const auto rows = [&](const at::Tensor& table, const at::Tensor& at) {
    return n.Call("aten::embedding", {table, n.To(at, at::kLong)});
  };
  at::Tensor sum = rows(n.In(2), ids);
  const at::Tensor positions =
      n.Has(8) ? n.In(8) : n.Call("aten::arange.start_step", {0, n.SizeOf(ids, 1), 1, at::kLong});
  sum = n.Add(sum, rows(n.In(3), positions));
  if (n.Has(4) && n.Has(1)) sum = n.Add(sum, rows(n.In(4), n.In(1)));
  const at::Tensor y = n.Call("aten::layer_norm", {sum, Ints{n.SizeOf(sum, -1)}, n.In(5), n.In(6), epsilon});
  Results results{y};
  results.push_back(n.Wants(1)
                        ? Value{n.Call("aten::full", {Ints{n.SizeOf(ids, 0)}, 0, at::kInt}), nullptr, false, nullptr}
                        : Value());
  results.push_back({sum, nullptr, false, nullptr});
  return results;
}

// -- products -----------------------------------------------------------------------------------------

Results FusedMatMul(NodeCall& n) {
  const double alpha = n.FloatOf("alpha", 1.0);
  const auto turned = [&](size_t i, std::string_view name, std::string_view batch) {
    if (n.IntOf(batch, 0) != 0) Refuse("batches that lie within matrices");
    const at::Tensor x = n.In(i);
    return n.IntOf(name, 0) != 0 && x.dim() > 1 ? n.Call("aten::transpose.int", {x, -2, -1}) : x;
  };
  const at::Tensor product =
      n.Call("aten::matmul", {turned(0, "transA", "transBatchA"), turned(1, "transB", "transBatchB")});
  return {alpha == 1.0 ? product : n.Times(product, alpha)};
}

at::Tensor Activated(NodeCall& n, const at::Tensor& x) {
  const std::string name = n.TextOf("activation", "");
  const std::vector<double> numbers = n.FloatsOf("activation_params").value_or(std::vector<double>{});
  const auto number = [&](size_t i) {
    if (i >= numbers.size()) Reject(fmt::format("'{}' with {} numbers", name, numbers.size()));
    return numbers[i];
  };
  if (name.empty()) return x;
  if (name == "Relu") return n.Call("aten::relu", {x});
  if (name == "Sigmoid") return n.Call("aten::sigmoid", {x});
  if (name == "Tanh") return n.Call("aten::tanh", {x});
  if (name == "LeakyRelu") return n.Call("aten::leaky_relu", {x, number(0)});
  if (name == "Clip") return n.Call("aten::clamp", {x, number(0), number(1)});
  if (name == "HardSigmoid") {
    return n.Call("aten::clamp", {n.Plus(n.Times(x, number(0)), number(1)), 0.0, 1.0});
  }
  Refuse(fmt::format("activation '{}'", name));
}

Results FusedConv(NodeCall& n) {
  const ConvCall call = ConvOf(n, n.In(0), n.In(1));
  const at::Tensor y = call.Run(n, call.x, n.In(1), n.MaybeIn(2));
  return {Activated(n, n.Has(3) ? n.Add(y, n.In(3)) : y)};
}

Results BiasAdd(NodeCall& n) { return {n.Add(Biased(n, n.In(0), n.In(1)), n.In(2))}; }

constexpr Operator kTable[] = {
    {"BiasAdd", 1, BiasAdd},
    {"BiasGelu", 1, Gelu<false>},
    {"BiasSplitGelu", 1, BiasSplitGelu},
    {"EmbedLayerNormalization", 1, EmbedLayerNorm},
    {"FastGelu", 1, Gelu<true>},
    {"FusedConv", 1, FusedConv},
    {"FusedMatMul", 1, FusedMatMul},
    {"Gelu", 1, Gelu<false>},
    {"QuickGelu", 1, QuickGelu},
    {"SimplifiedLayerNormalization", 1, RootMeanSquareNormOf},
    {"SkipLayerNormalization", 1, SkipLayerNorm},
    {"SkipSimplifiedLayerNormalization", 1, SkipLayerNorm},
};

}  // namespace microsoft_part
}  // namespace

std::span<const Operator> MicrosoftOperators() { return microsoft_part::kTable; }

}  // namespace ingot::onnx
