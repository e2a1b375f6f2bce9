// SPDX-License-Identifier: Apache-2.0
#include "client/native/trace/plain_results.h"

#include <c10/util/strides.h>

#include <unordered_map>
#include <utility>

namespace ingot::client {
namespace {

using Arguments = c10::ArrayRef<c10::IValue>;
using Rule = std::optional<MetaResults> (*)(Arguments);

/// Strides of sizes of one count as well: they mean nothing, but may be handed on.
bool IsContiguous(const at::Tensor& tensor) {
  return tensor.defined() && tensor.layout() == c10::kStrided && tensor.is_cpu() && tensor.numel() > 0 &&
         !tensor.is_conj() && !tensor.is_neg() && tensor.strides() == c10::contiguous_strides(tensor.sizes());
}

const at::Tensor* TensorAt(Arguments args, size_t at) {
  return at < args.size() && args[at].isTensor() && args[at].toTensor().defined() ? &args[at].toTensor() : nullptr;
}

/// Argument `at` as a contiguous tensor of floats.
const at::Tensor* PlainAt(Arguments args, size_t at) {
  const at::Tensor* tensor = TensorAt(args, at);
  const bool is_plain = tensor != nullptr && tensor->is_floating_point() && IsContiguous(*tensor) &&
                        !tensor->unsafeGetTensorImpl()->is_wrapped_number();
  return is_plain ? tensor : nullptr;
}

MetaResults One(std::vector<int64_t> sizes, c10::ScalarType type) {
  MetaResults::One one;
  const auto strides = c10::contiguous_strides(sizes);
  one.strides.assign(strides.begin(), strides.end());
  one.sizes = std::move(sizes);
  one.type = type;
  MetaResults results;
  results.kind = MetaResults::Kind::kKnown;
  results.results.push_back({.is_list = false, .tensors = {std::move(one)}});
  return results;
}

std::optional<MetaResults> Linear(Arguments args) {
  const at::Tensor* x = PlainAt(args, 0);
  const at::Tensor* weight = PlainAt(args, 1);
  const at::Tensor* bias = TensorAt(args, 2);
  if (x == nullptr || weight == nullptr || x->dim() < 2 || weight->dim() != 2) return std::nullopt;
  if (weight->scalar_type() != x->scalar_type() || weight->size(1) != x->size(-1)) return std::nullopt;
  if (bias != nullptr && (bias->scalar_type() != x->scalar_type() || bias->sizes() != weight->sizes().slice(0, 1))) {
    return std::nullopt;
  }
  std::vector<int64_t> sizes = x->sizes().vec();
  sizes.back() = weight->size(0);
  return One(std::move(sizes), x->scalar_type());
}

std::optional<MetaResults> LayerNorm(Arguments args) {
  const at::Tensor* x = PlainAt(args, 0);
  if (x == nullptr || args.size() < 4 || !args[1].isIntList()) return std::nullopt;
  const std::vector<int64_t> shape = args[1].toIntVector();
  const at::IntArrayRef sizes = x->sizes();
  if (shape.empty() || shape.size() > sizes.size()) return std::nullopt;
  if (sizes.slice(sizes.size() - shape.size()) != shape) return std::nullopt;
  for (const size_t at : {2, 3}) {
    if (args[at].isNone()) continue;
    const at::Tensor* scale = PlainAt(args, at);
    if (scale == nullptr || scale->scalar_type() != x->scalar_type() || scale->sizes() != shape) return std::nullopt;
  }
  return One(x->sizes().vec(), x->scalar_type());
}

std::optional<MetaResults> Embedding(Arguments args) {
  const at::Tensor* weight = PlainAt(args, 0);
  const at::Tensor* indices = TensorAt(args, 1);
  if (weight == nullptr || indices == nullptr || weight->dim() != 2 || !IsContiguous(*indices)) return std::nullopt;
  if (indices->scalar_type() != at::kLong && indices->scalar_type() != at::kInt) return std::nullopt;
  std::vector<int64_t> sizes = indices->sizes().vec();
  sizes.push_back(weight->size(1));
  return One(std::move(sizes), weight->scalar_type());
}

Rule RuleOf(const c10::OperatorName& name) {
  static const auto* rules = new std::unordered_map<c10::OperatorName, Rule>{
      {{"aten::linear", ""}, Linear}, {{"aten::layer_norm", ""}, LayerNorm}, {{"aten::embedding", ""}, Embedding}};
  const auto found = rules->find(name);
  return found == rules->end() ? nullptr : found->second;
}

}  // namespace

std::optional<MetaResults> PlainResults(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> args) {
  const Rule rule = RuleOf(op.operator_name());
  return rule == nullptr ? std::nullopt : rule(args);
}

}  // namespace ingot::client
