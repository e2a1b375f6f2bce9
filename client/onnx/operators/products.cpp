// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>

#include "client/onnx/operators/operators.h"

namespace ingot::onnx {
namespace {
namespace products_part {

Results MatMul(NodeCall& n) { return {n.Call("aten::matmul", {n.In(0), n.In(1)})}; }

Results Gemm(NodeCall& n) {
  const double alpha = n.FloatOf("alpha", 1.0), beta = n.FloatOf("beta", 1.0);
  const bool turns_a = n.IntOf("transA", 0) != 0, turns_b = n.IntOf("transB", 0) != 0;
  at::Tensor a = n.In(0), b = n.In(1);
  if (a.dim() != 2 || b.dim() != 2) Reject(fmt::format("matrices of {} and {} dims", a.dim(), b.dim()));
  const auto is_whole = [](double by) { return by == std::floor(by); };
  if (!at::isFloatingType(a.scalar_type()) && !(is_whole(alpha) && is_whole(beta))) {
    Refuse(fmt::format("integers times {} and {}", alpha, beta));
  }
  if (turns_a) a = n.Call("aten::t", {a});
  std::optional<at::Tensor> c = n.MaybeIn(2);
  if (alpha == 1.0 && beta == 1.0 && turns_b && (!c || c->dim() == 1) && at::isFloatingType(a.scalar_type())) {
    if (!c || c->size(0) == b.size(0)) return {n.Call("aten::linear", {a, b, c})};
  }
  if (turns_b) b = n.Call("aten::t", {b});
  at::Tensor product = n.Call("aten::mm", {a, b});
  const bool is_float = at::isFloatingType(product.scalar_type());
  const auto times = [&](const at::Tensor& x, double by) {
    if (by == 1.0) return x;
    return is_float ? n.Times(x, by) : n.Call("aten::mul.Scalar", {x, static_cast<int64_t>(by)});
  };
  if (c) n.CheckSpreads("C", *c, product);
  product = times(product, alpha);
  return {c ? n.Add(product, times(*c, beta)) : product};
}

Results Einsum(NodeCall& n) {
  const std::string equation = n.TextOf("equation");
  return {n.Call("aten::einsum", {equation, n.AllIn()})};
}

constexpr Operator kTable[] = {
    {"Einsum", 12, Einsum},
    {"Gemm", 7, Gemm},
    {"MatMul", 1, MatMul},
};

}  // namespace products_part
}  // namespace

std::span<const Operator> ProductOperators() { return products_part::kTable; }

}  // namespace ingot::onnx
