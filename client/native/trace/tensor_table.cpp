// SPDX-License-Identifier: Apache-2.0
#include "client/native/trace/tensor_table.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cstring>

namespace ingot::client {

std::optional<proto::DType> DTypeOf(c10::ScalarType type) {
  switch (type) {
    case c10::ScalarType::Bool: return proto::DType::Bool;
    case c10::ScalarType::Byte: return proto::DType::U8;
    case c10::ScalarType::Char: return proto::DType::I8;
    case c10::ScalarType::Short: return proto::DType::I16;
    case c10::ScalarType::Int: return proto::DType::I32;
    case c10::ScalarType::Long: return proto::DType::I64;
    case c10::ScalarType::Half: return proto::DType::F16;
    case c10::ScalarType::BFloat16: return proto::DType::BF16;
    case c10::ScalarType::Float: return proto::DType::F32;
    case c10::ScalarType::Double: return proto::DType::F64;
    case c10::ScalarType::ComplexFloat: return proto::DType::C64;
    case c10::ScalarType::ComplexDouble: return proto::DType::C128;
    case c10::ScalarType::Float8_e4m3fn: return proto::DType::F8E4M3;
    case c10::ScalarType::Float8_e5m2: return proto::DType::F8E5M2;
    default: return std::nullopt;
  }
}

std::optional<uint32_t> TensorTable::Find(const at::Tensor& tensor) const {
  const auto found = by_impl_.find(tensor.unsafeGetTensorImpl());
  if (found == by_impl_.end()) return std::nullopt;
  return found->second;
}

uint32_t TensorTable::Add(const at::Tensor& tensor, Origin origin) {
  KnownTensor known{c10::weak_intrusive_ptr<c10::TensorImpl>(tensor.getIntrusivePtr())};
  if (origin != Origin::kStep) known.held = tensor;
  known.origin = origin;
  known.scalar_type = tensor.scalar_type();
  known.dtype = *DTypeOf(known.scalar_type);
  known.sizes.append(tensor.sizes().begin(), tensor.sizes().end());
  known.strides.append(tensor.strides().begin(), tensor.strides().end());
  known.offset = tensor.storage_offset();
  known.requires_grad = tensor.requires_grad();
  known.storage = StorageOf(tensor, origin);
  const uint32_t value = size();
  tensors_.push_back(std::move(known));
  by_impl_.emplace(tensor.unsafeGetTensorImpl(), value);
  return value;
}

void TensorTable::Replace(const at::Tensor& known, const at::Tensor& by) {
  const auto at = by_impl_.find(known.unsafeGetTensorImpl());
  const uint32_t value = at->second;
  by_impl_.erase(at);
  by_impl_.emplace(by.unsafeGetTensorImpl(), value);
  tensors_[value].impl = c10::weak_intrusive_ptr<c10::TensorImpl>(by.getIntrusivePtr());
}

uint32_t TensorTable::StorageOf(const at::Tensor& tensor, Origin origin) {
  const c10::Storage& storage = tensor.storage();
  const uint32_t fresh = static_cast<uint32_t>(storages_.size());
  const auto [at, added] = by_storage_.emplace(storage.unsafeGetStorageImpl(), fresh);
  if (added) {
    storages_.push_back({storage.getWeakStorageImpl(), origin == Origin::kStep, false});
  }
  return at->second;
}

bool TensorTable::IsStorageOfStep(const at::Tensor& tensor) const {
  const auto found = by_storage_.find(tensor.storage().unsafeGetStorageImpl());
  return found != by_storage_.end() && storages_[found->second].of_step;
}

const char* TensorTable::Changed(const at::Tensor& tensor, uint32_t value) const {
  const KnownTensor& known = tensors_[value];
  const auto same = [](c10::IntArrayRef now, const auto& then) {
    return now.size() == then.size() && std::equal(now.begin(), now.end(), then.begin());
  };
  if (!same(tensor.sizes(), known.sizes)) return "sizes";
  if (!same(tensor.strides(), known.strides)) return "strides";
  if (tensor.storage_offset() != known.offset) return "offset";
  if (tensor.scalar_type() != known.scalar_type) return "element type";
  if (tensor.requires_grad() != known.requires_grad) return "requirement of a gradient";
  const auto storage = by_storage_.find(tensor.storage().unsafeGetStorageImpl());
  if (storage == by_storage_.end() || storage->second != known.storage) return "storage";
  return nullptr;
}

bool TensorTable::AnyFromBeforeIsWritten() const {
  return std::ranges::any_of(storages_,
                             [](const KnownStorage& storage) { return !storage.of_step && storage.written; });
}

Buffer CopyElements(const at::Tensor& tensor) {
  const at::NoGradGuard no_grad;
  const at::Tensor dense = tensor.contiguous();
  Buffer bytes(dense.nbytes());
  if (!bytes.empty()) std::memcpy(bytes.data(), dense.const_data_ptr(), bytes.size());
  return bytes;
}

}  // namespace ingot::client
