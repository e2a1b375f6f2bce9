// SPDX-License-Identifier: Apache-2.0
#include "client/lib/guard_table.h"

#include <ATen/EmptyTensor.h>
#include <fmt/format.h>

#include "guards/dtype.h"

namespace ingot::client {
namespace {

constexpr at::ScalarType kScalarTypes[] = {
    at::kBool, at::kByte, at::kChar, at::kShort, at::kInt, at::kLong,
    at::kHalf, at::kBFloat16, at::kFloat, at::kDouble, at::kComplexFloat, at::kComplexDouble};

// Keys of an ordinary tensor, taken from one: the set differs between versions of torch.
uint64_t PlainKeys() {
  return at::detail::empty_cpu({0}, at::kFloat).key_set().raw_repr();
}

bool IsPlain(const c10::TensorImpl& tensor, uint64_t plain_keys) {
  const c10::DispatchKeySet keys = tensor.key_set();
  return (keys.raw_repr() & ~plain_keys) == 0 && keys.has(c10::DispatchKey::CPU);
}

}  // namespace

guards::Dim DimAt(const proto::Manifest& manifest, uint32_t index) {
  const proto::Dim& dim = *manifest.dims()->Get(index);
  std::vector<guards::Dim::Term> terms;
  uint32_t symbol = 0;
  for (uint32_t i = 0; dim.coefs() != nullptr && i < dim.coefs()->size(); ++i) {
    guards::Dim::Term term{dim.coefs()->Get(i), {}};
    for (uint8_t k = 0; k < dim.degrees()->Get(i); ++k) {
      term.symbols.push_back(dim.symbols()->Get(symbol++));
    }
    terms.push_back(std::move(term));
  }
  return guards::Dim::FromTerms(std::move(terms));
}

at::ScalarType ScalarTypeOf(proto::DType dtype) { return kScalarTypes[static_cast<uint8_t>(dtype)]; }

GuardTable::GuardTable(const proto::Manifest& manifest,
                       const flatbuffers::Vector<flatbuffers::Offset<proto::InputSpec>>* specs,
                       std::string noun)
    : noun_(std::move(noun)),
      symbol_count_(manifest.symbols() == nullptr ? 0 : manifest.symbols()->size()),
      plain_keys_(PlainKeys()) {
  if (specs == nullptr) return;
  for (const proto::InputSpec* spec : *specs) {
    const proto::Value& value = *manifest.values()->Get(spec->value());
    TensorRule rule;
    rule.dtype = c10::scalarTypeToTypeMeta(ScalarTypeOf(value.dtype()));
    rule.rank = value.sizes() == nullptr ? 0 : value.sizes()->size();
    rule.first = static_cast<uint32_t>(dims_.size());
    rule.name = spec->name() == nullptr ? "" : spec->name()->str();
    for (uint32_t i = 0; i < rule.rank; ++i) dims_.push_back(Compile(manifest, value.sizes()->Get(i)));
    for (uint32_t i = 0; i < rule.rank; ++i) dims_.push_back(Compile(manifest, value.strides()->Get(i)));
    tensors_.push_back(std::move(rule));
  }
}

GuardTable::Expected GuardTable::Compile(const proto::Manifest& manifest, uint32_t dim) {
  guards::Dim value = DimAt(manifest, dim);
  if (value.is_const()) return {Rule::kNumber, value.const_value()};
  const auto& terms = value.terms();
  if (terms.size() == 1 && terms[0].coef == 1 && terms[0].symbols.size() == 1 &&
      terms[0].symbols[0] < symbol_count_) {
    return {Rule::kSymbol, terms[0].symbols[0]};
  }
  polynomials_.push_back(std::move(value));
  return {Rule::kPolynomial, static_cast<int64_t>(polynomials_.size()) - 1};
}

bool GuardTable::KindHolds(const TensorRule& rule, const at::Tensor& tensor) const {
  if (!tensor.defined()) return false;
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  return IsPlain(impl, plain_keys_) && impl.dtype() == rule.dtype &&
         impl.sizes().size() == rule.rank;
}

bool GuardTable::ShapeHolds(const TensorRule& rule, const c10::TensorImpl& tensor,
                            const int64_t* symbols) const {
  const int64_t* sizes = tensor.sizes().data();
  const int64_t* strides = tensor.strides().data();
  const Expected* expected = &dims_[rule.first];
  bool is_empty = false;
  bool strides_hold = true;
  for (uint32_t i = 0; i < rule.rank; ++i) {
    if (sizes[i] != ValueOf(expected[i], symbols)) return false;
    is_empty |= sizes[i] == 0;
    strides_hold &= sizes[i] == 1 || strides[i] == ValueOf(expected[rule.rank + i], symbols);
  }
  return strides_hold || is_empty;
}

bool GuardTable::CheckKinds(const at::Tensor* const* tensors) const {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (!KindHolds(tensors_[i], *tensors[i])) return false;
  }
  return true;
}

