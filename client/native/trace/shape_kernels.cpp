// SPDX-License-Identifier: Apache-2.0
#include "client/native/trace/shape_kernels.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/_softmax_meta_dispatch.h>
#include <ATen/ops/add_meta_dispatch.h>
#include <ATen/ops/addmm_meta_dispatch.h>
#include <ATen/ops/bmm_meta_dispatch.h>
#include <ATen/ops/cos_meta_dispatch.h>
#include <ATen/ops/div_meta_dispatch.h>
#include <ATen/ops/eq_meta_dispatch.h>
#include <ATen/ops/erf_meta_dispatch.h>
#include <ATen/ops/exp_meta_dispatch.h>
#include <ATen/ops/ge_meta_dispatch.h>
#include <ATen/ops/gelu_meta_dispatch.h>
#include <ATen/ops/gt_meta_dispatch.h>
#include <ATen/ops/le_meta_dispatch.h>
#include <ATen/ops/log_meta_dispatch.h>
#include <ATen/ops/lt_meta_dispatch.h>
#include <ATen/ops/maximum_meta_dispatch.h>
#include <ATen/ops/mean_meta_dispatch.h>
#include <ATen/ops/minimum_meta_dispatch.h>
#include <ATen/ops/mm_meta_dispatch.h>
#include <ATen/ops/mul_meta_dispatch.h>
#include <ATen/ops/ne_meta_dispatch.h>
#include <ATen/ops/neg_meta_dispatch.h>
#include <ATen/ops/pow_meta_dispatch.h>
#include <ATen/ops/reciprocal_meta_dispatch.h>
#include <ATen/ops/rsqrt_meta_dispatch.h>
#include <ATen/ops/sigmoid_meta_dispatch.h>
#include <ATen/ops/silu_meta_dispatch.h>
#include <ATen/ops/sin_meta_dispatch.h>
#include <ATen/ops/sqrt_meta_dispatch.h>
#include <ATen/ops/sub_meta_dispatch.h>
#include <ATen/ops/sum_meta_dispatch.h>
#include <ATen/ops/tanh_meta_dispatch.h>

#include <unordered_map>

namespace ingot::client {
namespace {

using T = const at::Tensor&;
using S = const at::Scalar&;
using Dims = at::OptionalIntArrayRef;
using DType = std::optional<at::ScalarType>;

// The overload of these parameters.
template <typename... Parameters>
c10::KernelFunction Kernel(at::Tensor (*function)(Parameters...)) {
  return c10::KernelFunction::makeFromUnboxedRuntimeFunction(function);
}

std::unordered_map<c10::OperatorName, c10::KernelFunction> MakeKernels() {
  namespace meta = at::meta;
  return {
      {{"aten::cos", ""}, Kernel<T>(meta::cos)},
      {{"aten::erf", ""}, Kernel<T>(meta::erf)},
      {{"aten::exp", ""}, Kernel<T>(meta::exp)},
      {{"aten::log", ""}, Kernel<T>(meta::log)},
      {{"aten::neg", ""}, Kernel<T>(meta::neg)},
      {{"aten::reciprocal", ""}, Kernel<T>(meta::reciprocal)},
      {{"aten::rsqrt", ""}, Kernel<T>(meta::rsqrt)},
      {{"aten::sigmoid", ""}, Kernel<T>(meta::sigmoid)},
      {{"aten::silu", ""}, Kernel<T>(meta::silu)},
      {{"aten::sin", ""}, Kernel<T>(meta::sin)},
      {{"aten::sqrt", ""}, Kernel<T>(meta::sqrt)},
      {{"aten::tanh", ""}, Kernel<T>(meta::tanh)},
      {{"aten::gelu", ""}, Kernel<T, c10::string_view>(meta::gelu)},
      {{"aten::add", "Tensor"}, Kernel<T, T, S>(meta::add)},
      {{"aten::sub", "Tensor"}, Kernel<T, T, S>(meta::sub)},
      {{"aten::mul", "Tensor"}, Kernel<T, T>(meta::mul)},
      {{"aten::div", "Tensor"}, Kernel<T, T>(meta::div)},
      {{"aten::maximum", ""}, Kernel<T, T>(meta::maximum)},
      {{"aten::minimum", ""}, Kernel<T, T>(meta::minimum)},
      {{"aten::pow", "Tensor_Tensor"}, Kernel<T, T>(meta::pow)},
      {{"aten::pow", "Tensor_Scalar"}, Kernel<T, S>(meta::pow)},
      {{"aten::pow", "Scalar"}, Kernel<S, T>(meta::pow)},
      {{"aten::eq", "Tensor"}, Kernel<T, T>(meta::eq)},
      {{"aten::eq", "Scalar"}, Kernel<T, S>(meta::eq)},
      {{"aten::ne", "Tensor"}, Kernel<T, T>(meta::ne)},
      {{"aten::ne", "Scalar"}, Kernel<T, S>(meta::ne)},
      {{"aten::lt", "Tensor"}, Kernel<T, T>(meta::lt)},
      {{"aten::lt", "Scalar"}, Kernel<T, S>(meta::lt)},
      {{"aten::le", "Tensor"}, Kernel<T, T>(meta::le)},
      {{"aten::le", "Scalar"}, Kernel<T, S>(meta::le)},
      {{"aten::gt", "Tensor"}, Kernel<T, T>(meta::gt)},
      {{"aten::gt", "Scalar"}, Kernel<T, S>(meta::gt)},
      {{"aten::ge", "Tensor"}, Kernel<T, T>(meta::ge)},
      {{"aten::ge", "Scalar"}, Kernel<T, S>(meta::ge)},
      {{"aten::mm", ""}, Kernel<T, T>(meta::mm)},
      {{"aten::bmm", ""}, Kernel<T, T>(meta::bmm)},
      {{"aten::addmm", ""}, Kernel<T, T, T, S, S>(meta::addmm)},
      {{"aten::mean", "dim"}, Kernel<T, Dims, bool, DType>(meta::mean)},
      {{"aten::sum", "dim_IntList"}, Kernel<T, Dims, bool, DType>(meta::sum)},
      {{"aten::_softmax", ""}, Kernel<T, int64_t, bool>(meta::_softmax)},
  };
}

}  // namespace

const c10::KernelFunction* ShapeKernelOf(const c10::OperatorName& name) {
  static const auto* kernels = new auto(MakeKernels());
  const auto found = kernels->find(name);
  return found == kernels->end() ? nullptr : &found->second;
}

}  // namespace ingot::client
