// SPDX-License-Identifier: Apache-2.0
#include "compiler/plan/aten_forms.h"

#include <algorithm>
#include <array>
#include <utility>

namespace ingot::compiler {
namespace {

using Form = std::pair<std::string_view, std::string_view>;

// Sorted by operator. Arguments of both overloads are the same but for the results at the end.
constexpr std::array kOutForms = std::to_array<Form>({
    {"aten.abs", "aten::abs.out"},
    {"aten.add.Tensor", "aten::add.out"},
    {"aten.addmm", "aten::addmm.out"},
    {"aten.amax", "aten::amax.out"},
    {"aten.amin", "aten::amin.out"},
    {"aten.argmax", "aten::argmax.out"},
    {"aten.argmin", "aten::argmin.out"},
    {"aten.baddbmm", "aten::baddbmm.out"},
    {"aten.bitwise_and.Tensor", "aten::bitwise_and.Tensor_out"},
    {"aten.bitwise_not", "aten::bitwise_not.out"},
    {"aten.bitwise_or.Tensor", "aten::bitwise_or.Tensor_out"},
    {"aten.bmm", "aten::bmm.out"},
    {"aten.cat", "aten::cat.out"},
    {"aten.clamp", "aten::clamp.out"},
    {"aten.cos", "aten::cos.out"},
    {"aten.cumsum", "aten::cumsum.out"},
    {"aten.div.Tensor", "aten::div.out"},
    {"aten.eq.Scalar", "aten::eq.Scalar_out"},
    {"aten.eq.Tensor", "aten::eq.Tensor_out"},
    {"aten.erf", "aten::erf.out"},
    {"aten.exp", "aten::exp.out"},
    {"aten.gather", "aten::gather.out"},
    {"aten.ge.Scalar", "aten::ge.Scalar_out"},
    {"aten.ge.Tensor", "aten::ge.Tensor_out"},
    {"aten.gelu", "aten::gelu.out"},
    {"aten.gt.Scalar", "aten::gt.Scalar_out"},
    {"aten.gt.Tensor", "aten::gt.Tensor_out"},
    {"aten.index_select", "aten::index_select.out"},
    {"aten.le.Scalar", "aten::le.Scalar_out"},
    {"aten.le.Tensor", "aten::le.Tensor_out"},
    {"aten.log", "aten::log.out"},
    {"aten.lt.Scalar", "aten::lt.Scalar_out"},
    {"aten.lt.Tensor", "aten::lt.Tensor_out"},
    {"aten.maximum", "aten::maximum.out"},
    {"aten.mean.dim", "aten::mean.out"},
    {"aten.minimum", "aten::minimum.out"},
    {"aten.mm", "aten::mm.out"},
    {"aten.mul.Tensor", "aten::mul.out"},
    {"aten.ne.Scalar", "aten::ne.Scalar_out"},
    {"aten.ne.Tensor", "aten::ne.Tensor_out"},
    {"aten.neg", "aten::neg.out"},
    {"aten.pow.Tensor_Scalar", "aten::pow.Tensor_Scalar_out"},
    {"aten.reciprocal", "aten::reciprocal.out"},
    {"aten.rsqrt", "aten::rsqrt.out"},
    {"aten.sigmoid", "aten::sigmoid.out"},
    {"aten.silu", "aten::silu.out"},
    {"aten.sin", "aten::sin.out"},
    {"aten.sqrt", "aten::sqrt.out"},
    {"aten.sub.Tensor", "aten::sub.out"},
    {"aten.sum.dim_IntList", "aten::sum.IntList_out"},
    {"aten.tanh", "aten::tanh.out"},
    {"aten.tril", "aten::tril.out"},
    {"aten.triu", "aten::triu.out"},
    {"aten.where.self", "aten::where.self_out"},
});

constexpr std::array kDynamicShapes = std::to_array<std::string_view>(
    {"aten._unique2", "aten.bincount", "aten.index.Tensor", "aten.masked_select", "aten.nonzero",
     "aten.repeat_interleave.Tensor", "aten.unique_consecutive", "aten.unique_dim"});

}  // namespace

std::string DispatcherName(std::string_view op) {
  const size_t dot = op.find('.');
  if (dot == std::string_view::npos) return std::string(op);
  return std::string(op.substr(0, dot)) + "::" + std::string(op.substr(dot + 1));
}

std::string_view OutForm(std::string_view op) {
  const auto at = std::lower_bound(kOutForms.begin(), kOutForms.end(), op,
                                   [](const Form& form, std::string_view name) { return form.first < name; });
  return at != kOutForms.end() && at->first == op ? at->second : std::string_view();
}

bool HasDynamicShape(std::string_view op) {
  return std::find(kDynamicShapes.begin(), kDynamicShapes.end(), op) != kDynamicShapes.end();
}

}  // namespace ingot::compiler