bool GuardTable::CheckShapes(const at::Tensor* const* tensors, const int64_t* symbols) const {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (!ShapeHolds(tensors_[i], *tensors[i]->unsafeGetTensorImpl(), symbols)) return false;
  }
  return true;
}

bool GuardTable::CheckOne(size_t index, const at::Tensor& tensor, const int64_t* symbols) const {
  return KindHolds(tensors_[index], tensor) &&
         ShapeHolds(tensors_[index], *tensor.unsafeGetTensorImpl(), symbols);
}

std::string GuardTable::ExplainKind(const TensorRule& rule, const at::Tensor& tensor) const {
  const std::string who = fmt::format("{} '{}'", noun_, rule.name);
  if (!tensor.defined()) return who + ": no tensor";
  if (!tensor.device().is_cpu()) {
    return fmt::format("{}: device {}, this variant needs cpu", who, tensor.device().str());
  }
  if (tensor.dtype() != rule.dtype) {
    return fmt::format("{}: dtype {}, this variant needs {}", who, tensor.dtype().name(), rule.dtype.name());
  }
  if (!IsPlain(*tensor.unsafeGetTensorImpl(), plain_keys_)) {
    return fmt::format("{}: a tensor with dispatch keys {}, this variant needs a plain strided one",
                       who, c10::toString(tensor.key_set()));
  }
  return fmt::format("{}: {} dimensions, this variant needs {}", who, tensor.dim(), rule.rank);
}

std::string GuardTable::ExplainShape(const TensorRule& rule, const at::Tensor& tensor,
                                     const int64_t* symbols) const {
  const std::string who = fmt::format("{} '{}'", noun_, rule.name);
  const Expected* expected = &dims_[rule.first];
  for (uint32_t i = 0; i < rule.rank; ++i) {
    const int64_t want = ValueOf(expected[i], symbols);
    if (tensor.size(i) != want) {
      return fmt::format("{}: size {} at dim {}, this variant needs {}", who, tensor.size(i), i, want);
    }
  }
  for (uint32_t i = 0; i < rule.rank; ++i) {
    const int64_t want = ValueOf(expected[rule.rank + i], symbols);
    if (tensor.size(i) != 1 && tensor.stride(i) != want) {
      return fmt::format("{}: stride {} at dim {}, this variant needs {}", who, tensor.stride(i), i, want);
    }
  }
  return "";
}

std::string GuardTable::Explain(const at::Tensor* const* tensors, size_t count,
                                const std::vector<int64_t>* symbols) const {
  if (count != tensors_.size()) {
    return fmt::format("{} {}s, this variant needs {}", count, noun_, tensors_.size());
  }
  for (size_t i = 0; i < count; ++i) {
    if (!KindHolds(tensors_[i], *tensors[i])) return ExplainKind(tensors_[i], *tensors[i]);
  }
  if (symbols == nullptr) return "";
  for (size_t i = 0; i < count; ++i) {
    if (!ShapeHolds(tensors_[i], *tensors[i]->unsafeGetTensorImpl(), symbols->data())) {
      return ExplainShape(tensors_[i], *tensors[i], symbols->data());
    }
  }
  return "";
}

}  // namespace ingot::client
