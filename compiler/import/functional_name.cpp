// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/functional_name.h"

#include <algorithm>

#include "compiler/ir/verify.h"

namespace ingot::compiler {
namespace {

struct Pair {
  std::string_view from, to;
};

// In-place operators whose functional form is not the name without the underscore.
constexpr Pair kInPlace[] = {
    {"normal_", "normal_functional"},
    {"bernoulli_.float", "bernoulli.p"},
    {"__iand__.Tensor", "__and__.Tensor"},
    {"__iand__.Scalar", "__and__.Scalar"},
    {"__ior__.Tensor", "__or__.Tensor"},
    {"__ior__.Scalar", "__or__.Scalar"},
    {"__ixor__.Tensor", "__xor__.Tensor"},
    {"__ixor__.Scalar", "__xor__.Scalar"},
    {"__ilshift__.Tensor", "__lshift__.Tensor"},
    {"__ilshift__.Scalar", "__lshift__.Scalar"},
    {"__irshift__.Tensor", "__rshift__.Tensor"},
    {"__irshift__.Scalar", "__rshift__.Scalar"},
    {"pow_.Tensor", "pow.Tensor_Tensor"},
    {"float_power_.Tensor", "float_power.Tensor_Tensor"},
    {"floor_divide_.Tensor", "floor_divide"},
    {"ldexp_", "ldexp.Tensor"},
};

// `out=` overloads that are not named after their functional overload.
constexpr Pair kOut[] = {
    {"add.out", "add.Tensor"},
    {"sub.out", "sub.Tensor"},
    {"mul.out", "mul.Tensor"},
    {"div.out", "div.Tensor"},
    {"div.out_mode", "div.Tensor_mode"},
    {"sum.IntList_out", "sum.dim_IntList"},
    {"mean.out", "mean.dim"},
    {"any.out", "any.dim"},
    {"all.out", "all.dim"},
    {"std.out", "std.dim"},
    {"var.out", "var.dim"},
    {"prod.int_out", "prod.dim_int"},
    {"max.dim_max", "max.dim"},
    {"min.dim_min", "min.dim"},
    {"topk.values", "topk"},
    {"sort.values", "sort"},
    {"kthvalue.values", "kthvalue"},
    {"mode.values", "mode"},
    {"norm.out", "norm.ScalarOpt_dim"},
    {"all.all_out", "all"},
    {"any.all_out", "any"},
    {"max.unary_out", "max"},
    {"min.unary_out", "min"},
    {"mean.dtype_out", "mean"},
    {"norm.dtype_out", "norm.ScalarOpt_dim_dtype"},
    {"frobenius_norm.out", "frobenius_norm.dim"},
    {"copysign.out", "copysign.Tensor"},
    {"ldexp.out", "ldexp.Tensor"},
    {"divide.out", "divide.Tensor"},
    {"multiply.out", "multiply.Tensor"},
    {"subtract.out", "subtract.Tensor"},
    {"true_divide.out", "true_divide.Tensor"},
    {"softmax.int_out", "softmax.int"},
    {"log_softmax.int_out", "log_softmax.int"},
};

// Operators that change sizes, strides or storage of what they write, and those that have no functional form.
constexpr std::string_view kUnknown[] = {
    "fill_diagonal_",
    "_fill_mem_eff_dropout_mask_",
    "_sobol_engine_ff_",
    "_sobol_engine_scramble_",
    "_sobol_engine_initialize_state_",
    "requires_grad_",
    "empty.out",
    "normal.out",
    "bernoulli.float_out",
    "_add_relu.out",
    "t_",
    "transpose_",
    "unsqueeze_",
    "squeeze_",
    "squeeze_.dim",
    "squeeze_.dims",
    "swapaxes_",
    "swapdims_",
    "as_strided_",
    "resize_",
    "resize_as_",
    "set_",
    "set_.source_Tensor",
    "set_.source_Storage",
    "set_.source_Storage_storage_offset",
    "set_.source_Tensor_storage_offset",
    "set_data",
    "rename_",
    "resize_as_sparse_",
};

std::optional<std::string> Lookup(const Pair* begin, const Pair* end, std::string_view name) {
  const Pair* pair = std::find_if(begin, end, [&](const Pair& p) { return p.from == name; });
  if (pair == end) return std::nullopt;
  return "aten." + std::string(pair->to);
}

}  // namespace

std::optional<std::string> GraphOpName(std::string_view schema_name) {
  const size_t colons = schema_name.find("::");
  if (colons == std::string_view::npos) return std::nullopt;
  std::string op(schema_name);
  op.replace(colons, 2, ".");
  if (!IsOpName(op)) return std::nullopt;
  return op;
}

std::optional<FunctionalForm> FindFunctionalForm(std::string_view op) {
  if (!op.starts_with("aten.")) return std::nullopt;
  const std::string_view name = op.substr(5);
  if (std::ranges::find(kUnknown, name) != std::end(kUnknown)) return std::nullopt;
  if (auto found = Lookup(std::begin(kInPlace), std::end(kInPlace), name)) {
    return FunctionalForm{*std::move(found), WriteStyle::kInPlace};
  }
  if (auto found = Lookup(std::begin(kOut), std::end(kOut), name)) {
    return FunctionalForm{*std::move(found), WriteStyle::kOut};
  }
  const size_t dot = name.find('.');
  const std::string base(name.substr(0, dot));
  const std::string_view overload = dot == name.npos ? "" : name.substr(dot + 1);
  if (base.size() > 1 && base.back() == '_' && !base.ends_with("__")) {
    const std::string tail = overload.empty() ? "" : "." + std::string(overload);
    return FunctionalForm{"aten." + base.substr(0, base.size() - 1) + tail, WriteStyle::kInPlace};
  }
  if (overload == "out") return FunctionalForm{"aten." + base, WriteStyle::kOut};
  if (overload.ends_with("_out")) {
    return FunctionalForm{"aten." + std::string(name.substr(0, name.size() - 4)), WriteStyle::kOut};
  }
  return std::nullopt;
}

}  // namespace ingot::compiler
