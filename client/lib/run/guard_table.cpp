// SPDX-License-Identifier: Apache-2.0
#include "client/lib/run/guard_table.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <algorithm>

#include "client/lib/run/tensor_memory.h"

namespace ingot::client {
namespace {

constexpr at::ScalarType kScalarTypes[] = {at::kBool,          at::kByte,       at::kChar,         at::kShort,
                                           at::kInt,           at::kLong,       at::kHalf,         at::kBFloat16,
                                           at::kFloat,         at::kDouble,     at::kComplexFloat, at::kComplexDouble,
                                           at::kFloat8_e4m3fn, at::kFloat8_e5m2};

// Keys of an ordinary tensor, taken from one: the set differs between versions of torch.
uint64_t PlainKeys() {
  const c10::InferenceMode off(false);  // A tensor made in it lacks the keys of autograd.
  return at::detail::empty_cpu({0}, at::kFloat).key_set().raw_repr();
}

/// A tensor that KindHolds() accepted, as guards see it.
guards::TensorView ViewOf(const at::Tensor& tensor) {
  const auto dtype = std::ranges::find(kScalarTypes, tensor.scalar_type()) - std::begin(kScalarTypes);
  const auto [begin, end] = RangeOf(tensor);
  return {.dtype = static_cast<guards::DType>(dtype),
          .sizes = {tensor.sizes().data(), tensor.sizes().size()},
          .strides = {tensor.strides().data(), tensor.strides().size()},
          .offset = tensor.storage_offset(),
          .begin = reinterpret_cast<uintptr_t>(begin),
          .end = reinterpret_cast<uintptr_t>(end)};
}

/// Weights are checked without symbols: their sizes are numbers.
size_t SymbolCount(const proto::Manifest& manifest, const guards::InputSpecs* specs) {
  return specs != manifest.inputs() || manifest.symbols() == nullptr ? 0 : manifest.symbols()->size();
}

/// Numbers that the flat rules could not take (guards/normalize.h has the limits): no tensor passes.
bool HasOtherNumbers(const guards::TensorRules& rules) {
  return std::ranges::any_of(rules.rest(), [](const guards::Guard& guard) { return guard.IsNumeric(); });
}

bool IsPlain(const c10::TensorImpl& tensor, uint64_t plain_keys) {
  const c10::DispatchKeySet keys = tensor.key_set();
  return (keys.raw_repr() & ~plain_keys) == 0 && keys.has(c10::DispatchKey::CPU);
}

}  // namespace

std::optional<guards::DType> ElementTypeOf(at::ScalarType type) {
  const auto found = std::ranges::find(kScalarTypes, type);
  if (found == std::end(kScalarTypes)) return std::nullopt;
  return static_cast<guards::DType>(found - std::begin(kScalarTypes));
}

at::ScalarType ScalarTypeOf(proto::DType dtype) { return kScalarTypes[static_cast<uint8_t>(dtype)]; }

GuardTable::GuardTable(const proto::Manifest& manifest, const guards::InputSpecs* specs, std::string noun)
    : noun_(std::move(noun)),
      set_(guards::SpecGuards(manifest, specs)),
      rules_(set_, SymbolCount(manifest, specs)),
      is_never_(HasOtherNumbers(rules_)),
      plain_keys_(PlainKeys()) {
  for (uint32_t i = 0; specs != nullptr && i < specs->size(); ++i) {
    const proto::Value& value = *manifest.values()->Get(specs->Get(i)->value());
    dtypes_.push_back(c10::scalarTypeToTypeMeta(ScalarTypeOf(value.dtype())));
  }
}

bool GuardTable::KindHolds(size_t index, const at::Tensor& tensor) const {
  if (is_never_ || !tensor.defined()) return false;
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  return IsPlain(impl, plain_keys_) && impl.dtype() == dtypes_[index] && impl.sizes().size() == rules_.RankOf(index);
}

bool GuardTable::CheckKinds(const at::Tensor* const* tensors) const {
  for (size_t i = 0; i < size(); ++i) {
    if (!KindHolds(i, *tensors[i])) return false;
  }
  return true;
}

bool GuardTable::CheckShapes(const at::Tensor* const* tensors, const int64_t* symbols) const {
  for (size_t i = 0; i < size(); ++i) {
    if (!ShapeHolds(i, *tensors[i]->unsafeGetTensorImpl(), symbols)) return false;
  }
  return true;
}

bool GuardTable::CheckOne(size_t index, const at::Tensor& tensor, const int64_t* symbols) const {
  return KindHolds(index, tensor) && ShapeHolds(index, *tensor.unsafeGetTensorImpl(), symbols);
}

std::string GuardTable::ExplainKind(size_t index, const at::Tensor& tensor) const {
  const std::string who = fmt::format("{} '{}'", noun_, set_.inputs()[index]);
  if (!tensor.defined()) return who + ": no tensor";
  if (!tensor.device().is_cpu()) {
    return fmt::format("{}: device {}, this variant needs cpu", who, tensor.device().str());
  }
  if (tensor.dtype() != dtypes_[index]) {
    return fmt::format("{}: dtype {}, this variant needs {}", who, tensor.dtype().name(), dtypes_[index].name());
  }
  if (!IsPlain(*tensor.unsafeGetTensorImpl(), plain_keys_)) {
    return fmt::format("{}: a tensor with dispatch keys {}, this variant needs a plain strided one", who,
                       c10::toString(tensor.key_set()));
  }
  return fmt::format("{}: {} dimensions, this variant needs {}", who, tensor.dim(), rules_.RankOf(index));
}

std::string GuardTable::Explain(const at::Tensor* const* tensors, size_t count,
                                const std::vector<int64_t>* symbols) const {
  if (count != size()) {
    return fmt::format("{} {}s, this variant needs {}", count, noun_, size());
  }
  for (size_t i = 0; i < count; ++i) {
    if (!KindHolds(i, *tensors[i])) return ExplainKind(i, *tensors[i]);
  }
  if (symbols == nullptr) return "";
  std::vector<guards::TensorView> views;
  for (size_t i = 0; i < count; ++i) views.push_back(ViewOf(*tensors[i]));
  return set_.Explain({*symbols, views, {}}, noun_);
}

}  // namespace ingot::client
